"""What ``fit`` is given, checked, as one kind of supervision."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..input.embeddings import check_rows
from ..input.labels import check_comparisons, check_labels, check_weights
from ..labels import label_sets
from ..rows import Rows
from ..triplets import Judgements
from ..triplets.grades import group_numbers
from .compared_rows import ComparedRows, Supervision
from .labeled_rows import LabeledRows, LabelSetRows


def check_supervision(
    estimator_name: str,
    X: sp.csr_array,
    y: Any = None,
    *,
    triplets: Any = None,
    quadruplets: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
) -> Any:
    """Return what was given to ``fit``, checked; X is checked already."""
    if triplets is not None and quadruplets is not None:
        raise ValueError(
            "fit takes triplets or quadruplets, but got both. A triplet (a, p, q) is "
            "the quadruplet (a, p, a, q): pass all judgements as quadruplets."
        )
    if triplets is not None:
        return _check_judgements(X, triplets, "triplet", 3, sample_weight, groups)
    if quadruplets is not None:
        return _check_judgements(X, quadruplets, "quadruplet", 4, sample_weight, groups)
    if y is None:
        raise ValueError(
            f"{estimator_name} requires y to be passed, but the target y is None. Give "
            "labels, fit(X, y), or judgements, fit(X, triplets=T) or fit(X, "
            "quadruplets=Q)."
        )
    n_rows = X.shape[0]
    weights = check_weights(sample_weight, n_rows, "row of X")
    groups = check_groups(groups, n_rows, "row of X")
    sets = label_sets(y)
    if sets is not None:
        sets = sets.check(X).check_differ()
        return LabelSetRows(X, sets, weights, groups=groups)
    check_labels(y, n_rows)
    return LabeledRows(X, np.asarray(y).ravel(), weights, groups=groups)


def _check_judgements(
    X: Any, compared: Any, kind: str, width: int, sample_weight: Any, groups: Any
) -> ComparedRows:
    """Return rows with triplets or quadruplets, checked."""
    judgements = None
    if isinstance(compared, Judgements):
        judgements = compared
        compared = judgements.triplets
        if sample_weight is None:
            sample_weight = judgements.weights
        if groups is None:
            groups = judgements.groups
    compared = check_comparisons(compared, X.shape[0], f"{kind}s", width)
    weights = check_weights(sample_weight, len(compared), kind)
    groups = check_groups(groups, len(compared), kind)
    documents = None
    if judgements is not None and judgements.n_documents is not None:
        documents = np.arange(judgements.n_documents)
    return ComparedRows(
        X, compared, weights, groups=groups, judgements=judgements, documents=documents
    )


def check_groups(groups: Any, n: int, unit: str) -> np.ndarray | None:
    """Return a number per row or comparison, equal for those of one group.

    Numbers are by first appearance.
    """
    if groups is None:
        return None
    values = np.asarray(groups)
    if values.shape != (n,):
        raise ValueError(
            f"groups must have shape ({n},), one value per {unit}. Got shape "
            f"{values.shape}."
        )
    return group_numbers(values)


def check_validation(
    data: Supervision, owner: Any, X_val: Any, y_val: Any, triplets_val: Any
) -> Any:
    """Return validation data, checked, with the features of `data`; None where there are none."""
    passed = {"X_val": X_val, "y_val": y_val, "triplets_val": triplets_val}
    names = [name for name, value in passed.items() if value is not None]
    if not names:
        return None
    if X_val is None or (y_val is None) == (triplets_val is None):
        raise ValueError(
            "Validation data are X_val with y_val, or X_val with triplets_val. Got "
            f"{' and '.join(names)}."
        )
    X = check_rows(owner, X_val, reset=False, name="X_val")
    if isinstance(X, Rows):
        X = Rows(X.sparse.astype(np.float64), X.dense.astype(np.float32))
    else:
        X = sp.csr_array(X).astype(np.float64, copy=False)
    if triplets_val is not None:
        compared = check_comparisons(triplets_val, X.shape[0], "triplets_val")
        return ComparedRows(X, compared)
    return data.check_validation(X, y_val)
