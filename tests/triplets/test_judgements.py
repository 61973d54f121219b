"""Judgements in tables and files, as triplets and quadruplets, and bad ones refused."""

import json
import subprocess
import sys

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_array_equal

import strategies
from hdsl.triplets import Judgements, judgement_quadruplets, judgement_triplets

NAMES = ("anchor", "positive", "negative", "weight")


IDS = ["ant", "bee", "cat", "dog", "élan"]


@pytest.fixture(scope="module")
def judgements():
    """Columns of ids and weights, and what they must become."""
    rng = np.random.default_rng(0)
    rows = np.array([rng.permutation(5)[:3] for _ in range(20)])
    weights = rng.integers(0, 4, size=20) / 2
    named = [[IDS[row] for row in column] for column in rows.T]
    columns = dict(zip(NAMES, [*named, weights.tolist()], strict=True))
    return columns, Judgements(rows, weights)


def write_text(path, columns, separator):
    lines = [
        separator.join(columns),
        *(separator.join(map(str, t)) for t in zip(*columns.values(), strict=True)),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_jsonl(path, columns):
    records = (
        dict(zip(columns, values, strict=True))
        for values in zip(*columns.values(), strict=True)
    )
    path.write_text(
        "".join(json.dumps(record) + "\n" for record in records), encoding="utf-8"
    )


def write_parquet(path, columns):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table(columns), path)


WRITERS = {
    ".csv": lambda path, columns: write_text(path, columns, ","),
    ".tsv": lambda path, columns: write_text(path, columns, "\t"),
    ".jsonl": write_jsonl,
    ".parquet": write_parquet,
}


FRAMES = {
    "dict": dict,
    "pandas": lambda c: pytest.importorskip("pandas").DataFrame(c),
    "pandas nullable": lambda c: (
        pytest.importorskip("pandas").DataFrame(c).convert_dtypes()
    ),
    "pandas categories": lambda c: (
        pytest.importorskip("pandas")
        .DataFrame(c)
        .astype(dict.fromkeys(NAMES[:3], "category"))
    ),
    "polars": lambda c: pytest.importorskip("polars").DataFrame(c),
    "pyarrow": lambda c: pytest.importorskip("pyarrow").table(c),
}


def assert_same(made, expected):
    assert made.triplets.dtype == np.int64
    assert made.weights.dtype == np.float64
    assert_array_equal(made.triplets, expected.triplets)
    assert_array_equal(made.weights, expected.weights)


@pytest.mark.parametrize("form", FRAMES.values(), ids=FRAMES.keys())
def test_judgements_of_any_table(form, judgements):
    columns, expected = judgements
    assert_same(judgement_triplets(form(columns), weight="weight", ids=IDS), expected)
    assert judgement_triplets(form(columns), ids=IDS).weights is None
    columns = dict(
        zip(NAMES, [*expected.triplets.T.tolist(), expected.weights], strict=True)
    )
    if form is FRAMES["pandas categories"]:
        columns = {name: list(map(str, columns[name])) for name in NAMES[:3]}
        with pytest.raises(
            ValueError, match=r"'anchor' of table must hold row numbers.*pass ids="
        ):
            judgement_triplets(form(columns))
    else:
        assert_same(judgement_triplets(form(columns), weight="weight"), expected)


@pytest.mark.parametrize("suffix", WRITERS)
def test_judgements_of_any_file(suffix, judgements, tmp_path):
    columns, expected = judgements
    path = tmp_path / f"judged{suffix}"
    WRITERS[suffix](path, columns)
    assert_same(judgement_triplets(str(path), weight="weight", ids=IDS), expected)
    for ids, rows in (
        (None, expected.triplets),
        (np.arange(10, 15), expected.triplets + 10),
    ):
        columns = [*rows.T.tolist(), expected.weights.tolist()]
        WRITERS[suffix](path, dict(zip(NAMES, columns, strict=True)))
        assert_same(judgement_triplets(path, weight="weight", ids=ids), expected)


QUADRUPLET_NAMES = ("positive_a", "positive_b", "negative_a", "negative_b")


@pytest.mark.parametrize("suffix", [None, ".csv", ".jsonl"])
def test_quadruplets_of_tables_and_files(suffix, tmp_path):
    rows = np.array([[0, 1, 2, 3], [4, 0, 4, 1], [2, 2, 0, 1]])
    columns = {
        name: [IDS[row] for row in rows[:, k]]
        for k, name in enumerate(QUADRUPLET_NAMES)
    }
    table = {**columns, "weight": [1.0, 0.5, 2.0]}
    if suffix is not None:
        WRITERS[suffix](tmp_path / f"judged{suffix}", table)
        table = tmp_path / f"judged{suffix}"
    made = judgement_quadruplets(table, weight="weight", ids=IDS)
    assert_same(made, Judgements(rows, np.array([1.0, 0.5, 2.0])))
    assert judgement_quadruplets(table, ids=IDS).weights is None
    with pytest.raises(ValueError, match=r"no column 'second'.*with positive_b="):
        judgement_quadruplets(table, positive_b="second", ids=IDS)


@given(st.data())
def test_ids_stand_for_their_rows(data):
    ids = data.draw(st.lists(st.text(max_size=3), min_size=3, max_size=8, unique=True))
    rows = data.draw(strategies.triplets(len(ids)))
    table = {name: [ids[row] for row in rows[:, k]] for k, name in enumerate(NAMES[:3])}
    assert_array_equal(judgement_triplets(table, ids=ids).triplets, rows)


def test_csv_may_have_quotes_blank_lines_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "judged.csv"
    text = 'anchor,positive,negative,why\n"a,1",b,c,"two\nlines"\n\nb,"a,1",c,\n'
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    made = judgement_triplets(path, ids=["a,1", "b", "c"])
    assert made.triplets.tolist() == [[0, 1, 2], [1, 0, 2]]


def table_of(**changes):
    return {"anchor": [0, 1], "positive": [1, 2], "negative": [2, 0], **changes}


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ({"anchor": [0], "good": [1]}, {}, r"'positive', 'negative'.*'anchor', 'good'"),
        (table_of(anchor=[], positive=[], negative=[]), {}, "no rows"),
        (table_of(anchor=[0]), {}, "length"),
        (table_of(positive=[1, None]), {}, "row 1 has no value in column 'positive'"),
        (table_of(anchor=[0.0, 1.0]), {}, "ids="),
        (table_of(anchor=[0, -2]), {}, "row 1 has -2 in column 'anchor'"),
        (table_of(w=[1.0, -2.0]), {"weight": "w"}, "row 1 has -2.0 in column 'w'"),
        (table_of(w=["1", "2"]), {"weight": "w"}, "'w'"),
        (table_of(anchor=[7, 9]), {"ids": [0, 1, 2]}, "7, 9"),
        (table_of(), {"ids": [0, 1, 2, 2, 1, 5]}, "1, 2"),
    ],
)
def test_bad_tables_are_refused(table, options, message):
    ids = options.get("ids")
    with pytest.raises(ValueError, match=message):
        judgement_triplets(table, **{**options, "ids": list(ids) if ids else None})


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_missing_values_of_frames_are_refused(library):
    module = pytest.importorskip(library)
    make = module.table if library == "pyarrow" else module.DataFrame
    frames = [make(table_of(positive=["b", None])), make(table_of(positive=[1, None]))]
    if library == "pandas":
        frames += [frames[1].convert_dtypes(), frames[1].astype({"positive": object})]
    for frame in frames:
        with pytest.raises(
            ValueError, match="row 1 has no value in column 'positive': drop it"
        ):
            judgement_triplets(frame)


HEADER = "anchor,positive,negative,w\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "", "is empty"),
        ("t.csv", HEADER, "no rows"),
        ("t.csv", HEADER + "0,1,2,1\n\n0,1\n", "line 4 has 2 fields"),
        ("t.csv", HEADER + '0,1,2,"1\n', "line 2 cannot be read"),
        ("t.csv", HEADER + "0,1,2,1\n0,,2,1\n", "line 3 has no value"),
        ("t.csv", HEADER + "0,1,2,1\n0,x,2,1\n", "line 3 has 'x' .*ids="),
        ("t.csv", HEADER + "0,1,2,nan\n", "line 2 has .*nan"),
        ("t.csv", HEADER.encode() + b"\xff,1,2,1\n", "line 2 is not UTF-8"),
        ("t.jsonl", '{"anchor": 0}\n', "no column 'positive'"),
        ("t.jsonl", "\n[1]\n", "line 2 must be an object"),
        ("t.jsonl", '{"anchor": \n', "line 1 cannot be read"),
        ("t.xlsx", "", ".csv"),
    ],
)
def test_bad_files_are_refused_with_the_line(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message):
        judgement_triplets(path, weight="w")


def test_csv_needs_no_table_library(tmp_path):
    path = tmp_path / "judged.csv"
    path.write_text("anchor,positive,negative\n0,1,2\n")
    code = (
        "import sys\nsys.modules.update(dict.fromkeys(['pandas', 'polars', "
        "'pyarrow']))  # cannot be found\nfrom hdsl.triplets import "
        f"judgement_triplets\nprint(judgement_triplets({str(path)!r}).triplets, "
        "'numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[[0 1 2]] False\n"


def test_ids_of_many_digits_stay_as_they_are():
    ids = [2**53 + 1, 1, 3, 1.5, 2**53]
    table = {"anchor": [2**53 + 1, 1.5], "positive": [1, 1], "negative": [3, 3]}
    assert judgement_triplets(table, ids=ids).triplets.tolist() == [
        [0, 1, 2],
        [3, 1, 2],
    ]
