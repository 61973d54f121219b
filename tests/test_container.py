"""The container of arrays: what goes in comes out, and what is broken is refused."""

import contextlib
import gzip
import hashlib
import io
import json
import os
import pickle
import tracemalloc

import hypothesis.strategies as st
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import example, given, settings
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

from hdsl.files.container import CODES, HEADER_LIMIT, read, write
from hdsl.files.tables import pack_strings, pack_table, unpack_strings, unpack_table


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.hdsl"


@pytest.fixture(scope="module")
def shared_path(tmp_path_factory):
    """One path for all examples of a property."""
    return tmp_path_factory.mktemp("models") / "model.hdsl"


# --- files made by hand --------------------------------------------------------------------------


def refused(path, raw, *fragments):
    path.write_bytes(raw)
    with pytest.raises(ValueError, match="Cannot load ") as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(f"Cannot load {str(path)!r}: ")
    assert len(message) < 500 + len(str(path))
    for fragment in fragments:
        assert fragment in message


def compose(layout, data=b"", **metadata):
    """The bytes of a file with any JSON text, or any object made to one."""
    if isinstance(layout, dict):
        metadata = {"format": "hdsl", "format_version": "1", "header": "{}"} | metadata
        layout = json.dumps({"__metadata__": metadata, **layout}).encode()
    return len(layout).to_bytes(8, "little") + layout + data


def entry(dtype="F64", shape=(2,), offsets=(0, 16)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def array(data=b"", dtype="F64", shape=(2,), offsets=(0, 16), **others):
    return compose({"x": entry(dtype, shape, offsets), **others}, data)


def saved_by(save):
    file = io.BytesIO()
    save(file, np.ones(3))
    return file.getvalue()


class Bomb:
    def __reduce__(self):
        return os._exit, (3,)


# --- what goes in comes out ----------------------------------------------------------------------

NUMBERS = st.sampled_from(sorted(CODES)).flatmap(
    lambda code: hnp.arrays(
        st.sampled_from([code, np.dtype(code).newbyteorder(">")]),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
    )
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@settings(max_examples=50)
@given(st.dictionaries(NAMES, NUMBERS, max_size=4), NAMES)
def test_arrays_come_back_here_and_in_safetensors(shared_path, arrays, text):
    write(shared_path, arrays, {"text": text})
    found, header = read(shared_path)
    theirs = safetensors.numpy.load_file(shared_path)
    assert header == {"text": text}
    assert found.keys() == theirs.keys() == arrays.keys()
    for name, array in found.items():
        assert array.dtype == arrays[name].dtype.newbyteorder("=")
        assert array.shape == arrays[name].shape
        assert array.tobytes() == arrays[name].astype(array.dtype).tobytes()
        assert array.flags.writeable
        assert array.flags.c_contiguous
        assert_array_equal(array, theirs[name], strict=True)
    with safetensors.safe_open(shared_path, "numpy") as file:
        assert json.loads(file.metadata()["header"]) == header


def test_files_that_safetensors_wrote_are_read(path):
    metadata = {"format": "hdsl", "format_version": "1", "header": '{"a": 1}'}
    arrays = {"x": np.arange(6.0).reshape(2, 3), "y": np.array([True, False])}
    safetensors.numpy.save_file(arrays, path, metadata=metadata)
    found, header = read(path)
    assert header == {"a": 1}
    for name in arrays:
        assert_array_equal(found[name], arrays[name], strict=True)


def test_views_are_written_as_they_look_and_aligned(path):
    A = np.arange(24.0).reshape(4, 6)
    views = {"flags": A[0] > 2, "fortran": np.asfortranarray(A), "short": np.ones(1, "i2"),
             "stride": A[::2, ::-3], "scalar": A[1, 2, ...]}  # fmt: skip
    write(path, views, {"some": "header"})
    for name, array in read(path)[0].items():
        assert_array_equal(array, views[name], strict=True)
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    layout = json.loads(raw[8 : 8 + length])
    assert length % 8 == 0
    for name, array in views.items():
        assert layout[name]["data_offsets"][0] % array.itemsize == 0


def test_same_content_makes_the_same_bytes(path):
    write(path, {name: np.arange(3) for name in "cab"}, {"z": 1, "a": {"y": 2, "b": 3}})
    before = path.read_bytes()
    write(path, {name: np.arange(3) for name in "abc"}, {"a": {"b": 3, "y": 2}, "z": 1})
    assert path.read_bytes() == before


def test_no_bit_can_change_unseen(path):
    header = {"name": 'é,"sha256":"'}  # as the checksum begins
    write(path, {"x": np.array([-2.0]), "é": np.array([True])}, header)
    assert read(path)[1] == header
    raw = path.read_bytes()
    with open(path, "r+b", buffering=0) as file:
        for at in range(8 * len(raw)):
            place, bit = divmod(at, 8)
            for byte in (raw[place] ^ 1 << bit, raw[place]):
                file.seek(place)
                file.write(bytes([byte]))
                if byte != raw[place]:
                    with pytest.raises(ValueError, match="Cannot load"):
                        read(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'":{"', b'": {"'), (b'"x"', b'"\\u0078"'), (b'"sha256":', b'"sha256": ')],
)
def test_the_same_json_in_other_bytes_is_refused(path, old, new):
    write(path, {"x": np.ones(2)}, {"a": [1]})
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    refused(path, compose(raw[8 : 8 + length].replace(old, new, 1), raw[8 + length :]), "checksum")


# --- strings and tables --------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.lists(st.text(st.characters(), max_size=6), max_size=20))  # surrogates too
@example(["", "\n", "\0", "\ud800", "\ud800\udc00", "\U00010000"])
@example(["x" * 200, "y" * 70_000])
def test_strings_come_back(strings):
    assert unpack_strings(pack_strings(strings)) == strings


@pytest.mark.parametrize(
    ("text", "offsets", "fragment"),
    [
        (b"abc", [], "rise from 0 to the 3 bytes"),
        (b"abc", [1, 3], "rise from 0"),
        (b"abc", [0, 2], "rise from 0"),
        (b"abc", [0, 4, 3], "rise from 0"),
        (b"abc", [[0, 3]], "vector"),
        (b"abc", [0.0, 3.0], "integers"),
        ("é".encode(), [0, 1, 2], "not UTF-8"),
        (b"abc", None, "'offsets' is missing"),
    ],
)
def test_broken_strings_are_refused(text, offsets, fragment):
    arrays = {"text": np.frombuffer(text, np.uint8)}
    if offsets is not None:
        arrays["offsets"] = np.array(offsets, dtype=None if offsets else int)
    with pytest.raises(ValueError, match=fragment):
        unpack_strings(arrays)


@st.composite
def tables(draw):
    codes = draw(st.lists(st.sampled_from([*CODES, ">i8", ">f4", "<U1", "<U5"]), min_size=1))
    dtype = np.dtype([(f"c{k}", code) for k, code in enumerate(codes[:6])])
    return draw(hnp.arrays(dtype, st.integers(0, 6)))


@settings(max_examples=50)
@given(tables())
@example(np.array([0x7FF8000000000001, 0xFFF0DEAD00000000, 1 << 63], "u8").view([("nan", "f8")]))
def test_tables_come_back_bit_for_bit(table):
    arrays, layout = pack_table(table, "table")
    others = {"tables.c0": np.ones(9)}
    back = unpack_table(arrays | others, "table", json.loads(json.dumps(layout)))
    assert back.dtype == table.dtype.newbyteorder("<")
    for name in table.dtype.names:
        assert back[name].tobytes() == table[name].astype(back[name].dtype).tobytes()


def test_integers_are_stored_as_narrow_as_they_can_be():
    for low, high, code in [(0, 127, "i1"), (-1, 128, "i2"), (-32769, 0, "i4"), (0, 2**31, "i8")]:
        arrays, _ = pack_table(np.array([(low,), (high,)], dtype=[("n", "i8")]), "t")
        assert arrays["t.n"].dtype == code
        assert arrays["t.n"].tolist() == [low, high]


INTS = np.zeros(2, int)


@pytest.mark.parametrize(
    ("columns", "words", "fragment"),
    [
        ({"n": INTS}, ["a"], "'kind' is missing"),
        ({"n": INTS, "kind": np.zeros(3, int)}, ["a"], r"shape \(2,\), expected \(3,\)"),
        ({"n": INTS[:, None], "kind": INTS}, ["a"], r"\(2, 1\)"),
        ({"n": np.zeros(2), "kind": INTS}, ["a"], "float64, expected int"),
        ({"n": np.zeros(2, "u8"), "kind": INTS}, ["a"], "of uint64"),
        ({"n": INTS, "kind": INTS + 1}, ["a"], "numbers of its 1"),
        ({"n": INTS, "kind": INTS - 1}, ["a"], "numbers of its 1"),
        ({"n": INTS, "kind": np.zeros(2)}, ["a"], "numbers of its 1"),
        ({"n": INTS, "kind": INTS}, None, "list of words"),
        ({"n": INTS, "kind": INTS}, [1], "list of words"),
        ({"n": INTS, "kind": INTS}, ["abc"], "at most 2 char"),
    ],
)
def test_broken_columns_are_refused(columns, words, fragment):
    layout = {"columns": [["n", "<i8"], ["kind", "<U2"]], "words": {"kind": words}}
    with pytest.raises(ValueError, match=fragment):
        unpack_table({f"t.{name}": column for name, column in columns.items()}, "t", layout)


@pytest.mark.parametrize(
    ("columns", "fragment"),
    [
        (None, "does not describe the columns"),
        ([], "does not describe the columns"),
        ([["n"]], "impossible column"),
        ([["n", 8]], "impossible column"),
        ([["n", "O"]], "has dtype 'O', expected"),
        ([["n", "<U1000000000"]], "has dtype '<U1000000000'"),
        ([["n", "<i8"]] * 2, "occurs more than once"),
        ([["", "<f8"]], "'f0' is missing"),
        ([[f"c{k}", "<U99"] for k in range(100)], "would take"),
    ],
)
def test_hostile_layouts_of_tables_are_refused(columns, fragment):
    with pytest.raises(ValueError, match=fragment):
        unpack_table({"t.n": INTS}, "t", {"columns": columns, "words": {}})


def test_tables_of_other_things_are_refused():
    for code in ["O", "S3", "c16", "M8[s]", "2f8", "U100", [("inner", "f8")]]:
        with pytest.raises(ValueError, match=r"'x' has dtype .* expected"):
            pack_table(np.zeros(1, dtype=[("x", code)]), "t")


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
        ({}, {"a": np.ones(2)}, r"header\['a'\] is array.*pass it as an array"),
        ({}, {"a": "x" * HEADER_LIMIT}, "at most .* Pass what is large.* as an array"),
    ],
)
def test_what_cannot_be_written_is_refused_at_once(path, arrays, header, fragment):
    with pytest.raises(ValueError, match=fragment):
        write(path, arrays, header)
    assert not list(path.parent.iterdir())


# --- files that are not what they should be ------------------------------------------------------


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such thing"):
        read(tmp_path / "no such thing")
    with pytest.raises(IsADirectoryError):
        read(tmp_path)


HOSTILE = [
    # files of others
    (b"", "it is empty"),
    (b"abc", "it has 3 bytes"),
    (pickle.dumps(Bomb(), 2), "a pickle"),
    (pickle.dumps(Bomb(), pickle.HIGHEST_PROTOCOL), "a pickle"),
    (saved_by(np.savez), "a zip archive"),
    (saved_by(np.save), "a NumPy array"),
    (gzip.compress(b"text", mtime=0), "a gzip file"),
    (b"<!DOCTYPE html><html>404</html>", "HTML or XML"),
    (b'{"atoms": [[0, 1, 1]]}', "JSON"),
    (b"0.5 1:0.25 7:1\n", "something else"),
    (safetensors.numpy.save({"x": np.ones(3)}), "of another program"),
    (compose({}, format="pt"), "of another program"),
    (compose(b'{"__metadata__": ["hdsl"]}'), "of another program"),
    # the JSON text
    (compose({"x": {"new": 3}}, format_version="4", header='{"versions": {"hdsl": "9.1"}}'),
     "written by hdsl 9.1, format 4; this hdsl reads up to format 3: upgrade hdsl."),
    *[(compose({}, format_version=v), "format version") for v in (None, 1, "0", "1.0", "9" * 5000)],
    (b"\xff" * 7 + b"\x7f" + b"{}", "not a model file"),
    ((HEADER_LIMIT + 1).to_bytes(8, "little") + b"{" * 100, "not a model file"),
    ((1000).to_bytes(8, "little") + b"{}", "ends within its header"),
    (compose(b"{"), "its JSON text cannot be read"),
    (compose(b'{"\xff": 1}'), "its JSON text is not UTF-8"),
    (compose(b"[1, 2]"), "not a model file"),
    (compose(b'{"x": 1, "x": 1}'), "'x' occurs twice"),
    (compose({}, header="[" * 100_000), "its header cannot be read: it is nested too deeply"),
    (compose({}, header="[]"), "its header is [], not a JSON object"),
    (compose({}, header=None), "header is missing"),
    (compose({}, other="text"), "unknown names ['other']"),
    # the arrays
    (compose({"x": 1}), "lacks dtype"),
    (compose({"x": {"dtype": "F64"}}), "lacks dtype"),
    (array(dtype="BF16"), "unknown dtype 'BF16'"),
    (array(dtype="O" * 10**6), "unknown dtype"),
    (array(shape=[-2]), "impossible shape [-2]"),
    (array(shape=[2.0]), "impossible shape"),
    (array(shape=[True]), "impossible shape"),
    (array(shape=[1] * 65), "impossible shape"),
    (array(shape=[0, 2**62], offsets=[0, 0]), "impossible shape"),
    (array(shape=[2**30, 2**30], offsets=[0, 2**63 - 1]), "impossible shape"),
    (array(bytes(16), shape=[2**40], offsets=[0, 2**43]), "ends too early"),
    (array(offsets=[-16, 0]), "impossible offsets"),
    (array(offsets=[0, 16, 32]), "impossible offsets"),
    (array(offsets=[16, 0]), "its offsets say -16"),
    (array(bytes(15), offsets=[0, 15]), "takes 16 bytes"),
    (array(bytes(24), offsets=[8, 24]), "starts at byte 8, expected 0"),
    (array(bytes(15)), "ends too early: 15 bytes of arrays, expected 16"),
    (array(bytes(17)), "goes on after its last array"),
    (array(bytes(16), y=entry()), "starts at byte 0, expected 16"),
    (array(bytes(33), y=entry(offsets=[17, 33])), "starts at byte 17"),
    (array(b"\0\1\2", "BOOL", [3], [0, 3]), "neither 0 nor 1"),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "fragment"), HOSTILE)
def test_other_and_hostile_files_are_refused(path, raw, fragment):
    refused(path, raw, fragment)


def test_no_memory_is_taken_for_what_is_not_there(path, monkeypatch):
    monkeypatch.setattr(np, "empty", lambda *args, **kwargs: pytest.fail("memory was taken"))
    refused(path, array(shape=[2**50], offsets=[0, 2**53]), "ends too early")
    refused(path, array(bytes(16), y=entry("F16", [1], [16, 19])), "takes 2 bytes")


@pytest.mark.parametrize(
    ("raw", "limit"),
    [
        # Large beside the 128 KiB that a file's buffer takes from Python 3.14 on.
        (array(bytes(8 * 10**6), shape=[10**6], offsets=[0, 8 * 10**6]), 1.1),
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


@pytest.mark.parametrize(
    ("owner", "call", "fragment"),
    [(hashlib, "sha256", "its checksum is wrong"), (np, "empty", "became shorter")],
)
def test_a_file_that_shrinks_while_it_is_read(path, monkeypatch, owner, call, fragment):
    write(path, {"x": np.ones(100_000)}, {})
    true = getattr(owner, call)

    def shrink(*args):
        os.truncate(path, 1000)
        return true(*args)

    monkeypatch.setattr(owner, call, shrink)
    with pytest.raises(ValueError, match=fragment):
        read(path)


def test_the_end_of_a_large_file_is_checked(path):
    write(path, {"x": np.arange(400_000.0)}, {})
    raw = bytearray(path.read_bytes())
    raw[-5] ^= 1
    refused(path, raw, "its checksum is wrong, so some byte in it has changed")
