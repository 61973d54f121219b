"""Linking records: tables in, matches learned, honest probabilities out."""

import unicodedata
import warnings

import numpy as np
import pandas as pd
import pytest

import hdsl
from hdsl.linking import Linker, Links
from hdsl.solver import oracle
from products import make_tables


@pytest.fixture(scope="module")
def fitted():
    left, right, matches = make_tables(45)
    linker = Linker(random_state=0, n_jobs=1, columns=["title", "price"])
    return linker.fit(left, right, matches[:30]), matches


def pairs_of(links):
    return {*zip(links.left.tolist(), links.right.tolist(), strict=True)}


def test_held_out_matches_are_found(fitted):
    linker, matches = fitted
    assert linker.is_learned_
    found = pairs_of(linker.predict())
    new = {*map(tuple, matches[30:].tolist())}
    assert len(found & new) >= 11  # of 15
    assert len(found - {*map(tuple, matches.tolist())}) <= 6


def test_known_pairs_have_what_is_known(fitted):
    linker, matches = fitted
    assert (linker.predict_proba(matches[:30]) == 1.0).all()
    assert {*map(tuple, matches[:30].tolist())} <= pairs_of(linker.predict(1.0))
    found = linker.predict_proba(matches[30:])
    assert ((found >= 0) & (found <= 1)).all()


def test_candidates_are_the_most_likely(fitted):
    linker, matches = fitted
    found = linker.candidates(3)
    assert np.bincount(found.left).max() == 3
    assert (np.diff(found.left) >= 0).all()
    assert {*map(tuple, matches.tolist())} <= pairs_of(linker.candidates(10))
    same = linker.predict_proba(np.column_stack([found.left, found.right]))
    np.testing.assert_allclose(found.probability, same, atol=1e-12)


def test_one_to_one_uses_a_record_once(fitted):
    linker, _ = fitted
    links = linker.predict(0.01, one_to_one=True)
    assert (
        len({*links.left.tolist()}) == len({*links.right.tolist()}) == len(links.left)
    )
    every = linker.predict(0.01)
    assert pairs_of(links) <= pairs_of(every)
    assert (np.diff(links.probability) <= 0).all()


def test_what_was_measured_is_consistent(fitted):
    linker, _ = fitted
    for line in linker.recall_:
        for name in ("cosine", "learned"):
            share, low, high = line[name]
            assert 0 <= low <= share <= high <= 1
    shares = [line["learned"][0] for line in linker.recall_]
    assert shares == sorted(shares)
    for line in linker.reliability_:
        assert line["from"] <= line["probability"] <= line["to"]
        assert line["n"] > 0


def test_pairs_to_label_are_new_and_spread(fitted):
    linker, matches = fitted
    asked = linker.to_label(8)
    assert 1 <= len(asked.left) <= 8
    assert (
        len({*asked.left.tolist()}) == len({*asked.right.tolist()}) == len(asked.left)
    )
    assert not pairs_of(asked) & {*map(tuple, matches[:30].tolist())}


def test_reasons_add_up(fitted):
    linker, matches = fitted
    a, b = matches[0].tolist()
    explanation = linker.explain(a, b)
    reasons = linker.reasons(a, b, n=10**6)
    assert np.isclose(sum(value for _, value in reasons), explanation.total)
    assert any(name.startswith(("x", "y", "z")) for name, _ in linker.reasons(a, b))


def test_ten_matches_are_enough_to_begin():
    left, right, matches = make_tables(60, seed=3)
    linker = Linker(["title"], random_state=0).fit(left, right, matches[:10])
    found = linker.candidates(1)
    hits = len(pairs_of(found) & {*map(tuple, matches[10:].tolist())})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = Linker(["title"], random_state=0).fit(left, right).candidates(1)
    before = len(pairs_of(plain) & {*map(tuple, matches[10:].tolist())})
    assert hits >= before - 2
    assert "cosine" in linker.statement_


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_with_ids_and_missing_values(library):
    frame = pytest.importorskip(library).DataFrame
    left, right, matches = make_tables(30)
    right = {"sku": right["sku"], "name": right["title"], "cost": right["price"]}
    right["name"][3] = None
    right["cost"][4] = None
    ids = [(left["sku"][a], right["sku"][b]) for a, b in matches[:20].tolist()]
    linker = Linker(id_column="sku", random_state=0).fit(frame(left), frame(right), ids)
    links = linker.predict(0.3)
    assert all(name.startswith("L") for name in links.left.tolist())
    assert all(name.startswith("R") for name in links.right.tolist())
    assert linker.predict_proba(pd.DataFrame(ids, columns=["a", "b"])).min() == 1.0


def test_duplicates_in_one_table():
    left, right, matches = make_tables(30, seed=1)
    texts = left["title"] + right["title"]
    pairs = matches + np.array([0, 30])
    linker = Linker(random_state=0).fit(texts, matches=pairs[:20, ::-1])
    links = linker.predict(0.3)
    assert (links.left < links.right).all()
    assert len(pairs_of(links) & {*map(tuple, pairs[20:].tolist())}) >= 6  # of 10
    once = linker.predict(0.0, one_to_one=True)
    rows = np.concatenate([once.left, once.right])
    assert len(np.unique(rows)) == len(rows)
    there, back = linker.predict_proba([tuple(pairs[25]), tuple(pairs[25][::-1])])
    assert there == back


def test_same_answer_again():
    left, right, matches = make_tables(30)
    first, second = (
        Linker(["title"], random_state=7, n_jobs=jobs)
        .fit(left, right, matches[:20])
        .predict(0.0)
        for jobs in (1, 2)
    )
    np.testing.assert_array_equal(first.left, second.left)
    np.testing.assert_array_equal(first.probability, second.probability)


TEXTS = ["red apple pie", "green apple tart", "blue berry pie", "red berry jam"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([], TEXTS), "empty"),
        ((TEXTS, TEXTS, [(0, 9)]), "9"),
        ((TEXTS, TEXTS, [(0, 1), (0, 1)]), "twice"),
        ((TEXTS, TEXTS, [(0, 1)], [(0, 1)]), "both"),
        ((TEXTS, None, [(2, 2)]), "itself"),
        ((TEXTS, TEXTS, [(0, 1, 2)]), "pairs"),
        ((TEXTS, TEXTS, [0, 1]), "pairs"),
        (
            (TEXTS, TEXTS, pd.DataFrame({"left": [0], "right": [1], "match": [0]})),
            "match",
        ),
        (({"a": [1, 5]}, TEXTS), "no text"),
        (({"a": ["x", "y"], "b": ["z"]}, TEXTS), "unequal"),
    ],
)
def test_bad_input_is_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        Linker().fit(*arguments)


def test_unknown_columns_and_ids_are_named():
    table = {"key": ["a", "b"], "name": ["red apple", "green apple"]}
    with pytest.raises(ValueError, match="'nokey'"):
        Linker(id_column="nokey").fit(table, table)
    with pytest.raises(ValueError, match="'c'"):
        Linker(id_column="key").fit(table, table, [("a", "c")])
    with pytest.raises(ValueError, match="more than once"):
        Linker(id_column="key").fit(
            {**table, "key": ["a", "a "]}, table
        )  # read as one id
    with pytest.raises(ValueError, match="columns="):
        Linker(["title"]).fit(table, table)
    with pytest.raises(ValueError, match="Row 1 of the left table has no 'key'"):
        Linker(id_column="key").fit({**table, "key": ["a", np.nan]}, table)
    assert len(Linker("name").fit(table, table).candidates().left)  # one column
    with pytest.raises(TypeError):
        Linker().fit(3, table)


def test_known_pairs_of_a_frame_go_by_their_names(fitted):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"right": [1, 2, 0], "left": [0, 1, 2]})
    linker = Linker().fit(TEXTS, TEXTS, frame)
    assert linker.predict_proba([(0, 1), (1, 2), (2, 0)]).tolist() == [1.0, 1.0, 1.0]
    assert fitted[0].predict_proba([]).tolist() == []


def test_ids_of_a_frame_are_not_rounded():
    """A column of floats beside one of long numbers would round these in one array."""
    left = pd.DataFrame({"id": 2**60 + 7 * np.arange(4), "title": TEXTS})
    right = pd.DataFrame({"id": np.arange(4.0), "title": TEXTS})
    pairs = pd.DataFrame({"l": left["id"][:2], "r": right["id"][:2]})
    linker = Linker(id_column="id").fit(left, right, pairs)
    assert linker.predict_proba(pairs).tolist() == [1.0, 1.0]


def test_links_are_pairs_and_records_have_the_texts_of_their_sides():
    linker = Linker().fit(TEXTS)
    for record in linker.records(linker.candidates(1)):
        assert record["left_text"] == TEXTS[record["left"]]
        assert record["right_text"] == TEXTS[record["right"]]
    two = Links(np.array([0, 1]), np.array([3, 2]), np.ones(2))
    same = linker.predict_proba([(0, 3), (1, 2)])
    assert linker.predict_proba(two).tolist() == same.tolist()


@pytest.mark.filterwarnings("ignore")  # one match is few
def test_one_to_one_keeps_what_is_known():
    right = ["alpha beta gamma x1", "alpha beta x1"]
    linker = Linker().fit(["x1 alpha beta", "alpha beta gamma"], right, [(0, 0)])
    assert (0, 0) in pairs_of(linker.predict(0.0, one_to_one=True))


def test_columns_that_number_the_rows_do_not_count():
    left = {"row": ["0", "1", "2"], "name": TEXTS[:3]}
    right = {"row": ["2", "0", "1"], "name": TEXTS[:3]}
    links = Linker().fit(left, right).candidates(1)
    assert links.right.tolist() == [0, 1, 2]


def test_long_numbers_and_missing_values_are_plain_cells():
    left = {"code": ["9" * 5000, "7"], "name": ["red apple", pd.NA]}
    linker = Linker().fit(
        left, {"code": ["9" * 5000, "8"], "name": ["red apple", None]}
    )
    assert linker.candidates(1).right[0] == 0
    assert len(linker.to_label(10**12).left) == 2


def test_a_cell_that_is_nearly_a_number_takes_no_time():
    left = {"code": ["1" * 100_000 + "x1", "7"], "name": ["red apple", "plum"]}
    assert len(Linker().fit(left).candidates(1).left) == 2  # it took minutes


def test_characters_written_in_another_way_are_the_same():
    text = "café crème brûlée"
    linker = Linker().fit(
        [text, "thé vert"], ["thé noir", unicodedata.normalize("NFD", text)]
    )
    assert linker.predict_proba([(0, 1)])[0] > 0.99


@pytest.mark.parametrize(
    "ids", [[2**53 + 1, 0.5], ["a\0", "a"], [2**63 + 1, -1], [1.0, "1.5"]]
)
def test_ids_stay_as_they_are(ids):
    table = {"key": ids, "name": TEXTS[:2]}
    links = Linker(id_column="key").fit(table, matches=[ids]).candidates(1)
    assert [*map(str, links.left)] == [*map(str, links.right[::-1])] == [*map(str, ids)]


def test_a_fit_that_fails_changes_nothing():
    linker = Linker().fit(TEXTS, TEXTS[::-1])
    before = linker.candidates(1)
    with pytest.raises(ValueError, match="9"):
        linker.fit(TEXTS[:2], TEXTS[:2], [(0, 9)])
    assert pairs_of(linker.candidates(1)) == pairs_of(before)
    assert [record["left_text"] for record in linker.records(before)] == TEXTS


def test_an_interrupt_ends_the_fit(monkeypatch):
    class Interrupted(oracle.Ascent):
        def vertices(self, gradient, rng, n, active):
            raise KeyboardInterrupt

    monkeypatch.setitem(oracle.ORACLES, "ascent", Interrupted)
    left, right, matches = make_tables(30)
    linker = Linker(["title"], random_state=0)
    with pytest.raises(KeyboardInterrupt):
        linker.fit(left, right, matches[:20])
    assert not hasattr(linker, "statement_")


def test_save_and_load(tmp_path):
    left, right, matches = make_tables(30)
    linker = Linker(["title"], random_state=0).fit(left, right, matches[:20])
    assert linker.is_learned_
    path = tmp_path / "linker.hdsl"
    linker.save(path)
    loaded = hdsl.load(path)
    np.testing.assert_allclose(
        loaded.predict_proba(matches), linker.predict_proba(matches), atol=1e-12
    )
    assert pairs_of(loaded.predict()) == pairs_of(linker.predict())
    assert loaded.statement_ == linker.statement_
    assert [line["k"] for line in loaded.recall_] == [
        line["k"] for line in linker.recall_
    ]


def test_columns_keep_their_order_in_a_file(tmp_path):
    *tables, matches = make_tables(120)
    for table in tables:
        table["model"] = [text.split()[1] for text in table["title"]]
    linker = Linker(["title", "price", "model"], random_state=0).fit(
        *tables, matches[:100]
    )
    linker.save(tmp_path / "linker.hdsl")
    found = linker.candidates()
    loaded = hdsl.load(tmp_path / "linker.hdsl").candidates()
    np.testing.assert_allclose(
        loaded.probability, found.probability, rtol=0, atol=1e-14
    )


@pytest.mark.parametrize("side", [0, 1])
def test_a_column_may_be_empty_in_one_table(side):
    *tables, matches = make_tables(40)
    tables[side]["price"] = [None] * 40
    linker = Linker(["title", "price"], random_state=0).fit(*tables, matches[:20])
    assert linker.predict_proba(matches[20:]).mean() > 0.5


def test_records_are_tables_too():
    *tables, matches = make_tables(40)
    records = [
        [dict(zip(t, row, strict=True)) for row in zip(*t.values(), strict=True)]
        for t in tables
    ]
    fits = (
        Linker(["title"], random_state=0).fit(*pair, matches[:20])
        for pair in (records, tables)
    )
    ours, theirs = (linker.predict_proba(matches) for linker in fits)
    np.testing.assert_array_equal(ours, theirs)


def test_dates_are_ids_and_each_table_names_its_own(tmp_path):
    days = pd.date_range("2024-01-01", periods=4)
    left = {"day": days, "name": TEXTS}
    right = {"code": [*"abcd"], "name": TEXTS}
    linker = Linker(id_column=("day", "code")).fit(left, right, [(days[1], "b")])
    linker.save(tmp_path / "linker.hdsl")
    loaded = hdsl.load(tmp_path / "linker.hdsl")
    assert loaded.predict_proba([(days[1], "b")]) == 1.0
    assert [*loaded.id_column] == ["day", "code"]
