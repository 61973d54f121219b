"""Many atoms at once on a card: similarities of pairs of rows, and scores.

Each is a pass over the pairs of compared rows, with two short rows of Z each.
"""

import numpy as np

from .atom_codes import atom_codes
from .atom_rows import AtomBlock, AtomRows
from .data import CardData
from .pulls import Pulls
from .runtime import WARPS, Array
from .terms import AtomTerms, pair_chunks


class Atoms:
    """Sums over pairs of rows for a list of atoms.

    Parameters
    ----------
    card : CardData

    Attributes
    ----------
    rows : AtomRows
    terms : AtomTerms
    """

    def __init__(self, card: CardData) -> None:
        self.card = card
        self.device = card.device
        self.rows = AtomRows(card)
        self.terms = AtomTerms(card)

    def reset(self) -> None:
        """Drop the rows that are remembered."""
        self.rows.reset()

    def queue_similarities(
        self, atoms: np.ndarray, factors: np.ndarray, out: Array
    ) -> None:
        """Queue Σ_k factor_k z_ak z_bk of every pair {a, b} of rows."""
        if not len(atoms):
            self.device.clear(out)
        for block in self.rows.blocks(atoms):
            self._queue_block(block, factors, out)

    def _queue_block(self, block: AtomBlock, factors: np.ndarray, out: Array) -> None:
        """Queue the similarities of a block of atoms, or add them to those before."""
        comparisons = self.card.comparisons
        base = 1.0
        if block.first == 0:
            base = 0.0
        self.device.run(
            "pair_values",
            comparisons.n_pairs,
            n_pairs=comparisons.n_pairs,
            a=comparisons.pairs.a,
            b=comparisons.pairs.b,
            ptr=block.z.ptr,
            idx=block.z.idx,
            val=block.z.val,
            weight=self.device.upload(factors[block.first : block.last]),
            factor=1.0,
            base=base,
            out=out,
        )

    def scores(self, atoms: np.ndarray, pulls: Pulls) -> np.ndarray:
        """Return Σ_s w_s z_ak z_bk of each atom k; others change no bit of it.

        Active atoms are some of the last correction, whose rows are remembered. Where
        they come one by one, the terms of each are stored.
        """
        codes = atom_codes(atoms, self.card.rows.n_features)
        remembered = self.rows.find(codes)
        if remembered is not None:
            block, positions = remembered
            return self._block_scores(block, pulls.w)[positions]
        sums = self.terms.sums(codes, pulls)
        if sums is not None:
            return sums
        blocks = self.rows.blocks(atoms)
        scores = [self._block_scores(block, pulls.w) for block in blocks]
        return np.concatenate([np.empty(0), *scores])

    def _block_scores(self, block: AtomBlock, w: Array) -> np.ndarray:
        """Return the scores of a block: chunks of pairs are summed, and then these."""
        device = self.device
        comparisons = self.card.comparisons
        n_atoms = block.last - block.first
        chunk_length, n_chunks = pair_chunks(comparisons.n_pairs)
        partial = device.empty(n_chunks * n_atoms)
        scores = device.empty(n_atoms)
        device.run(
            "score_parts",
            n_chunks,
            per_block=WARPS,
            n_pairs=comparisons.n_pairs,
            chunk=chunk_length,
            n_atoms=n_atoms,
            a=comparisons.pairs.a,
            b=comparisons.pairs.b,
            w=w,
            ptr=block.z.ptr,
            atom=block.z.idx,
            z=block.z.val,
            partial=partial,
        )
        device.run(
            "add_parts",
            n_atoms,
            per_block=1,
            n_parts=n_chunks,
            n_atoms=n_atoms,
            partial=partial,
            out=scores,
        )
        return device.download(scores)
