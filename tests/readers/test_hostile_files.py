"""Damaged, hostile and missing files: each is read, or refused with a clear message.

tests/corpus has the files, tests/fuzz.py the readers, the damage and the long runs.
"""

import ast
import gzip
import io
import os
import random
import subprocess
import sys
import tracemalloc
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import fuzz
import structure


def skip_without_library(name):
    """Skip if the library that a reader needs is not installed."""
    if name == "parquet":
        pytest.importorskip("pyarrow")


# --- the corpus, and damage to it -----------------------------------------------------


# NumPy's, about headers of old versions.
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_good_files_of_the_corpus_are_read_and_bad_ones_refused(name):
    skip_without_library(name)
    for path in fuzz.corpus(name):
        refused = fuzz.attempt(name, path) is not None
        assert refused == path.name.startswith("bad"), path


seeds = cache(fuzz.seeds)


@pytest.mark.filterwarnings("ignore")  # libraries may warn about damaged files
@pytest.mark.parametrize("name", fuzz.TARGETS)
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), data=st.data())
def test_damaged_files_are_read_or_refused(name, seed, data):
    skip_without_library(name)
    start = data.draw(st.sampled_from(seeds(name)))
    rng = random.Random(seed)
    with TemporaryDirectory() as folder:
        path = Path(folder, f"file{fuzz.TARGETS[name].suffix}")
        path.write_bytes(fuzz.mutated(start, name, rng))
        fuzz.attempt(name, path)


#: One of so many files with another value is read in a test, and all in a slow one.
STRIDE = {"model": 2003, "linker": 1009, "checkpoint": 401}


others_of = cache(fuzz.with_other_values)


def check_other_values(name, first, stride):
    """Read files with another value in one field each."""
    for start in seeds(name):
        with TemporaryDirectory() as folder:
            path = Path(folder, f"file{fuzz.TARGETS[name].suffix}")
            for where, make in others_of(start)[first::stride]:
                path.write_bytes(make())
                try:
                    fuzz.attempt(name, path)
                except fuzz.BrokenPromise as error:
                    raise AssertionError(where) from error


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", fuzz.MADE)
@settings(max_examples=3)
@given(st.integers(0, 10_000))
def test_other_values_in_the_fields_of_a_sealed_file_are_refused_or_used(name, first):
    check_other_values(name, first % STRIDE[name], STRIDE[name])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", fuzz.MADE)
def test_each_other_value_in_each_field_is_refused_or_used(name):
    check_other_values(name, 0, 1)


# --- large hostile files --------------------------------------------------------------

EXPANDED = 70 * 2**20  # more than a small file may expand to
JUDGED = b'{"anchor": 0, "positive": 1, "negative": 2, "weight": 1.0}\n'


def npz_bomb():
    stream = io.BytesIO()
    np.savez_compressed(stream, data=np.zeros(EXPANDED // 8))
    return stream.getvalue()


def parquet(values, **options):
    """Return a file of judgements whose columns all have these values."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    stream = io.BytesIO()
    table = pa.table(dict.fromkeys(JUDGED.decode().split('"')[1::2], pa.array(values)))
    pq.write_table(table, stream, **options)
    return stream.getvalue()


LARGE = {
    "gzip": [lambda: gzip.compress(b"1 1:1\n" + b" " * EXPANDED, 1)],
    "npz": [npz_bomb],
    "model": [
        lambda: (500_000).to_bytes(8, "little") + b'{"a":' * 100_000,
        lambda: (2**22).to_bytes(8, "little") + b"{" + b"[" * (2**22 - 1),
        lambda: (2**40).to_bytes(8, "little") + b"{}",
    ],
    "jsonl": [
        lambda: b"[" * 100_000,
        # A NumPy column of strings would take gigabytes.
        lambda: JUDGED * 5000 + JUDGED.replace(b"0,", b'"%s",' % (b"x" * 500_000), 1),
        lambda: JUDGED.replace(b"0,", b'{"a": 1},', 1),
    ],
    "csv": [
        lambda: b"anchor,positive,negative,weight\n" + b"x" * 140_000 + b",1,2,3\n"
    ],
    "parquet": [  # many rows, and long texts, that are all the same, in few bytes
        lambda: parquet(np.zeros(3_000_000, dtype=np.int8)),
        lambda: parquet(
            ["x" * 10_000_000] * 40, compression="zstd", use_dictionary=False
        ),
    ],
}

CHILD = """
import sys
from pathlib import Path

sys.path.insert(0, {tests!r})
import fuzz

names = {names!r}
hdsl_file = Path("good.hdsl")
hdsl_file.write_bytes(fuzz.model_bytes()[0])
fuzz.attempt("model", hdsl_file)
for name in names:
    for path in fuzz.corpus(name, "good"):
        fuzz.attempt(name, path)  # import and start threads before memory is limited


def watch(event, args):
    if event in forbidden:
        print("FAULT", event, args, flush=True)
        raise SystemExit(event)


forbidden = {{"exec", "pickle.find_class", "os.system", "subprocess.Popen", "os.exec", "os.mkdir",
             "os.posix_spawn", "os.fork", "marshal.loads", "socket.connect", "shutil.rmtree"}}
fuzz.limit_memory({limit})
sys.addaudithook(watch)
for path in sorted(Path(".").glob("*/*")) + [p for name in names for p in fuzz.corpus(name, "bad")]:
    try:
        refusal = fuzz.attempt(path.parent.name, path)
    except fuzz.BrokenPromise as error:
        refusal = None
        print("FAULT", path, error, repr(error.__cause__)[:500], flush=True)
    if refusal is None:
        print("FAULT", path, "was not refused", flush=True)
print("DONE")
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="memory is limited as on Linux"
)
def test_hostile_files_take_little_memory_and_run_nothing(tmp_path):
    """A process that may allocate 250 MB more and run no code refuses each of them."""
    names = [name for name in fuzz.TARGETS if name not in fuzz.MADE or name == "model"]
    for name, makers in LARGE.items():
        (tmp_path / name).mkdir()
        for k, make in enumerate(makers):
            (tmp_path / name / f"large-{k}{fuzz.TARGETS[name].suffix}").write_bytes(
                make()
            )
    code = CHILD.format(
        tests=str(Path(__file__).parents[1]), names=names, limit=250 * 2**20
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout == "DONE\n", done.stdout + done.stderr[-3000:]
    assert not (tmp_path / "sprung").exists()  # the pickles of the corpus make it


N = 2**15
HEAVY = {
    "svmlight": [b"1\n" * (N // 2), b"".join(b"%x \n" % k for k in range(N // 8))],
    "labels": [b"1\n" * (N // 2), b"".join(b"%x\n" % k for k in range(N // 6))],
    "csv": [b"anchor,positive,negative,weight\n" + b"1,2,3,4\n" * (N // 8)],
    "jsonl": [
        JUDGED * (N // len(JUDGED)),
        b'{"anchor":[' + b"[]," * (N // 3) + b"[]]}\n",
    ],
}


@pytest.mark.parametrize("name", HEAVY)
def test_memory_is_a_small_multiple_of_the_file(tmp_path, name):
    """The worst files for their size have short rows and short words."""
    for raw in HEAVY[name]:
        path = tmp_path / f"file{fuzz.TARGETS[name].suffix}"
        path.write_bytes(raw)
        fuzz.attempt(name, path)  # do not count what is loaded once
        tracemalloc.start()
        try:
            fuzz.attempt(name, path, seconds=100)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 80 * len(raw)


# --- not a file -----------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")
@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_anything_but_a_regular_file_is_refused(tmp_path, name):
    skip_without_library(name)
    paths = [tmp_path / f"{what}{fuzz.TARGETS[name].suffix}" for what in "abcdef"]
    pipe, device, folder, loop, nowhere, empty = paths
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    folder.mkdir()
    loop.symlink_to(loop)
    nowhere.symlink_to(tmp_path / "nowhere")
    empty.touch()
    for path in paths:
        if name == "checkpoint" and path in (loop, nowhere):
            continue  # a new run begins
        assert fuzz.attempt(name, path, seconds=10) is not None


# --- the source -----------------------------------------------------------------------

LOADERS = {"load", "open_memmap", "read_array", "fromfile"}  # of NumPy


def test_nothing_in_the_source_unpickles_an_array_or_compiles_text():
    """Ruff forbids pickles, eval and exec (pyproject.toml)."""
    for path, tree in structure.parsed().items():
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call):
                continue
            where = (path, call.lineno)
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            owner = ""
            if isinstance(call.func, ast.Attribute) and name in LOADERS:
                owner = ast.unparse(call.func.value)
            is_plain = isinstance(call.func, ast.Name)
            assert not (is_plain and name in ("compile", "__import__")), where
            allowed = [
                ast.unparse(word.value)
                for word in call.keywords
                if word.arg == "allow_pickle"
            ]
            if name in LOADERS and owner in ("np", "numpy", "np.lib.format", "format"):
                assert allowed == ["False"], where
            assert allowed in ([], ["False"]), where
