"""Rows, comparisons and pairs of rows on a card, laid out there."""

from contextlib import suppress

import numpy as np
import scipy.sparse as sp

from ..cached import cached
from ..solver.columns import check_count, is_wide, number_features
from .runtime import Array, BrokenDeviceError, Device
from .segments import WIDTH, Segments

#: Rows and pairs of rows whose numbers fit in a part of the card's cache.
ROW_BLOCK = 1 << 18
PAIR_BLOCK = 1 << 21

#: Comparisons whose terms one block of threads sums, as in the kernels.
CHUNK = 2048


class OnCard:
    """Rows and comparisons on a card, and the room that work on them needs.

    Parameters are those of ``CUDALayout``.

    Attributes
    ----------
    features : ndarray of shape (n_features,)
        The columns of X that are features, the fullest first. Feature numbers are
        positions here.
    columns, links, products : Segments
        X by columns; per row, the rows it is compared with; per feature, the products
        of pairs.
    by_row : tuple of Array
        X as CSR arrays with sorted features, rare ones at the end.
    rows_of : tuple of Array
        The rows of the comparisons, sorted by the first; the last is None for triplets.
    pairs : tuple of Array
        The rows a ≤ b of each pair, sorted.
    side : Array
        The pairs of each comparison, side by side: the one that is to win, the one that
        is to lose.
    term_ptr, term : Array
        The comparisons of each pair: t where it is to win, ~t where it is to lose.
    """

    def __init__(
        self,
        X: sp.csr_array,
        compared: np.ndarray,
        weights: np.ndarray | None,
        device: Device,
        columns: np.ndarray | None = None,
        min_rows: int = 1,
    ) -> None:
        self.device = device
        self.n = len(compared)
        self.n_rows = X.shape[0]
        check_count(2 * self.n, "sides of comparisons", "comparisons")
        self._lay_out_rows(X, columns, min_rows)
        self._sort_comparisons(compared, weights)
        self._number_pairs()
        self.products = self._products()
        self._make_room()

    # --- the layout -------------------------------------------------------------------

    def _lay_out_rows(
        self, X: sp.csr_array, columns: np.ndarray | None, min_rows: int
    ) -> None:
        """Number the features, and copy X by columns and by rows with sorted features."""
        device = self.device
        nnz = int(X.indptr[-1])
        names = None
        indices = X.indices
        width = X.shape[1]
        if is_wide(X):
            names, indices = np.unique(indices, return_inverse=True)
            width = len(names)
        idx = device.upload(np.asarray(indices, dtype=np.int32))
        counts = device.zeros(width, np.int32)
        device.run("count_features", nnz, nnz, idx, counts)
        length = device.download(counts).astype(np.int64)
        # Rare columns have the last numbers: rows have them, columns of features do
        # not.
        self.features, position, self.n_numbers = number_features(
            length, names, min_rows, columns
        )
        self.n_features = len(self.features)
        used = np.flatnonzero(length)
        lengths = np.zeros(self.n_numbers, dtype=np.int64)
        lengths[position[used]] = length[used]
        self.lengths = lengths[: self.n_features]
        ptr = np.concatenate([[0], np.cumsum(lengths)])
        idx = device.take(device.upload(position), idx)
        row_ptr = device.upload(X.indptr.astype(np.int64))
        col_ptr = device.upload(ptr)
        row, val = self._transposed(idx, self.n_rows, row_ptr, device.upload(X.data))
        self.by_row = row_ptr, *self._transposed(row, self.n_numbers, col_ptr, val)
        ptr = ptr[: self.n_features + 1]
        entries = row[: ptr[-1]], val[: ptr[-1]]
        self.columns = Segments(device, ptr, *entries, self.n_rows, ROW_BLOCK)

    def _transposed(
        self, idx: Array, n: int, ptr: Array, val: Array
    ) -> tuple[Array, Array]:
        """Return indices and values of a sparse matrix of n segments, by their indices."""
        device = self.device
        nnz = len(idx)
        order = device.argsort(idx)
        out = device.empty(nnz, np.int32), device.empty(nnz)
        device.run("transpose", nnz, nnz, n, order, ptr, val, *out)
        return out

    def _sort_comparisons(
        self, compared: np.ndarray, weights: np.ndarray | None
    ) -> None:
        """Copy the comparisons, sorted by their first row."""
        device = self.device
        first, *others = (device.upload(part.astype(np.int32)) for part in compared.T)
        order = device.argsort(first)
        rows = [device.take(part, order) for part in (first, *others)]
        self.rows_of = (*rows, None)[:4]
        omega = np.array([1.0 / self.n])
        self.omega_step = 0
        if weights is not None:
            omega = weights / weights.sum()
            self.omega_step = 1
        self.omega = device.upload(omega)
        if self.omega_step:
            self.omega = device.take(self.omega, order)

    def _number_pairs(self) -> None:
        """Number the pairs of rows, and list the comparisons of each and the links of rows."""
        device = self.device
        n = 2 * self.n
        key = device.empty(n, np.int64)
        is_first = device.empty(n, np.int32)
        device.run("pair_keys", self.n, self.n, self.n_rows, *self.rows_of, key)
        order = device.argsort(key)
        device.run("first_keys", n, n, order, key, is_first)
        upto = device.cumsum(is_first)
        self.n_pairs = int(device.download(upto[n - 1 :])[0])
        a, b = self.pairs = tuple(device.empty(self.n_pairs, np.int32) for _ in "ab")
        self.side = device.empty(n, np.int32)
        self.term = device.empty(n, np.int32)
        self.term_ptr = device.empty(self.n_pairs + 1, np.int64)
        device.run(
            "list_pairs",
            n,
            n,
            self.n_rows,
            order,
            key,
            upto,
            a,
            b,
            self.side,
            self.term_ptr,
            self.term,
        )
        del key, is_first, order, upto
        n_links = 2 * self.n_pairs
        row = device.empty(n_links, np.int32)
        ptr = device.empty(self.n_rows + 1, np.int64)
        device.run("interleave", self.n_pairs, self.n_pairs, a, b, row)
        order = device.argsort(row)
        device.run("key_bounds", self.n_rows + 1, self.n_rows, n_links, order, row, ptr)
        neighbor = device.empty(n_links, np.int32)
        self.link_pair = device.empty(n_links, np.int32)
        device.run("list_links", n_links, n_links, order, row, neighbor, self.link_pair)
        del order, row
        self.links = Segments(
            device, device.download(ptr), neighbor, None, self.n_rows, ROW_BLOCK
        )

    def _products(self) -> Segments:
        """Return the products of compared rows, by feature and pair."""
        device = self.device
        columns = self.columns
        links = self.links
        nnz = len(columns.idx)
        known = (
            nnz,
            self.n_features,
            columns.ptr,
            columns.idx,
            columns.val,
            *self.by_row,
            links.ptr,
            links.idx,
            self.link_pair,
        )
        counts = device.empty(nnz, np.int32)
        device.run("pair_products", nnz, *known, counts, None, None, None)
        upto = device.cumsum(counts)
        del counts
        n_products = int(device.download(upto[nnz - 1 :])[0]) if nnz else 0
        pair = device.empty(n_products, np.int32)
        product = device.empty(n_products)
        device.run("pair_products", nnz, *known, None, upto, pair, product)
        ptr = device.empty(self.n_features + 1, np.int64)
        device.run(
            "product_pointers",
            self.n_features + 1,
            self.n_features,
            columns.ptr,
            upto,
            ptr,
        )
        return Segments(
            device, device.download(ptr), pair, product, self.n_pairs, PAIR_BLOCK
        )

    def _make_room(self) -> None:
        """Allocate what kernels write between two answers; they run one after the other."""
        device = self.device
        self.u = device.zeros(self.n_rows)
        self.v = device.zeros(self.n_rows)
        self.U = device.zeros(self.n_rows * WIDTH)
        self.R = device.empty(self.n_rows * WIDTH)
        slots = max(
            WIDTH * self.columns.n_slots,
            WIDTH * self.links.n_slots,
            self.products.n_slots,
        )
        self.slots = device.empty(max(slots, 1))
        chunks = [
            -(-count // CHUNK) for count in (self.n, self.n_pairs, self.n_features)
        ]
        self.part = device.empty(2 * max(chunks))
        self.ticket = device.zeros(4, np.uint32)
        self.link_w = device.empty(len(self.link_pair))
        self.link_owner: object = None  # whose numbers these are
        self.block_value, self.block_entry = (
            device.empty(WIDTH * device.n_blocks) for _ in "ve"
        )
        self.block_partner = device.empty(WIDTH * device.n_blocks, np.int64)
        self.tile_value = device.empty(WIDTH * chunks[2])
        self.tile_place = device.empty(WIDTH * chunks[2], np.int64)
        self.scalars = device.zeros(4)

    def unfold(self, listed: Array, *, back: bool = False) -> None:
        """Queue the unfolding of two atoms in u and v, or take them back."""
        ptr, idx, val = self.by_column
        val = None if back else val
        self.device.run(
            "scatter_atoms", self.n_rows, listed, ptr, idx, val, self.u, self.v
        )

    # --- what is left undone ----------------------------------------------------------

    def reset(self) -> None:
        """Bring what kernels share, and what is known of it, to where it was at the start.

        On a card that has failed nothing can be done, and the error that is under way
        goes on.
        """
        self.link_owner = None
        with suppress(BrokenDeviceError):
            for array in (self.u, self.v, self.U, self.ticket):
                self.device.clear(array)

    # --- what is asked for now and then -----------------------------------------------

    @property
    def by_column(self) -> tuple[Array, Array, Array]:
        """X as CSC arrays."""
        return self.columns.ptr, self.columns.idx, self.columns.val

    @property
    def weighting(self) -> tuple[Array, int]:
        """Weights of the comparisons, as kernels take them."""
        return self.omega, self.omega_step

    @cached
    def dots(self) -> Array:
        """The inner product of each pair of rows."""
        n = self.n_pairs
        out = self.device.empty(self.n_pairs)
        self.device.run(
            "pair_values", n, n, *self.pairs, *self.by_row, None, 1.0, 0.0, out
        )
        return out

    @cached
    def row_sizes(self) -> tuple[Array, ...]:
        """max_j |x_j| of each row, and its sums of squares and fourth powers relative to that."""
        out = tuple(self.device.empty(self.n_rows) for _ in range(3))
        (ptr, _, val) = self.by_row
        self.device.run("row_sizes", self.n_rows, self.n_rows, ptr, val, *out)
        return out

    def dot_margins(self) -> Array:
        """Return the margins of the dot product."""
        out = self.device.empty(self.n)
        self.device.run(
            "pair_margins", self.n, self.n, self.side, self.dots, 1.0, 0.0, out
        )
        return out

    def exact_search_cost(self) -> float:
        """Return the number of multiplications of a search of all pairs of features."""
        length = np.diff(self.device.download(self.by_row[0])).astype(np.float64)
        a, b = map(self.device.download, self.pairs)
        return 2.0 * float((length[a] * length[b]).sum())
