"""Tables from files, frames and mappings: their names come first, and only what is wanted."""

import json
import sys
import time

import numpy as np
import pytest

from hdsl.readers import tables

CONTENT = {
    "t.csv": "id,title\n1,an apple\n",
    "t.tsv": "id\ttitle\n1\tan apple\n",
    "t.jsonl": '{"id": 1}\n{"title": "an apple"}\n',
}


@pytest.mark.parametrize("name", CONTENT)
def test_a_file_tells_the_names_of_its_columns(tmp_path, name):
    path = tmp_path / name
    path.write_text(CONTENT[name])
    assert tables.column_names(path) == ["id", "title"]


def test_the_header_alone_names_the_columns_of_a_csv_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,title\n1,2,3,4\n")
    assert tables.column_names(path) == ["id", "title"]
    with pytest.raises(ValueError, match=r"line 2 has 4 fields, but the header has 2"):
        tables.read_columns(path)


def test_the_schema_names_the_columns_of_a_parquet_file(tmp_path):
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "t.parquet"
    table = pa.table({"id": [1, 2], "parts": [[1], [2, 3]]})
    pytest.importorskip("pyarrow.parquet").write_table(table, path)
    assert tables.column_names(path) == ["id", "parts"]
    assert tables.column_names(table) == ["id", "parts"]


def test_a_mapping_tells_the_names_of_its_columns():
    assert tables.column_names({"id": [1], "title": ["an apple"]}) == ["id", "title"]


@pytest.mark.parametrize("read", [tables.column_names, tables.read_columns])
def test_a_single_name_that_looks_like_several_is_refused(tmp_path, read):
    path = tmp_path / "t.csv"
    path.write_text("id;title\n1;an apple\n")
    with pytest.raises(ValueError, match="one column, 'id;title': if ';' separates"):
        read(path)
    assert list(read(path, sep=";")) == ["id", "title"]


@pytest.mark.parametrize("name", CONTENT)
def test_a_table_of_which_no_column_is_wanted_tells_its_names(tmp_path, name):
    path = tmp_path / name
    path.write_text(CONTENT[name])
    message = f"No column of {name} is named. Its columns are 'id', 'title'"
    with pytest.raises(tables.MissingColumnError, match=message) as caught:
        tables.read_table(path, {})
    assert caught.value.columns == ("id", "title")


def test_rows_without_a_value_are_refused_or_skipped(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,title\n1,an apple\n,a pear\n3,\n")
    wanted = {"ids": "id", "text": "title"}
    with pytest.raises(ValueError, match="line 3 has no value in column 'id': drop it"):
        tables.read_table(path, wanted)
    table = tables.read_table(path, wanted, skip_missing=True)
    assert table.columns["id"].tolist() == ["1"]
    assert table.n_skipped == 2
    assert table.rows.tolist() == [0]
    assert table.place(0) == "t.csv, line 2"


def test_ids_keep_all_of_their_digits():
    ids = [2**53 + 1, 1, 0.5]
    table = tables.read_table({"id": ids}, {"a": "id"})
    assert table.columns["id"].tolist() == ids


@pytest.mark.parametrize("values", [[[1], [2, 3]], [[1], [2]], [{}, 1], np.eye(2)])
def test_a_column_holds_one_value_per_row(values):
    with pytest.raises(ValueError, match="'a' of table must hold one value in each"):
        tables.read_table({"a": values}, {"x": "a"})


def test_flags_and_numbers_are_read_from_text_and_from_values(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("same,weight\nTrue,1.5\n0,2\n")
    for source in (path, {"same": [True, 0], "weight": [1.5, 2]}):
        table = tables.read_table(source, {"a": "same", "b": "weight"})
        assert table.flags("same").tolist() == [1, 0]
        assert table.numbers("weight").tolist() == [1.5, 2.0]


@pytest.mark.parametrize("n_bytes", [80_000, 160_000])
def test_a_cell_of_combining_marks_is_refused(n_bytes):
    """To put them in order costs the square of their number, and does not serve Ctrl-C."""
    marks = "e" + "\u0301\u0323" * (n_bytes // 4)
    with pytest.raises(ValueError, match="combining marks"):
        tables.read_columns({"name": ["plain", marks]})
    words = "e" + "\u0301" * 30
    texts = [words * 3000, "x" * n_bytes, "é" * n_bytes, None]
    assert tables.read_columns({"name": texts})["name"] is texts


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
def test_a_file_of_many_columns_is_read_in_time(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    names = [f"column{k}" for k in range(40_000)]
    if suffix == ".jsonl":
        path.write_text(2 * (json.dumps(dict.fromkeys(names, "a")) + "\n"))
    else:
        separator = {".csv": ",", ".tsv": "\t"}[suffix]
        rows = [names, ["a"] * len(names), ["b"] * len(names)]
        path.write_text("".join(separator.join(row) + "\n" for row in rows))
    start = time.perf_counter()
    assert list(tables.read_columns(path)) == names
    assert time.perf_counter() - start < 15.0  # it takes 2; by columns squared 50


def test_records_of_which_each_has_a_column_of_its_own_are_refused(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text("".join(f'{{"c{k}": 1}}\n' for k in range(20_000)))
    with pytest.raises(ValueError, match=r"t\.jsonl expands .* 200 times its size"):
        tables.read_columns(path)


def test_digits_with_underscores_are_no_row_numbers(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("anchor\n1_0\n")
    with pytest.raises(ValueError, match=r"line 2 .*'1_0'"):
        tables.read_table(path, {"a": "anchor"}).row_numbers("anchor", None)


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "table.parquet"
    words = pa.array(["x", "yy", "x"])
    columns = {
        "id": [3, 1, 2],
        "word": words,
        "kind": words.dictionary_encode(),
        "rest": [[1]] * 3,
    }
    pytest.importorskip("pyarrow.parquet").write_table(pa.table(columns), path)
    table = tables.read_table(path, {"a": "word", "b": "id", "c": "kind"})
    assert (
        table.columns["word"].tolist()
        == table.columns["kind"].tolist()
        == ["x", "yy", "x"]
    )
    assert table.columns["id"].tolist() == [3, 1, 2]
    with pytest.raises(
        ValueError, match=r"no column 'no'\. Its columns are 'id', 'word', 'kind'"
    ):
        tables.read_table(path, {"a": "no"})
    with pytest.raises(
        ValueError, match=r"'rest' of table\.parquet must hold one value"
    ):
        tables.read_table(path, {"a": "rest"})
    with pytest.raises(FileNotFoundError):
        tables.read_table(tmp_path / "none.parquet", {"a": "id"})


def test_parquet_without_a_library(tmp_path, monkeypatch):
    for library in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, library, None)
    (tmp_path / "table.parquet").write_bytes(b"PAR1")
    with pytest.raises(ImportError, match="needs pyarrow"):
        tables.read_table(tmp_path / "table.parquet", {"a": "id"})


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_text_that_is_not_utf8_in_parquet_is_refused(tmp_path, use_dictionary):
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "table.parquet"
    ends = pa.py_buffer(np.array([0, 1, 2, 3], np.int32))
    bad = pa.Array.from_buffers(pa.string(), 3, [None, ends, pa.py_buffer(b"a\xffb")])
    table = pa.table({"word": bad})
    pytest.importorskip("pyarrow.parquet").write_table(
        table, path, use_dictionary=use_dictionary
    )
    for source in (path, table):
        with pytest.raises(ValueError, match=r"table.*UTF-?8"):
            tables.read_table(source, {"a": "word"})


def test_numbers_among_words_stay_numbers_and_become_words_as_labels(tmp_path):
    path = tmp_path / "table.jsonl"
    path.write_text('{"text": "a b", "topic": 1}\n{"text": "c d", "topic": "sport"}\n')
    assert tables.read_table(path, {"a": "topic"}).columns["topic"].tolist() == [
        1,
        "sport",
    ]
    from hdsl.cli import inputs

    data = inputs.read_data(path, text="text", label="topic")
    assert data.labels.tolist() == ["1", "sport"]
