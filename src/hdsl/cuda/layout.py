"""Rows and comparisons on a graphics card."""

import numpy as np
import scipy.sparse as sp

from ..solver import losses
from ..solver.protocols import Layout, Loss, Statistics
from ..solver.statistics import Sums, from_sample, weighted_sums
from .on_card import OnCard
from .problem import CUDAProblem
from .runtime import Array, Device


class CUDALayout(Layout):
    """X and comparisons of its rows, on a card, which also lays them out.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_columns), float64
        Canonical: sorted, no duplicates, no stored zeros.
    compared : ndarray of shape (n, 3) or (n, 4)
        Triplets or quadruplets of rows of X.
    weights : ndarray of shape (n,), default=None
        Of the comparisons; only their ratios matter.
    device : Device
    workers : object, default=None
        Threads of the host, of which it needs none.
    columns : ndarray, default=None
        Columns that are features although they may be rare or empty.
    min_rows : int, default=1
        Columns that fewer rows have are no features. They count in inner products, so
        in the prior.

    Attributes
    ----------
    features : ndarray of shape (n_features,)
        The columns of X that are features, the fullest first. Feature numbers are
        positions here.
    """

    def __init__(
        self,
        X: sp.csr_array,
        compared: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        device: Device,
        workers: object = None,
        columns: np.ndarray | None = None,
        min_rows: int = 1,
    ) -> None:
        self.card = OnCard(X, compared, weights, device, columns, min_rows)
        self.features = self.card.features
        self.n_features = self.card.n_features
        device.wait()

    def statistics(self) -> Statistics:
        """Return what an automatic scale and prior are chosen by."""
        card = self.card
        download = card.device.download
        largest, second, fourth = map(download, card.row_sizes)
        squared_norms = largest**2 * second
        values = np.divide(
            second**2, fourth, out=np.zeros(card.n_rows), where=fourth > 0
        )
        weights = download(card.omega) if card.omega_step else np.ones(card.n)
        anchors = download(card.rows_of[0])

        def sums_of(numbers: np.ndarray) -> Sums:
            uploaded = card.device.upload(numbers)

            def take(values_on_card: Array) -> np.ndarray:
                return download(card.device.take(values_on_card, uploaded))

            a, b, *others = [take(rows) for rows in card.rows_of if rows is not None]
            c, d = others if len(others) == 2 else (a, *others)
            norms = np.sqrt(squared_norms)[np.array([a, b, c, d])]
            margins = take(card.dot_margins())
            return weighted_sums(weights[numbers], margins, norms, values[a])

        return from_sample(
            card.n,
            sums_of,
            int(np.count_nonzero(np.bincount(anchors[weights > 0.0]))),
            lambda: float(squared_norms.mean()),
        )

    def problem(
        self, loss: Loss, scale: float, fixed_weights: tuple[float, ...] = ()
    ) -> CUDAProblem:
        """Return the problem of a loss, a scale and a weight per fixed part."""
        code = losses.kernel_code(loss)
        assert code is not None, "check_parameters refuses losses without a kernel"
        return CUDAProblem(self.card, code, scale, fixed_weights)
