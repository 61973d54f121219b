"""Second derivatives of the loss in the weights of many atoms, over a sample."""

import numpy as np

from ..solver.atoms import are_directions
from ..solver.protocols import curvature_stride
from .atoms import AtomRows
from .comparisons import Comparisons
from .embedding import EmbeddedRows
from .runtime import Array

#: Most numbers of the sample that are laid out at a time.
SAMPLE_LIMIT = 1 << 25

#: Most parts of the sample that are summed on their own, and most numbers of their
#: sums.
MOST_PARTS = 64
PARTS_LIMIT = 1 << 22

#: Fewest rows of a part.
LEAST_ROWS = 256

#: Rows and columns of a tile of the sum, as in the kernels.
TILE = 64


class Curvature:
    """K = Σ_t h_t v_t v_tᵀ, where v_t is what atoms add to the margin of comparison t.

    h_t is the comparison's weight times the second derivative of its loss.

    Parameters
    ----------
    comparisons : Comparisons
    atom_rows : AtomRows
    loss_code : int
    embedded : EmbeddedRows or None
        The embedding that directions are learned in.
    """

    def __init__(
        self,
        comparisons: Comparisons,
        atom_rows: AtomRows,
        loss_code: int,
        embedded: EmbeddedRows | None,
    ) -> None:
        self.comparisons = comparisons
        self.device = comparisons.device
        self._atom_rows = atom_rows
        self._loss_code = loss_code
        self._embedded = embedded

    def __call__(self, atoms: np.ndarray, margins: Array, scale: float) -> np.ndarray:
        """Return scale² · K of shape (n_atoms, n_atoms), estimated from a sample.

        Directions count with the scale of their own.
        """
        is_direction = are_directions(atoms)
        if is_direction.any():  # they are columns behind those of pairs
            order = np.argsort(is_direction, kind="stable")
            place = np.argsort(order)
            return self._sampled(atoms[order], margins, scale)[np.ix_(place, place)]
        return self._sampled(atoms, margins, scale)

    def _sampled(self, atoms: np.ndarray, margins: Array, scale: float) -> np.ndarray:
        device = self.device
        n_atoms = len(atoms)
        if not n_atoms:
            return np.zeros((0, 0))
        n_comparisons = self.comparisons.n
        stride = curvature_stride(
            n_comparisons,
            n_atoms,
            lambda step: len(self._curved(margins, step)),
        )
        sample = self._curved(margins, stride)
        n_sample = len(sample)
        factor = scale**2 * (n_comparisons / -(-n_comparisons // stride))

        block_size = max(1, SAMPLE_LIMIT // n_atoms)
        most_parts = min(MOST_PARTS, PARTS_LIMIT // n_atoms**2, n_sample // LEAST_ROWS)
        n_parts = max(1, most_parts)
        K = device.zeros(n_atoms * n_atoms)
        partial = device.empty(n_parts * n_atoms * n_atoms)
        V = device.empty(min(block_size, n_sample) * n_atoms)
        for first in range(0, n_sample, block_size):
            block = sample[first : first + block_size]
            self._queue_sample_rows(atoms, block, margins, factor, scale, V)
            self._queue_gram(len(block), n_atoms, V, n_parts, partial, K)
        return device.download(K).reshape(n_atoms, n_atoms)

    def _curved(self, margins: Array, stride: int) -> Array:
        """Return which of every stride-th comparison have a loss that is curved."""
        n = -(-self.comparisons.n // stride)
        is_curved = self.device.empty(n, np.int32)
        self._queue_curved(n, stride, margins, n_upto=None, out=is_curved)
        n_upto = self.device.cumsum(is_curved)
        n_curved = int(self.device.download(n_upto[n - 1 :])[0])
        curved = self.device.empty(n_curved, np.int32)
        self._queue_curved(n, stride, margins, n_upto=n_upto, out=curved)
        return curved

    def _queue_curved(
        self, n: int, stride: int, margins: Array, *, n_upto: Array | None, out: Array
    ) -> None:
        """Queue whether each loss is curved, or the list of those that are."""
        self.device.run(
            "curved",
            n,
            code=self._loss_code,
            n=n,
            stride=stride,
            margins=margins,
            n_upto=n_upto,
            out=out,
        )

    def _queue_sample_rows(
        self,
        atoms: np.ndarray,
        sample: Array,
        margins: Array,
        factor: float,
        scale: float,
        V: Array,
    ) -> None:
        """Queue the rows sqrt(factor · h_t) v_t of V."""
        comparisons = self.comparisons
        arguments = {
            "code": self._loss_code,
            "n": len(sample),
            "sample": sample,
            "factor": factor,
            "margins": margins,
            "omega": comparisons.weighting.omega,
            "omega_step": comparisons.weighting.omega_step,
            "side": comparisons.side,
            "a": comparisons.pairs.a,
            "b": comparisons.pairs.b,
            "n_atoms": len(atoms),
        }
        self.device.clear(V)
        paired = atoms[~are_directions(atoms)]
        for block in self._atom_rows.blocks(paired):
            self.device.run(
                "sample_rows",
                len(sample),
                **arguments,
                ptr=block.z.ptr,
                atom=block.z.idx,
                z=block.z.val,
                left=block.first,
                V=V,
            )
        if len(paired) < len(atoms):
            assert self._embedded is not None
            self._embedded.queue_sample(
                atoms[len(paired) :, 1],
                arguments,
                self._embedded.scale / scale,
                len(paired),
                V,
            )

    def _queue_gram(
        self,
        n_sample: int,
        n_atoms: int,
        V: Array,
        n_parts: int,
        partial: Array,
        K: Array,
    ) -> None:
        """Queue K += Vᵀ V."""
        n_tiles = (-(-n_atoms // TILE)) ** 2
        self.device.run(
            "gram_parts",
            n_tiles * n_parts,
            per_block=1,
            n=n_sample,
            n_atoms=n_atoms,
            n_parts=n_parts,
            V=V,
            partial=partial,
        )
        self.device.run(
            "add_gram",
            n_atoms * n_atoms,
            n_atoms=n_atoms,
            n_parts=n_parts,
            partial=partial,
            K=K,
        )
