"""Kernels from pairs of rows to rows of S = C + Cᵀ, and to the best partners of features.

The best partner j of a feature i has the largest C_jj + |S_ij|; of equals it is the
smallest. Rows of S are made WIDTH at a time, in lines, or one at a time from the rows of
X that a feature reaches.
"""

from typing import NamedTuple

import numpy as np

from .compiled import Links, SparseArrays, kernel
from .lines import LINE, WIDTH, add, lift, put, reaches, zeros

#: No feature has this number.
NO_FEATURE = np.iinfo(np.int64).max


class UnfoldedFeatures(NamedTuple):
    """The columns of X of up to WIDTH features, by rows.

    Attributes
    ----------
    lines : ndarray of shape (n_rows + 1, WIDTH)
        Row a is line a + 1, where it is marked. Line 0 has zeros.
    is_marked : ndarray of shape (n_rows,), uint8
        Whether a row has a value in one of the features.
    """

    lines: np.ndarray
    is_marked: np.ndarray


class SpreadFeatures(NamedTuple):
    """R = (W + Wᵀ) X[:, features] for up to WIDTH features.

    Attributes
    ----------
    lines : ndarray of shape (n_rows, WIDTH)
    limits : ndarray of shape (WIDTH,)
        At least the largest size of a number of each column.
    """

    lines: np.ndarray
    limits: np.ndarray


class PartnerSearch(NamedTuple):
    """What is searched for.

    Attributes
    ----------
    features : ndarray of shape (n,), int64
        The features that want a partner.
    only_later : bool
        Whether partners are later than their features.
    diagonal : ndarray of shape (n_features,)
        C_jj of each feature.
    """

    features: np.ndarray
    only_later: bool
    diagonal: np.ndarray


class BestPartners(NamedTuple):
    """The best partner of each of some features.

    Attributes
    ----------
    values : ndarray of shape (n,), float64
        C_jj + |S_ij|; -inf where there is no partner.
    partners : ndarray of shape (n,), int64
        j; -1 where there is none.
    entries : ndarray of shape (n,), float64
        S_ij; 0 where there is none.
    """

    values: np.ndarray
    partners: np.ndarray
    entries: np.ndarray

    @classmethod
    def empty(cls, n: int) -> "BestPartners":
        """Return new arrays for n features."""
        return cls(np.empty(n), np.empty(n, dtype=np.int64), np.empty(n))

    def put(self, positions: np.ndarray, best: "BestPartners") -> None:
        """Write the best partners of the features at some positions."""
        self.values[positions] = best.values
        self.partners[positions] = best.partners
        self.entries[positions] = best.entries


class BestByShare(NamedTuple):
    """The best partners of up to WIDTH features so far, by shares of the candidates.

    Attributes
    ----------
    values : ndarray of shape (n_shares, WIDTH), float64
        C_jj + |S_ij|; -inf where there is no partner, inf where there is no feature.
    partners : ndarray of shape (n_shares, WIDTH), int64
        j; -1 where there is none.
    entries : ndarray of shape (n_shares, WIDTH), float64
        S_ij; 0 where there is none.
    S : ndarray of shape (n_shares, WIDTH), float64
        A work array for S_ij of one candidate.
    """

    values: np.ndarray
    partners: np.ndarray
    entries: np.ndarray
    S: np.ndarray

    @classmethod
    def none(cls, n_features: int) -> "BestByShare":
        """Return one share, in which no feature has a partner."""
        values = np.full((1, WIDTH), np.inf)
        values[0, :n_features] = -np.inf
        return cls(
            values=values,
            partners=np.full((1, WIDTH), -1),
            entries=np.zeros((1, WIDTH)),
            S=np.empty((1, WIDTH)),
        )

    def repeated(self, n_shares: int) -> "BestByShare":
        """Return as many shares, each of which begins with the best of this one."""
        if n_shares == 1:
            return self
        return BestByShare(
            values=self.values.repeat(n_shares, axis=0),
            partners=self.partners.repeat(n_shares, axis=0),
            entries=self.entries.repeat(n_shares, axis=0),
            S=np.empty((n_shares, WIDTH)),
        )

    def best(self) -> "BestByShare":
        """Return one share with the best of all, the smallest of equals."""
        if len(self.values) == 1:
            return self
        is_best = self.values == self.values.max(axis=0)
        partners = np.where(is_best, self.partners, NO_FEATURE)
        share = partners.argmin(axis=0)[None]
        column = np.arange(WIDTH)
        return BestByShare(
            values=self.values[share, column],
            partners=self.partners[share, column],
            entries=self.entries[share, column],
            S=self.S[:1],
        )

    def of_features(self, n_features: int) -> BestPartners:
        """Return the first share, without columns that have no feature."""
        return BestPartners(
            values=self.values[0, :n_features],
            partners=self.partners[0, :n_features],
            entries=self.entries[0, :n_features],
        )


class WeightedRows(NamedTuple):
    """What S is made of: X, and weighted pairs of its rows.

    Attributes
    ----------
    rows, columns : SparseArrays
        X by rows and by columns.
    links : Links
    weights : ndarray of shape (n_pairs,)
    """

    rows: SparseArrays
    columns: SparseArrays
    links: Links
    weights: np.ndarray


class RowWorkspaces(NamedTuple):
    """What threads write to while one row of S is made at a time; zeros, also afterwards.

    Attributes
    ----------
    reached : ndarray of shape (n_threads, n_rows), int32
        The rows of X that a feature reaches; only the first ones count.
    is_reached : ndarray of shape (n_threads, n_rows), bool
    row_sums : ndarray of shape (n_threads, n_rows)
        (W + Wᵀ) X[:, i].
    seen : ndarray of shape (n_threads, n_features + 1), int32
        Features of the reached rows; only the first ones count.
    is_seen : ndarray of shape (n_threads, n_features + 1), bool
    entries : ndarray of shape (n_threads, n_features + 1)
        S_ij; the last is a sum over columns that are no features, and not zero.
    """

    reached: np.ndarray
    is_reached: np.ndarray
    row_sums: np.ndarray
    seen: np.ndarray
    is_seen: np.ndarray
    entries: np.ndarray

    @classmethod
    def empty(cls, n_threads: int, n_rows: int, n_features: int) -> "RowWorkspaces":
        """Return new arrays."""
        by_row = (n_threads, n_rows)
        by_feature = (n_threads, n_features + 1)
        return cls(
            reached=np.zeros(by_row, dtype=np.int32),
            is_reached=np.zeros(by_row, dtype=np.bool_),
            row_sums=np.zeros(by_row),
            seen=np.zeros(by_feature, dtype=np.int32),
            is_seen=np.zeros(by_feature, dtype=np.bool_),
            entries=np.zeros(by_feature),
        )


# --- columns of X by rows -------------------------------------------------------------


@kernel()
def _first_from(row, indices, low, high):
    """Return the first position in [low, high) whose row is not before `row`, else `high`."""
    while low < high:
        middle = (low + high) // 2
        if indices[middle] < row:
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def unfold_atom(start, stop, i, j, sign, columns, out):
    """Write X e_i ± X e_j for the rows [start, stop)."""
    for row in range(start, stop):
        out[row] = 0.0
    _add_column(start, stop, i, 1.0, columns, out)
    _add_column(start, stop, j, np.float64(sign), columns, out)


@kernel()
def _add_column(start, stop, feature, factor, columns, out):
    """Add a factor times X e_i for the rows [start, stop)."""
    indices = columns.indices
    last = columns.indptr[feature + 1]
    k = _first_from(start, indices, columns.indptr[feature], last)
    while k < last and indices[k] < stop:
        out[np.uint32(indices[k])] += factor * columns.data[k]
        k += 1


@kernel()
def unfold(start, stop, features, columns, unfolded):
    """Mark the rows [start, stop) of X that have some of the features, and write them."""
    indptr = columns.indptr
    indices = columns.indices
    data = columns.data
    lines = unfolded.lines
    is_marked = unfolded.is_marked
    lines_address = lines.ctypes.data
    nothing = zeros()
    for row in range(start, stop):
        is_marked[row] = 0
    for c in range(features.size):
        last = indptr[features[c] + 1]
        k = _first_from(start, indices, indptr[features[c]], last)
        while k < last and indices[k] < stop:
            row = indices[k]
            if not is_marked[row]:
                is_marked[row] = 1
                put(nothing, lines_address + LINE * (np.int64(row) + 1))
            lines[row + 1, c] = data[k]
            k += 1


# --- WIDTH rows of S at a time --------------------------------------------------------


@kernel()
def spread(start, stop, bounds, links, weights, unfolded, R, largest):
    """Write R = (W + Wᵀ) X[:, features] by shares [start, stop) of the rows.

    Rows that are not marked are not read: line 0 stands for them, as a test of marks
    would guess wrong too often. `largest` gets the largest sizes of numbers in each
    column of each share.
    """
    neighbors = links.neighbors
    pairs = links.pairs
    is_marked = unfolded.is_marked
    lines_address = unfolded.lines.ctypes.data
    R_address = R.ctypes.data
    for share in range(start, stop):
        largest_line = zeros()
        for row in range(bounds[share], bounds[share + 1]):
            line = zeros()
            target = R_address + LINE * row
            first = np.uint64(links.indptr[row])
            last = np.uint64(links.indptr[row + 1])
            for e in range(first, last):
                neighbor = np.uint32(neighbors[e])
                mark = is_marked[neighbor]
                weight = weights[np.uint32(pairs[e]) * np.uint32(mark)]
                number = (np.int64(neighbor) + 1) * np.int64(mark)
                add(line, weight, lines_address + LINE * number)
            put(line, target)
            lift(largest_line, target)
        put(largest_line, largest.ctypes.data + LINE * share)


@kernel()
def gather(start, stop, columns, R, out):
    """Write S[j, :] = X[:, j]ᵀ R, WIDTH numbers, for the features j in [start, stop)."""
    indices = columns.indices
    data = columns.data
    R_address = R.ctypes.data
    out_address = out.ctypes.data
    for j in range(start, stop):
        line = zeros()
        for k in range(np.uint64(columns.indptr[j]), np.uint64(columns.indptr[j + 1])):
            add(line, data[k], R_address + LINE * np.int64(indices[k]))
        put(line, out_address + LINE * j)


@kernel()
def best_of_columns(start, stop, bounds, search, columns, column_sums, spread, best):
    """Find the best partners of up to WIDTH features among shares [start, stop) of the features.

    Each share has lines of its own in `best`: infinite values where there is no feature.
    No |S_ij| is above the sum of |X[:, j]| times the largest |R[:, i]|: a feature that
    can be nobody's best is passed over, as nearly all rare ones are.
    """
    indices = columns.indices
    data = columns.data
    features = search.features
    diagonal = search.diagonal
    values = best.values
    partners = best.partners
    entries = best.entries
    S = best.S
    R_address = spread.lines.ctypes.data
    limit = zeros()
    lift(limit, spread.limits.ctypes.data)
    indptr = columns.indptr
    for share in range(start, stop):
        values_address = values.ctypes.data + LINE * share
        S_address = S.ctypes.data + LINE * share
        for j in range(bounds[share], bounds[share + 1]):
            if not reaches(limit, diagonal[j], column_sums[j], values_address):
                continue
            line = zeros()
            for k in range(np.uint64(indptr[j]), np.uint64(indptr[j + 1])):
                add(line, data[k], R_address + LINE * np.int64(indices[k]))
            if not reaches(line, diagonal[j], 1.0, values_address):
                continue
            put(line, S_address)
            for c in range(features.size):
                i = features[c]
                value = diagonal[j] + abs(S[share, c])
                is_better = value > values[share, c]
                is_better |= value == values[share, c] and j < partners[share, c]
                if is_better and (j > i or (j < i and not search.only_later)):
                    values[share, c] = value
                    partners[share, c] = j
                    entries[share, c] = S[share, c]


# --- one row of S at a time -----------------------------------------------------------


@kernel()
def _reach(feature, X, reached, is_reached, row_sums):
    """Add (W + Wᵀ) X[:, feature] to the sums of rows; list the rows that it reaches.

    Returns how many there are, and how many entries they have.
    """
    columns = X.columns
    links = X.links
    row_ptr = X.rows.indptr
    n_reached = 0
    n_entries = 0
    for k in range(columns.indptr[feature], columns.indptr[feature + 1]):
        row = columns.indices[k]
        x = columns.data[k]
        first = np.uint64(links.indptr[row])
        last = np.uint64(links.indptr[row + 1])
        for e in range(first, last):
            weight = X.weights[np.uint32(links.pairs[e])]
            if weight != 0.0:
                neighbor = np.uint32(links.neighbors[e])
                if not is_reached[neighbor]:
                    is_reached[neighbor] = True
                    reached[n_reached] = neighbor
                    n_reached += 1
                    n_entries += row_ptr[neighbor + 1] - row_ptr[neighbor]
                row_sums[neighbor] += weight * x
    return n_reached, n_entries


@kernel()
def add_rows(start, stop, n_shares, features, numbers, X, spaces, out):
    """Add the rows of S of features[numbers] to these rows of `out`, by shares.

    A share has every n_shares-th number and a work array of its own.
    """
    rows = X.rows
    n_features = out.shape[1]
    for share in range(start, stop):
        reached = spaces.reached[share]
        is_reached = spaces.is_reached[share]
        row_sums = spaces.row_sums[share]
        for f in range(share, numbers.size, n_shares):
            number = np.uint64(numbers[f])
            n_reached, _ = _reach(features[number], X, reached, is_reached, row_sums)
            for k in range(n_reached):
                row = np.uint32(reached[k])
                row_sum = row_sums[row]
                row_sums[row] = 0.0
                is_reached[row] = False
                first = np.uint64(rows.indptr[row])
                last = np.uint64(rows.indptr[row + 1])
                for q in range(first, last):
                    if rows.indices[q] < n_features:
                        out[number, np.uint32(rows.indices[q])] += (
                            rows.data[q] * row_sum
                        )


@kernel()
def best_of_reached(start, stop, n_shares, search, others, X, spaces, best):
    """Find the best partners of features, one row of S at a time, by shares [start, stop).

    A share has every n_shares-th feature, and work arrays of its own. It visits only
    the rows of X that a feature reaches: the cheaper way for rare features. A partner
    that shares no pair with the feature has S_ij = 0: others[f] is the best such
    partner of a feature, or -1.
    """
    n_features = search.diagonal.size
    for share in range(start, stop):
        reached = spaces.reached[share]
        is_reached = spaces.is_reached[share]
        row_sums = spaces.row_sums[share]
        seen = spaces.seen[share]
        is_seen = spaces.is_seen[share]
        entries = spaces.entries[share]
        for f in range(share, search.features.size, n_shares):
            feature = search.features[f]
            n_reached, n_entries = _reach(feature, X, reached, is_reached, row_sums)
            # Few features are listed one by one; of many, it is quicker to look at all.
            is_listed = 4 * n_entries < n_features
            n_seen = np.int64(0)
            for k in range(n_reached):
                row = np.uint32(reached[k])
                row_sum = row_sums[row]
                row_sums[row] = 0.0
                is_reached[row] = False
                if is_listed:
                    n_seen = _list_features(
                        row, X.rows, n_features, is_seen, seen, n_seen
                    )
                _add_row(row, row_sum, X.rows, n_features, entries)
            n_candidates = n_features
            if is_listed:
                n_candidates = n_seen
            value = -np.inf
            partner = np.int64(-1)
            entry = 0.0
            if others[f] >= 0:
                partner = others[f]
                entry = entries[partner]
                value = search.diagonal[partner] + abs(entry)
            for k in range(n_candidates):
                j = np.int64(k)
                if is_listed:
                    j = np.int64(seen[k])
                x = search.diagonal[j] + abs(entries[j])
                is_allowed = j > feature or (j < feature and not search.only_later)
                if is_allowed and (x > value or (x == value and j < partner)):
                    value = x
                    partner = j
                    entry = entries[j]
                is_seen[j] = False
                entries[j] = 0.0
            best.values[f] = value
            best.partners[f] = partner
            best.entries[f] = entry


@kernel()
def _list_features(row, rows, n_features, is_seen, seen, n_seen):
    """List the features of a row that are not seen yet after the others; return their number."""
    for q in range(np.uint64(rows.indptr[row]), np.uint64(rows.indptr[row + 1])):
        j = rows.indices[q]
        if j < n_features and not is_seen[j]:
            is_seen[j] = True
            seen[n_seen] = j
            n_seen += 1
    return n_seen


@kernel()
def _add_row(row, factor, rows, n_features, out):
    """Add a factor times a row to a dense one; columns that are no features to its last number."""
    for q in range(np.uint64(rows.indptr[row]), np.uint64(rows.indptr[row + 1])):
        j = rows.indices[q]
        column = np.uint32(j if j < n_features else n_features)
        out[column] += rows.data[q] * factor
