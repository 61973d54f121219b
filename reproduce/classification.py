"""Classifiers on a learned similarity, beside a linear one on the features.

Beyond the paper: its section 6 leaves a classification objective open. Everything is
chosen by folds of the training rows, in which every similarity is learned anew, and
test rows are looked at once. Where test labels were never published the validation rows
take their place: they choose nothing.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC

from hdsl import HDSL, SimilarityKNeighborsClassifier

from . import local, sets
from .landmarks import SimilarityClassifier
from .results import Results, Table, by_set_and_method, set_names, share
from .runner import finished
from .settings import Cell, Line, Settings

TITLE = "Classification by similarities to landmarks"

#: Similarities to choose from. "dot" is the dot product of rows at unit length. In the
#: second all rows are landmarks. The others are of triplets of rows, or of rows and the
#: means of classes, there also with a tenth of the scale.
SIMILARITIES = (
    "dot",
    "dot, all landmarks",
    "triplets",
    "classification",
    "classification / 10",
)

#: Rows of a table, by what they are made of.
RULES = {"knn": "3-NN", "centre": "nearest centre", "landmarks": "SimilarityClassifier"}
LINEAR = {"svc_l2": "LinearSVC", "svc_l1": "LinearSVC, ℓ1"}

COSTS = (0.01, 0.1, 1.0, 10.0, 100.0)
N_FOLDS = 3
N_LANDMARKS = 500
MAX_ITER = 150
PASSES = 300
PRIOR = 15.0

#: Most rows to learn from and to report on, drawn once.
MOST_TRAINING = 1000
MOST_TEST = 2000


def cells(settings: Settings) -> list[Cell]:
    """Return every similarity, and the linear classifiers, on every set."""
    names = ["docstrings"]
    if settings.data is not None:
        names = [*sets.present(settings, sets.PAPER + sets.MORE), "docstrings"]
    if settings.quick:
        names = ["bace_ecfp6"] if "bace_ecfp6" in names else ["docstrings"]
    methods = [*SIMILARITIES, *LINEAR]
    return [{"set": name, "method": method} for name in names for method in methods]


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return errors in folds and on test rows, with the number of weights."""
    most = (150, 100) if settings.quick else (MOST_TRAINING, MOST_TEST)
    task = local.real_task(settings, cell["set"], *most)
    X = task.X
    y = task.y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows of a class
        folds = list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=0).split(X, y))
        rules = _linear if cell["method"] in LINEAR else _similarity
        errors: dict[str, float] = {}
        for train, held in folds:
            for name, found in rules(
                settings, cell["method"], X[train], y[train]
            ).items():
                wrong = int(np.sum(found["predict"](X[held]) != y[held]))
                errors[name] = errors.get(name, 0.0) + wrong / len(y)
        final = rules(settings, cell["method"], X, y, errors)
    answer: dict[str, Any] = {"n": len(task.y_test), "n_training": len(y), "rules": {}}
    for name, found in final.items():
        wrong = int(np.sum(found.pop("predict")(task.X_test) != task.y_test))
        answer["rules"][name] = {"folds": errors[name], "wrong": wrong, **found}
    return answer


def _best(errors: dict[str, float], start: str) -> list[str]:
    """Return the name with the fewest errors in folds of those that start so; of equals the first.

    It is the smallest C.
    """
    names = [name for name in errors if name.startswith(start)]
    return [min(names, key=errors.__getitem__)]


def _linear(
    settings: Settings,
    method: str,
    X: Any,
    y: np.ndarray,
    errors: dict[str, float] | None = None,
) -> dict[str, Any]:
    """Return linear classifiers of every C, or of the best one by errors in folds."""
    names = [f"C={C:g}" for C in COSTS] if errors is None else _best(errors, "C=")
    options: dict[str, Any] = {"penalty": "l2", "dual": "auto"}
    if method == "svc_l1":
        options = {"penalty": "l1", "dual": False}
    answer = {}
    for name in names:
        model = LinearSVC(C=float(name[2:]), random_state=0, max_iter=PASSES, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        answer[name] = {
            "predict": model.predict,
            "weights": int(np.count_nonzero(model.coef_)),
        }
    return answer


def _similarity(
    settings: Settings,
    method: str,
    X: Any,
    y: np.ndarray,
    errors: dict[str, float] | None = None,
) -> dict[str, Any]:
    """Return all rules of a similarity: neighbours, centres, landmarks."""
    similarity = _learn(settings, method, X, y)
    n_atoms = 0 if similarity is None else len(similarity.weights)
    knn = SimilarityKNeighborsClassifier(3, similarity=similarity, cosine=True).fit(
        X, y
    )
    classes = np.unique(y)
    centers = sp.vstack(
        [sp.csr_array(X[y == label].mean(axis=0)[None]) for label in classes]
    )

    def nearest(rows: Any) -> np.ndarray:
        queries = rows if similarity is None else similarity.rewrite(rows)
        return classes[np.asarray((queries @ centers.T).toarray()).argmax(axis=1)]

    answer: dict[str, Any] = {
        "knn": {"predict": knn.predict, "atoms": n_atoms, "weights": 0},
        "centre": {"predict": nearest, "atoms": n_atoms, "weights": int(centers.nnz)},
    }
    found = SimilarityClassifier(
        similarity,
        landmarks="all" if "all" in method else N_LANDMARKS,
        max_iter=PASSES,
        random_state=0,
    ).fit(X, y)
    rows = X[found.landmarks_]
    queries = rows if similarity is None else similarity.rewrite(rows)
    answer["landmarks"] = {
        "predict": found.predict,
        "atoms": n_atoms,
        "weights": int(np.count_nonzero(found.coef_)),
        "landmarks": len(found.landmarks_),
        # Without the cosine it is one linear function, Σ coef·(prior I + M)·landmark.
        "as_linear": int(np.count_nonzero(found.coef_ @ queries)),
    }
    return answer


def _learn(settings: Settings, method: str, X: Any, y: np.ndarray) -> Any:
    """Return the similarity of a method; None is the dot product."""
    if method.startswith("dot"):
        return None
    model = HDSL(
        prior=PRIOR,
        step="away",
        n_targets=3,
        n_impostors=5,
        random_state=0,
        n_jobs=1,
        max_iter=30 if settings.quick else MAX_ITER,
    )
    if method == "triplets":
        return finished(model.fit(X, y)).similarity_

    def learned(model: HDSL) -> Any:
        return SimilarityClassifier(model, C=1.0, random_state=0).fit(X, y).similarity_

    if method.endswith("/ 10"):
        model.set_params(scale=learned(clone(model).set_params(max_iter=1)).scale / 10)
    return learned(model)


# --- results --------------------------------------------------------------------------


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the table of errors and weights, and the one of every similarity."""
    by = by_set_and_method(lines)
    rows = []
    every = []
    n_no_worse = n_sparse = n_both = 0
    names = set_names(lines)
    for name in names:
        linear = {method: _chosen(by[name, method][0], "C=") for method in LINEAR}
        chosen = {}
        for rule in RULES:
            found = [(m, _chosen(by[name, m][0], rule)) for m in SIMILARITIES]
            chosen[rule] = min(found, key=lambda pair: pair[1]["folds"])
            every.append(
                [
                    name,
                    RULES[rule],
                    *(
                        f"{100 * f['folds']:.1f} / {_error(by[name, m][0], f)}"
                        for m, f in found
                    ),
                ]
            )
        one = by[name, "dot"][0]
        best = chosen["landmarks"][1]
        svc = linear["svc_l2"]
        is_no_worse = best["wrong"] <= svc["wrong"]
        is_sparse = 10 * _total(best) < svc["weights"]
        n_no_worse = n_no_worse + is_no_worse
        n_sparse = n_sparse + is_sparse
        n_both += is_no_worse and is_sparse
        rows.append(
            [
                name,
                f"{one['n_training']:,}",
                f"{one['n']:,}",
                *(
                    f"{_error(one, chosen[rule][1])} ({chosen[rule][0]})"
                    for rule in RULES
                ),
                share(svc["wrong"], one["n"]),
                _error(one, linear["svc_l1"]),
                f"{best['weights']:,} + {best['atoms']:,}",
                *(f"{linear[m]['weights']:,}" for m in LINEAR),
                f"{best['as_linear']:,}",
            ]
        )
    head = [
        "set",
        "training rows",
        "test rows",
        *RULES.values(),
        *LINEAR.values(),
        "weights + pairs of SimilarityClassifier",
        *(f"weights of {value}" for value in LINEAR.values()),
        "SimilarityClassifier as one linear function",
    ]
    return Results(
        [
            Table(
                "errors",
                head,
                rows,
                [
                    "Errors on test rows in %, in brackets the similarity that "
                    f"{N_FOLDS} folds of the training rows chose: the dot product, or "
                    "HDSL of triplets, or of the classification objective with the "
                    f"automatic scale or a tenth of it, {MAX_ITER} iterations. Folds "
                    "also chose C; behind LinearSVC its 95 % interval. At most "
                    f"{MOST_TRAINING:,} training rows, and {N_LANDMARKS} landmarks "
                    "drawn from them, or all rows for one of the dot products. "
                    "Neighbours by learned cosine.",
                    f"SimilarityClassifier is no worse than LinearSVC on {n_no_worse} "
                    f"of {len(names)} sets, has fewer than a tenth of its weights on "
                    f"{n_sparse}, and both on {n_both}.",
                    "Weights are those that are not 0: of all classes for LinearSVC; "
                    "of landmarks in all classes, plus the pairs of M, for "
                    "SimilarityClassifier. The landmarks themselves, which are rows, "
                    "do not count. Written as one linear function of the features, "
                    "it has as many weights as the last column says.",
                ],
            ),
            Table(
                "similarities",
                ["set", "", *SIMILARITIES],
                every,
                ["Errors in folds of the training rows / on test rows, in %."],
            ),
        ]
    )


def _chosen(line: Line, start: str) -> dict[str, Any]:
    (found,) = (rule for name, rule in line["rules"].items() if name.startswith(start))
    return found


def _total(found: dict[str, Any]) -> int:
    return int(found["weights"] + found["atoms"])


def _error(line: Line, found: dict[str, Any]) -> str:
    return f"{100 * found['wrong'] / line['n']:.1f}"
