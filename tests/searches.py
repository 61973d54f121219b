"""Small searches over a grid, for the tests of HDSLCV."""

import pytest
from sklearn.model_selection import StratifiedKFold

import strategies
from hdsl import HDSLCV
from small_fits import LABELS as Y
from small_fits import ROWS as X
from small_fits import T_VAL, Y_VAL, as_quadruplets, scored
from small_fits import small as smallest

T = strategies.random_arrays(0, len(X), T=400)[1]
SPLITS = list(StratifiedKFold(2).split(X, Y))
SCALES, PRIORS = [0.3, 3.0, 30.0], [0.0, 0.05]
ONE = {"scales": [1.0], "priors": [0.0]}
LEARN = {
    "labels": ({"y": Y}, {"y_val": Y_VAL}),
    "triplets": ({"triplets": T}, {"triplets_val": T_VAL}),
    "quadruplets": (
        {"quadruplets": as_quadruplets(T)[:, [1, 0, 2, 3]]},
        {"triplets_val": as_quadruplets(T_VAL)},
    ),
}
all_kinds = pytest.mark.parametrize("kind", LEARN)


def small(**parameters):
    """Return a small model with an automatic scale and prior, which may stop early."""
    given = {"scale": "auto", "prior": "auto", "max_iter": 30, "tol": 1e-2, "n_iter_no_change": 15}
    return smallest(**{**given, **parameters})


def search(estimator=None, **parameters):
    """Return a search over six models in two folds."""
    estimator = small() if estimator is None else estimator
    return HDSLCV(**{"scales": SCALES, "priors": PRIORS, "estimator": estimator, "cv": SPLITS,
                     **parameters})  # fmt: skip


def along(model, iterations):
    """Return the score at each iteration; after the end of the run, the last."""
    scores = scored(model)
    return [scores[max(known for known in scores if known <= k)] for k in iterations]
