"""Rows and comparisons on a graphics card."""

import numpy as np
import scipy.sparse as sp

from ..solver import losses
from ..solver.protocols import Layout, Loss, Statistics
from .on_card import OnCard
from .problem import CUDAProblem
from .runtime import Device

#: Scale and prior are chosen by at most so many comparisons, one in so many of all.
STATISTICS_SAMPLE = 100_000


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
        take = card.device.take
        download = card.device.download
        omega = np.ones(card.n)
        stride = -(-card.n // STATISTICS_SAMPLE)
        if card.omega_step:
            omega = download(card.omega)
            stride = (
                stride if omega[::stride].any() else 1
            )  # all that count are left out
        n_anchors = int(
            np.count_nonzero(np.bincount(download(card.rows_of[0])[omega > 0.0]))
        )
        some = card.device.upload(np.arange(0, card.n, stride))
        omega = omega[::stride]
        largest, second, fourth = map(download, card.row_sizes)
        squared_norm = largest**2 * second
        n_values = np.divide(
            second**2, fourth, out=np.zeros(card.n_rows), where=fourth > 0
        )
        rows = [download(take(part, some)) for part in card.rows_of if part is not None]
        a, b, *others = rows
        c, d = others if len(others) == 2 else (a, *others)
        norm = np.sqrt(squared_norm)
        margin = np.abs(download(take(card.dot_margins(), some)))
        margin[margin <= 1e-14 * (norm[a] * norm[b] + norm[c] * norm[d])] = 0.0
        weight = float(omega.sum())
        mean = lambda values: float((values * omega).sum()) / weight  # noqa: E731
        # Where no two dot products differ, go by the size of the rows.
        typical = mean(margin) or float(squared_norm.mean())
        return Statistics(typical, n_anchors, mean(n_values[a]), mean(squared_norm[a]))

    def problem(
        self, loss: Loss, scale: float, fixed_weights: tuple[float, ...] = ()
    ) -> CUDAProblem:
        """Return the problem of a loss, a scale and a weight per fixed part."""
        code = losses.kernel_code(loss)
        assert code is not None, "check_parameters refuses losses without a kernel"
        return CUDAProblem(self.card, code, scale, fixed_weights)
