"""The real data sets of the paper, from files or from the network."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch

from .. import checks, readers

PARTS = ("train", "valid", "test")


def load_dexter(data_home: str | PathLike[str] | None = None, *, download: bool = True) -> Bunch:
    """Load dexter: Reuters texts about corporate acquisitions or not, 20,000 features.

    About half of the features are words and half are random probes. Values are integers up to 999.
    The set is from the NIPS 2003 feature selection challenge.

    Parameters
    ----------
    data_home : str or path, default=None
        The folder to look in. None takes the environment variable HDSL_DATA, or else ``hdsl`` in
        scikit-learn's data folder. It may hold ``dexter/X_train.npz``, ``y_train.npy``,
        ``X_valid.npz``, ...
    download : bool, default=True
        Whether to fetch a missing set from OpenML, which has no test rows.

    Returns
    -------
    Bunch
        ``X_train, y_train`` (300 rows), ``X_valid, y_valid`` (300), ``X_test`` (2,000) and
        ``y_test``, which is None because these labels were never published. Labels are -1 and 1.
        X_test is None if the source has no test rows. ``feature_names`` is None, ``DESCR`` is a
        description and ``source`` says where the data came from.
    """
    return _load(_DEXTER, data_home, download)


def load_dorothea(data_home: str | PathLike[str] | None = None, *, download: bool = True) -> Bunch:
    """Load dorothea: molecules that bind to thrombin or not, 100,000 binary features.

    Half of the features are random probes; a tenth of the molecules bind. The set is from the NIPS
    2003 feature selection challenge.

    Parameters
    ----------
    data_home : str or path, default=None
        As for `load_dexter`, with names that start with ``dorothea``.
    download : bool, default=True
        Whether to fetch a missing set from OpenML, which has no test rows.

    Returns
    -------
    Bunch
        As from `load_dexter`, with 800, 350 and 800 rows.
    """
    return _load(_DOROTHEA, data_home, download)


def load_rcv1(data_home: str | PathLike[str] | None = None, *, download: bool = True) -> Bunch:
    """Load the binary rcv1 set: Reuters news in CCAT or ECAT (1) against GCAT or MCAT (-1).

    The 20,242 documents are those of LIBSVM's ``rcv1_train.binary``: the LYRL2004 training part
    without the documents that are on both sides. The 47,236 features are words, with cosine-
    normalised log TF-IDF. The split is fixed: the first 12,145, the next 4,048 and the last 4,049
    rows of ``RandomState(0).permutation(20242)``. The sizes are the paper's; its
    documents are not known.

    Parameters
    ----------
    data_home : str or path, default=None
        As for `load_dexter`: ``rcv1_binary/X_train.npz``, ... (with your own split) or
        ``rcv1_train.binary``, which may end in ``.bz2`` or ``.gz``.
    download : bool, default=True
        Whether to fetch a missing set with `sklearn.datasets.fetch_rcv1` (about 600 MB).

    Returns
    -------
    Bunch
        As from `load_dexter`, with 12,145, 4,048 and 4,049 rows, all labelled.
    """
    return _load(_RCV1, data_home, download)


def load_rcv1_4(data_home: str | PathLike[str] | None = None, *, download: bool = True) -> Bunch:
    """Load rcv1 with four classes: Reuters news in exactly one of C15, ECAT, GCAT and MCAT.

    There are 9,625 documents, 2,022, 2,064, 2,901 and 2,638 of the classes, as in Deng Cai's
    ``RCV1_4Class.mat``. A download draws other documents by ``RandomState(0)`` from all of RCV1,
    and leaves out words that none of them has. The split is fixed: 3,850, 2,888 and 2,887 rows in
    the order of ``RandomState(0).permutation(9625)``.

    Parameters
    ----------
    data_home : str or path, default=None
        As for `load_dexter`: ``rcv1_4/X_train.npz``, ... (with your own split) or
        ``RCV1_4Class.mat``.
    download : bool, default=True
        Whether to fetch a missing set with `sklearn.datasets.fetch_rcv1` (about 600 MB).

    Returns
    -------
    Bunch
        As from `load_dexter`, with 3,850, 2,888 and 2,887 rows, labels 0 to 3 and
        ``target_names``.
    """
    return _load(_RCV1_4, data_home, download)


# --- finding and checking ------------------------------------------------------------------------

Parts = dict[str, Any]


@dataclass(frozen=True)
class _Source:
    """A real data set: where it may be, how it is read and fetched, and its known shapes."""

    name: str
    folder: str
    sizes: tuple[int, int, int]
    width: int | None
    origin: str
    description: str
    fetch: Callable[[Any], Parts]
    fetched_from: str
    originals: tuple[str, ...] = ()
    read: Callable[[Path], Parts] | None = None
    target_names: tuple[str, ...] | None = None


def _load(source: _Source, data_home: Any, download: bool) -> Bunch:
    home = _data_home(data_home)
    folder = home / source.folder
    parts, where = _read_folder(folder), str(folder)
    if parts is None and source.read is not None:
        found = (_find(place, name) for place in (folder, home) for name in source.originals)
        path = next((path for path in found if path is not None), None)
        if path is not None:
            parts, where = source.read(path), str(path)
    if parts is None:
        reason, cause = "download=False forbids fetching it", None
        if download:
            try:
                parts, where = source.fetch(data_home), source.fetched_from
            except (OSError, ValueError) as error:
                reason = f"fetching it from {source.fetched_from} failed ({error})"
                cause = error
        if parts is None:
            also = f" or {source.originals[0]}" if source.originals else ""
            raise FileNotFoundError(
                f"{source.name} is not there: looked for X_train.npz, y_train.npy, X_valid.npz, "
                f"y_valid.npy{also} in {folder}; {reason}. Get the files from {source.origin} and "
                "pass their folder as data_home= or HDSL_DATA."
            ) from cause
    _check_parts(source, parts, where)
    return Bunch(
        **parts,
        feature_names=None,
        target_names=source.target_names,
        DESCR=source.description,
        source=where,
    )


def _data_home(data_home: Any) -> Path:
    if data_home is None:
        data_home = os.environ.get("HDSL_DATA")
    if data_home:
        return Path(data_home).expanduser()
    from sklearn.datasets import get_data_home

    return Path(get_data_home()) / "hdsl"


def _read_folder(folder: Path) -> Parts | None:
    """Return the parts stored as ``X_train.npz``, ``y_train.npy``, ..., or None."""
    if not (folder / "X_train.npz").is_file():
        return None
    parts = {}
    for part in PARTS:
        rows, labels = folder / f"X_{part}.npz", folder / f"y_{part}.npy"
        if part == "test" and not rows.is_file():
            rows = folder / "X_test_unlabelled.npz"
        needed = part != "test"
        parts[f"X_{part}"] = readers.read_npz(rows)[0] if needed or rows.is_file() else None
        parts[f"y_{part}"] = readers.read_labels(labels) if needed or labels.is_file() else None
    return parts


def _check_parts(source: _Source, parts: Parts, where: str) -> None:
    """Raise ValueError unless the parts have the known shapes of the set."""
    width = source.width or parts["X_train"].shape[1]
    for part, n in zip(PARTS, source.sizes, strict=True):
        X, y = parts[f"X_{part}"], parts[f"y_{part}"]
        if X is not None and X.shape != (n, width):
            raise ValueError(
                f"X_{part} of {source.name} must have shape ({n}, {width}). Got {X.shape} from "
                f"{where}."
            )
        if part != "test" and y is None:
            raise ValueError(f"{source.name} from {where} has no labels of its {part} part.")
        if y is not None and len(y) != n:
            raise ValueError(
                f"y_{part} of {source.name} must have {n} labels. Got {len(y)} from {where}."
            )


def _cut(X: Any, y: np.ndarray, sizes: tuple[int, ...], order: np.ndarray, where: Any) -> Parts:
    """Return consecutive parts of the rows in this order; a part of no rows is None."""
    X = checks.canonical(X.astype(np.float64))
    if X.shape[0] < sum(sizes):
        raise ValueError(f"{where} has {X.shape[0]} rows, too few: {sum(sizes)} are needed")
    parts: Parts = {}
    for part, start, n in zip(PARTS, np.cumsum([0, *sizes]), sizes, strict=False):
        rows = order[start : start + n]
        parts[f"X_{part}"], parts[f"y_{part}"] = (X[rows], y[rows]) if n else (None, None)
    return parts


def _shuffled(X: Any, y: Any, sizes: tuple[int, ...], where: Any) -> Parts:
    return _cut(X, y, sizes, np.random.RandomState(0).permutation(X.shape[0]), where)


def _find(folder: Path, name: str) -> Path | None:
    """Return the file of this name in a folder, compressed or not."""
    paths = (folder / (name + ending) for ending in ("", ".gz", ".bz2"))
    return next((path for path in paths if path.is_file()), None)


# --- the NIPS 2003 challenge ---------------------------------------------------------------------


def _challenge(
    name: str,
    sizes: tuple[int, int, int],
    width: int,
    positives: tuple[int, int],
    origin: str,
    description: str,
) -> _Source:
    """Return a set of the challenge, with the known numbers of positive train and valid rows."""

    def fetch(data_home: Any) -> Parts:
        from sklearn import datasets

        found = datasets.fetch_openml(
            name=name, version=1, as_frame=False, parser="liac-arff", data_home=data_home
        )
        y = np.asarray(found.target).astype(np.float64).astype(np.int64)
        n_rows = sum(sizes[:2])
        parts = _cut(sp.csr_array(found.data), y, (*sizes[:2], 0), np.arange(n_rows), "OpenML")
        counts = tuple(int((parts[f"y_{part}"] == 1).sum()) for part in PARTS[:2])
        if counts != positives:
            raise ValueError(
                f"the training and validation parts have {counts} positive rows, not {positives}: "
                "the rows are not in the known order"
            )
        return parts

    return _Source(name, name, sizes, width, origin, description, fetch, "OpenML")


_DEXTER = _challenge(
    "dexter",
    sizes=(300, 300, 2000),
    width=20_000,
    positives=(150, 150),
    origin="https://archive.ics.uci.edu/dataset/168/dexter",
    description=(
        "dexter: Reuters texts about corporate acquisitions (1) or not (-1). 20,000 features: "
        "9,947 are words and the rest random probes; integers from 0 to 999. NIPS 2003 feature "
        "selection challenge (I. Guyon et al., 2004)."
    ),
)

_DOROTHEA = _challenge(
    "dorothea",
    sizes=(800, 350, 800),
    width=100_000,
    positives=(78, 34),
    origin="https://archive.ics.uci.edu/dataset/169/dorothea",
    description=(
        "dorothea: molecules that bind to thrombin (1) or not (-1). 100,000 binary features, half "
        "of them random probes. NIPS 2003 feature selection challenge (I. Guyon et al., 2004), "
        "from the KDD Cup 2001 data of DuPont Pharmaceuticals."
    ),
)


# --- RCV1 ----------------------------------------------------------------------------------------

_RCV1_4_CLASSES = ("C15", "ECAT", "GCAT", "MCAT")


def _read_rcv1(path: Path) -> Parts:
    X, y = readers.read_svmlight(path, n_features=47_236)
    return _shuffled(X, y, _RCV1.sizes, path)


def _fetch_rcv1(data_home: Any) -> Parts:
    from sklearn import datasets

    found = datasets.fetch_rcv1(subset="train", data_home=data_home)
    topic = _topics(found, ("CCAT", "ECAT", "GCAT", "MCAT"))
    plus, minus = topic[:, :2].any(axis=1), topic[:, 2:].any(axis=1)
    rows = np.flatnonzero(plus != minus)
    y = np.where(plus, 1, -1)[rows]
    return _shuffled(sp.csr_array(found.data)[rows], y, _RCV1.sizes, "RCV1")


def _read_rcv1_4(path: Path) -> Parts:
    from scipy.io import loadmat

    found = loadmat(path, variable_names=("fea", "gnd"))
    y = found["gnd"].ravel().astype(np.int64) - 1
    return _shuffled(sp.csr_array(found["fea"]), y, _RCV1_4.sizes, path)


def _fetch_rcv1_4(data_home: Any) -> Parts:
    from sklearn import datasets

    found = datasets.fetch_rcv1(subset="all", data_home=data_home)
    topic = _topics(found, _RCV1_4_CLASSES)
    single = topic.sum(axis=1) == 1
    rng = np.random.RandomState(0)
    drawn = [
        rng.choice(np.flatnonzero(single & topic[:, c]), size=n, replace=False)
        for c, n in enumerate((2022, 2064, 2901, 2638))
    ]
    X = sp.csr_array(found.data)[np.concatenate(drawn)]
    y = np.repeat(np.arange(4), [len(rows) for rows in drawn])
    return _shuffled(X[:, np.unique(X.indices)], y, _RCV1_4.sizes, "RCV1")


def _topics(found: Bunch, names: tuple[str, ...]) -> np.ndarray:
    """Return which documents have which of these topics, shape (n_rows, n_names)."""
    columns = [list(found.target_names).index(name) for name in names]
    return sp.csc_array(found.target)[:, columns].toarray().astype(bool)


_RCV1 = _Source(
    name="rcv1_2",
    folder="rcv1_binary",
    sizes=(12_145, 4_048, 4_049),
    width=47_236,
    origin="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html",
    description=(
        "rcv1, binary: Reuters news in CCAT or ECAT (1) against GCAT or MCAT (-1); documents on "
        "both sides are left out. 47,236 words, cosine-normalised log TF-IDF. RCV1-v2 (D. Lewis "
        "et al., 2004)."
    ),
    fetch=_fetch_rcv1,
    fetched_from="sklearn.datasets.fetch_rcv1",
    originals=("rcv1_train.binary",),
    read=_read_rcv1,
)

_RCV1_4 = _Source(
    name="rcv1_4",
    folder="rcv1_4",
    sizes=(3_850, 2_888, 2_887),
    width=None,
    origin="http://www.cad.zju.edu.cn/home/dengcai/Data/TextData.html",
    description=(
        "rcv1_4: 9,625 Reuters news in exactly one of C15, ECAT, GCAT and MCAT (labels 0 to 3), "
        "TF-IDF. RCV1-v2 (D. Lewis et al., 2004)."
    ),
    fetch=_fetch_rcv1_4,
    fetched_from="sklearn.datasets.fetch_rcv1",
    originals=("RCV1_4Class.mat",),
    read=_read_rcv1_4,
    target_names=_RCV1_4_CLASSES,
)
