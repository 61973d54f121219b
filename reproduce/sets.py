"""The real data sets as the experiments use them: three parts, scaled as in the paper."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import MaxAbsScaler

from hdsl import checks, datasets, readers
from hdsl.fitting import make_layout
from hdsl.hdsl import HDSL
from hdsl.mining import Mining
from hdsl.parameters import class_rows
from hdsl.rows import RowNorm
from hdsl.solver.protocols import Statistics
from hdsl.supervision import Supervision

from .runner import Settings

#: The sets of the paper, in the order of its tables.
PAPER = ("dexter", "dorothea", "rcv1_2", "rcv1_4")

#: Beyond the paper.
MORE = ("reuters_r52", "bbc_news", "bace_ecfp6")

#: What a table of the paper's sets says about them.
NOTES = (
    "dexter and dorothea: test labels were never published. The validation rows choose and report, "
    "which flatters; the second line was chosen by five folds of the training rows alone.",
    "rcv1_2 and rcv1_4 are other documents of the same corpus than the paper's, in splits of the "
    "same sizes.",
)


class MissingDataError(Exception):
    """Files that an experiment needs are missing; the message names them."""


class Parts(NamedTuple):
    """Rows and labels to learn from, to choose by, and to report on.

    `X_test` is None where test labels were never published: then the second part reports as well.
    `mining` has the parameters of HDSL for the triplets that the paper makes of this set.
    """

    X: Any
    y: np.ndarray
    X_val: Any
    y_val: np.ndarray
    X_test: Any = None
    y_test: Any = None
    mining: dict[str, Any] = {}  # noqa: RUF012 - a value

    @property
    def has_test(self) -> bool:
        """Whether there are labels that choose nothing."""
        return self.X_test is not None

    def map(self, change: Callable[[Any], Any]) -> Parts:
        """Return the parts with their rows changed."""
        X, X_val, X_test = (
            None if rows is None else change(rows) for rows in (self.X, self.X_val, self.X_test)
        )
        return self._replace(X=X, X_val=X_val, X_test=X_test)

    def map_sparse(self, change: Callable[[Any], Any]) -> Parts:
        """Return the parts with their rows changed, as sparse arrays."""
        return self.map(lambda rows: sp.csr_array(change(rows)))

    def folds(self, n_folds: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the training rows in and outside of each of n folds: learned from, and held out."""
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
        return folds.split(self.X, self.y)


def _bunch(bunch: Any, **mining: Any) -> Parts:
    """Return the parts of a loader, every feature divided by its largest value in training.

    "All datasets are normalized such that each feature takes values in [0, 1]", as the authors'
    file of dexter is. Features that no training row has are not scaled; no model uses them.
    """
    parts = Parts(bunch.X_train, bunch.y_train, bunch.X_valid, bunch.y_valid, mining=mining)
    if bunch.y_test is not None:
        parts = parts._replace(X_test=bunch.X_test, y_test=bunch.y_test)
    return parts.map_sparse(MaxAbsScaler().fit(parts.X).transform)


def _reuters(home: Path) -> Parts:
    """R52 of the ModApte split as counts; a third of the training rows choose."""
    folder = home / "reuters21578_modapte"
    X, X_test = (readers.read_npz(folder / f"X_{name}.npz")[0] for name in ("train", "test"))
    y, y_test = (readers.read_labels(folder / f"y_{name}_r52.npy") for name in ("train", "test"))
    X, y, X_test, y_test = X[y >= 0], y[y >= 0], X_test[y_test >= 0], y_test[y_test >= 0]
    train, valid = train_test_split(np.arange(len(y)), test_size=1 / 3, random_state=0)
    return Parts(X[train], y[train], X[valid], y[valid], X_test, y_test)


def _bbc(home: Path) -> Parts:
    """Counts; rows in their order: 40 % learn, 20 % choose, the last 40 % report."""
    X, _ = readers.read_npz(home / "bbc_news" / "X.npz")
    y = readers.read_labels(home / "bbc_news" / "y.npy")
    first, second = len(y) * 4 // 10, len(y) * 6 // 10
    train, valid, test = slice(0, first), slice(first, second), slice(second, None)
    return Parts(X[train], y[train], X[valid], y[valid], X[test], y[test])


def _bace(home: Path) -> Parts:
    """Inhibitors of BACE-1 as fingerprints, split by scaffold."""
    folder = home / "bace_ecfp6"
    names = ("train", "valid", "test")
    X, X_val, X_test = (readers.read_npz(folder / f"X_{name}.npz")[0] for name in names)
    y, y_val, y_test = (readers.read_labels(folder / f"y_{name}.npy") for name in names)
    return Parts(X, y, X_val, y_val, X_test, y_test)


def _tfidf(parts: Parts) -> Parts:
    return parts.map_sparse(TfidfTransformer(sublinear_tf=True).fit(parts.X).transform)


_LOADERS: dict[str, Callable[[Path], Parts]] = {
    # 20 random triplets per row, which the paper found better than neighbours here
    "dexter": lambda home: _bunch(
        datasets.load_dexter(home, download=False), mining="random", n_targets=4
    ),
    "dorothea": lambda home: _bunch(datasets.load_dorothea(home, download=False)),
    "rcv1_2": lambda home: _bunch(datasets.load_rcv1(home, download=False)),
    "rcv1_4": lambda home: _bunch(datasets.load_rcv1_4(home, download=False)),
    "reuters_r52": lambda home: _tfidf(_reuters(home)),
    "bbc_news": lambda home: _tfidf(_bbc(home)),
    "bace_ecfp6": _bace,
}


def present(settings: Settings, names: Iterable[str]) -> list[str]:
    """Return the sets whose files are present; print the others, and raise if none is."""
    names = list(names)
    if settings.data is None:
        raise MissingDataError(
            f"it needs the real sets {', '.join(names)}: name their folder with --data "
            "(docs/datasets.md says where to get them)."
        )
    there, reasons = [], []
    for name in names:
        try:
            load(settings, name)
        except OSError as error:
            reasons.append(f"{name}: {error}")
        else:
            there.append(name)
    if not there:
        raise MissingDataError("; ".join(reasons))
    for reason in reasons:
        print(f"left out, {reason}", file=sys.stderr)
    return there


def load(settings: Settings, name: str) -> Parts:
    """Return a set, which a process reads once."""
    if settings.data is None:
        raise MissingDataError(f"{name} needs --data, the folder of the real sets.")
    return _load(settings.data, name, settings.quick)


def statistics(model: HDSL, X: sp.csr_array, y: np.ndarray) -> Statistics:
    """Return what the automatic scale and prior of a model go by."""
    from hdsl.cpu.workers import Workers

    X = sp.csr_array(X, dtype=np.float64)
    rows = RowNorm.of(model, X, continues=False).apply(X)
    rng = checks.generator(model.random_state)
    data = Supervision.check("HDSL", rows, y, **class_rows(model)).draw(rng)
    compared, weights = Mining.of(model)(data, rng)
    data = replace(data, compared=compared, compared_weights=weights)
    with Workers(1) as workers:
        return make_layout(model, data, workers).statistics()


def load_counts(settings: Settings, name: str) -> Parts:
    """Return a set of texts as counts of words."""
    assert settings.data is not None
    return {"reuters_r52": _reuters, "bbc_news": _bbc}[name](settings.data)


@lru_cache(maxsize=len(PAPER + MORE))  # listing cells loads each set several times
def _load(home: Path, name: str, quick: bool) -> Parts:
    parts = _LOADERS[name](home)
    return _fewer(parts) if quick else parts


def _fewer(parts: Parts, n_train: int = 300, n_other: int = 200) -> Parts:
    """Return the first rows of each part, for a quick version."""
    few = parts._replace(
        X=parts.X[:n_train], y=parts.y[:n_train],
        X_val=parts.X_val[:n_other], y_val=parts.y_val[:n_other],
    )  # fmt: skip
    if few.has_test:
        few = few._replace(X_test=parts.X_test[:n_other], y_test=parts.y_test[:n_other])
    return few
