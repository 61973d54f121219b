"""Rows and comparisons on a graphics card."""

import numpy as np
import scipy.sparse as sp

from ..rows import Rows
from ..solver import losses
from ..solver.protocols import Layout, Loss
from ..solver.statistics import Statistics, Sums, from_sample, weighted_sums
from .comparisons import CardData
from .problem import CUDAProblem
from .runtime import Device


class CUDALayout(Layout):
    """X and comparisons of its rows, on a card, which also lays them out.

    Parameters
    ----------
    X : csr_array or Rows of shape (n_rows, n_columns), float64
        Canonical: sorted, no duplicates, no stored zeros. The columns of an embedding
        are no features.
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
        X: sp.csr_array | Rows,
        compared: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        device: Device,
        workers: object = None,
        columns: np.ndarray | None = None,
        min_rows: int = 1,
    ) -> None:
        self.card = CardData(X, compared, weights, device, columns, min_rows)
        self.features = self.card.rows.features
        self.n_features = self.card.rows.n_features
        device.wait()

    def statistics(self) -> Statistics:
        """Return what an automatic scale and prior are chosen by."""
        device = self.card.device
        comparisons = self.card.comparisons
        squared_norms, n_values = self._row_statistics()
        weights = np.ones(comparisons.n)
        if not comparisons.weighting.is_equal:
            weights = device.download(comparisons.weighting.omega)
        anchors = device.download(comparisons.compared.a)
        is_anchor = np.bincount(anchors[weights > 0.0])

        def sums_of(numbers: np.ndarray) -> Sums:
            """Return the sums over some comparisons."""
            on_card = device.upload(numbers)
            sides = comparisons.compared.sides
            rows = [device.download(device.take(side, on_card)) for side in sides]
            margins = device.take(comparisons.dot_margins(), on_card)
            return weighted_sums(
                weights=weights[numbers],
                margins=device.download(margins),
                norms=np.sqrt(squared_norms[np.array(rows)]),
                values=n_values[rows[0]],
            )

        return from_sample(
            comparisons.n,
            sums_of,
            n_anchors=int(np.count_nonzero(is_anchor)),
            mean_square=lambda: float(squared_norms.mean()),
        )

    def _row_statistics(self) -> tuple[np.ndarray, np.ndarray]:
        """Return ‖x‖² of each row, and how many values it rests on, (Σx²)² / Σx⁴."""
        device = self.card.device
        sizes = self.card.rows.sizes
        largest = device.download(sizes.largest)
        second = device.download(sizes.second)
        fourth = device.download(sizes.fourth)
        n_values = np.divide(
            second**2, fourth, out=np.zeros(len(fourth)), where=fourth > 0
        )
        squared_norms = largest**2 * second
        dense = self.card.rows.dense
        if dense is not None:
            embedding = device.download(dense).astype(np.float64)
            squared_norms += np.einsum("ij,ij->i", embedding, embedding)
        return squared_norms, n_values

    def problem(
        self,
        loss: Loss,
        scale: float,
        prior: float = 0.0,
        direction_scale: float = 0.0,
    ) -> CUDAProblem:
        """Return the problem of a loss, a scale and a weight of the dot product."""
        code = losses.kernel_code(loss)
        if code is None:
            raise ValueError(
                f"There is no kernel for the loss {loss!r} on a graphics card: losses "
                f"other than {', '.join(losses.names_with_kernel())} need "
                "device='cpu'."
            )
        offset = None
        if prior:
            offset = self.card.comparisons.dot_margins(float(prior))
        return CUDAProblem(self.card, code, scale, offset, direction_scale)
