"""Damage good files and read them: each is read, or refused with a clear message.

    python tests/fuzz.py                       # all readers in turn, a minute together
    python tests/fuzz.py model --seconds 600   # one of them

Mutations start from the files in tests/corpus and know the formats: compressed content
is damaged before it is compressed again, and checksums are made anew. An input that
breaks a promise is saved and its name printed, and the exit code is 1: add it to the
corpus with the fix.
"""

import argparse
import contextlib
import faulthandler
import gzip
import io
import itertools
import json
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import safetensors.numpy
from sklearn.pipeline import make_pipeline

from hdsl import HDSL, ClassScores, load, readers, save, text, triplets
from hdsl.files import checkpoint, container
from hdsl.linking import Linker
from hdsl.settings import nested_parameters
from products import make_tables

CORPUS = Path(__file__).parent / "corpus"

#: Time limit for a file of a few kilobytes.
SECONDS = 20

#: Memory limit in bytes for such a file: a few times the limits of `hdsl.readers`.
MEMORY = 2**29

#: Bytes of the largest damaged file; parts repeated again and again would make larger
#: ones.
LARGEST = 2**20

MESSAGE_LENGTH = 700

# --- the readers ----------------------------------------------------------------------


class Target(NamedTuple):
    """A reader, the suffix of its files, and the form that the damage respects."""

    suffix: str
    read: Callable
    form: str = "bytes"


def read_model(path):
    """Read a model of any kind, write it again, and use it."""
    model = load(path)
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder, "again.hdsl"))  # a model that was read can be written
    with contextlib.suppress(ValueError), np.errstate(all="ignore"):  # it may overflow
        if isinstance(model, text.Collection):
            if model.documents.X is not None:
                check_sound(model.documents.X, model.documents.labels)
            model.search("a goal of the match")
            repr(model.model)
        elif hasattr(model, "predict"):
            model.predict(np.ones((1, model.n_features_in_)))
        elif model.n_features_in_ < 10_000:
            assert np.isfinite(
                model.transform(np.ones((1, model.n_features_in_)))
            ).all()


NEW_RECORD = {"title": ["acme printer x100"], "price": ["12.00"]}


def read_linker(path):
    """Read a linker, write it again, and use it."""
    linker = load(path)
    with tempfile.TemporaryDirectory() as folder:
        save(linker, Path(folder, "again.hdsl"))
    with contextlib.suppress(ValueError), np.errstate(all="ignore"):
        links = linker.predict(0.0)
        linker.records(links)
        linker.entities(0.1)
        linker.link(NEW_RECORD, 0.0)


def linker_bytes() -> list[bytes]:
    """Return the file of a linker that has learned, as this version writes it."""
    left, right, matches = make_tables(30)
    linker = Linker(["title", "price"], random_state=0)
    linker.fit(left, right, matches[:20]).link(NEW_RECORD)
    with tempfile.TemporaryDirectory() as folder:
        linker.save(Path(folder, "m"))
        return [Path(folder, "m").read_bytes()]


def model_bytes() -> list[bytes]:
    """Return a file of each kind of model, as this version writes it."""
    texts = [
        "a late goal",
        "the goal of a match",
        "profit fell",
        "the bank cut its profit",
    ] * 3
    words = text.Words(ngrams=2).fit(texts)
    rows = words.transform(texts)
    labels = np.array(["sport", "sport", "money", "money"] * 3)
    small = {
        "scale": 2.0,
        "prior": 0.5,
        "n_targets": 1,
        "n_impostors": 1,
        "max_iter": 4,
    }
    model = HDSL(**nested_parameters(**small, random_state=0)).fit(rows, labels)
    scored = make_pipeline(
        ClassScores(random_state=0),
        HDSL(**nested_parameters(**small, random_state=0)),
    )
    scored.fit(rows, labels)
    documents = text.Documents(
        rows, labels.astype(object), np.array(texts, dtype=object)
    )
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for each in (
            model,
            scored,
            text.Collection(model, words, documents),
            text.Collection(scored, words, documents),
        ):
            save(each, Path(folder, "m"))
            found.append(Path(folder, "m").read_bytes())
    return found


X = np.random.default_rng(0).random((12, 5)).round(2)


def run(path, callback=None):
    """Start or continue a run of a few steps with a checkpoint."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it does not converge
        model = HDSL(
            **nested_parameters(
                scale=10.0,
                prior=0.1,
                max_iter=9,
                tol=0.0,
                random_state=0,
            )
        )
        return model.fit(X, np.arange(12) % 2, checkpoint=path, callback=callback)


def continue_run(path):
    model = run(path)
    assert np.isfinite(model.weights_).all()
    assert (model.weights_ > 0.0).all()
    assert model.weights_.sum() <= 1.0 + 1e-9  # the rest is on 0


def checkpoint_bytes() -> bytes:
    """Return a checkpoint of this version, because one of another version is refused."""

    class Cut(Exception):  # noqa: N818 - not an error
        pass

    def cut(state):
        if state.n_iter == 6:
            raise Cut

    before = checkpoint.INTERVAL, checkpoint.TIME_SHARE
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.ckpt")
        checkpoint.INTERVAL = 0.0
        checkpoint.TIME_SHARE = np.inf
        try:
            run(path, callback=cut)
        except Cut:
            pass
        finally:
            checkpoint.INTERVAL, checkpoint.TIME_SHARE = before
        return path.read_bytes()


def read_matrix(path):
    check_sound(*readers.read_matrix(path))


def check_sound(X, y):
    X.check_format(full_check=True)
    assert np.isfinite(X.data).all()
    assert y is None or len(y) == X.shape[0]


def read_labels(path):
    y = readers.read_labels(path)
    assert y.ndim == 1


def read_judgements(path):
    judged = triplets.judgement_triplets(path, weight="weight")
    assert judged.triplets.min() >= 0
    assert np.isfinite(judged.weights).all()


def read_texts(path):
    from hdsl.cli import inputs

    rows = inputs.read_data(path, text="anchor", label="positive", ids="negative")
    assert rows.n_rows == len(rows.labels)


def read_triplets(path):
    """Read judgements by row number, as the command line does."""
    from hdsl.cli.inputs import Data, read_judgements_of

    source = Namespace(group=None, max_unknown=0.1)
    read_judgements_of("triplets", path, Data(path, np.eye(4)), source)


TARGETS = {
    "model": Target(".hdsl", read_model, "safetensors"),
    "linker": Target(".hdsl", read_linker, "safetensors"),
    "checkpoint": Target(".ckpt", continue_run, "safetensors"),
    "svmlight": Target(".svm", read_matrix, "text"),
    "gzip": Target(".svm.gz", read_matrix, "gz"),
    "npz": Target(".npz", read_matrix, "zip"),
    "labels": Target(".labels", read_labels, "text"),
    "npy": Target(".npy", read_labels),
    "triplets": Target(".npy", read_triplets),
    "csv": Target(".csv", read_judgements, "text"),
    "tsv": Target(".tsv", read_texts, "text"),
    "jsonl": Target(".jsonl", read_judgements, "jsonl"),
    "parquet": Target(".parquet", read_judgements),
}


MADE = {
    "model": model_bytes,
    "linker": linker_bytes,
    "checkpoint": lambda: [checkpoint_bytes()],
}


def corpus(name: str, kind: str = "") -> list[Path]:
    """Return the files of a reader: "good" ones, "bad" ones, or all; models are made."""
    if name in MADE:
        return []
    return sorted(
        path for path in (CORPUS / name).iterdir() if path.name.startswith(kind)
    )


def seeds(name: str, kind: str = "good") -> list[bytes]:
    """Return the files that mutations start from."""
    if name in MADE:
        return MADE[name]() if kind == "good" else []
    return [path.read_bytes() for path in corpus(name, kind)]


class BrokenPromise(Exception):  # noqa: N818 - says what happened
    """A file was neither read nor refused with a clear message."""


def attempt(name: str, path: Path, seconds: float = SECONDS) -> str | None:
    """Return the message that refuses a file, or None if it is read; raise if neither."""
    start = time.perf_counter()
    try:
        with limited_to(seconds):
            TARGETS[name].read(path)
        message = None
    except (ValueError, OSError) as error:
        message = str(error)
        words = message.replace(str(path), "").replace(path.name, "")
        if path.name not in message or not 5 < len(words) < MESSAGE_LENGTH:
            raise BrokenPromise(f"an unclear message: {message[:2000]}") from error
    except Exception as error:
        raise BrokenPromise(f"{type(error).__name__} instead of ValueError") from error
    if time.perf_counter() - start > seconds:
        raise BrokenPromise(f"it took {time.perf_counter() - start:.0f} s")
    return message


@contextlib.contextmanager
def limited_to(seconds: float):
    """Raise if the block takes too long, on platforms with timers."""

    def stop(*_):
        raise BrokenPromise(f"not done after {seconds} s")

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def limit_memory(n_bytes: int = MEMORY) -> None:
    """Let this process allocate at most `n_bytes` more, on Linux."""
    try:
        import resource

        used = (
            int(Path("/proc/self/statm").read_text().split()[0])
            * resource.getpagesize()
        )
    except (ImportError, OSError):
        return
    resource.setrlimit(resource.RLIMIT_AS, (used + n_bytes, resource.RLIM_INFINITY))


# --- damage ---------------------------------------------------------------------------

NUMBERS = [
    *[
        0,
        1,
        -1,
        2,
        3,
        127,
        128,
        255,
        256,
        2**15,
        2**16,
        2**24,
        2**31 - 1,
        2**31,
        2**32 - 1,
        2**32,
    ],
    *[
        2**40,
        2**53 + 1,
        2**62,
        2**63 - 1,
        2**63,
        2**64 - 1,
        2**64,
        -(2**31),
        -(2**63),
        10**30,
    ],
]
WORDS = [
    *[
        "nan",
        "-inf",
        "1e999",
        "-1e999",
        "1e-999",
        "0x10",
        "1_0",
        "1e308",
        "-0",
        "+1",
        "",
        "null",
    ],
    *[
        "true",
        "[]",
        "{}",
        '"',
        "'",
        ",",
        ":",
        "#",
        "%",
        "\t",
        "\r\n",
        "\n",
        "\n\n",
        " ",
        "\0",
    ],
    "\\",
    *[
        "\ufeff",
        "٣",
        "\u2028",
        "\ud800",
        "9" * 400,
        "9" * 5000,
        "[" * 1000,
        '{"a":' * 5000,
    ],
    *[
        "(" * 150,
        "-" * 9000,
        "x" * 70_000,
        "O",
        "|O",
        "<U999999999",
        "|V0",
        "<c16",
        "<M8[s]",
    ],
]
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def mutated(raw: bytes, name: str, rng: random.Random) -> bytes:
    """Return a file with a few mutations, most of them inside its form."""
    for _ in range(rng.choice([1, 1, 1, 2, 3, 6])):
        damage = (
            FORMS.get(TARGETS[name].form, damaged) if rng.random() < 0.75 else damaged
        )
        try:
            raw = damage(raw, rng)
        except Exception:  # no longer in its form
            raw = damaged(raw, rng)
    return raw[:LARGEST]


def damaged(raw: bytes, rng: random.Random) -> bytes:
    """Return bytes with one mutation that ignores the form."""
    at = rng.randrange(len(raw) + 1)
    to = min(len(raw), at + rng.choice([1, 1, 2, 4, 8, 8, 40, len(raw)]))
    kind = rng.randrange(8)
    if kind == 0:
        return raw[:at]
    if kind == 1:
        return raw[:at] + raw[to:]
    if kind == 2:
        return raw[:to] + raw[at:to] * rng.choice([1, 1, 2, 100]) + raw[to:]
    if kind == 3:
        return raw[:at] + word(rng) + raw[at if rng.random() < 0.5 else to :]
    if kind == 4:
        width = rng.choice([1, 2, 4, 8])
        number = rng.choice(NUMBERS) % 256**width
        return (
            raw[:at]
            + number.to_bytes(width, rng.choice(["little", "big"]))
            + raw[at + width :]
        )
    if kind == 5 and (found := list(_NUMBER.finditer(raw[:20_000]))):
        spot = rng.choice(found)
        return raw[: spot.start()] + word(rng) + raw[spot.end() :]
    if kind == 6:
        other = rng.randrange(len(raw) + 1)
        return raw[:at] + raw[other : other + to - at] + raw[to:]
    flipped = bytearray(raw[:200_000])
    if flipped:
        flipped[at % len(flipped)] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def word(rng: random.Random) -> bytes:
    chosen = str(rng.choice(NUMBERS)) if rng.random() < 0.5 else rng.choice(WORDS)
    return chosen.encode(errors="surrogatepass")


def damaged_json(value, rng: random.Random):
    """Return a JSON value with one mutation somewhere inside."""
    if isinstance(value, dict | list) and value and rng.random() < 0.85:
        value = value.copy()
        key = (
            rng.choice(list(value))
            if isinstance(value, dict)
            else rng.randrange(len(value))
        )
        kind = rng.randrange(8)
        if kind == 0:
            del value[key]
        elif kind == 1 and isinstance(value, dict):
            value[rng.choice([*value, "x", ""])] = value.pop(key)
        elif kind == 1:
            value += value * rng.choice([1, 2, 100])
        elif kind == 2:
            value[key] = rng.choice(
                list(value.values()) if isinstance(value, dict) else value
            )
        else:
            value[key] = damaged_json(value[key], rng)
        return value
    if isinstance(value, str) and value.startswith("{"):
        return json.dumps(damaged_json(json.loads(value), rng))
    deep = []
    for _ in range(rng.choice([1, 60, 800])):
        deep = [deep]
    numbers = [*NUMBERS, 0.5, -0.5, 1e308, float("inf"), float("nan"), 1e-320, 10**4000]
    others = [
        None,
        True,
        False,
        "",
        "x",
        [],
        {},
        [0],
        {"a": 1},
        deep,
        "x" * 9999,
        "\ud800",
        "auto",
    ]
    return rng.choice([*numbers, *others, "<f8", "<U8", "O"])


def opened(raw: bytes) -> tuple[dict, dict]:
    """Return the arrays of a file of ours, and what is sealed with them."""
    arrays = safetensors.numpy.load(raw)
    metadata = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])[
        "__metadata__"
    ]
    return arrays, json.loads(metadata[container.KEY])


def sealed(arrays: dict, content: dict) -> bytes:
    """Return a file of arrays and a header, with the checksum that belongs to them."""
    content["sha256"] = container.checksum(arrays, content["header"])
    return safetensors.numpy.save(arrays, {container.KEY: json.dumps(content)})


def damaged_safetensors(raw: bytes, rng: random.Random) -> bytes:
    """Damage our header or an array, and seal the file again: the checksum hides nothing."""
    arrays, content = opened(raw)
    name = rng.choice(sorted(arrays))
    kind = rng.randrange(10)
    if kind < 5 and STATE in arrays:
        state = damaged_json(json.loads(arrays[STATE].tobytes()), rng)
        arrays[STATE] = np.frombuffer(json.dumps(state).encode(), np.uint8)
    elif kind < 5:
        content["header"] = json.dumps(damaged_json(json.loads(content["header"]), rng))
    elif kind == 5:
        del arrays[name]
    elif kind == 6:
        arrays[name] = rng.choice(list(arrays.values()))
    elif kind == 7:
        arrays[name] = arrays[name][: rng.randrange(3)].astype(
            rng.choice(["i1", "f4", "f8", "?"])
        )
    elif arrays[name].size:
        flat = arrays[name].copy().reshape(-1)
        with np.errstate(all="ignore"):
            numbers = [0, 1, -1, 2**31, 2**62, -(2**63), np.nan, np.inf, 1e308]
            flat[rng.randrange(flat.size)] = np.array(rng.choice(numbers)).astype(
                flat.dtype
            )
        arrays[name] = flat.reshape(arrays[name].shape)
    return sealed(arrays, content)


#: The array in which a linker keeps what is no array, as JSON.
STATE = "state"

#: Other values of a field of JSON.
OTHERS = [
    *[None, True, False, 0, 1, -1, 0.5, -0.5, 1e308, float("nan"), float("inf")],
    *[2**31, 2**53 + 1, 2**64, 10**400, "", "x", "auto", "os", "\ud800", "x" * 9999],
    *[[], [0], [None], ["x"], [[]], {}, {"a": 1}],
]


def with_other_values(raw: bytes) -> list[tuple[str, Callable[[], bytes]]]:
    """Return where a file can have another value, and functions that return it, sealed anew."""
    arrays, content = opened(raw)
    header = json.loads(content["header"])

    def other_header(path, value):
        text = json.dumps(replaced(header, path, value))
        return sealed(arrays, {**content, "header": text})

    def other_state(path, value):
        text = json.dumps(replaced(state, path, value)).encode()
        return sealed({**arrays, STATE: np.frombuffer(text, np.uint8)}, content)

    def other_array(name, array):
        return sealed({**arrays, name: np.ascontiguousarray(array)}, content)

    others = [
        (f"header {path} {value!r:.40}", partial(other_header, path, value))
        for path, value in itertools.product(fields_of(header), OTHERS)
    ]
    if STATE in arrays:
        state = json.loads(arrays[STATE].tobytes())
        others += [
            (f"state {path} {value!r:.40}", partial(other_state, path, value))
            for path, value in itertools.product(fields_of(state), OTHERS)
        ]
    others += [
        (f"array {name} {what}", partial(other_array, name, array))
        for name in sorted(arrays.keys() - {STATE})
        for what, array in other_arrays(arrays[name])
    ]
    return others


def fields_of(value, path=()) -> Iterator[tuple]:
    """Yield the path of each field of a JSON value; of a list the first two items."""
    yield path
    if isinstance(value, dict):
        for name in value:
            yield from fields_of(value[name], (*path, name))
    elif isinstance(value, list):
        for number in range(len(value[:2])):
            yield from fields_of(value[number], (*path, number))


def replaced(value, path: tuple, other):
    """Return a JSON value with another one at a path."""
    if not path:
        return other
    value = value.copy()
    value[path[0]] = replaced(value[path[0]], path[1:], other)
    return value


def other_arrays(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield arrays of other numbers, lengths, orders and types."""
    largest = np.inf if array.dtype.kind == "f" else True
    if array.dtype.kind in "iu":
        largest = np.iinfo(array.dtype).max
    yield "zeros", np.zeros_like(array)
    yield "largest", np.full_like(array, largest)
    yield "negative", (-1.0 - array.astype(float)).astype("i8").astype(array.dtype)
    yield "no number", np.full(array.shape, np.nan)
    yield "wider", array[None]
    if array.ndim:
        yield "empty", array[:0]
        yield "half", array[: len(array) // 2]
        yield "twice", np.concatenate([array, array])
        yield "reversed", array[::-1]


def damaged_text(raw: bytes, rng: random.Random) -> bytes:
    """Damage one line, or the order and number of lines."""
    lines = raw.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    kind = rng.randrange(5)
    if kind == 0:
        lines[at] = lines[at] * rng.choice([2, 100])
    elif kind == 1:
        rng.shuffle(lines)
    elif kind == 2:
        words = lines[at].split(b" ")
        words[rng.randrange(len(words))] = word(rng)
        lines[at] = b" ".join(words)
    elif kind == 3:
        ending = rng.choice([b"\r\n", b"\r", b"", b"\n\n", b"\0\n"])
        lines = [line.rstrip(b"\r\n") + ending for line in lines]
    else:
        lines[at] = damaged(lines[at], rng)
    return b"".join(lines)


def damaged_jsonl(raw: bytes, rng: random.Random) -> bytes:
    lines = raw.splitlines()
    at = rng.randrange(len(lines))
    lines[at] = json.dumps(damaged_json(json.loads(lines[at]), rng)).encode()
    return b"\n".join(lines) + b"\n"


def damaged_zip(raw: bytes, rng: random.Random) -> bytes:
    """Damage a member, or its name, and zip it again."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    at = rng.randrange(len(members))
    name, content = members[at]
    kind = rng.randrange(6)
    if kind == 0:
        del members[at]
    elif kind == 1:
        name = rng.choice(
            [*dict(members), "coords.npy", "offsets.npy", "../x.npy", "/x", "x"]
        )
    elif kind == 2:
        content = rng.choice(members)[1]
    else:
        content = damaged(content, rng)
    if kind:
        members[at] = name, content
    how = rng.choice([0, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", how) as archive:
        warnings.simplefilter("ignore")  # duplicate names are intended
        for name, content in members:
            archive.writestr(name, content)
    return stream.getvalue()


FORMS = {
    "safetensors": damaged_safetensors,
    "text": damaged_text,
    "jsonl": damaged_jsonl,
    "zip": damaged_zip,
    "gz": lambda raw, rng: gzip.compress(
        damaged_text(gzip.decompress(raw), rng), 1, mtime=0
    ),
}


# --- long runs ------------------------------------------------------------------------


def by_chance(name: str, seconds: float, seed: int, folder: Path) -> int:
    """Read damaged files until the time is up; return how many."""
    rng = random.Random(f"{name} {seed}")
    good = seeds(name, "good")
    bad = seeds(name, "bad")
    path = folder / f"input{TARGETS[name].suffix}"  # remains if the process dies
    count = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        start = rng.choice(bad if bad and rng.random() < 0.1 else good)
        path.write_bytes(mutated(start, name, rng))
        attempt(name, path)
        count += 1
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("reader", nargs="?", choices=["all", *TARGETS], default="all")
    parser.add_argument("--seconds", type=float, default=60.0, help="in total")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    names = list(TARGETS) if given.reader == "all" else [given.reader]
    faulthandler.enable()
    warnings.simplefilter("ignore")  # libraries may warn about damaged files
    for name in names:
        for path in corpus(name):
            attempt(name, path)  # import and start threads before memory is limited
    limit_memory()
    folder = Path(tempfile.mkdtemp(prefix="hdsl-fuzz-"))
    failed = False
    for name in names:
        try:
            count = by_chance(name, given.seconds / len(names), given.seed, folder)
            print(f"{name:14} {count:8d} files read or refused", flush=True)
        except BrokenPromise:
            failed = True
            kept = folder / f"{name}{TARGETS[name].suffix}"
            (folder / f"input{TARGETS[name].suffix}").rename(kept)
            traceback.print_exc()
            print(f"{name:14} FAILED on {kept}", flush=True)
    if not failed:
        shutil.rmtree(folder)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
