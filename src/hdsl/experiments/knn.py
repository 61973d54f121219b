"""Errors of 3 nearest neighbours on real sets: plain, cosine, learned as published, with a prior.

Run it with ``python -m hdsl.experiments.knn --data FOLDER [SET ...]``, FOLDER in the layout that
``hdsl.datasets`` reads. Every choice is made on the validation rows (or on folds of the training
rows, where the method says "folds"), and the test rows are looked at once. Lines are kept in a
file, so that a second run computes only what is missing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MaxAbsScaler, normalize
from sklearn.svm import LinearSVC

from .. import datasets, readers
from ..estimators import HDSL
from ..model_selection import HDSLCV
from ..neighbors import SimilarityKNeighborsClassifier


class Parts(NamedTuple):
    """Rows and labels to learn from, to choose by, and to report on (None: the second again)."""

    X: Any
    y: np.ndarray
    X_val: Any
    y_val: np.ndarray
    X_test: Any = None
    y_test: Any = None
    mining: dict[str, Any] = {}  # noqa: RUF012 - a value


def _bunch(bunch: Any, **mining: Any) -> Parts:
    parts = Parts(bunch.X_train, bunch.y_train, bunch.X_valid, bunch.y_valid, mining=mining)
    if bunch.y_test is None:
        return parts
    return parts._replace(X_test=bunch.X_test, y_test=bunch.y_test)


def _dexter(home: Path) -> Parts:
    """The paper's: each column divided by its largest value, random triplets, 20 a row."""
    parts = _bunch(datasets.load_dexter(home, download=False), mining="random", n_targets=4)
    scaler = MaxAbsScaler().fit(parts.X)
    return parts._replace(X=scaler.transform(parts.X), X_val=scaler.transform(parts.X_val))


def _reuters(home: Path) -> Parts:
    """R52 of the ModApte split; a third of the training rows choose."""
    folder = home / "reuters21578_modapte"
    X, y, X_test, y_test = (
        readers.read_npz(folder / f"X_{part}.npz")[0]
        if kind == "X"
        else readers.read_labels(folder / f"y_{part}_r52.npy")
        for part in ("train", "test")
        for kind in "Xy"
    )
    X, y, X_test, y_test = X[y >= 0], y[y >= 0], X_test[y_test >= 0], y_test[y_test >= 0]
    train, valid = train_test_split(np.arange(len(y)), test_size=1 / 3, random_state=0)
    return _tfidf(Parts(X[train], y[train], X[valid], y[valid], X_test, y_test))


def _bbc(home: Path) -> Parts:
    """Rows in their order: 40 % learn, 20 % choose, the last 40 % report."""
    X, _ = readers.read_npz(home / "bbc_news" / "X.npz")
    y = readers.read_labels(home / "bbc_news" / "y.npy")
    first, second = len(y) * 4 // 10, len(y) * 6 // 10
    train, valid, test = slice(0, first), slice(first, second), slice(second, None)
    return _tfidf(Parts(X[train], y[train], X[valid], y[valid], X[test], y[test]))


def _tfidf(parts: Parts) -> Parts:
    vectors = TfidfTransformer(sublinear_tf=True).fit(parts.X)
    X, X_val, X_test = (
        sp.csr_array(vectors.transform(X)) for X in (parts.X, parts.X_val, parts.X_test)
    )
    return parts._replace(X=X, X_val=X_val, X_test=X_test)


SETS: dict[str, Callable[[Path], Parts]] = {
    "dorothea": lambda home: _bunch(datasets.load_dorothea(home, download=False)),
    "rcv1_binary": lambda home: _bunch(datasets.load_rcv1(home, download=False)),
    "rcv1_4": lambda home: _bunch(datasets.load_rcv1_4(home, download=False)),
    "dexter": _dexter,
    "reuters_r52": _reuters,
    "bbc_news": _bbc,
}

#: Grids, as multiples of 1 / (mean absolute margin of the dot product).
SCALES = (30.0, 100.0, 300.0, 1000.0, 3000.0)
PRIORS = (0.3, 1.0)

#: A search ends a run after so many iterations without a better validation score.
PATIENCE = 600

#: Neighbours are mined again after so many iterations, where the method says so.
MINE_EVERY = 300
WIDE = {"n_targets": 5, "n_impostors": 10}


class Runner:
    """The lines of one set, computed when they are not in the file yet."""

    def __init__(self, name: str, parts: Parts, options: argparse.Namespace) -> None:
        self.name, self.parts, self.options = name, parts, options
        self.n_jobs, out = options.jobs, options.out
        self.known = {
            (line["set"], line["method"]): line
            for line in map(json.loads, out.read_text().splitlines() if out.exists() else [])
        }

    def methods(self) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
        """Yield each line's name and how to compute it."""
        yield "dot", lambda: self._plain(lambda X: X)
        yield "cosine", lambda: self._plain(normalize)
        yield "LinearSVC", self._svm
        yield "HDSL, auto", self._auto
        tuned = self.options.priors
        ways: dict[str, dict[str, Any]] = {"": {}}
        if self.parts.mining.get("mining", "neighbors") == "neighbors":
            ways[", mined again"] = {"mine_every": MINE_EVERY}
            ways[", 5 x 10 mined again"] = {**WIDE, "mine_every": MINE_EVERY}
        for way, more in ways.items():
            for folds in (False, True) if self.parts.y_test is None else (False,):
                where = way + (", folds" if folds else "")
                yield f"HDSL, prior 0{where}", partial(self._search, (0.0,), folds, **more)
                yield f"HDSL, prior tuned{where}", partial(self._search, tuned, folds, **more)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield all lines, and write the new ones."""
        for method, compute in self.methods():
            if self.options.only and method not in self.options.only:
                continue
            line = self.known.get((self.name, method))
            if line is None:
                began = time.perf_counter()
                line = {"set": self.name, "method": method, **compute()}
                line["seconds"] = round(time.perf_counter() - began, 1)
                with self.options.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")
            yield line

    def _report(self, predict: Callable[[Any], np.ndarray], **more: Any) -> dict[str, Any]:
        parts = self.parts
        line = {"valid": float(np.mean(predict(parts.X_val) != parts.y_val)), **more}
        if parts.y_test is not None:
            line["test"] = float(np.mean(predict(parts.X_test) != parts.y_test))
        return line

    def _plain(self, change: Callable[[Any], Any]) -> dict[str, Any]:
        knn = SimilarityKNeighborsClassifier(n_jobs=self.n_jobs).fit(
            change(self.parts.X), self.parts.y
        )
        return self._report(lambda X: knn.predict(change(X)))

    def _svm(self) -> dict[str, Any]:
        parts = self.parts
        models = [
            LinearSVC(C=C, random_state=0, max_iter=10_000).fit(parts.X, parts.y)
            for C in (0.01, 0.1, 1.0, 10.0, 100.0)
        ]
        best = max(models, key=lambda model: model.score(parts.X_val, parts.y_val))
        return self._report(best.predict, C=best.C)

    def _learned(self, model: HDSL, **more: Any) -> dict[str, Any]:
        parts = self.parts
        knn = SimilarityKNeighborsClassifier(similarity=model.similarity_, n_jobs=self.n_jobs)
        knn.fit(parts.X, parts.y)
        return self._report(
            knn.predict, scale=model.scale_, prior=model.prior_, n_iter=model.n_iter_,
            n_atoms=len(model.weights_), n_features=len(np.unique(model.atoms_[:, :2])), **more,
        )  # fmt: skip

    def _search(self, priors: Sequence[float], folds: bool, **more: Any) -> dict[str, Any]:
        parts = self.parts
        base = HDSL(
            max_iter=self.options.iterations, tol=0.0, n_iter_no_change=PATIENCE, random_state=0,
            **parts.mining, **more,
        )  # fmt: skip
        unit = HDSL(max_iter=1, random_state=0, **parts.mining).fit(parts.X, parts.y).prior_
        search = HDSLCV(
            [scale * unit for scale in self.options.scales],
            priors=[prior * unit for prior in priors],
            estimator=base, n_jobs=self.n_jobs, verbose=1,
        )  # fmt: skip
        if folds:
            search.fit(parts.X, parts.y)
        else:
            search.fit(parts.X, parts.y, X_val=parts.X_val, y_val=parts.y_val)
        if search.status_ == "interrupted":
            raise KeyboardInterrupt
        return self._learned(
            search.best_estimator_,
            surface=(1.0 - search.scores_.mean(axis=-1)).round(5).tolist(),
            iterations=search.iterations_.tolist(),
        )

    def _auto(self) -> dict[str, Any]:
        model = HDSL(random_state=0, n_jobs=self.n_jobs, **self.parts.mining)
        return self._learned(model.fit(self.parts.X, self.parts.y))


def table(lines: list[dict[str, Any]]) -> str:
    """Return the lines as a Markdown table, errors in percent."""
    head = "| set | method | valid | test | scale | prior | iterations | features | seconds |"
    rows = [head, "|---|---|---|---|---|---|---|---|---|"]
    for line in lines:
        cells = [line["set"], line["method"], f"{100 * line['valid']:.2f}"]
        cells.append(f"{100 * line['test']:.2f}" if "test" in line else "–")
        numbers = (line.get(name) for name in ("scale", "prior", "n_iter", "n_features"))
        cells += ["" if number is None else f"{number:.4g}" for number in numbers]
        rows.append("| " + " | ".join([*cells, f"{line['seconds']:.0f}"]) + " |")
    return "\n".join(rows)


def _numbers(text: str) -> list[float]:
    """Return the multiples of 1 / (mean absolute margin) that are given as 100,1000."""
    return [float(part) for part in text.split(",")]


def main(arguments: list[str] | None = None) -> int:
    """Compute the lines of the sets and print them."""
    parser = argparse.ArgumentParser(prog="python -m hdsl.experiments.knn", description=__doc__)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)}; all if none")
    parser.add_argument("--data", type=Path, required=True, help="the folder of the data sets")
    parser.add_argument("--out", type=Path, default=Path("results/knn.jsonl"))
    parser.add_argument("--iterations", type=int, default=3000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", action="append", metavar="METHOD", help="this method, and others")
    parser.add_argument("--scales", type=_numbers, default=SCALES, help="such as 100,1000")
    parser.add_argument("--priors", type=_numbers, default=PRIORS, help="such as 0.3,1")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.sets if name not in SETS]
    if unknown:
        parser.error(f"no set {unknown[0]!r}: choose from {', '.join(SETS)}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore", "Too few rows", UserWarning)  # classes of few rows
    lines = []
    for name in options.sets or SETS:
        try:
            parts = SETS[name](options.data)
        except FileNotFoundError as error:
            print(f"{name} left out: {error}", file=sys.stderr)
            continue
        runner = Runner(name, parts, options)
        for line in runner.lines():
            lines.append(line)
            print(table([line]).splitlines()[-1], flush=True)
    print("\n" + table(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
