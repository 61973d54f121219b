"""Records that come later: linked as if they had been there, kept, saved and loaded."""

import warnings

import numpy as np
import pytest

import hdsl
from hdsl.linking import Linker, layered_index
from hdsl.linking.layers import LayeredRows
from hdsl.linking.sides import Sides
from products import make_tables

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
    assert linker.is_learned_
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


def test_one_new_record_is_that_of_many_where_it_stands_alone(case):
    linker, new, side, _ = case
    one = as_dict(linker.link(rows_of(new, [3]), 0.0, side=side))
    many = as_dict(linker.link(new, 0.0, side=side))
    number = ["left", "right"].index(side)
    assert {pair[number] for pair in one} == {new["sku"][3]}
    assert len(one.keys() & many.keys()) >= 0.6 * len(one)


def test_added_records_stay_and_nothing_is_renumbered(case, tmp_path):
    linker, new, side, _ = case
    path = tmp_path / "linker.hdsl"
    linker.save(path)
    before = as_dict(linker.predict(0.0))
    grown = hdsl.load(path)
    grown.add(rows_of(new, range(10)), side=side)
    grown.add(rows_of(new, range(10, 20)), side=side)
    after = as_dict(grown.predict(0.0))
    assert before.keys() <= after.keys()
    known = {pair for pair, p in before.items() if p == 1.0}
    assert all(after[pair] == 1.0 for pair in known)
    grown.save(path)
    loaded = as_dict(hdsl.load(path).predict(0.0))
    assert loaded.keys() == after.keys()
    for pair, probability in after.items():
        assert loaded[pair] == pytest.approx(probability, abs=1e-9)
    records = grown.records(grown.predict(0.0))
    assert {*new["sku"]} <= {record[side] for record in records}


@pytest.mark.parametrize("small_part", [0, 4096])
def test_an_index_that_grows_is_one_of_all_records(
    case, tmp_path, monkeypatch, small_part
):
    monkeypatch.setattr(layered_index, "SMALL_CHUNK", small_part)
    linker, new, side, _ = case
    path = tmp_path / "linker.hdsl"
    linker.save(path)
    grown = hdsl.load(path)
    grown.link(rows_of(new, range(16, 20)), 0.0, side=side)
    for first in range(0, 16, 4):
        grown.add(rows_of(new, range(first, first + 4)), side=side)
    grown.save(path)
    loaded = hdsl.load(path)
    for later_side in ("right", "left"):
        later = rows_of(new, range(16, 20))
        links = as_dict(grown.link(later, 0.0, side=later_side))
        expected = as_dict(loaded.link(later, 0.0, side=later_side))
        assert links.keys() == expected.keys()
        for pair, probability in links.items():
            assert expected[pair] == pytest.approx(probability, abs=1e-9)


def test_standing_is_that_of_a_search_of_all_records(case):
    """Ranks of pairs with new records are those of a search with all records."""
    linker, new, side, _ = case
    arrivals = linker._arrivals(new, side)
    meeting = arrivals.meet(np.arange(linker._linked.searched.tables.n_records))
    searched = meeting.searched
    pairs = meeting.renumbered(arrivals.candidates())
    every = Sides(LayeredRows.of_records(searched.records), searched.tables.n_left)
    (_, nearest_of_all), _ = every.search(1)
    _, similarity, *_ = searched.sides.layered.similarities(pairs, 1)
    standing = searched.by_cosine.standing(pairs, similarity)
    expected = nearest_of_all.standing(pairs, every.layered.similarities(pairs, 1)[1])
    np.testing.assert_allclose(standing.score, expected.score)
    # Of an earlier record, only later ones that have it among their own nearest count.
    for name in ("rank_left", "rank_right"):
        ranks = getattr(standing, name)
        expected_ranks = getattr(expected, name)
        assert (ranks <= expected_ranks).all()
        assert (ranks == expected_ranks).mean() > 0.9


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
