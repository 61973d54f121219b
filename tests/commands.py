"""The command line in the tests: how it is called, and the texts, rows and judgements it gets."""

import contextlib
import csv
import io
import json
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from hdsl import load
from hdsl.cli import main
from hdsl.similarity.cosine import LearnedCosine

TOPICS = {
    "sport": "goal match striker keeper referee league coach stadium",
    "money": "profit bank shares market investor forecast loan dividend",
    "garden": "rose soil seed flower prune compost lawn hedge",
}
NOISE = "today report people early late new old small large many"
LABELLED = ("--text", "body", "--label", "topic")
COLUMNS = {
    "triplets": ("anchor", "positive", "negative"),
    "quadruplets": ("positive_a", "positive_b", "negative_a", "negative_b"),
}


def texts(n=90, seed=0):
    """Return rows (id, topic, text)."""
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(n):
        topic = list(TOPICS)[k % 3]
        words = [*rng.choice(TOPICS[topic].split(), 2), *rng.choice(NOISE.split(), 8)]
        rows.append((f"d{k}", topic, " ".join(rng.permutation(words).tolist())))
    return rows


def write_csv(path, rows, header=("id", "topic", "body")):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def read_csv(path):
    """Return the rows of a table as dicts."""
    with open(path, newline="", encoding="utf-8") as file:
        return [*csv.DictReader(file)]


class Result(NamedTuple):
    """How a command ended."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self):
        return self.stdout + self.stderr


def hdsl(*arguments):
    """Return how a command ended."""
    out = io.StringIO()
    err = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(part) for part in arguments])
    return Result(code, out.getvalue(), err.getvalue())


def good(*arguments):
    """Return how a command ended, which is well."""
    result = hdsl(*arguments)
    assert result.exit_code == 0, result.output
    return result


def told(*arguments):
    """Return what a command prints as JSON."""
    return json.loads(good(*arguments, "--json").stdout)


def bad(*arguments, code=2):
    """Return the one line that a command ends with on stderr."""
    result = hdsl(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("hdsl: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def cosines(path, x, X):
    """Return the learned cosines of one row with others, by the model in a file."""
    similarity = LearnedCosine(load(path).scored)
    return (similarity.rewrite(x) @ similarity.index_rows(X).T).toarray()[0]


def rows_and_labels():
    """Return 60 rows of counts, and labels of three classes with four features each, and noise."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    A = rng.integers(0, 4, size=(60, 12)) * (rng.random((60, 12)) < 0.3)
    A[np.arange(60), 4 * y + rng.integers(4, size=60)] += 3
    return sp.csr_array(A.astype(float)), y


def judged_triplets():
    """Return triplets that follow the labels of the rows."""
    _, y = rows_and_labels()
    T = np.random.default_rng(1).integers(60, size=(4000, 3))
    return T[(y[T[:, 0]] == y[T[:, 1]]) & (y[T[:, 0]] != y[T[:, 2]])]
