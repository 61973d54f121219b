"""Synthetic problems: similarity recovery and signed links, as in the paper."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from hdsl.input.errors import ParameterError
from hdsl.input.parameters import check_number, generator
from hdsl.solver import atoms as atoms_module

#: Rows whose products with all rows are formed at a time.
BLOCK = 256


def _check_counts(owner: str, low: int, **counts: Any) -> None:
    for name, value in counts.items():
        check_number(owner, name, value, low=low, integer=True)


def _check_shares(owner: str, **shares: tuple[Any, str]) -> None:
    """Raise ValueError unless each number is in its interval, such as "[0, 0.5)"."""
    for name, (value, interval) in shares.items():
        low, high = map(float, interval[1:-1].split(","))
        inside = low < value < high
        inside |= (interval[0] == "[" and value == low) | (
            interval[-1] == "]" and value == high
        )
        if not inside:
            raise ParameterError(owner, name, f"a float in {interval}", repr(value))


# --- similarity recovery --------------------------------------------------------------


class Recovery(NamedTuple):
    """Rows, triplets that agree with a hidden similarity, and that similarity."""

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
    noise: float = 0.0,
    correlation: float = 0.0,
    random_state: Any = None,
) -> Recovery:
    """Make the paper's similarity recovery problem.

    The hidden similarity is a convex combination of random atoms inside two blocks of
    features. Rows are sparse with values uniform in (0, 1]. The anchor of a triplet is
    random, the positive is among the share `alpha` of rows most similar to it, and the
    negative among the least similar.

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
        Features per block. The first block starts at a tenth of the features, the
        second at six tenths.
    noise : float in [0, 0.5], default=0.0
        Probability that a judgement is turned round: positive and negative change
        places.
    correlation : float in [0, 1), default=0.0
        Correlation of neighbouring features: each value is that of the feature before
        it with this probability, so features i and j have correlation ``correlation **
        abs(i - j)``.
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
    _check_counts(owner, 3, n_rows=n_rows)
    _check_counts(owner, 1, n_triplets=n_triplets)
    _check_counts(owner, 2, n_atoms=n_atoms)
    intervals = {"alpha": (alpha, "(0, 0.5]"), "noise": (noise, "[0, 0.5]")}
    _check_shares(owner, **intervals, correlation=(correlation, "[0, 1)"))
    if n_features < 4 * block_size or block_size * (block_size - 1) < n_atoms:
        raise ValueError(
            f"{n_atoms} atoms in two blocks of {block_size} features do not fit "
            f"{n_features} features: raise n_features to at least 4 * block_size, or "
            "change block_size."
        )
    rng = generator(random_state)
    X = _uniform_rows(n_rows, n_features, density, rng)
    if correlation:
        X = _copied_to_the_right(X, correlation, rng)
    first = _random_atoms(n_features // 10, block_size, n_atoms // 2, rng)
    second = _random_atoms(6 * n_features // 10, block_size, n_atoms - len(first), rng)
    atoms = np.concatenate([first, second])
    weights = rng.dirichlet(np.full(n_atoms, 9.0))
    L = atoms_module.factors(atoms, np.sqrt(weights), n_features)
    triplets = _judge(X @ L.T, n_triplets, alpha, rng)
    if noise:
        turned = rng.random(n_triplets) < noise
        triplets[turned, 1:] = triplets[turned, :0:-1]
    return Recovery(X, triplets, sp.csr_array(L.T @ L), atoms, weights)


def _uniform_rows(
    n: int, d: int, density: float, rng: np.random.Generator
) -> sp.csr_array:
    counts = rng.binomial(d, density, size=n)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices = np.concatenate(
        [np.sort(rng.choice(d, size=c, replace=False)) for c in counts]
    )
    # 1 - [0, 1) is never 0, so no stored value is 0.
    return sp.csr_array((1.0 - rng.random(indptr[-1]), indices, indptr), shape=(n, d))


def _copied_to_the_right(
    X: sp.csr_array, share: float, rng: np.random.Generator
) -> sp.csr_array:
    """Give each value to the feature on its right with a probability, row by row, in order."""
    columns = np.arange(X.shape[1])
    blocks = []
    for start in range(0, X.shape[0], BLOCK):
        rows = X[start : start + BLOCK].toarray()
        copied = rng.random(rows.shape) < share
        copied[:, 0] = False
        source = np.maximum.accumulate(np.where(copied, 0, columns), axis=1)
        blocks.append(sp.csr_array(np.take_along_axis(rows, source, axis=1)))
    return sp.vstack(blocks, format="csr")


def _random_atoms(
    start: int, size: int, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw distinct atoms among `size` features from `start` on."""
    i, j = np.triu_indices(size, 1)
    chosen = rng.choice(len(i), size=count, replace=False)
    sign = rng.choice([-1, 1], size=count)
    return np.column_stack([start + i[chosen], start + j[chosen], sign])


def _judge(
    Z: sp.csr_array, n_triplets: int, alpha: float, rng: np.random.Generator
) -> np.ndarray:
    """Draw anchors, and a positive and a negative of each by the dot products of rows of Z."""
    n = Z.shape[0]
    share = max(1, int(alpha * (n - 1)))
    anchors = np.sort(rng.integers(n, size=n_triplets))
    triplets = np.empty((n_triplets, 3), dtype=np.int64)
    triplets[:, 0] = anchors
    for start in range(0, n, BLOCK):
        rows = np.arange(start, min(start + BLOCK, n))
        similar = (Z[rows] @ Z.T).toarray()
        shuffle = rng.random(similar.shape)  # breaks ties at random
        order = np.lexsort((shuffle, similar), axis=1)
        inside = np.flatnonzero((anchors >= rows[0]) & (anchors <= rows[-1]))
        for t in inside:
            ranked = order[anchors[t] - start]
            ranked = ranked[ranked != anchors[t]]
            triplets[t, 1] = ranked[n - 2 - rng.integers(share)]
            triplets[t, 2] = ranked[rng.integers(share)]
    return triplets[rng.permutation(n_triplets)]


# --- signed links ---------------------------------------------------------------------


class Links(NamedTuple):
    """Rows, signed links that agree with a hidden similarity, their split, and that similarity."""

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

    The frequencies of features follow a power law. The hidden similarity is a convex
    combination of random atoms between frequent features. A link is positive if the
    similarity of its two nodes is among the largest `share` of one of them, and
    negative if it is among the smallest.

    The paper leaves some choices open. Here values are uniform in (0, 1] and weights
    are Dirichlet(9), as in `make_recovery`. The feature of rank r has frequency min(1,
    c/r), where c follows from the density, and the columns are in random order.
    Features of atoms are selected by their observed frequency. Half of the links in
    each part are positive. Pairs among the largest of one node and the smallest of the
    other are left out, and no pair appears twice.

    Parameters
    ----------
    n_nodes : int, default=500
    n_features : int, default=5000
    n_links : int, default=1000
        Links in each part: training, validation, test.
    density : float, default=None
        Mean share of non-zero values. None is the paper's: 0.02 at 5,000 features, and
        0.002 at a million, with log-linear interpolation.
    share : float in (0, 0.5), default=0.05
    n_atoms : int, default=100
    min_frequency : float, default=0.1
        Smallest share of nodes that have a feature of the hidden similarity.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    Links
        ``X, links, signs, train, valid, test, matrix, atoms, weights``: `links` has
        shape (3 * n_links, 2), pairs of rows of X; `train`, `valid` and `test` are rows
        of `links`; the matrix is the hidden M for λ = 1.

    Examples
    --------
    >>> made = make_links(100, 2000, n_links=50, n_atoms=20, random_state=0)
    >>> made.X.shape, made.links.shape, made.signs[made.train].sum()
    ((100, 2000), (150, 2), np.int64(0))
    """
    owner = "make_links"
    _check_counts(owner, 3, n_nodes=n_nodes)
    _check_counts(owner, 2, n_features=n_features, n_links=n_links)
    _check_counts(owner, 1, n_atoms=n_atoms)
    if density is None:
        # From 0.02 at 5,000 features to 0.002 at a million.
        density = 0.02 * (n_features / 5000) ** (-np.log(10) / np.log(200))
        density = float(np.clip(density, 0.002, 0.02))
    intervals = {"density": (density, "(0, 1)"), "share": (share, "(0, 0.5)")}
    _check_shares(owner, **intervals, min_frequency=(min_frequency, "(0, 1)"))
    rng = generator(random_state)
    X = _power_law_rows(n_nodes, n_features, density, rng)
    frequency = np.bincount(X.indices, minlength=n_features) / n_nodes
    frequent = np.flatnonzero(frequency >= min_frequency)
    n_pairs = len(frequent) * (len(frequent) - 1) // 2
    if n_pairs < n_atoms:
        raise ValueError(
            f"{len(frequent)} features have a frequency of {min_frequency} or more, "
            f"too few for {n_atoms} atoms: raise density, or lower min_frequency or "
            "n_atoms."
        )
    # The k-th pair i < j in the order of j.
    k = rng.choice(n_pairs, size=n_atoms, replace=False)
    j = np.floor((1 + np.sqrt(8.0 * k + 1)) / 2).astype(np.int64)
    i = k - j * (j - 1) // 2
    atoms = np.column_stack(
        [frequent[i], frequent[j], rng.choice([-1, 1], size=n_atoms)]
    )
    weights = rng.dirichlet(np.full(n_atoms, 9.0))
    L = atoms_module.factors(atoms, np.sqrt(weights), n_features)
    wanted = {"positive": 3 * (n_links // 2), "negative": 3 * (n_links - n_links // 2)}
    positive, negative = _draw_links(sp.csr_array(X @ L.T), share, wanted, rng)
    links = []
    signs = []
    for plus, minus in zip(np.split(positive, 3), np.split(negative, 3), strict=True):
        order = rng.permutation(n_links)
        links.append(np.concatenate([plus, minus])[order])
        signs.append(np.repeat([1, -1], [len(plus), len(minus)])[order])
    ends = rng.permuted(np.concatenate(links), axis=1)  # either end comes first
    train, valid, test = np.split(np.arange(3 * n_links), 3)
    matrix = sp.csr_array(L.T @ L)
    all_signs = np.concatenate(signs)
    return Links(X, ends, all_signs, train, valid, test, matrix, atoms, weights)


def _power_law_rows(
    n: int, d: int, density: float, rng: np.random.Generator
) -> sp.csr_array:
    """Draw rows in which the feature of rank r is non-zero with probability min(1, c/r)."""
    rank = np.arange(1.0, d + 1)
    low = 0.0
    high = float(d)
    while high - low > 1e-9 * d:
        middle = (low + high) / 2
        if np.minimum(1.0, middle / rank).mean() < density:
            low = middle
        else:
            high = middle
    frequency = np.minimum(1.0, high / rank)
    cells = []
    # Independent draws at a cost proportional to the hits: split the ranks into blocks
    # in which the frequency at most halves, draw geometric gaps at the highest
    # frequency, then thin.
    start = 0
    while start < d:
        stop = min(2 * start + 1, d)
        hits = _hits((stop - start) * n, frequency[start], rng) + start * n
        is_kept = rng.random(len(hits)) * frequency[start] < frequency[hits // n]
        cells.append(hits[is_kept])
        start = stop
    cell = np.concatenate(cells)
    column = rng.permutation(d)[cell // n]
    values = 1.0 - rng.random(len(cell))  # never 0
    X = sp.csr_array((values, (cell % n, column)), shape=(n, d))
    X.sort_indices()
    return X


def _hits(n: int, probability: float, rng: np.random.Generator) -> np.ndarray:
    """Return the sorted numbers of the ones among n draws of 0 or 1.

    The zeros are never made.
    """
    hits = np.empty(0, dtype=np.int64)
    last = -1
    while last < n:
        mean = (n - last) * probability
        gaps = rng.geometric(probability, size=int(mean + 5 * np.sqrt(mean)) + 10)
        more = last + np.cumsum(gaps)
        hits = np.concatenate([hits, more])
        last = int(more[-1])
    return hits[hits < n]


def _draw_links(
    Z: sp.csr_array, share: float, wanted: dict[str, int], rng: np.random.Generator
) -> list[np.ndarray]:
    """Draw distinct pairs i < j among the most and the least similar, each uniformly."""
    n = Z.shape[0]
    count = max(1, int(share * (n - 1)))
    Zt = sp.csr_array(Z.T)

    def similar(start: int) -> np.ndarray:
        return (Z[start : start + BLOCK] @ Zt).toarray()

    high = np.empty(n)
    low = np.empty(n)
    for start in range(0, n, BLOCK):
        S = similar(start)
        rows = np.arange(len(S))
        S[rows, start + rows] = np.nan  # sorts last: a node is not its own neighbour
        S.partition([count - 1, n - 1 - count], axis=1)
        low[start : start + BLOCK] = S[:, count - 1]
        high[start : start + BLOCK] = S[:, n - 1 - count]
    kept: list[np.ndarray] = [np.empty((0, 2), dtype=np.int64)] * 2
    keys = [np.empty(0)] * 2
    for start in range(0, n, BLOCK):
        S = similar(start)
        drawn_here = slice(start, start + BLOCK)
        large = (high[drawn_here, None] <= S) | (high <= S)
        small = (low[drawn_here, None] >= S) | (low >= S)
        upper = np.arange(n) > np.arange(start, start + len(S))[:, None]
        masks = large & ~small & upper, small & ~large & upper
        for sign, (mask, n_wanted) in enumerate(
            zip(masks, wanted.values(), strict=True)
        ):
            # Keep the pairs with the smallest random keys: a uniform draw, block by
            # block.
            pairs = np.argwhere(mask) + np.array([start, 0])
            keys[sign] = np.concatenate([keys[sign], rng.random(len(pairs))])
            kept[sign] = np.concatenate([kept[sign], pairs])
            best = np.argsort(keys[sign])[:n_wanted]
            keys[sign] = keys[sign][best]
            kept[sign] = kept[sign][best]
    for pairs, (kind, n_wanted) in zip(kept, wanted.items(), strict=True):
        if len(pairs) < n_wanted:
            raise ValueError(
                f"There are {len(pairs)} {kind} links among {n} nodes, but {n_wanted} "
                "are wanted: raise n_nodes or share, or lower n_links."
            )
    return kept
