"""The similarity of rows before anything is learned."""

from typing import Any

from ..solver.atoms import NOTHING
from .fixed import parts_of_rows
from .similarity import Similarity


def unlearned(X: Any, embedding_weight: float = 1.0) -> Similarity:
    """Return ⟨x, x'⟩ of rows like X, of mixed rows ⟨x, x'⟩ + embedding_weight·⟨z, z'⟩."""
    atoms, weights = NOTHING
    fixed = parts_of_rows(X, 1.0, embedding_weight)
    return Similarity(atoms, weights, 1.0, fixed, X.shape[1])
