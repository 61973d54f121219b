"""Linking records: F1 of pairs held out, and matches among ten candidates, on three benchmarks.

Beyond the paper. One setting for all: learn from the pairs of ``train.csv``, choose the threshold
on ``valid.csv``, report on ``test.csv`` once. The peers are the cosine of the same rows, and what
string_grouper does, the cosine of character 3-grams by sparse_dot_topn.
"""

from __future__ import annotations

import csv
import gzip
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import precision_recall_curve

from hdsl.evaluate import wilson_interval
from hdsl.linking import Linker
from hdsl.search import top_k
from hdsl.similarity import unit_rows

from .results import Results, Table
from .runner import Cell, Line, Settings
from .sets import MissingDataError

TITLE = "Linking records: F1 on pairs held out, and matches among ten candidates"

TABLES = ("abt_buy", "amazon_google", "dirty_walmart_amazon")

#: F1 of Ditto, a fine-tuned transformer (PVLDB 2021).
DITTO = {"abt_buy": 89.33, "amazon_google": 75.58}

N_CANDIDATES, N_DRAWS = 10, 1000

METHODS = {
    "learned": "Linker, matches and non-matches",
    "matches": "Linker, matches alone",
    "cosine": "cosine of words and n-grams",
    "string_grouper": "cosine of 3-grams (sparse_dot_topn)",
}


class Benchmark(NamedTuple):
    """Two tables as columns, and pairs with labels by part: left, right, label."""

    left: dict[str, list[str]]
    right: dict[str, list[str]]
    pairs: dict[str, np.ndarray]


class Found(NamedTuple):
    """A score of pairs, and the candidates: left and right row numbers."""

    score: Callable[[np.ndarray], np.ndarray]
    candidates: np.ndarray


def cells(settings: Settings) -> list[Cell]:
    """Return every method for every pair of tables."""
    home = settings.data
    if home is None or not all((home / "linking" / name).is_dir() for name in TABLES):
        raise MissingDataError(f"it needs linking/{{{','.join(TABLES)}}} in the folder of --data.")
    tables = TABLES[:1] if settings.quick else TABLES
    return [{"tables": name, "method": method} for name in tables for method in METHODS]


def load(folder: Path) -> Benchmark:
    """Return the tables of a folder; the id of a record is its row number."""

    def read(name: str) -> dict[str, list[str]]:
        with gzip.open(folder / f"{name}.csv.gz", "rt", encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        return {column: [row[k] for row in rows] for k, column in enumerate(header)}

    parts = {part: read(part) for part in ("train", "valid", "test")}
    pairs = {
        part: np.array(list(columns.values()), dtype=np.int64).T for part, columns in parts.items()
    }
    return Benchmark(read("tableA"), read("tableB"), pairs)


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return F1, recall and seconds of one method on one pair of tables."""
    assert settings.data is not None  # checked by `cells`
    data = load(settings.data / "linking" / cell["tables"])
    began = time.perf_counter()
    try:
        found = {"learned": _learned, "matches": _from_matches, "cosine": _cosine,
                 "string_grouper": _string_grouper}[cell["method"]](data)  # fmt: skip
    except ImportError as error:
        return {"left_out": f"{error.name} is not installed"}
    seconds = time.perf_counter() - began
    valid, test = data.pairs["valid"], data.pairs["test"]
    threshold = best_threshold(valid[:, 2], found.score(valid[:, :2]))
    scores, labels = found.score(test[:, :2]), test[:, 2]
    low, high = _interval(labels, scores >= threshold)
    there = {*map(tuple, found.candidates.tolist())}
    matches = [tuple(pair) for *pair, label in test.tolist() if label]
    return {
        "f1": f1(labels, scores >= threshold), "low": low, "high": high, "threshold": threshold,
        "f1_at_half": f1(labels, scores >= 0.5), "n_matches": len(matches),
        "n_found": sum(pair in there for pair in matches), "taken": seconds,
    }  # fmt: skip


def f1(labels: np.ndarray, said: np.ndarray) -> float:
    """Return 2 · right / (said + there)."""
    return float(2 * (labels * said).sum() / max(1, labels.sum() + said.sum()))


def best_threshold(labels: np.ndarray, scores: np.ndarray) -> float:
    """Return the threshold with the largest F1."""
    precision, recall, thresholds = precision_recall_curve(labels, scores)
    best = (2 * precision * recall / np.maximum(precision + recall, 1e-12))[:-1].argmax()
    return float(thresholds[best])


def _interval(labels: np.ndarray, said: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval of F1, by drawing pairs again."""
    rng = np.random.default_rng(0)
    draws = (rng.integers(len(labels), size=len(labels)) for _ in range(N_DRAWS))
    low, high = np.quantile([f1(labels[at], said[at]) for at in draws], [0.025, 0.975])
    return float(low), float(high)


# --- methods -------------------------------------------------------------------------------------


def _learned(data: Benchmark, *, with_non_matches: bool = True) -> Found:
    train = data.pairs["train"]
    known = [train[train[:, 2] == label, :2] for label in (1, 0)]
    linker = Linker(random_state=0).fit(data.left, data.right, *known[: 1 + with_non_matches])
    found = linker.candidates(N_CANDIDATES)
    return Found(linker.predict_proba, np.column_stack([found.left, found.right]))


def _from_matches(data: Benchmark) -> Found:
    return _learned(data, with_non_matches=False)


def _rows(data: Benchmark, *kinds: dict[str, Any]) -> list[sp.csr_array]:
    texts = [
        [" ".join(filter(None, row)) for row in zip(*list(table.values())[1:], strict=True)]
        for table in (data.left, data.right)
    ]
    blocks = []
    for kind in kinds:
        vectorizer = TfidfVectorizer(**kind).fit(texts[0] + texts[1])
        blocks.append([vectorizer.transform(part) for part in texts])
    return [unit_rows(sp.csr_array(sp.hstack(side))) for side in zip(*blocks, strict=True)]


def _scorer(L: sp.csr_array, R: sp.csr_array) -> Callable[[np.ndarray], np.ndarray]:
    return lambda pairs: np.asarray(L[pairs[:, 0]].multiply(R[pairs[:, 1]]).sum(axis=1)).ravel()


def _cosine(data: Benchmark) -> Found:
    L, R = _rows(
        data,
        {"sublinear_tf": True, "min_df": 2, "token_pattern": r"(?u)\b\w+\b"},
        {"sublinear_tf": True, "min_df": 2, "analyzer": "char_wb", "ngram_range": (3, 4)},
    )
    rows = top_k(L, R, N_CANDIDATES).rows
    left = np.repeat(np.arange(len(rows)), rows.shape[1])
    return Found(_scorer(L, R), np.column_stack([left, rows.ravel()]))


def _string_grouper(data: Benchmark) -> Found:
    from sparse_dot_topn import sp_matmul_topn

    L, R = _rows(data, {"analyzer": "char", "ngram_range": (3, 3)})
    near = sp.coo_array(
        sp_matmul_topn(sp.csr_matrix(L), sp.csr_matrix(R.T.tocsr()), top_n=N_CANDIDATES)
    )
    return Found(_scorer(L, R), np.column_stack([near.row, near.col]))


# --- the page ------------------------------------------------------------------------------------


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return one table: F1 and recall with intervals, seconds, and published figures."""
    rows = []
    for line in lines:
        cell = line["cell"]
        name, published = METHODS[cell["method"]], DITTO.get(cell["tables"])
        if "left_out" in line:
            rows.append([cell["tables"], name, f"left out: {line['left_out']}", "", "", "", ""])
            continue
        n, hits = line["n_matches"], line["n_found"]
        low, high = wilson_interval(hits, n)
        rows.append(
            [
                cell["tables"], name,
                f"{100 * line['f1']:.1f} ({100 * line['low']:.1f} to {100 * line['high']:.1f})",
                f"{100 * line['f1_at_half']:.1f}", f"{hits / n:.3f} ({low:.3f} to {high:.3f})",
                f"{line['taken']:.1f}", "–" if published is None else f"{published:.2f}",
            ]
        )  # fmt: skip
    head = ["tables", "method", "F1 (95 % interval)", "F1 at 0.5", f"recall at {N_CANDIDATES}",
            "seconds", "Ditto, F1"]  # fmt: skip
    note = (
        "Learned from train, threshold chosen on valid, reported on test. Recall: matches of test "
        "whose right record is among the first candidates of the left one. Seconds of the whole "
        "work, tables to candidates; run with --jobs 1 to time it. Ditto as published (PVLDB 2021)."
    )
    return Results([Table("measures", head, rows, [note])])
