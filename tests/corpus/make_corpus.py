"""Make the files that fuzzing starts from and that must be refused, as far as a recipe makes them.

    python tests/corpus/make_corpus.py

Names start with ``good`` where a file must be read and with ``bad`` where it must be refused. Files
that fuzzing found have no recipe; they are named ``good-found-*`` or ``bad-found-*`` and stay. What
has to be large to be hostile is made in tests/test_hostile_files.py.
"""

import bz2
import gzip
import io
import json
import os
import pickle
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse as sp

from hdsl import HDSL, LocalHDSL, SimilarityClassifier, text
from hdsl.files import container
from hdsl.files.tables import pack_strings
from hdsl.saving import save

HERE = Path(__file__).parent
NONE = np.zeros(0, dtype=np.int32)
X = np.array([[1.0, 0.0, 2.5], [0.0, -3.0, 0.0], [0.0, 0.0, 0.0], [4.0, 5.0, 0.0]])
Y = np.array([1, -1, 1, 2])
BANNER = b"%%MatrixMarket matrix coordinate real general\n"
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


def tensors(header=None, body=None, **changes):
    """The good model with another header, or other entries of it."""
    raw = (HERE / "model" / "good.hdsl").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    if header is None:
        layout = json.loads(raw[8 : 8 + length])
        del layout["__metadata__"]["sha256"]  # what is below it shall be read
        inner = json.loads(layout["__metadata__"]["header"])
        layout["__metadata__"]["header"] = json.dumps({**inner, **changes})
        header = json.dumps(layout).encode()
    return (
        len(header).to_bytes(8, "little") + header + (raw[8 + length :] if body is None else body)
    )


def models():
    texts = ["a late goal", "the goal of a match", "profit fell", "the bank cut its profit"]
    vectorizer = text.make_vectorizer(ngrams=2)
    rows = sp.csr_array(vectorizer.fit_transform(texts))
    labels = np.array(["sport", "sport", "money", "money"], dtype=object)
    model = HDSL(scale=2.0, prior=0.5, n_targets=1, n_impostors=1, max_iter=4, random_state=0)
    model.fit(rows, labels)
    model.trace_["seconds"] = 0.0  # the same bytes each time
    model.feature_names_in_ = vectorizer.get_feature_names_out()
    for reader in ("model", "documents"):
        (HERE / reader).mkdir(exist_ok=True)
    kept = text.Collection(
        X=rows, labels=labels, texts=np.array(texts, dtype=object), part=np.array([0, 0, 1, 2]),
        vectorizer=vectorizer, columns={"text": "body", "label": "topic"},
    )  # fmt: skip
    model.save(HERE / "model" / "good.hdsl")
    save(model, HERE / "documents" / "good.hdsl", kept.to_extra())
    save(model, HERE / "documents" / "good-plain.hdsl", text.Collection().to_extra())
    nested = "[" * 500 + "]" * 500
    changed = bytearray((HERE / "model" / "good.hdsl").read_bytes())
    changed[-9] ^= 1
    huge = {"x": {"dtype": "F64", "shape": [2**50], "data_offsets": [0, 2**53]}}
    mark = {"__metadata__": {"format": "hdsl", "format_version": "1", "header": "{}"}}
    for name, content in {
        "empty": b"",
        "pickle": pickle.dumps(Trap()),
        "nested-params": tensors(params={"scale": json.loads(nested)}),
        "huge-array": tensors(json.dumps({**mark, **huge}).encode(), b""),
        "huge-header": b"\xff\xff\xff\xff\xff\xff\xff\x7f{}",
        "huge-count": tensors(n_iter=10**4000),
        "infinite-scale": tensors(scale=1e999).replace(b"Infinity", b"1e999   "),
        "twice": tensors(b'{"a": 1, "a": 2}'),
        "changed": changed,
    }.items():
        put("model", f"bad-{name}.hdsl", content)


def classifiers():
    rng = np.random.default_rng(0)
    rows, labels = sp.csr_array(rng.random((12, 4)).round(1)), np.repeat(["ham", "spam"], 6)
    small = {"prior": 0.5, "n_targets": 1, "n_impostors": 1, "max_iter": 4, "random_state": 0}
    model, local = HDSL(2.0, **small), LocalHDSL(2, scale=2.0, **small).fit(rows, labels)
    local.save(HERE / "model" / "good-local.hdsl")
    (HERE / "classifier").mkdir(exist_ok=True)
    paths = {}
    for name, similarity, X_, y in (
        ("good", model, rows, labels),
        ("good-local", local, rows, np.arange(12) % 3),
        ("good-plain", None, rows.toarray(), labels),
    ):
        made = SimilarityClassifier(similarity, loss="log_loss", C=50.0, random_state=0).fit(X_, y)
        paths[name] = HERE / "classifier" / f"{name}.hdsl"
        made.save(paths[name])
    arrays, header = container.read(paths["good"])
    content = header["classifier"]
    long = pack_strings([*map(str, range(100, 300)), "x" * 900])
    several = {"classes.text": long["text"], "classes.offsets": long["offsets"]}
    several |= {"coef": np.ones((201, 1)), "intercept": np.zeros(201)}
    for name, other, changes in (
        ("rows", {"rows_indices": arrays["rows_indices"] + 100}, {}),
        ("pointers", {"rows_indptr": arrays["rows_indptr"] * 0 + 2**62}, {}),
        ("landmarks", {"landmarks": arrays["landmarks"] * 0}, {}),
        ("classes", {"classes.text": np.frombuffer(b"spamham", np.uint8)}, {}),
        ("wide-classes", several, {"classes": "<U90000"}),
        ("infinite", {"coef": arrays["coef"] * np.inf}, {}),
        ("loss", {}, {"params": content["params"] | {"loss": "x" * 3000}}),
        ("features", {}, {"n_features_in": 2**63}),
    ):
        path = HERE / "classifier" / f"bad-{name}.hdsl"
        changed = {"classifier": content | changes, "versions": header["versions"]}
        container.write(path, arrays | other, changed, version=3)


def matrices():
    lines = b"1 1:1 3:2.5 # note\n-1 qid:3 2:-3\n1\n2 1:4 2:5\n"
    put("svmlight", "good.svm", lines)
    put("svmlight", "good-words.svm", b"\xef\xbb\xbfspam 1:1\r\n\r\nham 2:1e-3\r\n")
    for name, content in {
        "index-int64": b"1 9223372036854775808:1\n",
        "index-digits": b"1 %s:1\n" % (b"9" * 5000),
        "infinite": b"1 1:1e999\n",
        "long-line": b"1 1:1\n1 " + b"x" * 9000,
        "latin-1": b"1 1:1\n\xe9 1:1\n",
        "zeros": bytes(1000),
        "empty": b"",
    }.items():
        put("svmlight", f"bad-{name}.svm", content)
    put("gzip", "good.svm.gz", gzip.compress(lines, mtime=0))
    put("gzip", "bad-cut.svm.gz", gzip.compress(lines * 9, mtime=0)[:-9])

    entries = BANNER + b"% note\n4 3 5\n1 1 1\n1 3 2.5\n2 2 -3\n4 1 4\n4 2 5\n"
    symmetric = BANNER.replace(b"general", b"symmetric") + b"3 3 2\n2 1 1\n3 3 2\n"
    full = b"%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n"
    put("matrix_market", "good.mtx", entries)
    put("matrix_market", "good-symmetric.mtx", symmetric)
    put("matrix_market", "good-full.mtx", full)
    for name, sizes in {
        "rows": b"1000000000000000 3 1",
        "columns": b"3 9223372036854775807 1",
        "entries": b"3 3 1000000000000000",
    }.items():
        put("matrix_market", f"bad-{name}.mtx", BANNER + sizes + b"\n1 9007199254740993 1\n")
    put("bzip2", "good.mtx.bz2", bz2.compress(entries))

    put("nips2003", "good-sparse.data", b"1:1 3:2.5\n2:-3\n\n1:4 2:5\n")
    put("nips2003", "good-ones.data", b"1 3\n\n2\n")
    put("nips2003", "good-full.data", b"1 3.5\n2 -1\n")
    put("nips2003", "bad-index.data", b"1 3\n99999999999\n")

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

    variables = {"fea": sp.csc_array(X), "gnd": Y[:, None]}
    for name, options in (("good", {}), ("good-packed", {"do_compression": True})):
        for ending, rows in (("", sp.csc_array(X)), ("-full", X)):
            content = saved(scipy.io.savemat, {**variables, "fea": rows}, **options)
            put("mat", f"{name}{ending}.mat", b"MATLAB 5.0 MAT-file".ljust(116) + content[116:])


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
    models()
    classifiers()
    matrices()
    judgements()
    total = sum(path.stat().st_size for path in HERE.rglob("*.*"))
    sys.stdout.write(f"{total / 1000:.0f} kB\n")
