"""Measure a model against the cosine: errors on labels or judgements, and known-item search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..evaluate import (
    ErrorComparison,
    KnownItem,
    compare_errors,
    compare_triplets,
    known_item,
    mcnemar,
)
from .options import N_NEIGHBORS
from .scored import ScoredModel

#: Most queries of a known-item search.
N_QUERIES = 500


@dataclass(frozen=True)
class Measured:
    """Errors before and after learning, and ranks in known-item search.

    Parameters
    ----------
    errors : ErrorComparison
    known_items : dict of str to KnownItem
        By "cosine" and "learned"; empty if no row has two features.
    n_neighbors : int
        Neighbours that vote; 0 for judgements.
    """

    errors: ErrorComparison
    known_items: dict[str, KnownItem]
    n_neighbors: int = 0

    @property
    def n(self) -> int:
        """The number of rows or judgements that were measured on."""
        return self.errors.before.n

    @property
    def measure(self) -> str:
        """What the errors are."""
        if self.n_neighbors:
            return f"error of {self.n_neighbors} nearest neighbours"
        return "share of judgements that are wrong"

    @property
    def ranks_sentence(self) -> str:
        """What the ranks of known items show: of each query, by cosine and as learned."""
        ranks = (self.known_items[name].ranks for name in ("cosine", "learned"))
        test = mcnemar(*ranks)
        if test.only_a == test.only_b == 0:
            return "The learned similarity ranks these rows as the cosine does."
        said = (
            f"The learned similarity ranks the row higher for {test.only_a} queries and lower for "
            f"{test.only_b}: {test.chance}."
        )
        is_worse = test.is_more_than_chance and test.only_b > test.only_a
        return said + (" To find one particular row, use the cosine." if is_worse else "")

    def facts(self) -> dict[str, Any]:
        """Return the errors and ranks as values for JSON."""
        known = {name: found.to_dict() for name, found in self.known_items.items()}
        return {
            "error": {"cosine": self.errors.before.share, "learned": self.errors.after.share},
            "comparison": self.errors.to_dict(),
            "known item": known | ({"sentence": self.ranks_sentence} if known else {}),
        }


def measure_labels(
    model: ScoredModel,
    X: sp.csr_array,
    y: np.ndarray,
    X_test: sp.csr_array | None = None,
    y_test: np.ndarray | None = None,
    *,
    n_neighbors: int = N_NEIGHBORS,
) -> Measured:
    """Return the errors of test rows by their neighbours in X, or of rows of X by the others.

    Test rows are also searched by half of their features, among themselves and the rows of X.
    """
    k = min(n_neighbors, X.shape[0] - (X_test is None))
    errors = compare_errors(
        model, X, y, X_test, y_test, n_neighbors=k, cosine=True, n_jobs=model.model.n_jobs
    )
    rows = np.arange(errors.before.n)
    ranked = X if X_test is None else sp.csr_array(sp.vstack([X_test, X]))
    return Measured(errors, _known_items(model, ranked, rows), k)


def measure_judgements(
    model: ScoredModel,
    X: sp.csr_array,
    comparisons: np.ndarray,
    weights: np.ndarray | None,
    rows: np.ndarray | None = None,
) -> Measured:
    """Return the shares of judgements that are wrong; search for some rows of X, or for all."""
    errors = compare_triplets(model, X, comparisons, sample_weight=weights)
    return Measured(errors, _known_items(model, X, np.arange(X.shape[0]) if rows is None else rows))


def _known_items(model: ScoredModel, X: sp.csr_array, rows: np.ndarray) -> dict[str, KnownItem]:
    """Return the ranks of rows of X for half of their features, by cosine and as learned."""
    if not (np.diff(X.indptr)[rows] >= 2).any():
        return {}
    return {
        name: known_item(similarity, X, rows=rows, n_queries=N_QUERIES, random_state=0)
        for name, similarity in (("cosine", None), ("learned", model))
    }
