"""Strings, tables, columns and rows in files: they come back, and others are refused."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from hdsl.files import container


@given(st.lists(st.text(st.characters())))
def test_strings_come_back(strings):
    assert (
        container.get_strings(container.pack_strings("s", strings), "s").tolist()
        == strings
    )


@pytest.mark.parametrize(
    "text", [b"", b"abc", b"\xff", b'"abc"', b"[1]", b'["a", null]', b'{"a": 1}']
)
def test_broken_strings_are_refused(text):
    with pytest.raises(ValueError, match=r".+"):
        container.get_strings({"s.text": np.frombuffer(text, np.uint8)}, "s")


@pytest.mark.parametrize(
    "values",
    [np.array([2, 1]), np.array([0.5]), np.array(["b", "a"]), np.array(["x"], object)],
)
def test_labels_come_back_as_numbers_or_strings(values):
    unpacked = container.unpack_values(
        container.pack_values("y", values), "y", len(values)
    )
    assert unpacked.tolist() == values.tolist()
    with pytest.raises(ValueError, match="y"):
        container.unpack_values(container.pack_values("y", values), "y", 7)
    with pytest.raises(ValueError, match="numbers or strings"):
        container.pack_values("y", np.array([None, 1], dtype=object))


TABLE = np.array(
    [(1, np.nan, "up", True), (2**40, -0.0, "down", False)],
    dtype=[("n", "i8"), ("x", "f8"), ("kind", "U8"), ("flag", "?")],
)


def test_tables_come_back_bit_for_bit():
    for table in (TABLE, TABLE[:0]):
        arrays, layout = container.pack_table(table, "t")
        unpacked = container.unpack_table(arrays, "t", layout)
        assert unpacked.dtype == table.dtype
        assert unpacked.tobytes() == table.tobytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays, layout: arrays.pop("t"),
        lambda arrays, layout: arrays.update({"t": arrays["t"][:-1]}),
        lambda arrays, layout: arrays.update({"t": arrays["t"].astype(np.uint16)}),
        lambda arrays, layout: arrays.update({"t": np.full_like(arrays["t"], 255)}),
        lambda arrays, layout: layout.update(columns=3),
        lambda arrays, layout: layout.update(columns=[]),
        lambda arrays, layout: layout["columns"].append(["o", "|O"]),
        lambda arrays, layout: layout["columns"].append(["n", "<i8"]),
        lambda arrays, layout: layout["columns"].append(["v", "<U99999"]),
    ],
)
def test_other_tables_are_refused(change):
    arrays, layout = container.pack_table(TABLE, "t")
    change(arrays, layout)
    with pytest.raises(
        ValueError, match=r"column|words|table|bytes|field|character|array|\bt\b"
    ):
        container.unpack_table(arrays, "t", layout)


def test_rows_come_back_and_damaged_ones_are_refused():
    X = sp.random_array(
        (5, 7), density=0.4, random_state=np.random.default_rng(0), format="csr"
    )
    arrays = container.csr_to_arrays(X, "X")
    assert (container.csr_from_arrays(arrays, "X", 7) != X).nnz == 0
    for name, damage in (
        ("X", np.full(X.nnz, np.inf)),
        ("X", np.zeros(X.nnz, np.int64)),
        ("X_indices", arrays["X_indices"] - 3),
        ("X_indices", arrays["X_indices"][1:]),
        ("X_indptr", np.empty(0, np.int64)),
        ("X_indptr", np.array([0, X.nnz, 0, X.nnz])),
        ("X_indptr", arrays["X_indptr"].astype(float)),
    ):
        with pytest.raises(ValueError, match="X"):
            container.csr_from_arrays(arrays | {name: damage}, "X", 7)


def test_columns_must_rise_within_the_features():
    container.check_columns(np.array([0, 2, 3]), 4)
    for columns in ([], [0, 0], [2, 1], [-1, 2], [0, 4], [0.0, 1.0], [[0, 1]]):
        with pytest.raises(ValueError, match="rising"):
            container.check_columns(np.array(columns), 4)
