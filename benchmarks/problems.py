"""Named problems to measure on: the real data sets where present, and generators.

`load(name)` makes a problem. The real ones are read from the folder that the
environment variable HDSL_DATA names, else from ``../shared/data`` beside the
repository; `why_missing(name)` names what is missing. A name can carry a number after a
colon: ``scaled:1e6``. With ``toy=True`` every name gives a problem of the same form
that takes milliseconds and needs no data.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from hdsl import triplets
from reproduce import datasets, sets
from reproduce.settings import Settings

ROOT = Path(__file__).resolve().parents[1]

#: Features of rank r appear with a frequency in proportion to 1 / (r + SHIFT) **
#: EXPONENT. With 75 draws per row the most frequent is in 45 % of the rows and the
#: 100th in 10 %, as in rcv1.
EXPONENT = 1.2
SHIFT = 30.0

#: Rows of one topic take two fifths of their features from a list of so many; two
#: sister topics, one of each class, have half of their lists in common. A tenth comes
#: from a list of the class.
TOPIC_WORDS = 60
CLASS_WORDS = 100
TOPIC_ROWS = 100


@dataclass(frozen=True)
class Problem:
    """Input of a benchmark: X is a csr_array of float64, `triplets` number its rows."""

    name: str
    X: sp.csr_array
    triplets: np.ndarray
    scale: float
    y: np.ndarray | None = None
    X_valid: sp.csr_array | None = None
    y_valid: np.ndarray | None = None

    @property
    def size(self) -> dict[str, int]:
        """Rows, columns, non-zeros and triplets."""
        n_rows, n_columns = self.X.shape
        return {
            "n_rows": n_rows,
            "n_columns": n_columns,
            "nnz": int(self.X.nnz),
            "n_triplets": len(self.triplets),
        }


def load(name: str, *, toy: bool = False) -> Problem:
    """Make the problem of this name."""
    kind, _, number = name.partition(":")
    is_named = kind in REAL or kind in MADE or (kind in NUMBERED and number)
    if not is_named:
        raise ValueError(
            f"No problem is named {name!r}. There are: {', '.join(names())}."
        )
    if toy:
        return replace(_toy(kind, number), name=f"{name}-toy")
    if kind in REAL:
        problem = REAL[kind]()
    elif kind in MADE:
        problem = MADE[kind]()
    else:
        problem = NUMBERED[kind](int(float(number)))
    return replace(problem, name=name)


def _toy(kind: str, number: str) -> Problem:
    """Return a small problem in the form of a kind."""
    if kind in REAL:
        return _toy_of(kind)
    if kind in MADE:
        return TOYS_OF_MADE[kind]()
    return TOYS_OF_NUMBERED[kind](int(float(number)))


def names() -> list[str]:
    """Return the names that `load` accepts; N stands for a number."""
    return [*REAL, *MADE, *(f"{kind}:N" for kind in NUMBERED)]


def data_folder() -> Path:
    """Return the folder of the real data sets."""
    return Path(os.environ.get("HDSL_DATA") or ROOT.parent / "shared" / "data")


def why_missing(name: str) -> str | None:
    """Return why a problem cannot be loaded, or None."""
    kind = name.partition(":")[0]
    file = FILES.get(kind, f"{kind}/X_train.npz")
    if kind in REAL and not (data_folder() / file).is_file():
        return f"no {file} in the data folder (set HDSL_DATA to where it is)"
    return None


# --- the paper's data sets ------------------------------------------------------------


def _read(name: str) -> dict[str, sp.csr_array | np.ndarray]:
    folder = data_folder() / name
    return {
        "X": _matrix(sp.load_npz(folder / "X_train.npz")),
        "y": np.load(folder / "y_train.npy"),
        "X_valid": _matrix(sp.load_npz(folder / "X_valid.npz")),
        "y_valid": np.load(folder / "y_valid.npy"),
    }


def _matrix(X) -> sp.csr_array:
    X = sp.csr_array(X).astype(np.float64)
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def dexter() -> Problem:
    """Return dexter, columns divided by their largest train value, with its triplets."""
    read = _read("dexter")
    largest = read["X"].max(axis=0).toarray().ravel()
    shrink = 1.0 / np.where(largest > 0, largest, 1.0)
    for name in ("X", "X_valid"):
        read[name].data *= shrink[read[name].indices]
    stored = np.load(data_folder() / "dexter" / "triplets_random20.npy")
    return Problem(name="dexter", triplets=stored.astype(np.int64), scale=100.0, **read)


def _with_neighbors(name: str, scale: float) -> Problem:
    read = _read(name)
    return Problem(
        name=name,
        triplets=triplets.neighbor_triplets(read["X"], read["y"], 3, 5, n_jobs=-1),
        scale=scale,
        **read,
    )


def dorothea() -> Problem:
    """Return dorothea, 800 binary rows, with 12,000 neighbour triplets."""
    return _with_neighbors("dorothea", 100.0)


def rcv1_2() -> Problem:
    """Return rcv1 in two classes, 12,145 rows of TF-IDF, with 182,175 neighbour triplets."""
    return _with_neighbors("rcv1_binary", 1000.0)


def rcv1_4() -> Problem:
    """Return rcv1_4, 3,850 rows of TF-IDF in 4 classes, with neighbour triplets."""
    return _with_neighbors("rcv1_4", 1000.0)


def reuters_r52() -> Problem:
    """Return R52 of Reuters-21578, rows as in the experiments, neighbour triplets."""
    return _as_in_experiments("reuters_r52")


def bbc_news() -> Problem:
    """Return the BBC news, TF-IDF rows as in the experiments, with neighbour triplets."""
    return _as_in_experiments("bbc_news")


def bace_ecfp6() -> Problem:
    """Return the BACE-1 inhibitors as fingerprints, with neighbour triplets."""
    return _as_in_experiments("bace_ecfp6")


def _as_in_experiments(name: str) -> Problem:
    parts = sets.load(Settings(out=ROOT, data=data_folder()), name)
    X = _matrix(parts.X)
    X_valid = _matrix(parts.X_val)
    return Problem(
        name=name,
        X=X,
        triplets=triplets.neighbor_triplets(X, parts.y, 3, 5, n_jobs=-1),
        scale=1000.0,
        y=parts.y,
        X_valid=X_valid,
        y_valid=parts.y_val,
    )


def _toy_of(name: str) -> Problem:
    """Return a small problem in the form of a real one: labels, validation rows."""
    rows = _PowerLaw(180, 400, 20, seed=0)
    X = rows.X
    y = rows.topic % 2
    n = 120
    if name == "dexter":
        compared = triplets.random_triplets(y[:n], 20, random_state=0)
    else:
        compared = triplets.neighbor_triplets(X[:n], y[:n], 3, 5)
    return Problem(
        name=name,
        X=X[:n],
        triplets=compared,
        scale=100.0,
        y=y[:n],
        X_valid=X[n:],
        y_valid=y[n:],
    )


# --- generated problems ---------------------------------------------------------------


def recovery(
    n_rows: int = 5000, n_features: int = 2000, n_triplets: int = 30_000
) -> Problem:
    """Return the paper's recovery problem."""
    n_atoms = 100
    if n_features < 2000:
        n_atoms = 20
    data = datasets.make_recovery(
        n_rows,
        n_features,
        n_triplets=n_triplets,
        n_atoms=n_atoms,
        block_size=n_features // 20,
        random_state=0,
    )
    return Problem(name="recovery", X=data.X, triplets=data.triplets, scale=100.0)


def power_law(
    n_rows: int = 20_000,
    n_features: int = 50_000,
    nnz_per_row: int = 75,
    n_targets: int = 3,
    n_impostors: int = 5,
    seed: int = 0,
) -> Problem:
    """Return text-like rows: feature frequencies by a power law, neighbours by topic."""
    rows = _PowerLaw(n_rows, n_features, nnz_per_row, seed)
    return Problem(
        name="power_law",
        X=rows.X,
        triplets=rows.triplets(n_targets, n_impostors),
        scale=1000.0,
        y=rows.topic % 2,
    )


def same_nonzeros(
    n_features: int,
    *,
    n_rows: int = 20_000,
    n_live: int = 10_000,
    nnz_per_row: int = 75,
) -> Problem:
    """Return the same rows and live columns, spread over a wider range of columns."""
    if n_features < n_live:
        raise ValueError(f"{n_live} live columns do not fit in {n_features}.")
    narrow = power_law(n_rows, n_live, nnz_per_row)
    indices = narrow.X.indices * np.int32(n_features // n_live)
    X = sp.csr_array(
        (narrow.X.data, indices, narrow.X.indptr), shape=(n_rows, n_features)
    )
    X.has_canonical_format = True
    return replace(narrow, name="same_nonzeros", X=X)


def scaled(
    n_triplets: int, *, n_features: int = 100_000, nnz_per_row: int = 75, seed: int = 0
) -> Problem:
    """Return a problem of about `n_triplets` triplets: 15 for each of its rows."""
    problem = power_law(-(-n_triplets // 15), n_features, nnz_per_row, seed=seed)
    return replace(problem, name="scaled")


def million() -> Problem:
    """Return a million rows of a million features, 75 non-zeros, 15 million triplets."""
    return replace(power_law(1_000_000, 1_000_000, 75), name="million")


def labelled_rows(
    n_rows: int, n_features: int, nnz_per_row: int
) -> tuple[sp.csr_array, np.ndarray]:
    """Return rows as those of `power_law` and their labels, without triplets."""
    rows = _PowerLaw(n_rows, n_features, nnz_per_row, seed=0)
    return rows.X, rows.topic % 2


class _PowerLaw:
    """Rows in topics, made by blocks so that memory holds little more than X."""

    def __init__(
        self, n_rows: int, n_features: int, nnz_per_row: int, seed: int
    ) -> None:
        if 3 * nnz_per_row > n_features or n_rows < 16:
            raise ValueError(
                "power_law needs 16 rows and 3 * nnz_per_row features at least. Got "
                f"{n_rows} rows and {n_features} features for {nnz_per_row} non-zeros "
                "per row."
            )
        self.n_rows = n_rows
        self.n_features = n_features
        self.width = nnz_per_row
        self.rng = np.random.default_rng(seed)
        self._assign_topics()
        self._name_features()
        self.X = self._rows()

    def _assign_topics(self) -> None:
        """Assign rows at random to topics of about TOPIC_ROWS rows.

        Sisters are 2k and 2k + 1.
        """
        self.n_topics = 2 * max(1, self.n_rows // (2 * TOPIC_ROWS))
        self.members = self.rng.permutation(self.n_rows)
        self.first = np.arange(self.n_topics + 1) * self.n_rows // self.n_topics
        self.position = np.empty(self.n_rows, dtype=np.int64)
        self.position[self.members] = np.arange(self.n_rows)
        self.topic = np.searchsorted(self.first, self.position, side="right") - 1

    def _name_features(self) -> None:
        """Number the features at random and give the topics their lists, by frequency."""
        rank = self.rng.permutation(self.n_features).astype(np.int32)
        self.feature_of = np.empty_like(rank)
        self.feature_of[rank] = np.arange(self.n_features, dtype=np.int32)
        self.rarity = np.log(rank + SHIFT)
        self.words = self._ranks((self.n_topics, TOPIC_WORDS))
        self.words[1::2, ::2] = self.words[::2, ::2]
        self.class_words = self._ranks((2, CLASS_WORDS))

    def _ranks(self, shape: tuple[int, ...]) -> np.ndarray:
        """Draw ranks by the inverse of the (continuous) distribution function."""
        power = 1.0 - EXPONENT
        low = SHIFT**power
        high = (self.n_features + SHIFT) ** power
        drawn = (low + self.rng.random(shape) * (high - low)) ** (1.0 / power) - SHIFT
        return np.clip(drawn.astype(np.int32), 0, self.n_features - 1)

    def _rows(self, block: int = 20_000) -> sp.csr_array:
        n = self.n_rows
        width = self.width
        indices = np.empty((n, width), dtype=np.int32)
        values = np.empty((n, width))
        for start in range(0, n, block):
            stop = min(start + block, n)
            columns = self._columns(self.topic[start:stop])
            indices[start:stop] = columns
            weight = self.rarity[columns] * (0.5 + self.rng.random(columns.shape))
            weight /= np.sqrt(np.einsum("ij,ij->i", weight, weight))[:, None]
            values[start:stop] = weight
        indptr = np.arange(n + 1, dtype=np.int64) * width
        if indptr[-1] <= np.iinfo(np.int32).max:
            indptr = indptr.astype(np.int32)
        X = sp.csr_array(
            (values.ravel(), indices.ravel(), indptr), shape=(n, self.n_features)
        )
        X.has_canonical_format = True
        return X

    def _columns(self, topic: np.ndarray) -> np.ndarray:
        """Draw the distinct, sorted features of some rows."""
        ranks = self._ranks((len(topic), self.width))
        n_words = min(2 * self.width // 5, TOPIC_WORDS)
        shared = -(-self.width // 10)
        spread = np.arange(n_words) + self.rng.random((len(topic), n_words))
        picked = (spread * (TOPIC_WORDS / n_words)).astype(np.int64)
        ranks[:, :n_words] = self.words[topic[:, None], picked]
        picked = self.rng.integers(CLASS_WORDS, size=(len(topic), shared))
        ranks[:, n_words : n_words + shared] = self.class_words[
            topic[:, None] % 2, picked
        ]
        columns = np.sort(self.feature_of[ranks], axis=1)
        unfinished = np.arange(len(topic))
        for attempt in range(100):
            rows = columns[unfinished]
            is_double = rows[:, 1:] == rows[:, :-1]
            has_double = is_double.any(axis=1)
            if not has_double.any():
                break
            unfinished = unfinished[has_double]
            rows = rows[has_double]
            is_double = is_double[has_double]
            n_doubles = int(is_double.sum())
            rows[:, 1:][is_double] = self._replacements(n_doubles, attempt)
            columns[unfinished] = np.sort(rows, axis=1)
        return columns

    def _replacements(self, count: int, attempt: int) -> np.ndarray:
        """Draw features in place of doubles; evenly once the frequent ones are used up."""
        if attempt < 5:
            return self.feature_of[self._ranks((count,))]
        return self.rng.integers(self.n_features, size=count, dtype=np.int32)

    def triplets(self, n_targets: int, n_impostors: int) -> np.ndarray:
        """Return per row some of its topic's rows times some of the sister topic's."""
        topic = self.topic
        sister = self.topic ^ 1
        size = np.diff(self.first)
        if size.min() <= max(n_targets, n_impostors):
            raise ValueError(
                f"Topics of {size.min()} rows are too small: take more rows."
            )
        # Steps from 1 to size - 1, so that no row is its own neighbour.
        step = 1 + self._distinct(size[topic] - 1, n_targets)
        first = self.first[topic][:, None]
        in_topic = self.position[:, None] - first
        target = self.members[first + (in_topic + step) % size[topic][:, None]]
        in_sister = self._distinct(size[sister], n_impostors)
        impostor = self.members[self.first[sister][:, None] + in_sister]
        triplets = np.empty((self.n_rows, n_targets, n_impostors, 3), dtype=np.int64)
        triplets[..., 0] = np.arange(self.n_rows)[:, None, None]
        triplets[..., 1] = target[:, :, None]
        triplets[..., 2] = impostor[:, None, :]
        return triplets.reshape(-1, 3)

    def _distinct(self, below: np.ndarray, count: int) -> np.ndarray:
        """Draw distinct numbers below each limit, one from each of so many equal parts."""
        edges = np.arange(count + 1) * below[:, None] // count
        width = np.diff(edges, axis=1)
        return edges[:, :-1] + (self.rng.random(width.shape) * width).astype(np.int64)


REAL: dict[str, Callable[[], Problem]] = {
    "dexter": dexter,
    "dorothea": dorothea,
    "rcv1_2": rcv1_2,
    "rcv1_4": rcv1_4,
    "reuters_r52": reuters_r52,
    "bbc_news": bbc_news,
    "bace_ecfp6": bace_ecfp6,
}

#: The file that shows that a set is there.
FILES = {
    "reuters_r52": "reuters21578_modapte/X_train.npz",
    "bbc_news": "bbc_news/X.npz",
    "bace_ecfp6": "bace_ecfp6/X_train.npz",
    "rcv1_2": "rcv1_binary/X_train.npz",
}

MADE: dict[str, Callable[[], Problem]] = {
    "recovery": recovery,
    "power_law": power_law,
    "million": million,
}

TOYS_OF_MADE: dict[str, Callable[[], Problem]] = {
    "recovery": lambda: recovery(150, 200, 600),
    "power_law": lambda: power_law(200, 500, 15),
    "million": lambda: power_law(400, 1000, 15),
}

NUMBERED: dict[str, Callable[[int], Problem]] = {
    "same_nonzeros": same_nonzeros,
    "rows": lambda n: power_law(n, 1_000_000, 75),
    "wide": lambda n: power_law(n, 20_000, 300, 2, 2),
    "scaled": scaled,
}

TOYS_OF_NUMBERED: dict[str, Callable[[int], Problem]] = {
    "same_nonzeros": lambda d: same_nonzeros(d, n_rows=200, n_live=400, nnz_per_row=15),
    "rows": lambda n: power_law(200, 500, 15),
    "wide": lambda n: power_law(200, 500, 15, 2, 2),
    "scaled": lambda n: scaled(n // 100, n_features=500, nnz_per_row=15),
}
