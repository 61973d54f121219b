"""The fixed parts of a model: the dot product of the features, and of the embedding."""

from __future__ import annotations

from typing import Any

from ..similarity import FixedPart
from ..similarity.fixed import EMBEDDING


def fixed_parts(model: Any) -> tuple[FixedPart, ...]:
    """Return the fixed parts of a fitted model, which take rows as a user has them."""
    n_sparse = model.n_features_in_ - model.embedding_width_
    prior = FixedPart("prior", model.prior_, model.norm_, model.columns_)
    if model.embedding_width_ == 0:
        return (prior,)
    features = FixedPart(
        "prior", model.prior_, model.norm_, model.columns_, stop=n_sparse
    )
    weight = float(model.prior_ * model.embedding_weight_)
    embedding = FixedPart(
        EMBEDDING, weight, norm="l2", start=n_sparse, by_feature=False
    )
    return features, embedding
