"""The real data sets of the paper, from files or from the network."""

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch

from hdsl import readers
from hdsl.input.matrices import canonical

PARTS = ("train", "valid", "test")


# --- the paper's sets -----------------------------------------------------------------


def load_dexter(
    data_home: str | PathLike[str] | None = None, *, download: bool = True
) -> Bunch:
    """Load dexter: Reuters texts about corporate acquisitions or not, 20,000 features.

    About half of the features are words and half are random probes. Values are integers
    up to 999. The set is from the NIPS 2003 feature selection challenge.

    Parameters
    ----------
    data_home : str or path, default=None
        The folder to look in. None takes the environment variable HDSL_DATA, or else
        ``hdsl`` in scikit-learn's data folder. It may hold ``dexter/X_train.npz``,
        ``y_train.npy``, ``X_valid.npz``, ...
    download : bool, default=True
        Whether to fetch a missing set from OpenML, which has no test rows.

    Returns
    -------
    Bunch
        ``X_train, y_train`` (300 rows), ``X_valid, y_valid`` (300), ``X_test`` (2,000)
        and ``y_test``, which is None because these labels were never published. Labels
        are -1 and 1. X_test is None if the source has no test rows. ``feature_names``
        is None, ``DESCR`` is a description and ``source`` says where the data came
        from.
    """
    return _load(load_dexter, _DEXTER, data_home, download)


def load_dorothea(
    data_home: str | PathLike[str] | None = None, *, download: bool = True
) -> Bunch:
    """Load dorothea: molecules that bind to thrombin or not, 100,000 binary features.

    Half of the features are random probes; a tenth of the molecules bind. The set is
    from the NIPS 2003 feature selection challenge.

    Parameters
    ----------
    data_home : str or path, default=None
        As for `load_dexter`: ``dorothea/X_train.npz`` and so on.
    download : bool, default=True
        Whether to fetch a missing set from OpenML, which has no test rows.

    Returns
    -------
    Bunch
        As from `load_dexter`, with 800, 350 and 800 rows.
    """
    return _load(load_dorothea, _DOROTHEA, data_home, download)


def load_rcv1(
    data_home: str | PathLike[str] | None = None, *, download: bool = True
) -> Bunch:
    """Load the binary rcv1 set: Reuters news in CCAT or ECAT (1) against GCAT or MCAT (-1).

    The 20,242 documents are those of LIBSVM's ``rcv1_train.binary``: the LYRL2004
    training part without the documents that are on both sides. The 47,236 features are
    words, with cosine- normalised log TF-IDF. The split is fixed: the first 12,145, the
    next 4,048 and the last 4,049 rows of ``RandomState(0).permutation(20242)``. The
    sizes are the paper's; its documents are not known.

    Parameters
    ----------
    data_home : str or path, default=None
        As for `load_dexter`: ``rcv1_binary/X_train.npz``, ... (with your own split) or
        ``rcv1_train.binary``, which may end in ``.bz2`` or ``.gz``.
    download : bool, default=True
        Whether to fetch a missing set with `sklearn.datasets.fetch_rcv1` (about 600
        MB).

    Returns
    -------
    Bunch
        As from `load_dexter`, with 12,145, 4,048 and 4,049 rows, all labelled.
    """
    return _load(load_rcv1, _RCV1, data_home, download)


def load_rcv1_4(
    data_home: str | PathLike[str] | None = None, *, download: bool = True
) -> Bunch:
    """Load rcv1 with four classes: Reuters news in exactly one of C15, ECAT, GCAT and MCAT.

    There are 9,625 documents, 2,022, 2,064, 2,901 and 2,638 of the classes, as in Deng
    Cai's ``RCV1_4Class.mat``. A download draws other documents by ``RandomState(0)``
    from all of RCV1, and leaves out words that none of them has. The split is fixed:
    3,850, 2,888 and 2,887 rows in the order of ``RandomState(0).permutation(9625)``.

    Parameters
    ----------
    data_home : str or path, default=None
        As for `load_dexter`: ``rcv1_4/X_train.npz``, ... (with your own split) or
        ``RCV1_4Class.mat``.
    download : bool, default=True
        Whether to fetch a missing set with `sklearn.datasets.fetch_rcv1` (about 600
        MB).

    Returns
    -------
    Bunch
        As from `load_dexter`, with 3,850, 2,888 and 2,887 rows, labels 0 to 3 and
        ``target_names``.
    """
    return _load(load_rcv1_4, _RCV1_4, data_home, download)


Parts = dict[str, Any]
Rows = tuple[Any, Any]

#: A file in which a set may be stored, compressed or not.
ENDINGS = ("", ".gz", ".bz2")


@dataclass(frozen=True)
class _Source:
    """A real data set: where it may be, how it is read and fetched, and its known shapes.

    `fetch` and `read` return all rows and labels. Rows are shuffled before they are
    split, unless they come in the order of the parts, without those of the test.
    """

    folder: str
    sizes: tuple[int, int, int]
    width: int | None
    origin: str
    fetch: Callable[[Any], Rows]
    fetched_from: str
    original: str | None = None
    read: Callable[[Path], Rows] | None = None
    is_shuffled: bool = True
    target_names: tuple[str, ...] | None = None


def _load(function: Any, source: _Source, data_home: Any, download: bool) -> Bunch:
    """Return a set from the disk or, where it is not there, from where it is fetched."""
    home = _home(data_home)
    parts, origin = _from_disk(source, home)
    reason = "download=False forbids fetching it"
    cause = None
    if parts is None and download:
        origin = source.fetched_from
        try:
            X, y = source.fetch(data_home)
            parts = _split(source, X, y, origin)
        except (OSError, ValueError) as error:
            reason = f"fetching it from {origin} failed ({error})"
            cause = error
    if parts is None:
        original = ""
        if source.original is not None:
            original = f" or {source.original}"
        raise FileNotFoundError(
            f"{source.folder} is not there: looked for X_train.npz, y_train.npy, "
            f"X_valid.npz, y_valid.npy{original} in {home / source.folder}; {reason}. "
            f"Get the files from {source.origin} and pass their folder as data_home= "
            "or HDSL_DATA."
        ) from cause
    _check_parts(source, parts, origin)
    description = str(inspect.getdoc(function)).partition("\n\nParameters")[0]
    parts |= {"feature_names": None, "target_names": source.target_names}
    return Bunch(**parts, DESCR=description, source=origin)


def _home(data_home: Any) -> Path:
    """Return the folder of all sets."""
    if data_home is None:
        data_home = os.environ.get("HDSL_DATA")
    if data_home:
        return Path(data_home).expanduser()
    from sklearn.datasets import get_data_home

    return Path(get_data_home()) / "hdsl"


def _from_disk(source: _Source, home: Path) -> tuple[Parts | None, str]:
    """Return a set from its folder or its original file, and which of them it was."""
    folder = home / source.folder
    parts = _read_folder(folder)
    if parts is not None or source.read is None:
        return parts, str(folder)
    for ending in ENDINGS:
        for parent in (folder, home):
            path = parent / f"{source.original}{ending}"
            if path.is_file():
                X, y = source.read(path)
                return _split(source, X, y, path), str(path)
    return None, str(folder)


def _read_folder(folder: Path) -> Parts | None:
    """Return the parts stored as ``X_train.npz``, ``y_train.npy``, ..., or None."""
    if not (folder / "X_train.npz").is_file():
        return None
    # A missing test set stays None.
    parts = dict.fromkeys([f"{kind}_{name}" for name in PARTS for kind in "Xy"])
    for name in PARTS:
        rows = folder / f"X_{name}.npz"
        labels = folder / f"y_{name}.npy"
        if name == "test" and not rows.is_file():
            rows = folder / "X_test_unlabelled.npz"
        if name != "test" or rows.is_file():
            parts[f"X_{name}"], _ = readers.read_npz(rows)
        if name != "test" or labels.is_file():
            parts[f"y_{name}"] = readers.read_labels(labels)
    return parts


def _check_parts(source: _Source, parts: Parts, where: str) -> None:
    """Raise ValueError unless the parts have the known shapes of the set."""
    width = source.width or parts["X_train"].shape[1]
    for name, n in zip(PARTS, source.sizes, strict=True):
        X = parts[f"X_{name}"]
        y = parts[f"y_{name}"]
        if y is None:
            has_labels = name == "test"  # which may lack them
        else:
            has_labels = len(y) == n
        if not has_labels or (X is not None and X.shape != (n, width)):
            raise ValueError(
                f"X_{name} and y_{name} of {source.folder} must have {n} rows and "
                f"labels, and {width} columns. Got {np.shape(X)} and {np.shape(y)} "
                f"from {where}."
            )


def _split(source: _Source, X: Any, y: np.ndarray, where: Any) -> Parts:
    """Return consecutive parts of the rows; a part of no rows is None."""
    X = canonical(X.astype(np.float64))
    n_train, n_valid, n_test = source.sizes
    if not source.is_shuffled:
        n_test = 0
    sizes = (n_train, n_valid, n_test)
    if X.shape[0] < sum(sizes):
        raise ValueError(
            f"{where} has {X.shape[0]} rows, too few: {sum(sizes)} are needed"
        )
    order = np.arange(X.shape[0])
    if source.is_shuffled:
        order = np.random.RandomState(0).permutation(X.shape[0])
    parts: Parts = {}
    start = 0
    for name, n in zip(PARTS, sizes, strict=True):
        rows = order[start : start + n]
        parts[f"X_{name}"] = X[rows] if n else None
        parts[f"y_{name}"] = y[rows] if n else None
        start += n
    return parts


def _challenge(
    name: str,
    sizes: tuple[int, int, int],
    width: int,
    positives: list[int],
    number: int,
) -> _Source:
    """Return a set of the NIPS 2003 challenge.

    `positives` are the known numbers of positive train and valid rows.
    """

    def fetch(data_home: Any) -> Rows:
        from sklearn import datasets

        fetched = datasets.fetch_openml(
            name=name,
            version=1,
            as_frame=False,
            parser="liac-arff",
            data_home=data_home,
        )
        y = np.asarray(fetched.target).astype(np.float64).astype(np.int64)
        counts = [int((labels == 1).sum()) for labels in np.split(y, [sizes[0]])]
        if counts != positives:
            raise ValueError(
                f"the training and validation parts have {counts} positive rows, not "
                f"{positives}: the rows are not in the known order"
            )
        return sp.csr_array(fetched.data), y

    origin = f"https://archive.ics.uci.edu/dataset/{number}/{name}"
    return _Source(name, sizes, width, origin, fetch, "OpenML", is_shuffled=False)


def _fetch_rcv1(data_home: Any) -> Rows:
    X, topic = _topics("train", data_home, ("CCAT", "ECAT", "GCAT", "MCAT"))
    plus = topic[:, :2].any(axis=1)
    minus = topic[:, 2:].any(axis=1)
    rows = np.flatnonzero(plus != minus)
    return X[rows], np.where(plus, 1, -1)[rows]


def _read_rcv1_4(path: Path) -> Rows:
    from scipy.io import loadmat

    stored = loadmat(path, variable_names=("fea", "gnd"))
    return sp.csr_array(stored["fea"]), stored["gnd"].ravel().astype(np.int64) - 1


def _fetch_rcv1_4(data_home: Any) -> Rows:
    X, topic = _topics("all", data_home, RCV1_4_CLASSES)
    single = topic.sum(axis=1) == 1
    rng = np.random.RandomState(0)
    drawn = [
        rng.choice(np.flatnonzero(single & topic[:, c]), size=n, replace=False)
        for c, n in enumerate((2022, 2064, 2901, 2638))
    ]
    X = X[np.concatenate(drawn)]
    y = np.repeat(np.arange(4), [len(rows) for rows in drawn])
    return X[:, np.unique(X.indices)], y


def _topics(subset: str, data_home: Any, names: tuple[str, ...]) -> Rows:
    """Return documents of rcv1, and which have which topics, shape (n_rows, n_names)."""
    from sklearn import datasets

    fetched = datasets.fetch_rcv1(subset=subset, data_home=data_home)
    columns = [list(fetched.target_names).index(name) for name in names]
    has_topic = sp.csc_array(fetched.target)[:, columns].toarray().astype(bool)
    return sp.csr_array(fetched.data), has_topic


RCV1_4_CLASSES = ("C15", "ECAT", "GCAT", "MCAT")

_DEXTER = _challenge("dexter", (300, 300, 2000), 20_000, [150, 150], 168)
_DOROTHEA = _challenge("dorothea", (800, 350, 800), 100_000, [78, 34], 169)
_RCV1 = _Source(
    folder="rcv1_binary",
    sizes=(12_145, 4_048, 4_049),
    width=47_236,
    origin="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html",
    fetch=_fetch_rcv1,
    fetched_from="sklearn.datasets.fetch_rcv1",
    original="rcv1_train.binary",
    read=partial(readers.read_svmlight, n_features=47_236),
)
_RCV1_4 = _Source(
    folder="rcv1_4",
    sizes=(3_850, 2_888, 2_887),
    width=None,
    origin="http://www.cad.zju.edu.cn/home/dengcai/Data/TextData.html",
    fetch=_fetch_rcv1_4,
    fetched_from="sklearn.datasets.fetch_rcv1",
    original="RCV1_4Class.mat",
    read=_read_rcv1_4,
    target_names=RCV1_4_CLASSES,
)
