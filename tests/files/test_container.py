"""Model files: what is written comes back, and damage of any kind is found."""

import json
import pickle

import numpy as np
import pytest
import safetensors.numpy
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

from hdsl import load
from hdsl.files import container
from hdsl.files.container import read, write

HEADER = {"scale": 0.5, "names": ["a", "ü\ud800"], "nothing": None}
ARRAYS = {"weights": np.linspace(0, 1, 50), "atoms": np.arange(12).reshape(4, 3)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.hdsl"


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(
            lambda name: name != "__metadata__"
        ),
        hnp.arrays(
            st.sampled_from(["?", "u1", "i2", "<i8", ">i4", "<f4", "<f8", ">f8"]),
            hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
        ),
        max_size=4,
    )
)
def test_arrays_come_back_here_and_in_safetensors(tmp_path_factory, arrays):
    path = tmp_path_factory.getbasetemp() / "arrays.hdsl"
    write(path, arrays, HEADER)
    loaded, header = read(path)
    assert header == HEADER
    for others in (loaded, safetensors.numpy.load_file(path)):
        assert others.keys() == arrays.keys()
        for name, array in arrays.items():
            assert others[name].dtype == array.dtype.newbyteorder("=")
            assert_array_equal(others[name], array)


def test_same_content_makes_the_same_bytes(path):
    write(path, ARRAYS, HEADER)
    first = path.read_bytes()
    write(path, dict(reversed(ARRAYS.items())), dict(reversed(HEADER.items())))
    assert path.read_bytes() == first


def test_no_bit_can_change_unseen(path):
    write(path, ARRAYS, HEADER)
    raw = path.read_bytes()
    rng = np.random.default_rng(0)
    for k in {*rng.integers(len(raw), size=60).tolist(), 0, 9, len(raw) - 1}:
        damaged = bytearray(raw)
        damaged[k] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            arrays, header = read(path)
        except ValueError:
            continue
        assert header == HEADER  # a blank in the JSON text around the content
        assert arrays["weights"].tobytes() == ARRAYS["weights"].tobytes()


@pytest.mark.parametrize(
    ("arrays", "header"),
    [
        ({"a": np.array([None])}, {}),
        ({"a": np.array(["text"])}, {}),
        ({}, {"f": len}),
        ({}, {"a": np.zeros(3)}),
    ],
)
def test_what_has_no_form_is_refused_and_the_old_file_stays(path, arrays, header):
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match="model file"):
        write(path, arrays, header)
    assert path.read_bytes() == b"old"


def sealed(arrays=(), **changes):
    """Return a file whose metadata has other values, with the checksum of the header."""
    text = changes.pop("header", "{}")
    arrays = dict(arrays)
    checksum = changes.pop("sha256", None)
    if checksum is None and isinstance(text, str):
        checksum = container.checksum(arrays, text)
    content = {
        "format": container.FORMAT,
        "header": text,
        "sha256": checksum,
        **changes,
    }
    return safetensors.numpy.save(arrays, {container.KEY: json.dumps(content)})


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "empty"),
        (pickle.dumps({"a": 1}), "not a model"),
        (b"\xff" * 8 + b"{}", "not a model"),
        (safetensors.numpy.save(ARRAYS, {"other": "x"}), "not a model"),
        (safetensors.numpy.save({}, {container.KEY: "[" * 100_000}), "damaged"),
        (sealed(format=container.FORMAT + 1), "update"),
        (sealed(header="[]"), "object"),
        (sealed(header=5, sha256="x"), "damaged"),
        (sealed(sha256="0" * 64), "checksum"),
        (sealed(header="[" * 100_000), "damaged"),
        (sealed(header='{"a": ' + "9" * 5000 + "}"), "damaged"),
    ],
    ids=range(11),
)
def test_other_and_hostile_files_are_refused(path, raw, message):
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=message) as caught:
        read(path)
    assert len(str(caught.value)) < 700


def test_a_header_of_other_kinds_is_refused(path):
    write(path, {}, {"kind": "Pipeline", "steps": [["a", "b"]]})
    with pytest.raises(ValueError, match=path.name):
        load(path)


# --- strings, tables and rows ---------------------------------------------------------


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
