"""Tables and pairs of records, in all the forms that they come in."""

import unicodedata
from datetime import datetime

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd
import pytest

import hdsl
from hdsl.linking import Linker
from hdsl.linking import tables as linking_tables
from products import TEXTS, make_tables


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
    assert all(name.startswith("L") for name in links["left"].to_list())
    assert all(name.startswith("R") for name in links["right"].to_list())
    assert linker.predict_proba(pd.DataFrame(ids, columns=["a", "b"])).min() == 1.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([], TEXTS), "empty"),
        ((TEXTS, TEXTS, [(0, 9)]), "9"),
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


def test_known_pairs_of_a_frame_go_by_their_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"right": [1, 2, 0], "left": [0, 1, 2]})
    linker = Linker().fit(TEXTS, TEXTS, frame)
    assert linker.predict_proba([(0, 1), (1, 2), (2, 0)]).tolist() == [1.0, 1.0, 1.0]


def test_ids_of_a_frame_are_not_rounded():
    """A column of floats beside one of long numbers would round these in one array."""
    left = pd.DataFrame({"id": 2**60 + 7 * np.arange(4), "title": TEXTS})
    right = pd.DataFrame({"id": np.arange(4.0), "title": TEXTS})
    pairs = pd.DataFrame({"l": left["id"][:2], "r": right["id"][:2]})
    linker = Linker(id_column="id").fit(left, right, pairs)
    assert linker.predict_proba(pairs).tolist() == [1.0, 1.0]


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
    assert len(linker.to_label(10**12).left) == 1


def test_a_cell_that_is_nearly_a_number_takes_no_time():
    left = {"code": ["1" * 99_990 + "x1", "7"], "name": ["red apple", "red plum"]}
    assert len(Linker().fit(left).candidates(1).left) == 2  # it took minutes


def test_characters_written_in_another_way_are_the_same():
    text = "café crème brûlée"
    other_way = unicodedata.normalize("NFD", text)
    as_is, otherwise = (
        Linker().fit([text, "thé vert"], ["thé noir", same]).predict_proba([(0, 1)])
        for same in (text, other_way)
    )
    assert as_is == otherwise > 0.3


@pytest.mark.parametrize(
    "ids", [[2**53 + 1, 0.5], ["a\0", "a"], [2**63 + 1, -1], [1.0, "1.5"]]
)
def test_ids_stay_as_they_are(ids):
    table = {"key": ids, "name": TEXTS[:2]}
    links = Linker(id_column="key").fit(table, matches=[ids]).candidates(1)
    assert [*map(str, links.left)] == [*map(str, links.right[::-1])] == [*map(str, ids)]


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


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.filterwarnings("ignore:Nothing was learned")
def test_frames_of_whole_numbers_and_times(library):
    module = pytest.importorskip(library)
    make = getattr(module, "DataFrame", None) or module.table
    seen = [datetime(2024, 3, 1, 12, 0, k) for k in range(4)]
    frame = make({"n": [5, 3, 8, 1], "name": TEXTS, "seen": seen})
    linker = Linker().fit(frame)
    assert len(linker.link(frame, 0.0)["left"])
    assert linker.add(frame).entities().shape == (8, 4)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.filterwarnings("ignore:Nothing was learned")
def test_entities_of_tables_whose_ids_differ_in_type(library):
    module = pytest.importorskip(library)
    make = getattr(module, "DataFrame", None) or module.table
    left = make({"id": [7, 8, 9, 10], "name": TEXTS})
    right = make({"id": [*"abcd"], "name": TEXTS})
    entities = Linker(id_column="id").fit(left, right).entities()
    records = nw.from_native(entities)["record"].to_list()
    assert [*map(str, records)] == ["7", "8", "9", "10", *"abcd"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_times_are_not_cut_to_seconds(library):
    """Ids that are a thousandth of a second apart are two, in pandas and in NumPy."""
    frame = pytest.importorskip(library).DataFrame
    first = datetime(2024, 3, 1, 12, 0, 0, 1000)
    times = [first, first.replace(microsecond=2000), datetime(2024, 3, 1)]
    table = frame({"id": times, "name": TEXTS[:3]})
    linker = Linker(id_column="id").fit(table, matches=[(times[0], times[1])])
    assert linker.predict_proba([(times[0], times[1])]) == 1.0
    written = ["2024-03-01 12:00:00.001", "2024-03-01 12:00:00.002", "2024-03-01"]
    for values in (times, np.array(times, dtype="datetime64[ns]"), written):
        assert linker.predict_proba([(values[0], values[1])]) == 1.0


@pytest.mark.filterwarnings("ignore:Nothing was learned")
def test_long_cells_are_cut_and_it_is_said(monkeypatch):
    monkeypatch.setattr(linking_tables, "MAX_CELL", 100)
    left = [*TEXTS, "red apple " * 20 + "tail"]
    with pytest.warns(UserWarning, match="1 cell of column 'text' has more than 100"):
        linker = Linker().fit(left)
    texts = {record["right_text"] for record in linker.records(linker.predict(0.0))}
    assert max(map(len, texts)) == 100
