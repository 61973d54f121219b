"""Data to learn from: the paper's synthetic makers and real sets, and text that Python carries."""

from __future__ import annotations

import ast
import os
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch

from .. import readers, user_input
from ..core import atoms as atoms_module

# --- similarity recovery -------------------------------------------------------------------------


class Recovery(NamedTuple):
    """Rows, triplets judged by a hidden similarity, and that similarity."""

    X: sp.csr_array
    triplets: np.ndarray
    matrix: sp.csr_array
    atoms: np.ndarray
    weights: np.ndarray


def make_recovery(
    n_rows: int = 5000,
    n_features: int = 2000,
    *,
    n_triplets: int = 30_000,
    alpha: float = 0.2,
    density: float = 0.02,
    n_atoms: int = 100,
    block_size: int = 100,
    random_state: Any = None,
) -> Recovery:
    """Make the paper's similarity recovery problem.

    A hidden similarity is a convex combination of random atoms inside two blocks of features. Rows
    are sparse with values uniform in [0, 1]. In each triplet the anchor is random, the positive is
    among the share `alpha` of rows most similar to it, the negative among the least similar.

    Parameters
    ----------
    n_rows, n_features : int
    n_triplets : int, default=30000
    alpha : float in (0, 0.5], default=0.2
        The larger, the weaker the supervision.
    density : float, default=0.02
        Share of non-zero values.
    n_atoms : int, default=100
        Atoms of the hidden similarity, half in each block; weights are Dirichlet(9).
    block_size : int, default=100
        Features in each of the two blocks; the first starts at a tenth of the features, the second
        at six tenths.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    Recovery
        ``X, triplets, matrix, atoms, weights``; the matrix is the hidden M for λ = 1.

    Examples
    --------
    >>> X, triplets, M, atoms, weights = make_recovery(50, 200, n_triplets=10, n_atoms=6,
    ...                                                block_size=10, random_state=0)
    >>> X.shape, triplets.shape, M.shape, atoms.shape
    ((50, 200), (10, 3), (200, 200), (6, 3))
    """
    owner = "make_recovery"
    user_input.check_number(owner, "n_rows", n_rows, low=3, integer=True)
    user_input.check_number(owner, "n_triplets", n_triplets, low=1, integer=True)
    user_input.check_number(owner, "n_atoms", n_atoms, low=2, integer=True)
    if not 0.0 < alpha <= 0.5:
        raise ValueError(
            f"The 'alpha' parameter of {owner} must be in (0, 0.5]. Got {alpha!r} instead."
        )
    if n_features < 4 * block_size or block_size * (block_size - 1) < n_atoms:
        raise ValueError(
            f"{n_atoms} atoms in two blocks of {block_size} features do not fit {n_features} "
            "features: raise n_features to 4 blocks at least, or change block_size."
        )
    rng = user_input.generator(random_state)
    X = _uniform_rows(n_rows, n_features, density, rng)
    starts = [n_features // 10, 6 * n_features // 10]
    atoms = np.concatenate(
        [
            _random_atoms(start, block_size, count, rng)
            for start, count in zip(starts, (n_atoms // 2, n_atoms - n_atoms // 2), strict=True)
        ]
    )
    weights = rng.dirichlet(np.full(n_atoms, 9.0))
    L = atoms_module.factors(atoms, np.sqrt(weights), n_features)
    triplets = _judge(X @ L.T, n_triplets, alpha, rng)
    return Recovery(X, triplets, sp.csr_array(L.T @ L), atoms, weights)


def _uniform_rows(n: int, d: int, density: float, rng: np.random.Generator) -> sp.csr_array:
    counts = rng.binomial(d, density, size=n)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices = np.concatenate([np.sort(rng.choice(d, size=c, replace=False)) for c in counts])
    # 1 - [0, 1) is never 0, so every stored value counts.
    return sp.csr_array((1.0 - rng.random(indptr[-1]), indices, indptr), shape=(n, d))


def _random_atoms(start: int, size: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw distinct atoms among `size` features from `start` on."""
    i, j = np.triu_indices(size, 1)
    chosen = rng.choice(len(i), size=count, replace=False)
    sign = rng.choice([-1, 1], size=count)
    return np.column_stack([start + i[chosen], start + j[chosen], sign])


def _judge(
    Z: sp.csr_array, n_triplets: int, alpha: float, rng: np.random.Generator, block: int = 256
) -> np.ndarray:
    """Draw anchors, and for each a positive and a negative by the dot products of rows of Z."""
    n = Z.shape[0]
    share = max(1, int(alpha * (n - 1)))
    anchors = np.sort(rng.integers(n, size=n_triplets))
    triplets = np.empty((n_triplets, 3), dtype=np.int64)
    triplets[:, 0] = anchors
    for start in range(0, n, block):
        rows = np.arange(start, min(start + block, n))
        similar = (Z[rows] @ Z.T).toarray()
        shuffle = rng.random(similar.shape)  # rows of equal similarity come in random order
        order = np.lexsort((shuffle, similar), axis=1)
        own = np.flatnonzero((anchors >= rows[0]) & (anchors <= rows[-1]))
        for t in own:
            ranked = order[anchors[t] - start]
            ranked = ranked[ranked != anchors[t]]
            triplets[t, 1] = ranked[n - 2 - rng.integers(share)]
            triplets[t, 2] = ranked[rng.integers(share)]
    return triplets[rng.permutation(n_triplets)]


# --- signed links --------------------------------------------------------------------------------


class Links(NamedTuple):
    """Rows, signed links between them by a hidden similarity, their split, and that similarity."""

    X: sp.csr_array
    links: np.ndarray
    signs: np.ndarray
    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    matrix: sp.csr_array
    atoms: np.ndarray
    weights: np.ndarray


def make_links(
    n_nodes: int = 500,
    n_features: int = 5000,
    *,
    n_links: int = 1000,
    density: float | None = None,
    share: float = 0.05,
    n_atoms: int = 100,
    min_frequency: float = 0.1,
    random_state: Any = None,
) -> Links:
    """Make the paper's problem of predicting signed links.

    Features follow a power law of frequency. The hidden similarity is a convex combination of
    random atoms between frequent features. A link is positive where the similarity of its two nodes
    is among the largest `share` of one of them, negative where among the smallest.

    The paper leaves open, and here is chosen: values are uniform in (0, 1] and weights
    Dirichlet(9), as in `make_recovery`; the feature of rank r has frequency min(1, c/r), with c set
    by the density, and the columns are in random order; the frequency that counts for atoms is the
    one observed; half of the links in each part are positive; pairs that are among the largest of
    one node and the smallest of the other are left out; no pair appears twice.

    Parameters
    ----------
    n_nodes : int, default=500
    n_features : int, default=5000
    n_links : int, default=1000
        Links in each part: training, validation, test.
    density : float, default=None
        Mean share of non-zero values. None is the paper's 0.02 at 5,000 features, falling to 0.002
        at a million along a straight line between logarithms.
    share : float in (0, 0.5), default=0.05
    n_atoms : int, default=100
    min_frequency : float, default=0.1
        Least share of the nodes that have a feature of the hidden similarity.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    Links
        ``X, links, signs, train, valid, test, matrix, atoms, weights``: `links` has shape
        (3 * n_links, 2), pairs of rows of X; `train`, `valid` and `test` are row numbers of it; the
        matrix is the hidden M for λ = 1.

    Examples
    --------
    >>> made = make_links(100, 2000, n_links=50, n_atoms=20, random_state=0)
    >>> made.X.shape, made.links.shape, made.signs[made.train].sum()
    ((100, 2000), (150, 2), np.int64(0))
    """
    owner = "make_links"
    for name, value, low in (
        ("n_nodes", n_nodes, 3),
        ("n_features", n_features, 2),
        ("n_links", n_links, 2),
        ("n_atoms", n_atoms, 1),
    ):
        user_input.check_number(owner, name, value, low=low, integer=True)
    if density is None:
        # From 0.02 at 5,000 features to 0.002 at a million.
        density = 0.02 * (n_features / 5000) ** (-np.log(10) / np.log(200))
        density = float(np.clip(density, 0.002, 0.02))
    for name, number, high in (
        ("density", density, 1.0),
        ("share", share, 0.5),
        ("min_frequency", min_frequency, 1.0),
    ):
        if not 0.0 < number < high:
            raise ValueError(
                f"The {name!r} parameter of {owner} must be in (0, {high:g}). Got {number!r} "
                "instead."
            )
    rng = user_input.generator(random_state)
    X = _power_law_rows(n_nodes, n_features, density, rng)
    frequency = np.bincount(X.indices, minlength=n_features) / n_nodes
    frequent = np.flatnonzero(frequency >= min_frequency)
    n_pairs = len(frequent) * (len(frequent) - 1) // 2
    if n_pairs < n_atoms:
        raise ValueError(
            f"{len(frequent)} features have a frequency of {min_frequency} or more, too few for "
            f"{n_atoms} atoms: raise density, or lower min_frequency or n_atoms."
        )
    # The k-th pair i < j in the order of j.
    k = rng.choice(n_pairs, size=n_atoms, replace=False)
    j = np.floor((1 + np.sqrt(8.0 * k + 1)) / 2).astype(np.int64)
    i = k - j * (j - 1) // 2
    atoms = np.column_stack([frequent[i], frequent[j], rng.choice([-1, 1], size=n_atoms)])
    weights = rng.dirichlet(np.full(n_atoms, 9.0))
    L = atoms_module.factors(atoms, np.sqrt(weights), n_features)
    half = n_links // 2
    positive, negative = _draw_links(
        sp.csr_array(X @ L.T), share, 3 * half, 3 * (n_links - half), rng
    )
    links, signs = [], []
    for part in range(3):
        plus = positive[part * half : (part + 1) * half]
        minus = negative[part * (n_links - half) : (part + 1) * (n_links - half)]
        order = rng.permutation(n_links)
        links.append(np.concatenate([plus, minus])[order])
        signs.append(np.repeat([1, -1], [len(plus), len(minus)])[order])
    train, valid, test = np.split(np.arange(3 * n_links), 3)
    return Links(
        X=X,
        links=rng.permuted(np.concatenate(links), axis=1),  # either end may come first
        signs=np.concatenate(signs),
        train=train,
        valid=valid,
        test=test,
        matrix=sp.csr_array(L.T @ L),
        atoms=atoms,
        weights=weights,
    )


def _power_law_rows(n: int, d: int, density: float, rng: np.random.Generator) -> sp.csr_array:
    """Draw rows where the feature of rank r is there with probability min(1, c/r)."""
    rank = np.arange(1.0, d + 1)
    low, high = 0.0, float(d)
    while high - low > 1e-9 * d:
        c = (low + high) / 2
        low, high = (c, high) if np.minimum(1.0, c / rank).mean() < density else (low, c)
    frequency = np.minimum(1.0, high / rank)
    cells = []
    # Independent draws at the cost of the ones that hit: in blocks of ranks where the frequency
    # halves at most, gaps between hits at the highest frequency are geometric; then thin.
    start = 0
    while start < d:
        stop = min(2 * start + 1, d)
        hits = _hits((stop - start) * n, frequency[start], rng) + start * n
        cells.append(hits[rng.random(len(hits)) * frequency[start] < frequency[hits // n]])
        start = stop
    cell = np.concatenate(cells)
    column = rng.permutation(d)[cell // n]
    values = 1.0 - rng.random(len(cell))  # never 0
    X = sp.csr_array((values, (cell % n, column)), shape=(n, d))
    X.sort_indices()
    return X


def _hits(n: int, probability: float, rng: np.random.Generator) -> np.ndarray:
    """Return the sorted ones of n draws of 0 or 1, without making the zeros."""
    found = np.empty(0, dtype=np.int64)
    last = -1
    while last < n:
        mean = (n - last) * probability
        gaps = rng.geometric(probability, size=int(mean + 5 * np.sqrt(mean)) + 10)
        more = last + np.cumsum(gaps)
        found = np.concatenate([found, more])
        last = int(more[-1])
    return found[found < n]


def _draw_links(
    Z: sp.csr_array,
    share: float,
    n_positive: int,
    n_negative: int,
    rng: np.random.Generator,
    block: int = 256,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw distinct pairs i < j among the most and the least similar, each uniformly."""
    n = Z.shape[0]
    count = max(1, int(share * (n - 1)))
    Zt = sp.csr_array(Z.T)

    def similar(start: int) -> np.ndarray:
        return (Z[start : start + block] @ Zt).toarray()

    high, low = np.empty(n), np.empty(n)
    for start in range(0, n, block):
        S = similar(start)
        rows = np.arange(len(S))
        S[rows, start + rows] = np.nan  # sorts last: no node is its own neighbour
        S.partition([count - 1, n - 1 - count], axis=1)
        low[start : start + block] = S[:, count - 1]
        high[start : start + block] = S[:, n - 1 - count]
    kept: list[np.ndarray] = [np.empty((0, 2), dtype=np.int64)] * 2
    keys = [np.empty(0)] * 2
    for start in range(0, n, block):
        S = similar(start)
        own = slice(start, start + block)
        large = (high[own, None] <= S) | (high <= S)
        small = (low[own, None] >= S) | (low >= S)
        upper = np.arange(n) > np.arange(start, start + len(S))[:, None]
        for sign, (mask, wanted) in enumerate(
            ((large & ~small & upper, n_positive), (small & ~large & upper, n_negative))
        ):
            # The smallest of one random key a pair: a uniform draw from pairs seen block by block.
            pairs = np.argwhere(mask) + np.array([start, 0])
            keys[sign] = np.concatenate([keys[sign], rng.random(len(pairs))])
            kept[sign] = np.concatenate([kept[sign], pairs])
            best = np.argsort(keys[sign])[:wanted]
            keys[sign], kept[sign] = keys[sign][best], kept[sign][best]
    for pairs, wanted, kind in zip(
        kept, (n_positive, n_negative), ("positive", "negative"), strict=True
    ):
        if len(pairs) < wanted:
            raise ValueError(
                f"There are {len(pairs)} {kind} links among {n} nodes, but {wanted} are "
                "wanted: raise n_nodes or share, or lower n_links."
            )
    return kept[0], kept[1]


# --- the paper's real data -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Source:
    """A real data set: where it may be, and what it must look like."""

    name: str
    folder: str
    sizes: tuple[int, int, int]
    width: int | None
    originals: tuple[str, ...]
    origin: str
    description: str
    read: Callable[[Path], dict[str, Any] | None]
    fetch: Callable[[Any], dict[str, Any]]
    fetched_from: str
    target_names: tuple[str, ...] | None = None


def load_dexter(data_home: str | PathLike[str] | None = None, *, download: bool = True) -> Bunch:
    """Load dexter: Reuters texts about corporate acquisitions or not, 20,000 features.

    Of the features about half are words and half random probes; values are whole numbers up to 999.
    One of the sets of the NIPS 2003 feature selection challenge.

    Parameters
    ----------
    data_home : str or path, default=None
        The folder to look in; None is the environment variable HDSL_DATA, else ``hdsl`` in
        scikit-learn's data folder. In it may be ``dexter/X_train.npz``, ``y_train.npy``,
        ``X_valid.npz``, ... or the original ``dexter_train.data``, ``dexter_train.labels``,
        ``dexter_valid.data``, ..., there or in ``dexter/``.
    download : bool, default=True
        Whether to fetch what is not there from OpenML, which has no test rows.

    Returns
    -------
    Bunch
        ``X_train, y_train`` (300 rows), ``X_valid, y_valid`` (300), ``X_test`` (2,000) and
        ``y_test``, which is None as the organisers kept the labels; labels are -1 and 1. X_test is
        None where only the others were found. ``feature_names`` is None, ``DESCR`` a description
        and ``source`` where the data came from.
    """
    return _load(_DEXTER, data_home, download)


def load_dorothea(data_home: str | PathLike[str] | None = None, *, download: bool = True) -> Bunch:
    """Load dorothea: molecules that bind to thrombin or not, 100,000 binary features.

    Half of the features are random probes; a tenth of the molecules bind. One of the sets of the
    NIPS 2003 feature selection challenge.

    Parameters
    ----------
    data_home : str or path, default=None
        As for `load_dexter`, with names that start with ``dorothea``.
    download : bool, default=True
        Whether to fetch what is not there from OpenML, which has no test rows.

    Returns
    -------
    Bunch
        As `load_dexter` returns it, with 800, 350 and 800 rows.
    """
    return _load(_DOROTHEA, data_home, download)


def load_rcv1(data_home: str | PathLike[str] | None = None, *, download: bool = True) -> Bunch:
    """Load the binary rcv1 set: Reuters news in CCAT or ECAT (1) against GCAT or MCAT (-1).

    The 20,242 documents of LIBSVM's ``rcv1_train.binary``: those of the LYRL2004 training part that
    are on one side only, 47,236 words, cosine-normalised log TF-IDF. The split is fixed: the first
    12,145, the next 4,048 and the last 4,049 rows of ``RandomState(0).permutation(20242)``; the
    sizes are the paper's, its documents are not known.

    Parameters
    ----------
    data_home : str or path, default=None
        As for `load_dexter`: ``rcv1_binary/X_train.npz``, ... (split as you have split it) or
        ``rcv1_train.binary``, which may end in ``.bz2`` or ``.gz``.
    download : bool, default=True
        Whether to fetch what is not there by `sklearn.datasets.fetch_rcv1` (about 600 MB).

    Returns
    -------
    Bunch
        As `load_dexter` returns it, with 12,145, 4,048 and 4,049 rows, all labelled.
    """
    return _load(_RCV1, data_home, download)


def load_rcv1_4(data_home: str | PathLike[str] | None = None, *, download: bool = True) -> Bunch:
    """Load rcv1 with four classes: Reuters news in exactly one of C15, ECAT, GCAT and MCAT.

    9,625 documents: 2,022, 2,064, 2,901 and 2,638 of each class, as in Deng Cai's
    ``RCV1_4Class.mat``. Downloaded, they are drawn by ``RandomState(0)`` from all documents of
    RCV1, so they are other ones, and words that none of them has are left out. The split is fixed:
    3,850, 2,888 and 2,887 rows in the order of ``RandomState(0).permutation(9625)``.

    Parameters
    ----------
    data_home : str or path, default=None
        As for `load_dexter`: ``rcv1_4/X_train.npz``, ... (split as you have split it) or
        ``RCV1_4Class.mat``.
    download : bool, default=True
        Whether to fetch what is not there by `sklearn.datasets.fetch_rcv1` (about 600 MB).

    Returns
    -------
    Bunch
        As `load_dexter` returns it, with 3,850, 2,888 and 2,887 rows, labels 0 to 3 and
        ``target_names``.
    """
    return _load(_RCV1_4, data_home, download)


PARTS = ("train", "valid", "test")


def _load(source: _Source, data_home: Any, download: bool) -> Bunch:
    home = _data_home(data_home)
    places = (home / source.folder, home)
    arrays = _read_folder(places[0])
    where = str(places[0])
    for place in places if arrays is None else ():
        arrays = source.read(place)
        if arrays is not None:
            where = f"{source.originals[0]} in {place}"
            break
    if arrays is None:
        reason, cause = "download=False forbids fetching it", None
        if download:
            try:
                arrays = source.fetch(data_home)
                where = source.fetched_from
            except (OSError, ValueError) as error:
                reason = f"fetching it from {source.fetched_from} failed ({error})"
                cause = error
        if arrays is None:
            raise FileNotFoundError(
                f"{source.name} is not there: looked for X_train.npz, y_train.npy, X_valid.npz, "
                f"y_valid.npy in {places[0]}, and for {', '.join(source.originals)} there and in "
                f"{home}; {reason}. Get the files from {source.origin} and name their folder by "
                "data_home= or HDSL_DATA."
            ) from cause
    _check_parts(source, arrays, where)
    return Bunch(
        **arrays,
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


def _read_folder(folder: Path) -> dict[str, Any] | None:
    """Return the parts stored as ``X_train.npz``, ``y_train.npy``, ..., or None."""
    if not (folder / "X_train.npz").is_file():
        return None
    arrays = {}
    for part in PARTS:
        rows, labels = folder / f"X_{part}.npz", folder / f"y_{part}.npy"
        if part == "test" and not rows.is_file():
            rows = folder / "X_test_unlabelled.npz"
        there = part != "test" or rows.is_file()
        arrays[f"X_{part}"] = readers.read_npz(rows)[0] if there else None
        labelled = part != "test" or labels.is_file()
        arrays[f"y_{part}"] = readers.read_labels(labels) if labelled else None
    return arrays


def _check_parts(source: _Source, arrays: dict[str, Any], where: str) -> None:
    """Raise unless the parts have the shapes that the set is known to have."""
    width = source.width or arrays["X_train"].shape[1]
    for part, n in zip(PARTS, source.sizes, strict=True):
        X, y = arrays[f"X_{part}"], arrays[f"y_{part}"]
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


def _find(folder: Path, name: str) -> Path | None:
    """Return the file of this name in a folder, perhaps compressed."""
    paths = (folder / (name + ending) for ending in ("", ".gz", ".bz2"))
    return next((path for path in paths if path.is_file()), None)


def _cut(
    X: Any, y: np.ndarray, sizes: tuple[int, ...], order: np.ndarray, where: Any
) -> dict[str, Any]:
    """Return consecutive parts of the rows in this order; a part of no rows is None."""
    X = user_input.canonical(X.astype(np.float64))
    if X.shape[0] < sum(sizes):
        raise ValueError(f"{where} has {X.shape[0]} rows, too few: {sum(sizes)} are needed")
    arrays: dict[str, Any] = {}
    for part, start, n in zip(PARTS, np.cumsum([0, *sizes]), sizes, strict=False):
        rows = order[start : start + n]
        arrays[f"X_{part}"], arrays[f"y_{part}"] = (X[rows], y[rows]) if n else (None, None)
    return arrays


def _shuffled(X: Any, y: np.ndarray, sizes: tuple[int, ...], where: Any) -> dict[str, Any]:
    return _cut(X, y, sizes, np.random.RandomState(0).permutation(X.shape[0]), where)


# The NIPS 2003 sets: name_train.data and so on.


def _read_challenge(name: str, width: int, layout: str, folder: Path) -> dict[str, Any] | None:
    paths = [_find(folder, f"{name}_{part}.data") for part in PARTS]
    if paths[0] is None or paths[1] is None:
        return None
    arrays: dict[str, Any] = {}
    for part, path in zip(PARTS, paths, strict=True):
        arrays[f"X_{part}"], arrays[f"y_{part}"] = (
            (None, None)
            if path is None
            else readers.read_nips2003(path, n_features=width, layout=layout)
        )
    return arrays


def _fetch_challenge(
    name: str, sizes: tuple[int, int], positives: tuple[int, int], data_home: Any
) -> dict[str, Any]:
    from sklearn import datasets

    found = datasets.fetch_openml(
        name=name, version=1, as_frame=False, parser="liac-arff", data_home=data_home
    )
    y = np.asarray(found.target).astype(np.float64).astype(np.int64)
    arrays = _cut(sp.csr_array(found.data), y, (*sizes, 0), np.arange(sum(sizes)), "OpenML")
    counts = tuple(int((arrays[f"y_{part}"] == 1).sum()) for part in PARTS[:2])
    if counts != positives:
        raise ValueError(
            f"the training and validation parts have {counts} positive rows, not {positives}: "
            "the rows are not in the known order"
        )
    return arrays


def _challenge(
    name: str, sizes: tuple[int, int, int], width: int, layout: str, **rest: Any
) -> _Source:
    positives = rest.pop("positives")
    return _Source(
        name=name,
        folder=name,
        sizes=sizes,
        width=width,
        originals=tuple(
            f"{name}_{part}.{kind}" for part in PARTS[:2] for kind in ("data", "labels")
        ),
        read=lambda folder: _read_challenge(name, width, layout, folder),
        fetch=lambda data_home: _fetch_challenge(name, sizes[:2], positives, data_home),
        fetched_from="OpenML",
        **rest,
    )


_DEXTER = _challenge(
    "dexter",
    (300, 300, 2000),
    20_000,
    "sparse",
    positives=(150, 150),
    origin="https://archive.ics.uci.edu/dataset/168/dexter",
    description=(
        "dexter: Reuters texts about corporate acquisitions (1) or not (-1). 20,000 features, of "
        "which 9,947 are words and the rest random probes; whole numbers from 0 to 999. NIPS 2003 "
        "feature selection challenge (I. Guyon et al., 2004)."
    ),
)

_DOROTHEA = _challenge(
    "dorothea",
    (800, 350, 800),
    100_000,
    "binary",
    positives=(78, 34),
    origin="https://archive.ics.uci.edu/dataset/169/dorothea",
    description=(
        "dorothea: molecules that bind to thrombin (1) or not (-1). 100,000 binary features, half "
        "of them random probes. NIPS 2003 feature selection challenge (I. Guyon et al., 2004), "
        "from the KDD Cup 2001 data of DuPont Pharmaceuticals."
    ),
)


# The sets made from RCV1.


def _read_rcv1(folder: Path) -> dict[str, Any] | None:
    path = _find(folder, "rcv1_train.binary")
    if path is None:
        return None
    X, y = _labelled(readers.read_svmlight(path, n_features=47_236))
    return _shuffled(X, y, _RCV1.sizes, path)


def _fetch_rcv1(data_home: Any) -> dict[str, Any]:
    from sklearn import datasets

    found = datasets.fetch_rcv1(subset="train", data_home=data_home)
    topic = _topics(found, ("CCAT", "ECAT", "GCAT", "MCAT"))
    plus, minus = topic[:, :2].any(axis=1), topic[:, 2:].any(axis=1)
    rows = np.flatnonzero(plus != minus)
    y = np.where(plus, 1, -1)[rows]
    return _shuffled(sp.csr_array(found.data)[rows], y, _RCV1.sizes, "RCV1")


def _read_rcv1_4(folder: Path) -> dict[str, Any] | None:
    path = folder / "RCV1_4Class.mat"
    if not path.is_file():
        return None
    X, y = _labelled(readers.read_mat(path))
    return _shuffled(X, y - 1, _RCV1_4.sizes, path)


def _fetch_rcv1_4(data_home: Any) -> dict[str, Any]:
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


def _labelled(data: readers.Data) -> tuple[sp.csr_array, np.ndarray]:
    X, y = data
    assert y is not None  # both formats carry labels
    return X, y


def _topics(found: Bunch, names: tuple[str, ...]) -> np.ndarray:
    """Return which documents have which of these topics, shape (n_rows, n_names)."""
    columns = [list(found.target_names).index(name) for name in names]
    return sp.csc_array(found.target)[:, columns].toarray().astype(bool)


_RCV1_4_CLASSES = ("C15", "ECAT", "GCAT", "MCAT")

_RCV1 = _Source(
    name="rcv1",
    folder="rcv1_binary",
    sizes=(12_145, 4_048, 4_049),
    width=47_236,
    originals=("rcv1_train.binary.bz2",),
    origin="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html",
    description=(
        "rcv1, binary: Reuters news in CCAT or ECAT (1) against GCAT or MCAT (-1); documents on "
        "both sides are left out. 47,236 words, cosine-normalised log TF-IDF. RCV1-v2 (D. Lewis "
        "et al., 2004)."
    ),
    read=_read_rcv1,
    fetch=_fetch_rcv1,
    fetched_from="sklearn.datasets.fetch_rcv1",
)

_RCV1_4 = _Source(
    name="rcv1_4",
    folder="rcv1_4",
    sizes=(3_850, 2_888, 2_887),
    width=None,
    originals=("RCV1_4Class.mat",),
    origin="http://www.cad.zju.edu.cn/home/dengcai/Data/TextData.html",
    description=(
        "rcv1_4: 9,625 Reuters news in exactly one of C15, ECAT, GCAT and MCAT (labels 0 to 3), "
        "TF-IDF. RCV1-v2 (D. Lewis et al., 2004)."
    ),
    read=_read_rcv1_4,
    fetch=_fetch_rcv1_4,
    fetched_from="sklearn.datasets.fetch_rcv1",
    target_names=_RCV1_4_CLASSES,
)


# --- the docstrings of the standard library ------------------------------------------------------

#: Left out: tests, demonstrations, tables, bundled and installed packages.
_NOT_LIBRARY = frozenset(
    ("test", "tests", "idlelib", "lib2to3", "turtledemo", "ensurepip", "encodings", "pydoc_data")
)

_FEWEST_WORDS = 8


def load_docstrings(
    *, min_rows_per_label: int = 20, summaries: bool = False, vectorize: bool = True
) -> Bunch:
    """Load the docstrings of Python's standard library: text, labelled by module.

    One document a public function, class or method whose docstring has 8 words or more; its label
    is the top-level module or package. The source files are parsed, nothing is imported. A text
    that occurs twice counts once, and not at all where the labels differ. The name of what is
    described is not part of the text, but a text may well mention its module. The set is the same
    in each run, but differs between versions of Python.

    Parameters
    ----------
    min_rows_per_label : int, default=20
        Labels with fewer documents are left out.
    summaries : bool, default=False
        Whether to take of each docstring its first paragraph only: short texts, which share few
        words.
    vectorize : bool, default=True
        Whether to add TF-IDF rows.

    Returns
    -------
    Bunch
        ``texts`` (list of str), ``y`` (labels, array of str), ``names`` (qualified names, array of
        str), ``DESCR``; with `vectorize` ``X``, a csr_array of rows of length 1 (words of two or
        more letters in at least two documents, logarithmic counts), and ``feature_names``.

    Examples
    --------
    >>> docs = load_docstrings(min_rows_per_label=100, vectorize=False)
    >>> "asyncio" in docs.y, len(docs.texts) == len(docs.y) == len(docs.names)
    (True, True)
    """
    user_input.check_number(
        "load_docstrings", "min_rows_per_label", min_rows_per_label, low=1, integer=True
    )
    library = Path(sysconfig.get_path("stdlib"))
    found: dict[str, list[tuple[str, str, str]]] = {}
    for path in _source_files(library):
        for name, text in _docstrings(path, library):
            text = text.partition("\n\n")[0] if summaries else text
            same = found.setdefault(" ".join(text.split()), [])
            same.append((text, name, name.partition(".")[0]))
    rows = [same[0] for same in found.values() if len({label for _, _, label in same}) == 1]
    count = Counter(label for _, _, label in rows)
    rows = [row for row in rows if count[row[2]] >= min_rows_per_label]
    if not rows:
        raise ValueError(
            f"No module in {library} has {min_rows_per_label} docstrings: lower "
            "min_rows_per_label, or run a Python that has its standard library as source files."
        )
    texts, names, labels = (list(column) for column in zip(*rows, strict=True))
    docs = Bunch(
        texts=texts,
        y=np.array(labels),
        names=np.array(names),
        DESCR=(
            f"{len(texts)} docstrings of public functions, classes and methods in "
            f"{len(set(labels))} modules of Python {sysconfig.get_python_version()}'s standard "
            "library; the label is the top-level module."
        ),
    )
    if vectorize:
        from sklearn.feature_extraction.text import TfidfVectorizer

        words = TfidfVectorizer(token_pattern="[A-Za-z][A-Za-z_]+", min_df=2, sublinear_tf=True)
        docs.X = user_input.canonical(words.fit_transform(texts))
        docs.feature_names = words.get_feature_names_out()
    return docs


def _source_files(folder: Path) -> Iterator[Path]:
    """Yield the source files of public modules, in the order of their names."""
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        public = path.stem.isidentifier() and not path.stem.startswith("_")
        if path.is_dir():
            if public and path.name not in _NOT_LIBRARY:
                yield from _source_files(path)
        elif path.suffix == ".py" and (public or path.stem == "__init__"):
            yield path


def _docstrings(path: Path, library: Path) -> Iterator[tuple[str, str]]:
    """Yield the qualified name and the docstring of what is public in a source file."""
    source = path.read_bytes()
    if b'"""' not in source and b"'''" not in source:
        return
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # a template, or meant for another version
        return
    module = path.relative_to(library).with_suffix("").parts
    yield from _described(tree, [part for part in module if part != "__init__"])


def _described(node: Any, name: list[str]) -> Iterator[tuple[str, str]]:
    for child in node.body:
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if child.name.startswith("_"):
            continue
        text = ast.get_docstring(child) or ""
        if len(text.split()) >= _FEWEST_WORDS:
            yield ".".join([*name, child.name]), text
        if isinstance(child, ast.ClassDef):
            yield from _described(child, [*name, child.name])
