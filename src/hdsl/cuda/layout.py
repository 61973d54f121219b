"""Rows and comparisons on a graphics card."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from ..cpu.comparisons import Comparisons
from ..cpu.kernels.losses import CODES
from ..cpu.layout import CPULayout
from ..cpu.workers import Workers
from ..solver.protocols import Layout, Loss, Statistics
from .problem import CUDAProblem
from .runtime import Array, BrokenDeviceError, Device, kernel_for
from .segments import WIDTH, Segments
from .terms import Terms

#: Rows and pairs of rows whose numbers fit in a part of the card's cache.
ROW_BLOCK, PAIR_BLOCK = 1 << 18, 1 << 21

#: Comparisons whose terms one block of threads sums, as in the kernels.
CHUNK = 2048


class CUDALayout(Layout):
    """X and comparisons of its rows, on a card.

    The host numbers features and pairs of rows as for the CPU; the card holds the rest.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_columns), float64
        Canonical: sorted, no duplicates, no stored zeros.
    compared : ndarray of shape (n, 3) or (n, 4)
        Triplets or quadruplets of rows of X.
    weights : ndarray of shape (n,), default=None
        Of the comparisons; only their ratios matter.
    device : Device
    workers : Workers
        Threads of the host, for the set-up.
    columns : ndarray, default=None
        Columns that are features although they may be empty.
    storage : {"float64", "float32"}, default="float64"
        The type of the values of X on the card. float32 must hold them without rounding.

    Attributes
    ----------
    setup_seconds : float
        Of the set-up beyond the CPU's.
    """

    def __init__(
        self,
        X: sp.csr_array,
        compared: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        device: Device,
        workers: Workers,
        columns: np.ndarray | None = None,
        storage: str = "float64",
    ) -> None:
        self.host = CPULayout(
            X, compared, weights, workers=workers, columns=columns, store_products=False
        )
        self.features, self.n_features = self.host.features, self.host.n_features
        self.weights = self.host.weights
        began = time.perf_counter()
        self.card = OnCard(self.host.comparisons, device, storage)
        device.wait()
        self.setup_seconds = time.perf_counter() - began

    def statistics(self) -> Statistics:
        """Return what an automatic scale and prior are chosen by."""
        return self.host.statistics()

    def problem(self, loss: Loss, scale: float, prior: float = 0.0) -> CUDAProblem:
        """Return the problem of a loss, a scale and a prior."""
        if type(loss) not in CODES:
            raise ValueError(
                "device='cuda' computes the losses of the library only, and this one is not among "
                f"them: {loss!r}. Take device='cpu'."
            )
        return CUDAProblem(self.card, self.features, loss, scale, prior)


class OnCard:
    """Comparisons with their rows and pairs on a card, and the room that work on them needs.

    Parameters
    ----------
    of : Comparisons
    device : Device
    storage : {"float64", "float32"}, default="float64"
        The type of the values of X. Sums and products are float64.

    Attributes
    ----------
    columns, links, products : Segments
        X by columns; per row, the rows it is compared with; per feature, the products of pairs.
    rows_of : tuple of Array
        The rows of the comparisons; the last is None for triplets.
    term_ptr, term : Array
        The comparisons of each pair: t where it is to win, ~t where it is to lose.
    """

    def __init__(self, of: Comparisons, device: Device, storage: str = "float64") -> None:
        self.of, self.device, self.storage = of, device, storage
        pairs, rows = of.pairs, of.rows
        self.n, self.n_pairs = of.n_comparisons, pairs.n_pairs
        self.n_rows, self.n_features = rows.n_rows, rows.n_features
        self.largest_value = float(np.abs(rows.row_val).max(initial=0.0))
        upload = device.upload
        ptr, idx, val = rows.by_column
        val = val.astype(storage, copy=False)
        self.columns = Segments(device, ptr, upload(idx), upload(val), self.n_rows, ROW_BLOCK)
        ptr, neighbor, pair = pairs.links
        self.links = Segments(device, ptr, upload(neighbor), None, self.n_rows, ROW_BLOCK)
        self.link_pair = upload(pair)
        self.products = self._products(rows.row_ptr)
        self.rows_of = (*map(upload, of.columns), None)[:4]
        self.omega, self.omega_step = upload(of.omega), int(of.omega_step)
        self.term_ptr, self.term = self._pair_terms()
        self._make_room()

    def _products(self, row_ptr: np.ndarray) -> Segments:
        """Return the products of compared rows, by feature and pair."""
        device, columns, links = self.device, self.columns, self.links
        nnz = len(columns.idx)
        order = device.argsort(columns.idx)
        feature, value = device.empty(nnz, np.int32), device.empty(nnz, self.storage)
        device.run(
            kernel_for("transpose", columns.val), nnz, nnz, self.n_features, order, columns.ptr,
            columns.val, feature, value,
        )  # fmt: skip
        del order
        by_row = device.upload(row_ptr), feature, value
        known = (
            nnz, self.n_features, columns.ptr, columns.idx, columns.val, *by_row, links.ptr,
            links.idx, self.link_pair,
        )  # fmt: skip
        counts, kernel = device.empty(nnz, np.int32), kernel_for("pair_products", columns.val)
        device.run(kernel, nnz, *known, counts, None, None, None)
        upto = device.cumsum(counts)
        del counts
        n_products = int(device.download(upto[-1:])[0]) if nnz else 0
        pair, product = device.empty(n_products, np.int32), device.empty(n_products)
        device.run(kernel, nnz, *known, None, upto, pair, product)
        ptr = device.empty(self.n_features + 1, np.int64)
        device.run("product_pointers", self.n_features + 1, self.n_features, columns.ptr, upto, ptr)
        return Segments(device, device.download(ptr), pair, product, self.n_pairs, PAIR_BLOCK)

    def _pair_terms(self) -> tuple[Array, Array]:
        device, n = self.device, self.n
        number = device.empty(2 * n, np.int32)
        sides = map(device.upload, (self.of.positive_pair, self.of.negative_pair))
        device.run("interleave", n, n, *sides, number)
        order = device.argsort(number)
        ptr, term = device.empty(self.n_pairs + 1, np.int64), device.empty(2 * n, np.int32)
        device.run("pair_terms", 2 * n, 2 * n, self.n_pairs, order, number, ptr, term)
        return ptr, term

    def _make_room(self) -> None:
        """Allocate what kernels write between two answers; they run one after the other."""
        device = self.device
        self.u, self.v = device.zeros(self.n_rows), device.zeros(self.n_rows)
        self.U, self.R = device.zeros(self.n_rows * WIDTH), device.empty(self.n_rows * WIDTH)
        slots = max(WIDTH * self.columns.n_slots, WIDTH * self.links.n_slots, self.products.n_slots)
        self.slots = device.empty(max(slots, 1))
        chunks = [-(-count // CHUNK) for count in (self.n, self.n_pairs, self.n_features)]
        self.part = device.empty(3 * max(chunks))
        self.ticket = device.zeros(4, np.uint32)
        self.link_w = device.empty(len(self.link_pair))
        self.link_owner: object = None  # whose numbers these are
        self.block_value, self.block_entry = (device.empty(WIDTH * device.n_blocks) for _ in "ve")
        self.block_partner = device.empty(WIDTH * device.n_blocks, np.int64)
        self.tile_value = device.empty(WIDTH * chunks[2])
        self.tile_place = device.empty(WIDTH * chunks[2], np.int64)
        self.value, self.entry = device.empty(WIDTH), device.empty(WIDTH)
        self.partner = device.empty(WIDTH, np.int64)
        self.scalars = device.zeros(4)

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Make sure that an interrupt between two launches leaves nothing half done."""
        try:
            yield
        except BaseException:
            self.reset()
            raise

    def reset(self) -> None:
        """Bring what kernels share, and what is known of it, to where it was at the start.

        On a card that has failed nothing can be done, and the error that is under way goes on.
        """
        self.link_owner = None
        with suppress(BrokenDeviceError):
            for array in (self.u, self.v, self.U, self.ticket):
                self.device.clear(array)
            if "terms" in self.__dict__:
                self.terms.forget()

    @property
    def by_column(self) -> tuple[Array, Array, Array]:
        """X as CSC arrays."""
        return self.columns.ptr, self.columns.idx, self.columns.val

    @cached_property
    def terms(self) -> Terms:
        """Terms of feature pairs, which all problems on these comparisons share."""
        return Terms(self)

    @cached_property
    def dot_margins(self) -> Array:
        """Margins of the plain dot product."""
        return self.device.upload(self.of.dot_margins)

    @cached_property
    def row_sizes(self) -> Array:
        """max_j |x_j| of each row."""
        return self.device.upload(self.of.rows.largest)
