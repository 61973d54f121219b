"""Model files: what goes in comes out, and what is broken is refused in plain words."""

import ast
import contextlib
import errno
import gzip
import io
import json
import os
import pickle
import random
import stat
import sys
import tracemalloc
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import example, given, settings
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

from hdsl.core.solver import TRACE_DTYPE
from hdsl.files import model_file
from hdsl.files.model_file import (
    HEADER_LIMIT,
    model_from_arrays,
    model_to_arrays,
    pack_strings,
    pack_table,
    read,
    unpack_strings,
    unpack_table,
    write,
)

GOLDEN = Path(__file__).parent / "golden" / "model-v1.hdsl"
UNSEALED = GOLDEN.with_name("model-v1-unsealed.hdsl")  # without a checksum, as others may write it

CODES = sorted(model_file.CODES)


# --- models to save ------------------------------------------------------------------------------


def mine(X, y, rng):
    """A parameter that no file can hold."""


def make_trace(n_iter, d, seed=0):
    """A trace of all kinds of steps, by the rules of the solver's."""
    rng = np.random.default_rng(seed)
    trace = np.zeros(n_iter + 1, dtype=TRACE_DTYPE)
    for name in ("objective", "gap", "step_size", "seconds"):
        trace[name] = rng.random(n_iter + 1)
    trace["gap"][rng.random(n_iter + 1) < 0.2] = np.nan
    trace["kind"] = rng.choice(["forward", "away", "pairwise"], n_iter + 1)
    trace["kind"][0] = "start"
    for prefix, absent in (("", "away"), ("away_", "forward")):
        trace[prefix + "i"] = rng.integers(d - 1, size=n_iter + 1)
        trace[prefix + "j"] = rng.integers(trace[prefix + "i"] + 1, d)
        trace[prefix + "sign"] = rng.choice([-1, 1], n_iter + 1)
        none = (trace["kind"] == absent) | ((trace["kind"] == "start") & (prefix == "away_"))
        for part, value in (("i", -1), ("j", -1), ("sign", 0)):
            trace[prefix + part][none] = value
    trace["n_atoms"] = trace["n_features"] = 1 + np.arange(n_iter + 1)
    return trace


def make_state(n_atoms=3, n_iter=4, d=5, **changes):
    pairs = np.column_stack(np.triu_indices(min(d, 200), 1))[:n_atoms]
    weights = np.arange(1.0, n_atoms + 1)
    return {
        "params": {"scale": "auto", "tol": 1e-3, "batch_size": None, "n_targets": 3},
        "atoms": np.column_stack([pairs, np.where(np.arange(n_atoms) % 2, -1, 1)]),
        "weights": weights / weights.sum(),
        "scale": 12.5,
        "prior": 0.1,
        "objective": 0.25,
        "gap": 0.001,
        "gap_is_exact": True,
        "status": "optimal",
        "n_iter": n_iter,
        "n_triplets": 100,
        "n_features_in": d,
        "trace": make_trace(n_iter, d),
        "versions": {"hdsl": "0.1.0", "numpy": "2.0.0", "python": "3.11.7"},
        **changes,
    }


#: The trace's columns when the format was made.
TRACE_DTYPE_1 = np.dtype(
    [
        *[("objective", "f8"), ("gap", "f8"), ("gap_is_exact", "?"), ("kind", "U8")],
        *[("step_size", "f8"), ("i", "i8"), ("j", "i8"), ("sign", "i1")],
        *[("away_i", "i8"), ("away_j", "i8"), ("away_sign", "i1"), ("drop", "?")],
        *[("n_atoms", "i8"), ("n_features", "i8"), ("seconds", "f8")],
    ]
)


def golden_state():
    """What tests/golden/model-v1.hdsl holds: only literals, so that it means the same forever.

    The file was made once by ``write(GOLDEN, *model_to_arrays(golden_state()))`` at format 1; a
    later format gets a file of its own and this one stays.
    """
    trace = np.array(
        [
            (0.5, 0.25, False, "start", 1.0, 0, 2, 1, -1, -1, 0, False, 1, 2, 0.125),
            (0.4, np.nan, False, "forward", 0.1, 1, 300, -1, -1, -1, 0, False, 2, 4, 0.25),
            (0.3, 1e-300, True, "pairwise", 0.3, 1, 300, -1, 0, 2, 1, False, 2, 4, 0.5),
        ],
        dtype=TRACE_DTYPE_1,
    )
    return {
        "params": {"scale": "auto", "prior": 0.1, "max_iter": 2, "callback": None, "mining": None},
        "params_left_out": {"mining": "mine"},
        "atoms": np.array([[0, 2, 1], [1, 300, -1]]),
        "weights": np.array([0.6, 0.4]),
        "scale": 0.1 + 0.2,
        "prior": 0.1,
        "objective": 0.3,
        "gap": np.nan,
        "gap_is_exact": False,
        "status": "max_iter",
        "n_iter": 2,
        "n_triplets": 7,
        "n_features_in": 301,
        "feature_names_in": np.array(["", "ü\n", "\ud800", *map(str, range(298))], dtype=object),
        "trace": trace,
        "versions": {"hdsl": "0.1.0", "numpy": "2.0.0", "python": "3.11.7", "format": 1},
        "extra": {
            "lowercase": True,
            "ngram_range": [1, 2],
            "idf": np.array([1.5, np.inf], dtype=np.float32),
            "vocabulary": np.array(["price", "cost"], dtype=object),
        },
    }


def assert_same(one, other):
    """Equal values of equal types, floats bit for bit."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if one.dtype == object:
            assert one.tolist() == other.tolist()
        else:
            assert one.tobytes() == other.tobytes()
    else:
        assert repr(one) == repr(other)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.hdsl"


@pytest.fixture(scope="module")
def shared_path(tmp_path_factory):
    """One path for all examples of a property."""
    return tmp_path_factory.mktemp("models") / "model.hdsl"


# --- what goes in comes out ----------------------------------------------------------------------

NUMBERS = st.sampled_from(CODES).flatmap(
    lambda code: hnp.arrays(
        st.sampled_from([code, np.dtype(code).newbyteorder(">")]),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
    )
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | NAMES
JSON = st.recursive(
    LEAVES | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=50)
@given(st.dictionaries(NAMES, NUMBERS, max_size=4), st.dictionaries(NAMES, JSON, max_size=4))
def test_arrays_and_header_come_back(shared_path, arrays, header):
    write(shared_path, arrays, header)
    found, header_found = read(shared_path)
    assert json.dumps(header_found, sort_keys=True) == json.dumps(header, sort_keys=True)
    assert found.keys() == arrays.keys()
    for name, array in found.items():
        assert array.dtype == arrays[name].dtype.newbyteorder("=")
        assert array.shape == arrays[name].shape
        assert array.tobytes() == arrays[name].astype(array.dtype).tobytes()
        assert array.flags.writeable
        assert array.flags.c_contiguous


@settings(max_examples=50)
@given(st.dictionaries(NAMES, NUMBERS, max_size=4))
def test_other_readers_of_the_format_agree(shared_path, arrays):
    write(shared_path, arrays, {"a": 1})
    found, theirs = read(shared_path)[0], safetensors.numpy.load_file(shared_path)
    assert found.keys() == theirs.keys()
    for name, array in found.items():
        assert_array_equal(array, theirs[name], strict=True)
    with safetensors.safe_open(shared_path, "numpy") as file:
        assert json.loads(file.metadata()["header"]) == {"a": 1}


def test_other_writers_of_the_format_are_understood(path):
    metadata = {"format": "hdsl", "format_version": "1", "header": '{"a": 1}'}
    arrays = {"x": np.arange(6.0).reshape(2, 3), "y": np.array([True, False])}
    safetensors.numpy.save_file(arrays, path, metadata=metadata)
    found, header = read(path)
    assert header == {"a": 1}
    for name in arrays:
        assert_array_equal(found[name], arrays[name], strict=True)


def test_no_bit_can_change_unseen(path):
    """Each bit of a file, one after the other; what is read is what was written, or nothing."""
    write(path, {"x": np.array([1.5, -2.0]), "é": np.array([True])}, {"scale": 0.5, "name": "é"})
    raw = path.read_bytes()
    for at in range(8 * len(raw)):
        changed = bytearray(raw)
        changed[at // 8] ^= 1 << at % 8
        path.write_bytes(changed)
        with pytest.raises(ValueError, match="Cannot load"):
            read(path)


def test_a_checksum_covers_large_files(path):
    write(path, {"x": np.arange(400_000.0)}, {})
    raw = bytearray(path.read_bytes())
    read(path)
    raw[-5] ^= 1
    path.write_bytes(raw)
    with pytest.raises(ValueError, match="its checksum is another, so some byte in it has changed"):
        read(path)


def test_views_are_written_as_they_look(path):
    A = np.arange(24.0).reshape(4, 6)
    views = {"fortran": np.asfortranarray(A), "stride": A[::2, ::-3], "scalar": A[1, 2, ...]}
    write(path, views, {})
    for name, array in read(path)[0].items():
        assert_array_equal(array, views[name], strict=True)


def test_arrays_start_at_multiples_of_their_item_size(path):
    arrays = {"a": np.ones(3, bool), "b": np.ones(3, "f8"), "c": np.ones(1, "i2"), "d": np.ones(2)}
    write(path, arrays, {"some": "header"})
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    layout = json.loads(raw[8 : 8 + length])
    assert length % 8 == 0
    for name, array in arrays.items():
        assert layout[name]["data_offsets"][0] % array.itemsize == 0


def test_tuples_and_numpy_numbers_become_plain(path):
    header = {"a": (1, 2), "b": np.int64(3), "c": np.float32(0.5), "d": np.True_, "e": np.str_("x")}
    write(path, {}, header)
    assert_same(read(path)[1], {"a": [1, 2], "b": 3, "c": 0.5, "d": True, "e": "x"})


def test_same_content_makes_the_same_bytes(path):
    arrays = {name: np.arange(3) for name in "cab"}
    header = {"z": 1, "a": {"y": 2, "b": 3}}
    write(path, arrays, header)
    before = path.read_bytes()
    write(path, dict(sorted(arrays.items())), {"a": {"b": 3, "y": 2}, "z": 1})
    assert path.read_bytes() == before


TEXT = st.text(st.characters(), max_size=6)  # any code point, surrogates too


@settings(max_examples=50)
@given(st.lists(TEXT, max_size=20))
@example(["", "\n", "\0", "\ud800", "\ud800\udc00", "\U00010000"])
@example(["x" * 200, "y" * 70_000])
def test_strings_come_back(strings):
    packed = pack_strings(strings)
    assert packed.keys() == {"text", "offsets"}
    assert unpack_strings(packed) == strings


@pytest.mark.parametrize(
    ("text", "offsets", "fragment"),
    [
        (b"abc", [], "rise from 0 to the 3 bytes"),
        (b"abc", [1, 3], "rise from 0"),
        (b"abc", [0, 2], "rise from 0"),
        (b"abc", [0, 2, 1, 3], "rise from 0"),
        (b"abc", [0, 4, 3], "rise from 0"),
        (b"abc", [[0, 3]], "vector"),
        (b"abc", [0.0, 3.0], "integers"),
        (b"a\xff", [0, 2], "not UTF-8"),
        ("é".encode(), [0, 1, 2], "not UTF-8"),
    ],
)
def test_broken_strings_are_refused(text, offsets, fragment):
    offsets = np.array(offsets, dtype=None if offsets else int)
    with pytest.raises(ValueError, match=fragment):
        unpack_strings({"text": np.frombuffer(text, np.uint8), "offsets": offsets})
    with pytest.raises(ValueError, match="'offsets' is missing"):
        unpack_strings({"text": np.frombuffer(text, np.uint8)})


@st.composite
def tables(draw):
    codes = draw(st.lists(st.sampled_from([*CODES, ">i8", ">f4", "<U1", "<U5"]), min_size=1))
    dtype = np.dtype([(f"c{k}", code) for k, code in enumerate(codes[:6])])
    return draw(hnp.arrays(dtype, st.integers(0, 6)))


@settings(max_examples=50)
@given(tables())
def test_tables_come_back(table):
    columns, words = pack_table(table)
    assert all(column.ndim == 1 for column in columns.values())
    assert set(words) == {name for name in table.dtype.names if table.dtype[name].kind == "U"}
    back = unpack_table(columns, words, table.dtype)
    assert back.dtype == table.dtype
    assert back.tobytes() == table.tobytes()


def test_every_bit_of_a_nan_is_kept(path):
    odd = np.array([0x7FF8000000000001, 0xFFF0DEAD00000000, 1 << 63], dtype="u8").view("f8")
    table = np.zeros(3, dtype=[("x", "f8")])
    table["x"] = odd
    columns, words = pack_table(table)
    write(path, columns, {})
    back = unpack_table(read(path)[0], words, table.dtype)
    assert back["x"].tobytes() == odd.tobytes()


@pytest.mark.parametrize(
    ("low", "high", "code"),
    [(0, 127, "i1"), (-1, 128, "i2"), (-32769, 0, "i4"), (0, 2**31, "i8"), (-(2**63), 0, "i8")],
)
def test_integers_are_stored_as_narrow_as_they_can_be(low, high, code):
    table = np.array([(low,), (high,)], dtype=[("n", "i8")])
    columns, _ = pack_table(table)
    assert columns["n"].dtype == code
    assert_array_equal(unpack_table(columns, {}, table.dtype), table)


@pytest.mark.parametrize(
    ("columns", "words", "fragment"),
    [
        ({"n": np.zeros(2, int)}, {"kind": ["a"]}, "'kind' is missing"),
        ({"n": np.zeros(2, int), "kind": np.zeros(3, int)}, {"kind": ["a"]}, r"shape \(3,\)"),
        ({"n": np.zeros((2, 1), int), "kind": np.zeros(2, int)}, {"kind": ["a"]}, r"\(2, 1\)"),
        ({"n": np.zeros(2), "kind": np.zeros(2, int)}, {"kind": ["a"]}, "float64, expected int"),
        ({"n": np.zeros(2, "u8"), "kind": np.zeros(2, int)}, {"kind": ["a"]}, "of uint64"),
        ({"n": np.zeros(2, int), "kind": np.ones(2, int)}, {"kind": ["a"]}, "numbers of its 1"),
        ({"n": np.zeros(2, int), "kind": -np.ones(2, int)}, {"kind": ["a"]}, "numbers of its 1"),
        ({"n": np.zeros(2, int), "kind": np.zeros(2)}, {"kind": ["a"]}, "numbers of its 1"),
        ({"n": np.zeros(2, int), "kind": np.zeros(2, int)}, {}, "list of words"),
        ({"n": np.zeros(2, int), "kind": np.zeros(2, int)}, {"kind": [1]}, "list of words"),
        ({"n": np.zeros(2, int), "kind": np.zeros(2, int)}, {"kind": ["abc"]}, "at most 2 char"),
    ],
)
def test_broken_tables_are_refused(columns, words, fragment):
    with pytest.raises(ValueError, match=fragment):
        unpack_table(columns, words, np.dtype([("n", "i8"), ("kind", "U2")]))


@pytest.mark.parametrize("code", ["O", "S3", "c16", "M8[s]", "2f8", "U100", [("inner", "f8")]])
def test_tables_of_other_things_are_refused(code):
    with pytest.raises(ValueError, match=r"'x' has dtype .* expected"):
        pack_table(np.zeros(1, dtype=[("x", code)]))


# --- what cannot be written ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrays", "header", "fragment"),
    [
        ({"x": np.array(["a"])}, {}, "Array 'x' has dtype <U1.*pack_strings"),
        ({"x": np.array([None])}, {}, "dtype object"),
        ({"x": np.ones(2, "c16")}, {}, "dtype complex128"),
        ({"x": np.zeros(1, dtype=[("a", "f8")])}, {}, "pack_table"),
        ({"__metadata__": np.ones(1)}, {}, "cannot be named '__metadata__'"),
        ({"\ud800": np.ones(1)}, {}, "cannot be named"),
        ({}, {"a": {"b": [1, print]}}, r"header\['a'\]\['b'\]\[1\] is <built-in"),
        ({}, {"a": np.ones(2)}, r"header\['a'\] is array.*arrays as arrays"),
        ({}, {"a": float("nan")}, "is nan"),
        ({}, {"a": float("inf")}, "is inf"),
        ({}, {"a": {1: 2}}, "string keys"),
        ({}, {"a": 2**64}, "is 18446744073709551616"),
        ({}, {"a": "\ud800\udc00"}, r"header\['a'\] is"),
        ({}, {"a": "x" * HEADER_LIMIT}, "at most .* Give what is large.* as an array"),
    ],
)
def test_what_cannot_be_written_is_refused_at_once(path, arrays, header, fragment):
    with pytest.raises(ValueError, match=fragment):
        write(path, arrays, header)
    assert not list(path.parent.iterdir())


def test_endless_header_is_refused(path):
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match="can be written"):
        write(path, {}, {"a": endless})


def failing(number):
    def fail(*args, **kwargs):
        raise OSError(number, os.strerror(number), ".hdsl-temporary.tmp")

    return fail


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize(
    ("number", "error", "fragment"),
    [
        (errno.ENOSPC, OSError, "the disk is full"),
        (errno.EACCES, PermissionError, "no permission"),
        (errno.EROFS, OSError, "read-only"),
        (errno.EIO, OSError, "rror"),
    ],
)
def test_failure_leaves_things_as_they_were(path, monkeypatch, call, number, error, fragment):
    write(path, {"x": np.ones(3)}, {"a": 1})
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing(number))
        with pytest.raises(error, match=fragment) as caught:
            write(path, {"x": np.zeros(3)}, {"a": 2})
        assert caught.value.errno == number
        assert caught.value.filename == str(path)
        with pytest.raises(error):
            write(path.with_name("new.hdsl"), {"x": np.zeros(3)}, {})
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == before


def test_interruption_leaves_things_as_they_were(path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    write(path, {}, {"a": 1})
    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(path, {}, {"a": 2})
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert read(path)[1] == {"a": 1}


def test_bytes_are_on_the_disk_before_the_name_is(path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        true = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *args, name=name, true=true: (calls.append(name), true(*args))
        )
    write(path, {"x": np.ones(3)}, {})
    assert calls == ["fsync", "replace", "fsync"]  # the file, its name, the folder


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("text")
    for path, error, fragment in [
        (tmp_path, IsADirectoryError, "this is a folder"),
        (tmp_path / "no" / "model", FileNotFoundError, "the folder does not exist, create it"),
        (tmp_path / "file" / "model", NotADirectoryError, "what should be its folder is a file"),
    ]:
        with pytest.raises(error, match=fragment) as caught:
            write(path, {}, {})
        assert caught.value.filename == str(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_folder_without_permission(lockable):
    folder, lock = lockable
    lock()
    with pytest.raises(PermissionError, match="no permission to write here"):
        write(folder / "model", {}, {})
    assert not any(folder.iterdir())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX files")
def test_pipes_and_devices_are_neither_written_nor_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="regular file"):
        write(pipe, {}, {})
    with pytest.raises(OSError, match="regular file"):
        read(pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_who_may_read_a_file_stays_as_it_was(path):
    write(path, {}, {})
    for mode in (0o600, 0o640, 0o444):
        path.chmod(mode)
        write(path, {}, {"a": 1})
        assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_permissions_are_the_usual_ones(path, mask):
    before = os.umask(mask)
    try:
        write(path, {}, {})
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


@pytest.mark.skipif(os.name != "posix", reason="needs symbolic links")
def test_a_link_stays_a_link(path):
    (path.parent / "folder").mkdir()
    path.symlink_to(Path("folder") / "target.hdsl")
    write(path, {}, {"a": 1})
    assert path.is_symlink()
    assert read(path.parent / "folder" / "target.hdsl")[1] == {"a": 1}


def test_long_names_and_plain_strings_as_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("m" * 255, {}, {"a": 1})
    assert read("m" * 255)[1] == {"a": 1}


# --- files that are not what they should be ------------------------------------------------------


def refused(path, raw, *fragments):
    path.write_bytes(raw)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is looked at below
        read(path)
    message = str(caught.value)
    assert message.startswith(f"Cannot load {str(path)!r}: ")
    assert len(message) < 500 + len(str(path))
    for fragment in fragments:
        assert fragment in message


def compose(layout, data=b"", *, header="{}", metadata=None):
    """The bytes of a file with any JSON text, or any object made to one."""
    if isinstance(layout, dict):
        if metadata is None:
            metadata = {"format": "hdsl", "format_version": "1", "header": header}
        layout = json.dumps({"__metadata__": metadata, **layout}).encode()
    return len(layout).to_bytes(8, "little") + layout + data


def entry(dtype="F64", shape=(2,), offsets=(0, 16)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def npz():
    file = io.BytesIO()
    np.savez(file, x=np.ones(3))
    return file.getvalue()


def npy():
    file = io.BytesIO()
    np.save(file, np.ones(3))
    return file.getvalue()


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such thing"):
        read(tmp_path / "no such thing")
    with pytest.raises(IsADirectoryError):
        read(tmp_path)


class Bomb:
    def __reduce__(self):
        return os._exit, (3,)


@pytest.mark.parametrize(
    ("raw", "fragment"),
    [
        (b"", "it is empty"),
        (b"abc", "it has 3 bytes"),
        *[(pickle.dumps(Bomb(), k), "a pickle") for k in range(2, pickle.HIGHEST_PROTOCOL + 1)],
        (pickle.dumps({"a": np.ones(9)}), "a pickle"),
        (npz(), "a zip archive"),
        (npy(), "a NumPy array"),
        (gzip.compress(b"text", mtime=0), "a gzip file"),
        (b"<!DOCTYPE html><html>404</html>", "HTML or XML"),
        (b'{"atoms": [[0, 1, 1]]}', "JSON"),
        (b"0.5 1:0.25 7:1\n", "something else"),
        (bytes(100), "something else"),
        (b"\xff" * 100, "something else"),
    ],
)
def test_other_files_are_named(path, raw, fragment):
    refused(path, raw, fragment)


def test_safetensors_of_another_program(path):
    raw = safetensors.numpy.save({"x": np.ones(3)})
    refused(path, raw, "of another program", "Expected a model that hdsl saved")
    raw = safetensors.numpy.save({"x": np.ones(3)}, metadata={"format": "pt"})
    refused(path, raw, "of another program")


def test_newer_format(path):
    raw = compose(
        {"x": {"a field of format": 3}},
        header='{"versions": {"hdsl": "9.1"}}',
        metadata={
            "format": "hdsl",
            "format_version": "3",
            "header": '{"versions": {"hdsl": "9.1"}}',
        },
    )
    refused(
        path,
        raw,
        "it was written by hdsl 9.1, format 3; this hdsl reads up to format 1: upgrade hdsl.",
    )


@pytest.mark.parametrize("version", [None, 1, "", "0", "-1", "1.0", "one", "9" * 5000, [1]])
def test_format_version_that_is_none(path, version):
    metadata = {"format": "hdsl", "format_version": version, "header": "{}"}
    refused(path, compose({}, metadata=metadata), "format version")


@pytest.mark.parametrize(
    ("raw", "fragment"),
    [
        # the JSON text
        (b"\xff" * 7 + b"\x7f" + b"{}", "not a model file"),
        ((HEADER_LIMIT + 1).to_bytes(8, "little") + b"{" * 100, "not a model file"),
        ((1000).to_bytes(8, "little") + b"{}", "ends within its header"),
        (compose(b"{"), "cannot be read"),
        (compose(b"{}x"), "cannot be read"),
        (compose(b'{"\xff": 1}'), "UTF-8"),
        (compose(b"[1, 2]"), "not a model file"),
        (compose(b'{"a":' * 100_000), "nested too deeply"),
        (compose({"x": entry()}, header="[" * 100_000), "nested too deeply"),
        (compose({"x": entry()}, header="[]"), "not a JSON object"),
        (compose({"x": entry()}, header='{"a": NaN}'), "NaN is no JSON"),
        (compose({"x": entry()}, header='{"a": 1, "a": 2}'), "occurs twice"),
        (compose({"x": entry()}, header='{"a": ' + "9" * 5000 + "}"), "cannot be read"),
        (compose({}, metadata={"format": "hdsl", "format_version": "1"}), "header is missing"),
        (compose({}, metadata=["hdsl"]), "another program"),
        # the arrays
        (compose({"x": 1}), "lacks dtype"),
        (compose({"x": {"dtype": "F64"}}), "lacks dtype"),
        (compose({"x": entry("F65")}), "unknown dtype 'F65'"),
        (compose({"x": entry("BF16")}), "unknown dtype 'BF16'"),
        (compose({"x": entry(["F64"])}), "unknown dtype"),
        (compose({"x": entry("O" * 10**6)}), "unknown dtype"),
        (compose({"x": entry(shape=[-2])}), "impossible shape [-2]"),
        (compose({"x": entry(shape=[2.0])}), "impossible shape"),
        (compose({"x": entry(shape=[True])}), "impossible shape"),
        (compose({"x": entry(shape=["2"])}), "impossible shape"),
        (compose({"x": entry(shape=[1] * 65)}), "impossible shape"),
        (compose({"x": entry(shape=[2**63])}), "impossible shape"),
        (compose({"x": entry(shape=[10**4000])}), "impossible shape"),
        (compose({"x": entry(shape=[0, 2**62], offsets=[0, 0])}), "impossible shape"),
        (compose({"x": entry(shape=[2**32, 2**32], offsets=[0, 0])}), "impossible shape"),
        (compose({"x": entry(shape=[2**30, 2**30], offsets=[0, 2**63 - 1])}), "impossible sh"),
        (compose({"x": entry(shape=[2**40], offsets=[0, 2**43])}, bytes(16)), "ends too early"),
        (compose({"x": entry(offsets=[-16, 0])}), "impossible offsets"),
        (compose({"x": entry(offsets=[0])}), "impossible offsets"),
        (compose({"x": entry(offsets=[0, 16, 32])}), "impossible offsets"),
        (compose({"x": entry(offsets=[16, 0])}), "its offsets say -16"),
        (compose({"x": entry(offsets=[0, 15])}, bytes(15)), "takes 16 bytes"),
        (compose({"x": entry(offsets=[8, 24])}, bytes(24)), "starts at byte 8, expected 0"),
        (compose({"x": entry()}, bytes(15)), "ends too early: 15 bytes of arrays, expected 16"),
        (compose({"x": entry()}, bytes(17)), "goes on after its last array"),
        (compose({"x": entry(), "y": entry()}, bytes(16)), "starts at byte 0, expected 16"),
        (compose({"x": entry(), "y": entry(offsets=[8, 24])}, bytes(24)), "starts at byte 8"),
        (compose({"x": entry(), "y": entry(offsets=[17, 33])}, bytes(33)), "starts at byte 17"),
        (compose({"x": entry("BOOL", [3], [0, 3])}, b"\0\1\2"), "neither 0 nor 1"),
    ],
)
def test_hostile_files(path, raw, fragment):
    refused(path, raw, fragment)


def test_an_array_given_twice(path):
    text = json.dumps({"__metadata__": {"format": "hdsl", "format_version": "1", "header": "{}"}})
    one = json.dumps(entry(shape=[0], offsets=[0, 0]))
    refused(path, compose(f'{text[:-1]}, "x": {one}, "x": {one}}}'.encode()), "occurs twice")


def test_no_memory_is_taken_for_what_is_not_there(path, monkeypatch):
    monkeypatch.setattr(np, "empty", lambda *args, **kwargs: pytest.fail("memory was taken"))
    refused(path, compose({"x": entry(shape=[2**50], offsets=[0, 2**53])}), "ends too early")
    data = bytes(16)
    refused(path, compose({"x": entry(), "y": entry("F16", [1], [16, 19])}, data), "takes 2 bytes")


@pytest.mark.parametrize(
    ("raw", "limit"),
    [
        # Large beside the 128 KiB that a file's buffer takes from Python 3.14 on.
        (compose({"x": entry(shape=[10**6], offsets=[0, 8 * 10**6])}, bytes(8 * 10**6)), 1.1),
        # A text of small things takes most when parsed, so it is the text that has a limit.
        (compose({"x": entry()}, header=f'{{"a": [{"[],[]," * (HEADER_LIMIT // 70)}[]]}}'), 40),
    ],
    ids=["array", "text"],
)
def test_memory_goes_by_the_size_of_the_file(path, raw, limit):
    path.write_bytes(raw)
    size = len(raw)
    del raw
    tracemalloc.start()
    try:
        with contextlib.suppress(ValueError):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < limit * size
    finally:
        tracemalloc.stop()


def test_a_file_that_shrinks_while_it_is_read(path, monkeypatch):
    for stage, told in {
        "_places": "its checksum is another",
        "_checksum": "became shorter",
    }.items():
        write(path, {"x": np.ones(100_000)}, {})
        original = getattr(model_file, stage)

        def shrink(*args, original=original):
            result = original(*args)
            os.truncate(path, 1000)
            return result

        with monkeypatch.context() as patch:
            patch.setattr(model_file, stage, shrink)
            with pytest.raises(ValueError, match=told):
                read(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a small model with everything in it."""
    path = tmp_path_factory.mktemp("whole") / "model.hdsl"
    extra = {"ngram_range": (1, 2), "words": np.array(["a", "b"]), "idf": np.ones(2)}
    state = make_state(feature_names_in=list("abcde"), extra=extra)
    write(path, *model_to_arrays(state))
    return path.read_bytes()


def test_truncated_anywhere(path, whole):
    for n in sorted({*range(64), *range(64, len(whole), 37), len(whole) - 1}):
        refused(path, whole[:n])


def test_any_flipped_byte_is_refused_or_harmless(path, whole):
    rng = random.Random(0)
    path.write_bytes(whole)
    told = []
    with open(path, "r+b", buffering=0) as file:
        for at in range(len(whole)):
            file.seek(at)
            file.write(bytes([whole[at] ^ rng.choice([1, 2, 4, 8, 16, 32, 64, 128, 255])]))
            try:
                arrays, header = read(path)
                model_to_arrays(model_from_arrays(arrays, header, path=path))
            except ValueError as error:
                told.append(str(error))
            file.seek(at)
            file.write(whole[at : at + 1])
    assert all(message.startswith("Cannot load") for message in told)
    # Digits of floats and letters of free text may change unseen, not much else.
    assert len(told) > len(whole) / 2


# --- models --------------------------------------------------------------------------------------


def through_file(path, state):
    write(path, *model_to_arrays(state))
    return model_from_arrays(*read(path), path=path)


def test_a_model_comes_back(path):
    extra = {
        "settings": {"ngram_range": (1, 2), "token_pattern": r"\w+"},
        "vocabulary": np.array(["price", "", "ü\n"]),
        "no words": np.array([], dtype=object),
        "no numbers": np.array([]),
        "idf": np.array([[1.5], [np.nan]]),
    }
    state = make_state(feature_names_in=np.array(list("abcde")), extra=extra)
    back = through_file(path, state)
    assert_same(
        back,
        {
            **state,
            "params_left_out": {},
            "versions": {**state["versions"], "format": 1},
            "feature_names_in": np.array(list("abcde"), dtype=object),
            "extra": {
                **extra,
                "settings": {"ngram_range": [1, 2], "token_pattern": r"\w+"},
                "vocabulary": extra["vocabulary"].astype(object),
            },
        },
    )
    assert back["atoms"].dtype == np.int64
    assert_same(through_file(path, back), back)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e-300, np.float64(0.1)])
def test_numbers_of_all_kinds(path, value):
    back = through_file(path, make_state(gap=value, objective=value))
    assert_same(back["gap"], float(value))
    assert_same(back["objective"], float(value))
    assert back["feature_names_in"] is None
    assert back["extra"] == {}


def test_parameters_that_json_has_no_form_for(path):
    params = {
        "callback": print,
        "mining": mine,
        "random_state": np.random.RandomState(0),
        "n_jobs": np.int64(2),
        "tol": np.float32(0.5),
        "scale": np.nan,
    }
    back = through_file(path, make_state(params=params))
    assert_same(
        back["params"],
        {
            "callback": None,
            "mining": None,
            "n_jobs": 2,
            "random_state": None,
            "scale": None,
            "tol": 0.5,
        },
    )
    assert back["params_left_out"] == {
        "callback": "print",
        "mining": "mine",
        "random_state": "RandomState",
        "scale": "float",
    }
    assert through_file(path, back)["params_left_out"] == back["params_left_out"]


@settings(max_examples=30)
@given(st.integers(1, 10), st.integers(0, 30), st.integers(5, 10**6), st.booleans())
def test_models_of_many_sizes(shared_path, n_atoms, n_iter, d, exact):
    state = make_state(n_atoms, n_iter, d, gap_is_exact=np.bool_(exact), n_triplets=np.int64(9))
    back = through_file(shared_path, state)
    for name in ("atoms", "weights", "trace"):
        assert_same(back[name], state[name])
    assert back["gap_is_exact"] is exact
    assert type(back["n_triplets"]) is int


def test_a_large_model_is_a_small_file(path):
    """A few hundred KB for thousands of atoms; 40 bytes a step are floats that do not shrink."""
    write(path, *model_to_arrays(make_state(3000, 5000, 47_236)))
    assert path.stat().st_size < 400_000


def changed(name, at, value):
    """A change of one entry of an array of the state."""

    def change(state):
        array = state[name].copy()
        array[at] = value
        return {**state, name: array}

    return change


def in_trace(column, at, value):
    def change(state):
        trace = state["trace"].copy()
        trace[column][at] = value
        return {**state, "trace": trace}

    return change


def instead(**changes):
    return lambda state: {**state, **changes}


FAULTS = [
    (changed("atoms", (1, 0), -1), r"atoms\[1\] is \[-1, 2, -1\], expected .* < n_features_in = 5"),
    (changed("atoms", (1, 1), 5), r"atoms\[1\] is \[0, 5, -1\]"),
    (changed("atoms", (0, slice(2)), [1, 1]), r"atoms\[0\] is \[1, 1, 1\]"),
    (changed("atoms", (2, 2), 0), r"atoms\[2\] is \[0, 3, 0\].* sign of -1 or 1"),
    (changed("atoms", (2, 2), -2), r"atoms\[2\] is"),
    (changed("atoms", 2, [0, 1, 1]), r"atoms\[2\] is \[0, 1, 1\], as is an earlier one"),
    (instead(atoms=np.zeros((3, 2), int)), r"atoms has shape \(3, 2\)"),
    (instead(weights=np.full(2, 0.5)), r"weights has shape \(2,\)"),
    (instead(atoms=np.zeros((0, 3), int), weights=np.zeros(0)), "weights sum to 0.0, expected 1"),
    (changed("weights", 1, np.nan), r"weights\[1\] is nan"),
    (changed("weights", 1, np.inf), r"weights\[1\] is inf"),
    (changed("weights", 1, 0.0), r"weights\[1\] is 0.0"),
    (changed("weights", 1, -0.1), r"weights\[1\] is -0.1"),
    (changed("weights", 1, 1e308), "weights sum to 1e"),
    (changed("weights", slice(None), 1e308), "weights sum to inf"),
    (changed("weights", 0, 1 / 6 + 1e-8), "weights sum to 1.00000001"),
    (instead(scale=0.0), "scale is 0.0, expected a finite number > 0"),
    (instead(scale=-1.0), "scale is -1.0"),
    (instead(scale=np.nan), "scale is nan"),
    (instead(scale=np.inf), "scale is inf"),
    (instead(prior=-0.1), "prior is -0.1, expected a finite number >= 0"),
    (instead(prior=np.nan), "prior is nan"),
    (instead(prior=np.inf), "prior is inf"),
    (instead(n_iter=5), r"trace has shape \(5,\), expected n_iter \+ 1 = 6 rows or more"),
    (instead(n_iter=-1), "n_iter is -1, expected an int >= 0"),
    (instead(n_triplets=0), "n_triplets is 0"),
    (instead(n_features_in=1), "n_features_in is 1"),
    (instead(n_features_in=2**63), "n_features_in is 9223372036854775808"),
    (instead(n_features_in=3), r"atoms\[2\] is \[0, 3, 1\]"),
    (in_trace("j", 2, 5), r"the atom of trace\[2\] is"),
    (in_trace("sign", 0, 0), r"the atom of trace\[0\] is"),
    (in_trace("i", 0, -1), r"the atom of trace\[0\] is \[-1, "),
    (in_trace("away_i", 1, -2), r"the away atom of trace\[1\] is \[-2, "),
    (in_trace("away_sign", 0, 1), r"the away atom of trace\[0\] is \[-1, -1, 1\]"),
    (instead(feature_names_in=["a"]), "feature_names_in has 1 names, but n_features_in is 5"),
    (
        lambda s: {**s, "trace": s["trace"][["objective", "kind"]].copy()},
        "trace has None as column 'gap', expected <f8",
    ),
    (
        instead(trace=np.zeros(5, dtype=[("objective", "f4")])),
        "trace has <f4 as column 'objective', expected <f8",
    ),
]


@pytest.mark.parametrize(("change", "fragment"), FAULTS)
def test_a_state_that_is_no_model_is_neither_saved_nor_loaded(monkeypatch, change, fragment):
    state = change(make_state())
    with pytest.raises(ValueError, match=fragment):
        model_to_arrays(state)
    with monkeypatch.context() as patch:
        patch.setattr(model_file, "check_model", lambda state: None)
        arrays, header = model_to_arrays(state)
    with pytest.raises(ValueError, match=f"^Cannot load 'some file': .*{fragment}.*damaged"):
        model_from_arrays(arrays, header, path="some file")


@pytest.mark.parametrize(
    ("name", "dtype"), [("atoms", "f8"), ("atoms", "?"), ("weights", "i8"), ("weights", "f4")]
)
def test_arrays_of_other_types(name, dtype):
    state = make_state()
    arrays, header = model_to_arrays(state)
    told = f"{name} has shape .* dtype {np.dtype(dtype).name}, expected"
    with pytest.raises(ValueError, match=told):
        model_to_arrays({**state, name: state[name].astype(dtype)})
    with pytest.raises(ValueError, match=told):
        model_from_arrays({**arrays, name: arrays[name].astype(dtype)}, header)


@pytest.mark.parametrize("name", ["atoms", "weights", "trace.gap", "extra_arrays.idf"])
def test_a_missing_array(name):
    arrays, header = model_to_arrays(make_state(extra={"idf": np.ones(2)}))
    del arrays[name]
    with pytest.raises(ValueError, match=r"array '.*' is missing"):
        model_from_arrays(arrays, header)


@pytest.mark.parametrize("value", [None, "x", 1, 1.0, True, [], {}, ["x"], [["x", "O"]], {"a": 1}])
def test_headers_of_other_types(value):
    arrays, header = model_to_arrays(make_state())
    for name in header:
        with_other = {**header, name: value}
        if type(value) is type(header[name]):
            continue
        with pytest.raises(ValueError, match=name):
            model_from_arrays(arrays, with_other)


@pytest.mark.parametrize(
    ("columns", "fragment"),
    [
        (None, "does not tell the columns"),
        ([], "a table is a structured array"),
        ([["objective"]], "impossible column"),
        ([["objective", 8]], "impossible column"),
        ([["objective", "O"]], "has dtype 'O', expected"),
        ([["objective", "<U1000000000"]], "has dtype '<U1000000000'"),
        ([["objective", "<f8"]] * 2, "occurs more than once"),
        ([["kind", "<U8"]], "trace has None as column 'objective'"),
        ([["", "<f8"]], "'f0' is missing"),
        ([[f"c{k}", "<U99"] for k in range(100)], "would take"),
    ],
)
def test_hostile_columns_of_the_trace(columns, fragment):
    arrays, header = model_to_arrays(make_state())
    header["trace"]["columns"] = columns
    with pytest.raises(ValueError, match=fragment):
        model_from_arrays(arrays, header)


def test_a_trace_may_have_other_columns(path):
    own = make_trace(4, 5)
    trace = np.zeros(5, dtype=[*TRACE_DTYPE.descr, ("score", "<f4"), ("note", "<U3")])
    for name in TRACE_DTYPE.names:
        trace[name] = own[name]
    trace["note"] = ["a", "", "ü", "abc", "a"]
    assert_same(through_file(path, make_state(trace=trace))["trace"], trace)


# --- promises ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [GOLDEN, UNSEALED])
def test_the_golden_file_means_what_it_meant(kept):
    state = golden_state()
    back = model_from_arrays(*read(kept), path=kept)
    assert_same(back, {name: state[name] for name in back})
    assert state.keys() == back.keys()


def test_the_format_is_still_the_golden_one(path):
    assert model_file.FORMAT == 1
    write(path, *model_to_arrays(golden_state()))
    assert path.read_bytes() == GOLDEN.read_bytes()


def test_nothing_that_could_run_code_is_imported():
    tree = ast.parse(Path(model_file.__file__).read_text(encoding="utf-8"))
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(node.module.split(".")[0])
        elif isinstance(node, ast.Name):
            assert node.id not in {"eval", "exec", "compile", "__import__"}
    assert names - {"numpy"} <= sys.stdlib_module_names
    assert not names & {"pickle", "marshal", "shelve", "importlib", "ctypes", "numba"}
