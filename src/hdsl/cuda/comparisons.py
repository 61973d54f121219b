"""One data set on a card: comparisons of rows, their pairs, and arrays to work in."""

from contextlib import suppress
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..cached import cached
from ..layout import check_count, compared_rows
from ..rows import Rows, sparse_block
from .rows import WIDTH, CardRows, Segments
from .runtime import CHUNK, Array, BrokenDeviceError, Device

#: Pairs of rows whose numbers fit in a part of the card's cache.
PAIR_BLOCK = 1 << 21


class ComparedRows(NamedTuple):
    """Rows of comparisons S(a, b) > S(c, d); triplets S(a, b) > S(a, c) have no d."""

    a: Array
    b: Array
    c: Array
    d: Array | None

    @property
    def sides(self) -> tuple[Array, Array, Array, Array]:
        """The rows of both pairs, of triplets too."""
        if self.d is None:
            return self.a, self.b, self.a, self.c
        return self.a, self.b, self.c, self.d


class PairRows(NamedTuple):
    """The rows a ≤ b of each pair, sorted."""

    a: Array
    b: Array


class Weighting(NamedTuple):
    """Weights of the comparisons: that of t is ``omega[t * omega_step]``.

    Where all are equal there is one number, and `omega_step` is 0.
    """

    omega: Array
    omega_step: int

    @property
    def is_equal(self) -> bool:
        """Whether all weights are equal."""
        return self.omega_step == 0


class Comparisons:
    """Comparisons, the distinct pairs of rows in them, and products of these rows.

    Parameters
    ----------
    rows : CardRows
    compared : ndarray of shape (n, 3) or (n, 4)
        Triplets or quadruplets.
    weights : ndarray of shape (n,) or None

    Attributes
    ----------
    n, n_pairs : int
    compared : ComparedRows
        Sorted by the first row.
    weighting : Weighting
        Weights that sum to 1, in the same order.
    pairs : PairRows
    side : Array of shape (2 * n,)
        The pairs of each comparison, side by side: the one that is to win, the one that
        is to lose.
    signed_ptr, signed : Array
        The comparisons of each pair: t where it is to win, ~t where it is to lose.
    links : Segments
        Per row, the rows that it is compared with. A row that is compared with itself
        is listed twice.
    link_pair : Array
        The pair of each link.
    products : Segments
        Per feature, the products x_aj x_bj of pairs.
    """

    def __init__(
        self, rows: CardRows, compared: np.ndarray, weights: np.ndarray | None
    ) -> None:
        self.device = rows.device
        self.rows = rows
        self.n = len(compared)
        check_count(2 * self.n, "sides of comparisons", "comparisons")
        self._sort(compared, weights)
        self._number_pairs()
        self._link_rows()
        self.products = self._products()

    def _sort(self, compared: np.ndarray, weights: np.ndarray | None) -> None:
        """Copy the comparisons and their weights, sorted by the first row."""
        device = self.device
        columns = [device.upload(column.astype(np.int32)) for column in compared.T]
        order = device.argsort(columns[0])
        columns = [device.take(column, order) for column in columns]
        if len(columns) == 3:
            columns.append(None)
        self.compared = ComparedRows(*columns)
        if weights is None:
            equal = device.upload(np.array([1.0 / self.n]))
            self.weighting = Weighting(equal, omega_step=0)
        else:
            omega = device.upload(weights / weights.sum())
            self.weighting = Weighting(device.take(omega, order), omega_step=1)

    def _number_pairs(self) -> None:
        """Number the pairs of rows, and list the comparisons of each."""
        device = self.device
        n_sides = 2 * self.n
        keys = device.empty(n_sides, np.int64)
        is_first = device.empty(n_sides, np.int32)
        device.run(
            "pair_keys",
            self.n,
            n=self.n,
            n_rows=self.rows.n,
            a=self.compared.a,
            b=self.compared.b,
            c=self.compared.c,
            d=self.compared.d,
            keys=keys,
        )
        order = device.argsort(keys)
        device.run(
            "first_keys", n_sides, n=n_sides, order=order, keys=keys, is_first=is_first
        )
        n_upto = device.cumsum(is_first)
        self.n_pairs = int(device.download(n_upto[n_sides - 1 :])[0])
        self.pairs = PairRows(
            a=device.empty(self.n_pairs, np.int32),
            b=device.empty(self.n_pairs, np.int32),
        )
        self.side = device.empty(n_sides, np.int32)
        self.signed = device.empty(n_sides, np.int32)
        self.signed_ptr = device.empty(self.n_pairs + 1, np.int64)
        device.run(
            "list_pairs",
            n_sides,
            n=n_sides,
            n_rows=self.rows.n,
            order=order,
            keys=keys,
            n_upto=n_upto,
            a=self.pairs.a,
            b=self.pairs.b,
            side=self.side,
            signed_ptr=self.signed_ptr,
            signed_comparison=self.signed,
        )

    def _link_rows(self) -> None:
        """List for each row the rows that it is compared with."""
        device = self.device
        n_links = 2 * self.n_pairs
        row = device.empty(n_links, np.int32)
        device.run(
            "interleave",
            self.n_pairs,
            n=self.n_pairs,
            a=self.pairs.a,
            b=self.pairs.b,
            out=row,
        )
        order = device.argsort(row)
        ptr = device.empty(self.rows.n + 1, np.int64)
        device.run(
            "key_bounds",
            self.rows.n + 1,
            n_keys=self.rows.n,
            n=n_links,
            order=order,
            key=row,
            bounds=ptr,
        )
        neighbor = device.empty(n_links, np.int32)
        self.link_pair = device.empty(n_links, np.int32)
        device.run(
            "list_links",
            n_links,
            n_links=n_links,
            order=order,
            row=row,
            neighbor=neighbor,
            link_pair=self.link_pair,
        )
        del order, row
        self.links = Segments(
            device,
            ptr=device.download(ptr),
            idx=neighbor,
            val=None,
            n_source=self.rows.n,
            block=self.rows.block,
        )

    def _products(self) -> Segments:
        """Return the products of compared rows, by feature and pair."""
        device = self.device
        n_entries = len(self.rows.by_feature.idx)
        counts = device.empty(n_entries, np.int32)
        self._queue_products(counts=counts, n_upto=None, out_pair=None, out=None)
        n_upto = device.cumsum(counts)
        del counts
        n_products = 0
        if n_entries:
            n_products = int(device.download(n_upto[n_entries - 1 :])[0])
        pair = device.empty(n_products, np.int32)
        product = device.empty(n_products)
        self._queue_products(counts=None, n_upto=n_upto, out_pair=pair, out=product)
        ptr = device.empty(self.rows.n_features + 1, np.int64)
        device.run(
            "product_pointers",
            self.rows.n_features + 1,
            n_features=self.rows.n_features,
            feature_ptr=self.rows.by_feature.ptr,
            n_upto=n_upto,
            product_ptr=ptr,
        )
        return Segments(
            device,
            ptr=device.download(ptr),
            idx=pair,
            val=product,
            n_source=self.n_pairs,
            block=PAIR_BLOCK,
        )

    def _queue_products(
        self,
        *,
        counts: Array | None,
        n_upto: Array | None,
        out_pair: Array | None,
        out: Array | None,
    ) -> None:
        """Queue the count of the products of each entry of X, or the products."""
        by_row = self.rows.by_row
        by_feature = self.rows.by_feature
        n_entries = len(by_feature.idx)
        self.device.run(
            "pair_products",
            n_entries,
            n=n_entries,
            n_features=self.rows.n_features,
            feature_ptr=by_feature.ptr,
            feature_row=by_feature.idx,
            feature_val=by_feature.val,
            row_ptr=by_row.ptr,
            row_idx=by_row.idx,
            row_val=by_row.val,
            link_ptr=self.links.ptr,
            neighbor=self.links.idx,
            link_pair=self.link_pair,
            counts=counts,
            n_upto=n_upto,
            out_pair=out_pair,
            out_product=out,
        )

    @cached
    def dot_products(self) -> Array:
        """The inner product of each pair of rows."""
        out = self.device.empty(self.n_pairs)
        self.device.run(
            "pair_values",
            self.n_pairs,
            n_pairs=self.n_pairs,
            a=self.pairs.a,
            b=self.pairs.b,
            ptr=self.rows.by_row.ptr,
            idx=self.rows.by_row.idx,
            val=self.rows.by_row.val,
            weight=None,
            factor=1.0,
            base=0.0,
            out=out,
        )
        if self.rows.dense is not None:
            self.device.run(
                "add_embedding_products",
                self.n_pairs,
                n_pairs=self.n_pairs,
                width=self.rows.dense.shape[1],
                a=self.pairs.a,
                b=self.pairs.b,
                dense=self.rows.dense,
                out=out,
            )
        return out

    def dot_margins(self, weight: float = 1.0) -> Array:
        """Return the margins of the plain dot product, times a weight."""
        out = self.device.empty(self.n)
        self.queue_margins(self.dot_products, out, factor=weight)
        return out

    def queue_margins(
        self, by_pair: Array, out: Array, *, factor: float = 1.0, base: float = 0.0
    ) -> None:
        """Queue out = base · out + factor · the margins of numbers per pair."""
        self.device.run(
            "pair_margins",
            self.n,
            n=self.n,
            side=self.side,
            by_pair=by_pair,
            factor=factor,
            base=base,
            out=out,
        )

    def exact_search_cost(self) -> float:
        """Return the number of multiplications of a search of all feature pairs."""
        n_values = self.rows.values_per_row().astype(np.float64)
        a = self.device.download(self.pairs.a)
        b = self.device.download(self.pairs.b)
        return 2.0 * float((n_values[a] * n_values[b]).sum())


def variant(kernel: str, loss_code: int, weighting: Weighting) -> str:
    """Return the kernel for a loss: the paper's, with equal weights, has its own."""
    if loss_code == 0 and weighting.is_equal:
        return f"{kernel}_plain"
    return kernel


#: Numbers that kernels answer with, and blocks that wait for each other.
N_SCALARS = 4


class Workspace:
    """Arrays that the problems of a data set share; kernels run one after the other.

    Parameters
    ----------
    rows : CardRows
    comparisons : Comparisons

    Attributes
    ----------
    u, v : Array of shape (n_rows,)
        Two atoms that are unfolded: x_i ± x_j of every row. Zeros at rest.
    U : Array of shape (n_rows * WIDTH,)
        Features that are unfolded, side by side. Zeros at rest.
    R : Array of shape (n_rows * WIDTH,)
        Σ_b w_ab U_b of every row a.
    slots : Array
        Sums of the chunks of long segments.
    chunk_sums : Array
        Two numbers for each chunk of comparisons, pairs or features.
    ticket : Array
        Counts the blocks that have ended. Zeros at rest.
    link_weights : Array
        One number per pair of rows, in the order of the links.
    link_owner : Pulls or None
        Whose numbers these are.
    block_value, block_entry, block_partner : Array
        The best partners that each block has seen.
    tile_value, tile_place : Array
        The largest numbers of each tile.
    scalars : Array
        What kernels answer with.
    """

    def __init__(self, rows: CardRows, comparisons: Comparisons) -> None:
        device = rows.device
        self.device = device
        self.u = device.zeros(rows.n)
        self.v = device.zeros(rows.n)
        self.U = device.zeros(rows.n * WIDTH)
        self.R = device.empty(rows.n * WIDTH)
        n_slots = max(
            WIDTH * rows.by_feature.n_slots,
            WIDTH * comparisons.links.n_slots,
            comparisons.products.n_slots,
        )
        self.slots = device.empty(max(n_slots, 1))
        n_tiles = -(-rows.n_features // CHUNK)
        n_longest = max(comparisons.n, comparisons.n_pairs, rows.n_features)
        self.chunk_sums = device.empty(2 * -(-n_longest // CHUNK))
        self.ticket = device.zeros(N_SCALARS, np.uint32)
        self.link_weights = device.empty(len(comparisons.link_pair))
        self.link_owner: object = None
        self.block_value = device.empty(WIDTH * device.n_blocks)
        self.block_entry = device.empty(WIDTH * device.n_blocks)
        self.block_partner = device.empty(WIDTH * device.n_blocks, np.int64)
        self.tile_value = device.empty(WIDTH * n_tiles)
        self.tile_place = device.empty(WIDTH * n_tiles, np.int64)
        self.scalars = device.zeros(N_SCALARS)

    def reset(self) -> None:
        """Return to the state at rest, whatever was left undone.

        On a card that has failed nothing can be done, and the error that is under way
        goes on.
        """
        self.link_owner = None
        with suppress(BrokenDeviceError):
            for array in (self.u, self.v, self.U, self.ticket):
                self.device.clear(array)


class CardData:
    """Rows and comparisons on a card, and the arrays that work on them needs.

    Parameters are those of ``CUDALayout``.

    Attributes
    ----------
    device : Device
    rows : CardRows
    comparisons : Comparisons
    workspace : Workspace
    """

    def __init__(
        self,
        X: sp.csr_array | Rows,
        compared: np.ndarray,
        weights: np.ndarray | None,
        device: Device,
        columns: np.ndarray | None = None,
        min_rows: int = 1,
    ) -> None:
        self.device = device
        is_compared = compared_rows(compared, weights, X.shape[0])
        self.rows = CardRows(sparse_block(X), device, is_compared, columns, min_rows)
        if isinstance(X, Rows):
            self.rows.dense = device.upload(X.dense.astype(np.float32, copy=False))
        self.comparisons = Comparisons(self.rows, compared, weights)
        self.workspace = Workspace(self.rows, self.comparisons)
