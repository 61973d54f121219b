"""Records that come later: linked as if they had been there, kept, saved and loaded."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hdsl
from hdsl.linking import Linker
from products import KINDS, make_tables

N_FIRST = 40


def rows_of(table, rows):
    return {name: [values[row] for row in rows] for name, values in table.items()}


def as_dict(links):
    pairs = zip(links.left.tolist(), links.right.tolist(), strict=True)
    return dict(zip(pairs, links.probability.tolist(), strict=True))


@pytest.fixture(scope="module", params=["right", "left"])
def case(request):
    """A linker of most records, those that come later, and on which side."""
    left, right, matches = make_tables(60)
    side = request.param
    first = np.arange(N_FIRST)
    later = np.arange(N_FIRST, 60)
    ids = {tuple(pair) for pair in matches.tolist()}
    tables = {"left": left, "right": right}
    new = rows_of(tables[side], later)
    tables[side] = rows_of(tables[side], first)
    column = ["left", "right"].index(side)
    known = [
        (left["sku"][a], right["sku"][b])
        for a, b in ids
        if (a, b)[column] < N_FIRST and (a + b) % 4
    ]
    linker = Linker(["title", "price"], id_column="sku", random_state=0)
    linker.fit(tables["left"], tables["right"], known)
    expected = {
        (left["sku"][a], right["sku"][b]) for a, b in ids if (a, b)[column] >= N_FIRST
    }
    return linker, new, side, expected


def test_new_records_are_linked_as_after_adding_them(case, tmp_path):
    linker, new, side, expected = case
    links = as_dict(linker.link(new, 0.0, side=side))
    assert len({*as_dict(linker.link(new, side=side))} & expected) >= 14  # of 20
    linker.save(tmp_path / "linker.hdsl")
    grown = hdsl.load(tmp_path / "linker.hdsl").add(new, side=side)
    every = as_dict(grown.predict(0.0))
    number = ["left", "right"].index(side)
    ids = {*new["sku"]}
    of_new = {pair: p for pair, p in every.items() if pair[number] in ids}
    assert of_new.keys() == links.keys()
    for pair, probability in links.items():
        assert of_new[pair] == pytest.approx(probability, abs=1e-9)


def test_added_records_stay_and_nothing_is_renumbered(case, tmp_path):
    linker, new, side, _ = case
    path = tmp_path / "linker.hdsl"
    linker.save(path)
    before = as_dict(linker.predict(0.0))
    grown = hdsl.load(path)
    grown.add(rows_of(new, range(10)), side=side)
    grown.add(rows_of(new, range(10, 20)), side=side)
    after = as_dict(grown.predict(0.0))
    # Of less likely pairs, some are no candidates any more: later records are nearer.
    assert {pair for pair, p in before.items() if p > 0.5} <= after.keys()
    known = {pair for pair, p in before.items() if p == 1.0}
    assert all(after[pair] == 1.0 for pair in known)
    grown.save(path)
    loaded = as_dict(hdsl.load(path).predict(0.0))
    assert loaded.keys() == after.keys()
    for pair, probability in after.items():
        assert loaded[pair] == pytest.approx(probability, abs=1e-9)
    records = grown.records(grown.predict(0.0))
    assert {*new["sku"]} <= {record[side] for record in records}


def answers(linker):
    """All that a linker says of its candidates."""
    every = linker.predict(0.0)
    pairs = np.column_stack([every.left, every.right])
    entities = linker.entities(0.4)
    return {
        "links": as_dict(every),
        "by pairs": linker.predict_proba(pairs).tolist(),
        "entities": entities.entity.tolist(),
        "belonging": entities.probability.tolist(),
    }


@pytest.fixture(scope="module")
def fitted_files(tmp_path_factory):
    """Files of linkers, each with records that come later: learned or not, one table or two."""
    folder = tmp_path_factory.mktemp("linkers")
    left, right, matches = make_tables(50, seed=2)
    first = {name: values[:38] for name, values in right.items()}
    known = [pair for pair in matches.tolist() if pair[1] < 38]
    both = {name: left[name] + first[name] for name in left}
    columns = ["title", "price"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        linkers = {
            "learned": Linker(columns, random_state=0).fit(left, first, known),
            "unlearned": Linker(columns, random_state=0).fit(left, first),
            "one table": Linker(columns, random_state=0).fit(
                both, matches=np.array(known) + np.array([0, 50])
            ),
            "blocks": Linker(columns, block_on=["kind", "price"], random_state=0).fit(
                with_kind(left), with_kind(first), known
            ),
        }
    for name, linker in linkers.items():
        linker.save(folder / name)
    new = with_kind({name: values[38:] for name, values in right.items()})
    new["title"][3] = left["title"][7] + " qzx77"  # words that no earlier record has
    new["title"][4] = "acme qzx77"
    return {name: folder / name for name in linkers}, new


def with_kind(table):
    words = [{*title.split()} & {*KINDS} for title in table["title"]]
    return {**table, "kind": ["".join(sorted(kinds)) for kinds in words]}


@pytest.mark.parametrize("name", ["learned", "unlearned", "one table", "blocks"])
@pytest.mark.filterwarnings("ignore:Nothing was learned")
@settings(max_examples=6)
@given(st.data())
def test_records_one_by_one_at_once_and_from_a_file_say_the_same(
    fitted_files, name, data
):
    files, new = fitted_files
    n_new = data.draw(st.integers(2, 12))
    cuts = data.draw(st.lists(st.integers(1, n_new - 1), unique=True).map(sorted))
    sides = ["right"]
    if name != "one table":
        sides = data.draw(st.sampled_from([["right"], ["left"], ["left", "right"]]))
    at_once = hdsl.load(files[name])
    in_parts = hdsl.load(files[name])
    for side in sides:
        at_once.add(rows_of(new, range(n_new)), side=side)
        for start, stop in pairwise([0, *cuts, n_new]):
            in_parts.add(rows_of(new, range(start, stop)), side=side)
    saved = files[name].with_suffix(".again")
    in_parts.save(saved)
    expected = answers(at_once)
    for other in (in_parts, hdsl.load(saved)):
        for what, values in answers(other).items():
            assert values == pytest.approx(expected[what], rel=0, abs=1e-12), what
    by_pairs = [*expected["links"].values()]
    assert by_pairs == pytest.approx(expected["by pairs"], rel=0, abs=1e-12)


def test_duplicates_among_new_records_and_old_ones():
    left, right, matches = make_tables(40, seed=1)
    order = matches[np.argsort(matches[:, 0]), 1]
    texts = [*left["title"], *(right["title"][row] for row in order)]
    pairs = [(row, row + 40) for row in range(25)]
    linker = Linker(random_state=0).fit(texts[:70], matches=pairs)
    new = [*texts[70:], texts[79].upper()]
    links = as_dict(linker.link(new))
    found = links.keys() & {(row, row + 40) for row in range(30, 40)}
    assert len(found) >= 6  # of 10
    assert (79, 80) in links  # both are new
    kept = linker.add(new).predict(0.0)
    assert as_dict(kept).keys() >= links.keys()


def test_unlearned_linkers_link_new_records_by_cosine():
    left, right, matches = make_tables(30)
    linker = Linker(["title"]).fit(left, rows_of(right, range(20)))
    links = linker.link(rows_of(right, range(20, 30)), 0.0)
    best = dict(zip(links.right.tolist()[::-1], links.left.tolist()[::-1], strict=True))
    expected = {row: a for a, row in matches.tolist() if row >= 20}
    assert sum(best[row] == a for row, a in expected.items()) >= 7  # of 10


def test_what_new_records_must_have():
    left, right, _ = make_tables(20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        linker = Linker(["title", "price"], id_column="sku").fit(left, right)
    with pytest.raises(ValueError, match="already"):
        linker.link(rows_of(right, [3]))
    with pytest.raises(ValueError, match="no column 'sku'"):
        linker.link({"title": ["acme printer"]})
    with pytest.raises(ValueError, match="no column 'title'"):
        linker.link({"sku": ["R99"], "name": ["acme printer"]})
    with pytest.raises(ValueError, match="'above'"):
        linker.link(rows_of(right, [3]), side="above")
    without_price = linker.link({"sku": ["R99"], "title": ["acme printer"]}, 0.0)
    assert {*without_price.right.tolist()} == {"R99"}
    strange = linker.link({"sku": ["R99"], "title": ["qqqq wwww"]}, 0.5)
    assert len(strange.left) == 0


@pytest.mark.parametrize("seed", range(3))
def test_order_of_arrival_on_one_side_changes_no_candidate_that_matters(seed):
    left, right, matches = make_tables(50, seed=seed)
    known = matches[:20]
    linker = Linker(["title"], random_state=0).fit(left, right, known)
    first = rows_of(right, range(45))
    kept = [pair for pair in known.tolist() if pair[1] < 45]
    partial = Linker(["title"], random_state=0).fit(left, first, kept)
    partial.add(rows_of(right, range(45, 50)))
    whole = as_dict(linker.candidates(1))
    added = as_dict(partial.candidates(1))
    assert len(whole.keys() & added.keys()) >= 40  # of 50
