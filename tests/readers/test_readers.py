"""Files written by scikit-learn, SciPy or a test are read back; bad files are refused."""

import bz2
import gzip
import io
import tracemalloc
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal
from sklearn.datasets import dump_svmlight_file

from hdsl.readers import DataFileError, files, read_labels, read_matrix, tables

VALUES = st.just(0.0) | st.floats(-1e6, 1e6, allow_subnormal=False)
SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 7))
COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}


@st.composite
def dense(draw, elements=VALUES):
    return draw(arrays(np.float64, draw(SHAPES), elements=elements))


@pytest.fixture
def put(tmp_path):
    """Write bytes or text to a file of this name; return its path."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def read_back(name, content, **options):
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        X, y = read_matrix(path, **options)
    assert isinstance(X, sp.csr_array)
    assert X.dtype == np.float64
    assert X.has_canonical_format
    assert X.indices.dtype == X.indptr.dtype == np.int32
    assert X.data.all()
    return X.toarray(), y


def saved(X, **options):
    stream = io.BytesIO()
    sp.save_npz(stream, X, **options)
    return stream.getvalue()


def saved_arrays(**members):
    stream = io.BytesIO()
    np.savez(stream, **members)
    return stream.getvalue()


# --- round trips ----------------------------------------------------------------------


@given(dense(), st.data(), st.sampled_from(sorted(COMPRESS)), st.booleans())
def test_svmlight_is_read_back(X, data, ending, zero_based):
    y = data.draw(arrays(np.float64, len(X), elements=st.floats(-100, 100)))
    stream = io.BytesIO()
    dump_svmlight_file(X, y, stream, zero_based=zero_based)
    # The writer gives 16 digits; what they mean is what must come back.
    text = stream.getvalue()
    width = X.shape[1]
    read, labels = read_back(
        f"rows.svm{ending}",
        COMPRESS[ending](text),
        n_features=width,
        zero_based=zero_based,
    )
    np.testing.assert_allclose(read, X, rtol=1e-14, atol=0)
    np.testing.assert_allclose(labels, y, rtol=1e-14, atol=0)


@given(
    st.lists(st.text(st.characters(codec="utf-8", categories=["L", "N"])), min_size=1)
)
def test_svmlight_keeps_words_as_labels(names):
    names = [*(f"_{name}" for name in names), "_"]
    lines = [f"{name} {i + 1}:1.5 # {i}" for i, name in enumerate(names)]
    X, y = read_back("rows", "\n".join(lines).encode())
    assert y.tolist() == names
    assert_array_equal(X, 1.5 * np.eye(len(names)))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["1", "-1", "+1"], np.array([1, -1, 1])),
        (["1", "2.5", "1e3"], np.array([1, 2.5, 1000])),
        (["1", "spam", "2"], np.array(["1", "spam", "2"], dtype=object)),
        (["1,2", "3", "4"], np.array(["1,2", "3", "4"], dtype=object)),
    ],
)
def test_labels_are_the_simplest_kind_that_holds_them(put, labels, expected):
    y = read_matrix(put("rows.txt", "".join(f"{label} 1:1\n" for label in labels)))[1]
    assert_array_equal(y, expected)
    assert y.dtype == expected.dtype
    long = read_labels(put("long.labels", "9007199254740993\n9007199254740992\n"))
    assert long.tolist() == ["9007199254740993", "9007199254740992"]
    text = read_labels(put("y.labels", "\n".join(labels) + "\n"))
    assert_array_equal(text, expected)
    assert text.dtype == expected.dtype


def test_svmlight_skips_comments_empty_lines_queries_and_the_byte_order_mark(put):
    path = put(
        "rows.svm", b"\xef\xbb\xbf1 qid:3 2:4 # note\r\n\n# all of it\n  2\t1:1\n"
    )
    X, y = read_matrix(path)
    assert_array_equal(X.toarray(), [[0, 4], [1, 0]])
    assert y.tolist() == [1, 2]


@given(
    dense(), st.sampled_from(["csr", "csc", "coo"]), st.booleans(), st.integers(0, 3)
)
def test_npz_is_read_back(X, kind, compressed, more):
    content = saved(sp.csr_array(X).asformat(kind), compressed=compressed)
    read, y = read_back("X.npz", content, n_features=X.shape[1] + more)
    assert_array_equal(read[:, : X.shape[1]], X)
    assert not read[:, X.shape[1] :].any()
    assert read.shape[1] == X.shape[1] + more
    assert y is None


# --- bad text -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (b"1 1:2\n1 2:x\n", 2, r"expected 'index:value'\. Got '2:x' in '1 2:x'"),
        (b"1 1:2\n\n# note\n1 7\n", 4, "expected 'index:value'. Got '7'"),
        (b"1 0:2\n", 1, r"index >= 1\. Got '0:2'.*zero_based=True"),
        (b"1 3:1 2:1\n", 1, "index > 3: they must increase. Got '2:1'"),
        (b"1 99999999999999999999:1\n", 1, "index <= 2147483646. Got"),
        (b"1 1:1\n1 1:nan\n", 2, "finite value. Got '1:nan'"),
        (b"1 1:1\nnan 1:1\n", 2, "finite label"),
        (b"1:1 2:1\n", 1, "a label before the first 'index:value'"),
        (b"1 1:1\n1 \xff:1\n", 2, r"UTF-8 text\. Got '1 \\\\xff:1'"),
        (b"1 1:1\n1\0 1:1\n", 2, "UTF-8"),
        (b"1 1:1\n" + b"1 " + b"a" * 10_000, 2, r"a{30,60}\.\.\."),
        (b"1 1:1\n1 1_0:1\n", 2, "digits. Got '1_0:1'"),
        (b"1 1:1\n1 1:1_0\n", 2, "digits. Got '1:1_0'"),
        (b"1 1:1\n1 " + b"9" * 4000 + b":1\n", 2, r"9{30,60}\.\.\."),
    ],
)
def test_bad_svmlight_is_refused_with_the_line(put, text, line, message):
    with pytest.raises(DataFileError, match=message) as caught:
        read_matrix(put("rows.svm", text))
    assert f"rows.svm, line {line}: expected " in str(caught.value)
    assert len(str(caught.value)) < 400


def test_indices_beyond_n_features_are_refused(put):
    message = r"line 2: expected an index <= 3 \(n_features=3\)\. Got '4:1'"
    with pytest.raises(DataFileError, match=message):
        read_matrix(put("rows.svm", "1 3:1\n1 4:1\n"), n_features=3)
    with pytest.raises(DataFileError, match="has 4 columns, more than n_features=3"):
        read_matrix(put("X.npz", saved(sp.csr_array((2, 4)))), n_features=3)


# --- bad binary files -----------------------------------------------------------------


def csr_members(**changes):
    members = {
        "format": "csr",
        "shape": [1, 2],
        "data": [1.0],
        "indices": [0],
        "indptr": [0, 1],
    }
    return saved_arrays(**{**members, **changes})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK, but no more", "not a zip file"),
        (saved_arrays(a=np.eye(2)), "sparse"),
        (saved(sp.eye_array(3).todia()), r"a dia array.*Convert it with \.tocsr\(\)"),
        (csr_members(data=[1j]), "complex"),
        (csr_members(data=[None]), "pickled Python objects"),
        (csr_members(data=[np.nan]), r"X\.npz\[0, 0\] is NaN"),
        (csr_members(indices=[-1]), "damaged"),
        (csr_members(indptr=[0, 7]), "X.npz"),
        (csr_members(shape=[-1, 2]), "impossible shape"),
        (
            csr_members(format="coo", row=[], col=[], data=[], shape=[-3, -2]),
            "impossible shape",
        ),
        (csr_members(format="csc", shape=[10**15, 1]), r"1e.15 rows, more than"),
        (csr_members(format="odd"), "X.npz"),
    ],
)
def test_bad_npz_is_refused(put, content, message):
    with pytest.raises(DataFileError, match=message):
        read_matrix(put("X.npz", content))


def test_an_archive_of_very_many_members_is_refused_at_once(tmp_path):
    path = tmp_path / "X.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for k in range(2000):
            archive.writestr(f"{k}.npy", b"")
    with (
        mock.patch("zipfile.ZipFile", side_effect=AssertionError),
        pytest.raises(DataFileError, match="members"),
    ):
        read_matrix(path)


@pytest.mark.parametrize("y", [np.eye(2), np.array([1j]), np.array(3.0)])
def test_npy_without_labels_is_refused(put, tmp_path, y):
    np.save(tmp_path / "y.npy", y)
    with pytest.raises(DataFileError, match="must hold a vector of labels"):
        read_labels(tmp_path / "y.npy")


# --- all formats ----------------------------------------------------------------------


@pytest.mark.parametrize("content", [b" \n\n", b"# a\n# b\n"])
def test_blank_files_are_refused(put, content):
    with pytest.raises(DataFileError, match=r"is empty|has no rows"):
        read_matrix(put("rows.svm", content))


BOMBS = {
    "X.npz": lambda: saved_arrays_compressed(np.zeros(2**21)),
    "rows.svm.gz": lambda: gzip.compress(b"1 1:2\n" + b" " * 2**24),
    "rows.svm.bz2": lambda: bz2.compress(b"1 1:2\n" + b" " * 2**24),
    "pairs.svm.gz": lambda: gzip.compress(b"1 1:1\n" * 10**6),  # parsing takes more
    "ones.npz": lambda: saved(
        sp.csr_array(np.ones((1000, 1000), np.int8)), compressed=True
    ),
}


def saved_arrays_compressed(data):
    stream = io.BytesIO()
    np.savez_compressed(stream, data=data)
    return stream.getvalue()


@pytest.mark.parametrize("name", BOMBS)
def test_files_that_expand_too_much_are_refused_before_memory_is_allocated(
    put, monkeypatch, name
):
    monkeypatch.setattr(files, "FREE_BYTES", 2**20)
    path = put(name, BOMBS[name]())
    tracemalloc.start()
    try:
        with pytest.raises(DataFileError, match="over 200 times its size"):
            read_matrix(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**23  # half of what it expands to


def test_records_name_the_columns_of_a_table_together(tmp_path):
    path = tmp_path / "table.jsonl"
    path.write_text('{"id": 1}\n{"id": 2, "title": "an apple"}\n', encoding="utf-8")
    assert tables.read_columns(path) == {"id": [1, 2], "title": [None, "an apple"]}
