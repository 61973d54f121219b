"""Classifiers on a learned similarity, beside a linear one on the features.

Beyond the paper: its section 6 leaves a classification objective open. Everything is
chosen by folds of the training rows, in which every similarity is learned anew, and
test rows are looked at once. Where test labels were never published the validation rows
take their place: they choose nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC

from hdsl import HDSL, Mining, SimilarityKNeighborsClassifier, Solver

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


class Rule(NamedTuple):
    """A fitted classifier, and how large it is.

    `sizes` has the numbers of weights, of feature pairs and of landmarks, as far as it
    has them.
    """

    predict: Callable[[Any], np.ndarray]
    sizes: dict[str, int]


def cells(settings: Settings) -> list[Cell]:
    """Return every similarity, and the linear classifiers, on every set."""
    methods = [*SIMILARITIES, *LINEAR]
    return [
        {"set": name, "method": method}
        for name in _set_names(settings)
        for method in methods
    ]


def _set_names(settings: Settings) -> list[str]:
    """Return the sets whose files are present, and the docstrings; one if quick."""
    names = ["docstrings"]
    if settings.data is not None:
        names = [*sets.present(settings, sets.PAPER + sets.MORE), "docstrings"]
    if not settings.quick:
        return names
    if "bace_ecfp6" in names:
        return ["bace_ecfp6"]
    return ["docstrings"]


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return errors in folds and on test rows, with the number of weights."""
    most_training = settings.by_size(full=MOST_TRAINING, quick=150)
    most_test = settings.by_size(full=MOST_TEST, quick=100)
    task = local.real_task(settings, cell["set"], most_training, most_test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows of a class
        errors = _errors_in_folds(settings, cell["method"], task.X, task.y)
        rules = _chosen_rules(settings, cell["method"], task.X, task.y, errors)
    answer: dict[str, Any] = {
        "n": len(task.y_test),
        "n_training": len(task.y),
        "rules": {},
    }
    for name, rule in rules.items():
        wrong = int(np.sum(rule.predict(task.X_test) != task.y_test))
        answer["rules"][name] = {"folds": errors[name], "wrong": wrong, **rule.sizes}
    return answer


def _errors_in_folds(
    settings: Settings, method: str, X: Any, y: np.ndarray
) -> dict[str, float]:
    """Return the share of training rows that each rule gets wrong when held out."""
    errors: dict[str, float] = {}
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
    for train, held_out in folds.split(X, y):
        rules = _all_rules(settings, method, X[train], y[train])
        for name, rule in rules.items():
            wrong = int(np.sum(rule.predict(X[held_out]) != y[held_out]))
            errors[name] = errors.get(name, 0.0) + wrong / len(y)
    return errors


def _all_rules(
    settings: Settings, method: str, X: Any, y: np.ndarray
) -> dict[str, Rule]:
    """Return every rule of a method: linear ones of every C, or those of a similarity."""
    if method in LINEAR:
        return {_cost_name(C): _linear(method, C, X, y) for C in COSTS}
    return _similarity(settings, method, X, y)


def _chosen_rules(
    settings: Settings, method: str, X: Any, y: np.ndarray, errors: dict[str, float]
) -> dict[str, Rule]:
    """Return the rules that report: of the linear ones that of the best C."""
    if method in LINEAR:
        # Of equals the first, which has the smallest C.
        best = min(COSTS, key=lambda C: errors[_cost_name(C)])
        return {_cost_name(best): _linear(method, best, X, y)}
    return _similarity(settings, method, X, y)


def _cost_name(C: float) -> str:
    return f"C={C:g}"


def _linear(method: str, C: float, X: Any, y: np.ndarray) -> Rule:
    """Return a linear classifier on the features."""
    options: dict[str, Any] = {"penalty": "l2", "dual": "auto"}
    if method == "svc_l1":
        options = {"penalty": "l1", "dual": False}
    model = LinearSVC(C=C, random_state=0, max_iter=PASSES, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    return Rule(model.predict, {"weights": int(np.count_nonzero(model.coef_))})


def _similarity(
    settings: Settings, method: str, X: Any, y: np.ndarray
) -> dict[str, Rule]:
    """Return all rules of a similarity: neighbours, centres, landmarks."""
    similarity = _learn(settings, method, X, y)
    n_atoms = 0
    if similarity is not None:
        n_atoms = len(similarity.weights)
    knn = SimilarityKNeighborsClassifier(3, similarity=similarity, cosine=True)
    knn.fit(X, y)
    return {
        "knn": Rule(knn.predict, {"atoms": n_atoms, "weights": 0}),
        "centre": _nearest_center(similarity, n_atoms, X, y),
        "landmarks": _landmarks(method, similarity, n_atoms, X, y),
    }


def _rewritten(similarity: Any, X: Any) -> Any:
    """Return the query side of rows; None is the dot product."""
    if similarity is None:
        return X
    return similarity.rewrite(X)


def _nearest_center(similarity: Any, n_atoms: int, X: Any, y: np.ndarray) -> Rule:
    """Return the rule of the most similar mean of a class."""
    classes = np.unique(y)
    means = [sp.csr_array(X[y == label].mean(axis=0)[None]) for label in classes]
    centers = sp.vstack(means)

    def predict(rows: Any) -> np.ndarray:
        similarities = _rewritten(similarity, rows) @ centers.T
        return classes[np.asarray(similarities.toarray()).argmax(axis=1)]

    return Rule(predict, {"atoms": n_atoms, "weights": int(centers.nnz)})


def _landmarks(
    method: str, similarity: Any, n_atoms: int, X: Any, y: np.ndarray
) -> Rule:
    """Return the rule of a sparse linear classifier on similarities to landmarks."""
    landmarks: int | str = N_LANDMARKS
    if "all" in method:
        landmarks = "all"
    classifier = SimilarityClassifier(
        similarity, landmarks=landmarks, max_iter=PASSES, random_state=0
    )
    classifier.fit(X, y)
    queries = _rewritten(similarity, X[classifier.landmarks_])
    sizes = {
        "atoms": n_atoms,
        "weights": int(np.count_nonzero(classifier.coef_)),
        "landmarks": len(classifier.landmarks_),
        # Without the cosine it is one linear function, Σ coef·(prior I + M)·landmark.
        "as_linear": int(np.count_nonzero(classifier.coef_ @ queries)),
    }
    return Rule(classifier.predict, sizes)


def _learn(settings: Settings, method: str, X: Any, y: np.ndarray) -> Any:
    """Return the similarity of a method; None is the dot product."""
    if method.startswith("dot"):
        return None
    model = HDSL(
        prior=PRIOR,
        solver=Solver(step="away", max_iter=settings.by_size(full=MAX_ITER, quick=30)),
        mining=Mining(n_targets=3, n_impostors=5),
        random_state=0,
        n_jobs=1,
    )
    if method == "triplets":
        return finished(model.fit(X, y)).similarity_

    def learned(model: HDSL) -> Any:
        return SimilarityClassifier(model, C=1.0, random_state=0).fit(X, y).similarity_

    if method.endswith("/ 10"):
        model.set_params(
            scale=learned(clone(model).set_params(solver__max_iter=1)).scale / 10
        )
    return learned(model)


# --- results --------------------------------------------------------------------------


class Chosen(NamedTuple):
    """What folds chose for a table row: a similarity, and the answer of its rule."""

    method: str
    answer: dict[str, Any]


class SetResult:
    """What the methods reach on one set, and what folds of its training rows chose.

    Attributes
    ----------
    name : str
    n, n_training : int
        Test rows and training rows.
    linear : dict of dict
        The answer of each linear classifier.
    by_rule : dict of list of Chosen
        The answers of every similarity, by rule.
    chosen : dict of Chosen
        Of each rule the similarity with the fewest errors in folds.
    """

    def __init__(self, name: str, line_of: dict[str, Line]) -> None:
        self.name = name
        self.n = line_of["dot"]["n"]
        self.n_training = line_of["dot"]["n_training"]
        self.linear = {method: _answer(line_of[method], "C=") for method in LINEAR}
        self.by_rule = {
            rule: [Chosen(m, _answer(line_of[m], rule)) for m in SIMILARITIES]
            for rule in RULES
        }
        self.chosen = {
            rule: min(candidates, key=lambda candidate: candidate.answer["folds"])
            for rule, candidates in self.by_rule.items()
        }

    @property
    def is_no_worse(self) -> bool:
        """Whether landmarks have no more errors than LinearSVC."""
        best = self.chosen["landmarks"].answer
        return best["wrong"] <= self.linear["svc_l2"]["wrong"]

    @property
    def is_sparse(self) -> bool:
        """Whether landmarks have fewer than a tenth of the weights of LinearSVC."""
        best = self.chosen["landmarks"].answer
        n_weights = best["weights"] + best["atoms"]
        return 10 * n_weights < self.linear["svc_l2"]["weights"]

    def error(self, answer: dict[str, Any]) -> str:
        """Return the share of test rows that are wrong, in percent."""
        return f"{100 * answer['wrong'] / self.n:.1f}"

    def error_row(self) -> list[str]:
        """Return the row of the table of errors and weights."""
        best = self.chosen["landmarks"].answer
        errors_by_rule = [
            f"{self.error(chosen.answer)} ({chosen.method})"
            for chosen in self.chosen.values()
        ]
        return [
            self.name,
            f"{self.n_training:,}",
            f"{self.n:,}",
            *errors_by_rule,
            share(self.linear["svc_l2"]["wrong"], self.n),
            self.error(self.linear["svc_l1"]),
            f"{best['weights']:,} + {best['atoms']:,}",
            *(f"{answer['weights']:,}" for answer in self.linear.values()),
            f"{best['as_linear']:,}",
        ]

    def similarity_rows(self) -> list[list[str]]:
        """Return the rows of the table of every similarity, one per rule."""
        rows = []
        for rule, candidates in self.by_rule.items():
            texts = [
                f"{100 * candidate.answer['folds']:.1f} / "
                f"{self.error(candidate.answer)}"
                for candidate in candidates
            ]
            rows.append([self.name, RULES[rule], *texts])
        return rows


def _answer(line: Line, start: str) -> dict[str, Any]:
    """Return the answer of the one rule of a line whose name starts so."""
    names = [name for name in line["rules"] if name.startswith(start)]
    assert len(names) == 1
    return line["rules"][names[0]]


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the table of errors and weights, and the one of every similarity."""
    by = by_set_and_method(lines)
    methods = [*SIMILARITIES, *LINEAR]
    results = []
    for name in set_names(lines):
        line_of = {method: by[name, method][0] for method in methods}
        results.append(SetResult(name, line_of))
    return Results([_error_table(results), _similarity_table(results)])


def _error_table(results: list[SetResult]) -> Table:
    """Return the errors of what folds chose, and the numbers of weights."""
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
    n_no_worse = sum(result.is_no_worse for result in results)
    n_sparse = sum(result.is_sparse for result in results)
    n_both = sum(result.is_no_worse and result.is_sparse for result in results)
    notes = [
        "Errors on test rows in %, in brackets the similarity that "
        f"{N_FOLDS} folds of the training rows chose: the dot product, or "
        "HDSL of triplets, or of the classification objective with the "
        f"automatic scale or a tenth of it, {MAX_ITER} iterations. Folds "
        "also chose C; behind LinearSVC its 95 % interval. At most "
        f"{MOST_TRAINING:,} training rows, and {N_LANDMARKS} landmarks "
        "drawn from them, or all rows for one of the dot products. "
        "Neighbours by learned cosine.",
        f"SimilarityClassifier is no worse than LinearSVC on {n_no_worse} "
        f"of {len(results)} sets, has fewer than a tenth of its weights on "
        f"{n_sparse}, and both on {n_both}.",
        "Weights are those that are not 0: of all classes for LinearSVC; "
        "of landmarks in all classes, plus the pairs of M, for "
        "SimilarityClassifier. The landmarks themselves, which are rows, "
        "do not count. Written as one linear function of the features, "
        "it has as many weights as the last column says.",
    ]
    return Table("errors", head, [result.error_row() for result in results], notes)


def _similarity_table(results: list[SetResult]) -> Table:
    """Return the errors of every similarity, in folds and on test rows."""
    rows = [row for result in results for row in result.similarity_rows()]
    note = "Errors in folds of the training rows / on test rows, in %."
    return Table("similarities", ["set", "", *SIMILARITIES], rows, [note])
