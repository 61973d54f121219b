"""Make the files that fuzzing starts from and that must be refused, as far as a recipe makes them.

    python tests/corpus/make_corpus.py

Names start with ``good`` where a file must be read and with ``bad`` where it must be refused. Files
that fuzzing found have no recipe; they are named ``good-found-*`` or ``bad-found-*`` and stay. What
has to be large to be hostile is made in tests/readers/test_hostile_files.py, and model files in
tests/fuzz.py.
"""

import gzip
import io
import json
import os
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

HERE = Path(__file__).parent
NONE = np.zeros(0, dtype=np.int32)
X = np.array([[1.0, 0.0, 2.5], [0.0, -3.0, 0.0], [0.0, 0.0, 0.0], [4.0, 5.0, 0.0]])
Y = np.array([1, -1, 1, 2])
COLUMNS = ("anchor", "positive", "negative", "weight")
JUDGED = [("0", "1", "2", "1"), ("1", "2", "3", "0.5"), ("3", "0", "1", "2")]


class Trap:
    """A pickle that leaves a mark when it is opened."""

    def __reduce__(self):
        return os.mkdir, ("sprung",)


def put(reader, name, content):
    folder = HERE / reader
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)


def saved(write, *args, **options):
    stream = io.BytesIO()
    write(stream, *args, **options)
    return stream.getvalue()


def zipped(how=zipfile.ZIP_DEFLATED, **members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", how) as archive:
        for name, content in members.items():
            member = zipfile.ZipInfo(f"{name}.npy")  # of 1980: the same bytes each time
            archive.writestr(member, content, how)
    return stream.getvalue()


def npy(value, **options):
    return saved(np.save, np.asarray(value), **options)


def npy_claim(shape, descr="<f8", content=b"12345678"):
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    return saved(np.lib.format.write_array_header_1_0, header) + content


def npy_text(text, version=1):
    """A .npy file with any header."""
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text


def csr(how=zipfile.ZIP_DEFLATED, **changes):
    X_ = sp.csr_array(X)
    members = {"format": b"csr", "shape": X_.shape, "data": X_.data}
    members |= {"indices": X_.indices, "indptr": X_.indptr}
    members = {name: npy(value) for name, value in members.items()}
    return zipped(how, **{**members, **changes})


def matrices():
    lines = b"1 1:1 3:2.5 # note\n-1 qid:3 2:-3\n1\n2 1:4 2:5\n"
    put("svmlight", "good.svm", lines)
    put("svmlight", "good-words.svm", b"\xef\xbb\xbfspam 1:1\r\n\r\nham 2:1e-3\r\n")
    for name, content in {
        "index-int64": b"1 9223372036854775808:1\n",
        "index-digits": b"1 %s:1\n" % (b"9" * 5000),
        "underscore": b"1 1:1\n1 1_0:1_0\n",
        "infinite": b"1 1:1e999\n",
        "long-line": b"1 1:1\n1 " + b"x" * 9000,
        "latin-1": b"1 1:1\n\xe9 1:1\n",
        "zeros": bytes(1000),
        "empty": b"",
    }.items():
        put("svmlight", f"bad-{name}.svm", content)
    put("gzip", "good.svm.gz", gzip.compress(lines, mtime=0))
    put("gzip", "bad-cut.svm.gz", gzip.compress(lines * 9, mtime=0)[:-9])

    put("npz", "good.npz", csr())
    put("npz", "good-stored.npz", csr(zipfile.ZIP_STORED))
    coo = sp.coo_array(X)
    members = {"format": b"coo", "shape": X.shape, "data": coo.data, "row": coo.row, "col": coo.col}
    put("npz", "good-coo.npz", zipped(**{name: npy(value) for name, value in members.items()}))
    trap = np.array([Trap()], dtype=object)
    for name, content in {
        "pickle": csr(data=npy(trap, allow_pickle=True)),
        "claim": csr(data=npy_claim((10**15,))),
        "negative": csr(data=npy_claim((-1, -1))),
        "shape": csr(shape=npy([-4, 3])),
        "members": csr(**{f"m{k}": npy([]) for k in range(99)}),
        "index": csr(indices=npy([0, 2, 1, 0, 3])),
        "rows": csr(format=npy(b"csc"), shape=npy([10**15, 4])),
        "lzma": csr(zipfile.ZIP_LZMA),
        # SciPy's own check lets these two pass, and its loops would leave the arrays.
        "indptr": csr(data=npy([]), indices=npy(NONE), indptr=npy(np.array([0, 2, 2**24, 0, 0]))),
        "overflow": csr(indptr=npy(np.array([0, 2 * 10**9, -2 * 10**9, 1, 5], dtype=np.int32))),
        "minus": csr(data=npy_text(b"-" * 9000 + b"1\n")),
    }.items():
        put("npz", f"bad-{name}.npz", content)

    for reader, value in (("npy", Y), ("triplets", np.array([[0, 1, 2], [1, 2, 3]]))):
        put(reader, "good.npy", npy(value))
        for name, content in {
            "pickle": npy(trap, allow_pickle=True),
            "claim": npy_claim((10**12, 3)),
            "void": npy_claim((10**15,), "|V0", b""),
            "minus": npy_text(b"-" * 9000 + b"1\n"),
            "long": npy_text(b"(" * 9000, 2),
            "header": b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}",
            "zip": csr(),
            "empty": b"",
        }.items():
            put(reader, f"bad-{name}.npy", content)
    put("npy", "good-words.npy", npy(["spam", "ham"]))
    put("labels", "good.labels", b"1\n-1\n1\n2\n")
    put("labels", "good-words.labels", "späm\nham\n".encode())
    put("labels", "bad-infinite.labels", b"1\n1e999\n")


def judgements():
    table = [COLUMNS, *JUDGED]
    put("csv", "good.csv", b"".join(",".join(row).encode() + b"\r\n" for row in table))
    put("csv", "good-quoted.csv", b'\xef\xbb\xbfweight,anchor,positive,negative\n1,"0","1",2\n')
    put("tsv", "good.tsv", b"".join("\t".join(row).encode() + b"\n" for row in table))
    records = [
        {**dict(zip(COLUMNS, map(int, row[:3]), strict=False)), "weight": float(row[3])}
        for row in JUDGED
    ]
    good = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    put("jsonl", "good.jsonl", good)
    for name, content in {
        "digits": b"anchor,positive,negative,weight\n%s,1,2,1\n" % (b"9" * 5000),
        "columns": b",".join(b"column%d" % k for k in range(1000)) + b"\n",
        "int64": b"anchor,positive,negative,weight\n9223372036854775808,1,2,1\n",
        "open-quote": b'anchor,positive,negative,weight\n"' + b"0,1,2,1\n" * 1000,
        "zeros": bytes(1000),
        "empty": b"",
    }.items():
        put("csv", f"bad-{name}.csv", content)
    for name, line in {
        "digits": good.splitlines()[0].replace(b'"anchor": 0', b'"anchor": %s' % (b"9" * 5000)),
        "int64": good.splitlines()[0].replace(b'"anchor": 0', b'"anchor": 9223372036854775808'),
        "twice": good.splitlines()[0].replace(b'"anchor": 0', b'"anchor": 0, "anchor": 1'),
        "infinite": good.splitlines()[0].replace(b'"weight": 1.0', b'"weight": 1e999'),
    }.items():
        put("jsonl", f"bad-{name}.jsonl", good + line + b"\n")

    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: [record[name] for record in records] for name in COLUMNS}
    packed = saved(lambda stream, table: pq.write_table(table, stream), pa.table(columns))
    put("parquet", "good.parquet", packed)
    put("parquet", "bad-cut.parquet", packed[:-9])
    put("parquet", "bad-zeros.parquet", b"PAR1" + bytes(1000) + b"PAR1")
    words = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(100_000, dtype=np.int32)), pa.array(["x" * 50_000])
    )
    words = pa.table(dict.fromkeys(COLUMNS, words))
    put(
        "parquet", "bad-words.parquet",
        saved(lambda stream: pq.write_table(words, stream, store_schema=False)),
    )  # fmt: skip


if __name__ == "__main__":
    matrices()
    judgements()
    total = sum(path.stat().st_size for path in HERE.rglob("*.*"))
    sys.stdout.write(f"{total / 1000:.0f} kB\n")
