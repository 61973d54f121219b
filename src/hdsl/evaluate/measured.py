"""What held-out rows show of a model: errors, of a classifier too, and known-item search."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..class_scores.scores import fit_each_label
from ..class_scores.training import (
    ended_early_on_purpose,
    limit_passes,
    n_affordable_rows,
    sample_rows,
)
from ..input.matrices import narrow
from ..labels import LabelSets
from ..relevance import Relevance
from ..rows import Rows, count_features, stack_rows, unit_rows
from ..similarity.cosine import PlainCosine, Rewriter
from ..similarity.query_memory import QueryMemory
from ..triplets.grades import count_wins, graded_rows, positions_among, rows_to_show
from ..triplets.rows import ShownRows
from ..wide_matrices import drop_unused_columns
from .comparisons import compare_clicks, compare_triplets
from .errors import ErrorComparison, ErrorRate, mcnemar, wilson_interval
from .known_items import KnownItem, known_item
from .neighbors import compare_errors, label_errors
from .searches import SearchComparison, compare_searches

#: Neighbours that vote, and most queries of a known-item search.
N_NEIGHBORS = 3
N_QUERIES = 500

#: Values times classes of a pass of the linear classifier that stands beside: half of
#: what class scores learn from in each of their fits.
COMPARISON_SIZE = 25 * 10**6

#: Most weights of a linear classifier and scores of rows, 0.8 GB: it is left out
#: beyond.
MAX_SCORES = 10**8


@dataclass(frozen=True)
class ClassifierError:
    """The error of a linear classifier, and how many of how many rows it learned from."""

    rate: ErrorRate
    n_learned: int
    n_rows: int

    @property
    def sample_note(self) -> str:
        """What the classifier learned from, where that is not all rows."""
        if self.n_learned == self.n_rows:
            return ""
        return f"learned from {self.n_learned:,} of {self.n_rows:,} rows"

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain values."""
        sizes = {"n": self.rate.n, "n_learned": self.n_learned, "n_rows": self.n_rows}
        return self.rate.to_dict() | sizes

    @classmethod
    def from_dict(cls, facts: Any, n_rows: int, n_test: int) -> ClassifierError | None:
        """Return the facts of `to_dict`, None unless they are of these numbers of rows."""
        try:
            n_wrong = float(facts["n_wrong"])
            n_learned = int(facts["n_learned"])
            is_of_rows = (facts["n_rows"], facts["n"]) == (n_rows, n_test)
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        is_sound = 0.0 <= n_wrong <= n_test and 0 < n_learned <= n_rows
        if not is_of_rows or not is_sound:
            return None
        interval = wilson_interval(n_wrong, n_test)
        return cls(ErrorRate(n_wrong, n_test, interval), n_learned, n_rows)


@dataclass(frozen=True)
class Measured:
    """Errors before and after learning, and ranks in known-item search.

    Parameters
    ----------
    errors : ErrorComparison
    known_items : dict of str to KnownItem
        By "cosine" and "learned"; empty if no row has two features.
    n_rows : int
        Rows that neighbours are searched among.
    n_neighbors : int
        Neighbours that vote; 0 for judgements.
    classifier : ClassifierError or None
        The error of ``LinearSVC`` on the same rows.
    is_of_sets : bool
        Whether rows have several labels.
    searches : SearchComparison or None
        How well queries find what was judged relevant among all documents. The errors
        are then 1 - nDCG of each query, or those of clicks.
    row_searches : SearchComparison or None
        How well the anchors of triplets find, among all rows, those that win their
        comparisons.
    is_of_clicks : bool
        Whether what is relevant was clicked. Only what an engine showed can be, so that
        the errors beside what was shown with it decide.
    """

    errors: ErrorComparison
    known_items: dict[str, KnownItem]
    n_rows: int = 0
    n_neighbors: int = 0
    classifier: ClassifierError | None = None
    is_of_sets: bool = False
    searches: SearchComparison | None = None
    row_searches: SearchComparison | None = None
    is_of_clicks: bool = False

    @property
    def n(self) -> int:
        """The number of rows or judgements that were measured on."""
        return self.errors.before.n

    @property
    def measure(self) -> str:
        """What the errors are."""
        if self.is_of_sets:
            return f"1 - F1 of the labels by {self.n_neighbors} nearest neighbours"
        if self.n_neighbors:
            return f"error of {self.n_neighbors} nearest neighbours"
        if self.searches is not None and not self.is_of_clicks:
            return f"1 - nDCG@{self.searches.before.k} of judged queries"
        if self.is_of_clicks:
            return "share of rows shown beside clicked ones that are above them"
        return "share of judgements that are wrong"

    @property
    def title(self) -> str:
        """What was measured, for a heading."""
        if self.searches is None:
            return self.measure
        if self.is_of_clicks:
            return "search by clicked queries"
        return "search by judged queries"

    @property
    def verdict(self) -> str:
        """Either "better", "worse" or "no difference", by judged searches where there are any."""
        if self.searches is not None and not self.is_of_clicks:
            return self.searches.verdict
        return self.errors.verdict

    @property
    def rates(self) -> dict[str, ErrorRate]:
        """The errors by "cosine", "learned" and, where it was measured, "LinearSVC"."""
        rates = {"cosine": self.errors.before, "learned": self.errors.after}
        if self.classifier is not None:
            rates["LinearSVC"] = self.classifier.rate
        return rates

    @property
    def ranks_sentence(self) -> str:
        """What the ranks of known items show: of each query, by cosine and as learned."""
        test = mcnemar(
            self.known_items["cosine"].ranks, self.known_items["learned"].ranks
        )
        if test.only_a == test.only_b == 0:
            return "One known row ranks as by the cosine."
        sentence = (
            f"One known row ranks higher than by the cosine for {test.only_a} and lower for "
            f"{test.only_b} of {len(self.known_items['learned'].ranks):,} queries: "
            f"{test.chance}."
        )
        if test.is_more_than_chance and test.only_b > test.only_a:
            sentence += (
                " To find one row, use `hdsl search --plain` (in Python "
                "search(…, plain=True)), or fit with a larger prior."
            )
        return sentence

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain values, for a page."""
        facts: dict[str, Any] = {
            "n_neighbors": self.n_neighbors,
            "n_rows": self.n_rows,
            "is_of_sets": self.is_of_sets,
            "n_test": self.n,
            **self.errors.to_dict(),
        }
        if self.classifier is not None:
            facts["classifier"] = {"name": "LinearSVC"} | self.classifier.to_dict()
        if self.searches is not None:
            facts["searches"] = self.searches.to_dict()
            facts["is_of_clicks"] = self.is_of_clicks
        if self.searches is not None and not self.is_of_clicks:
            facts["verdict"] = self.verdict
            facts["sentence"] = self.searches.sentence
        if self.known_items:
            ranks = {name: item.mrr for name, item in self.known_items.items()}
            facts["known_items"] = ranks | {"sentence": self.ranks_sentence}
        return facts


def measure_labels(
    similarity: Rewriter,
    X: sp.csr_array,
    y: Any,
    X_test: sp.csr_array | None = None,
    y_test: Any = None,
    *,
    n_neighbors: int = N_NEIGHBORS,
    n_jobs: int | None = None,
    classifier_facts: Any = None,
) -> Measured:
    """Return the errors of test rows by their neighbours in X, or of rows of X by the others.

    Test rows are also classified by ``LinearSVC``, and searched by half of their
    features, among themselves and the rows of X. The facts of a classifier that was
    measured on these rows before are taken as they are.
    """
    n_candidates = X.shape[0]
    if X_test is None:
        n_candidates -= 1
    k = min(n_neighbors, n_candidates)
    errors = compare_errors(
        similarity,
        X,
        y,
        X_test,
        y_test,
        n_neighbors=k,
        n_jobs=n_jobs,
    )
    if X_test is None:
        searched = X
        classifier = None
    else:
        searched = stack_rows(X_test, X)
        classifier = ClassifierError.from_dict(
            classifier_facts, X.shape[0], X_test.shape[0]
        )
        if classifier is None:
            plain = PlainCosine(similarity)
            classifier = _classifier_error(
                plain.index_rows(X), y, plain.rewrite(X_test), y_test
            )
    return Measured(
        errors=errors,
        known_items=_known_items(similarity, searched, np.arange(errors.before.n)),
        n_rows=X.shape[0],
        n_neighbors=k,
        classifier=classifier,
        is_of_sets=isinstance(y, LabelSets),
    )


def measure_judgements(
    similarity: Rewriter,
    X: sp.csr_array,
    comparisons: np.ndarray,
    weights: np.ndarray | None,
    rows: np.ndarray | None = None,
) -> Measured:
    """Return the shares of judgements that are wrong; search for some rows of X, or for all."""
    errors = compare_triplets(
        similarity,
        X,
        comparisons,
        sample_weight=weights,
    )
    if rows is None:
        rows = np.arange(X.shape[0])
    return Measured(
        errors=errors,
        known_items=_known_items(similarity, X, rows),
        n_rows=X.shape[0],
        row_searches=_search_preferred_rows(similarity, X, comparisons, weights),
    )


def _search_preferred_rows(
    similarity: Rewriter,
    X: sp.csr_array,
    comparisons: np.ndarray,
    weights: np.ndarray | None,
) -> SearchComparison | None:
    """Return how well anchors find the rows that win comparisons, among all that may be shown.

    Rows that were compared are a biased sample; a search brings up others too. None for
    quadruplets.
    """
    if comparisons.shape[1] != 3:
        return None
    judged = graded_rows(count_wins(comparisons, weights))
    anchors = np.unique(judged.anchors)
    if len(anchors) > N_QUERIES:
        rng = np.random.default_rng(0)
        anchors = np.sort(rng.choice(anchors, N_QUERIES, replace=False))
    if not len(anchors):
        return None
    shown = rows_to_show(comparisons, X.shape[0])
    relevant: list[dict[int, float]] = [{} for _ in anchors]
    judged = judged.take(np.isin(judged.anchors, anchors))
    queries = np.searchsorted(anchors, judged.anchors).tolist()
    documents = positions_among(judged.rows, shown).tolist()
    for query, document, grade in zip(
        queries, documents, judged.grades.tolist(), strict=True
    ):
        relevant[query][document] = grade
    return compare_searches(
        similarity,
        X[anchors],
        X[shown],
        relevant,
        leave_out=positions_among(anchors, shown),
    )


def measure_searches(
    similarity: Rewriter,
    queries: sp.csr_array,
    documents: sp.csr_array,
    relevance: Relevance,
    shown: ShownRows | None = None,
    memory: QueryMemory | None = None,
) -> Measured:
    """Return how well queries find what is relevant; search for documents by half of their words.

    The error of a query is 1 - nDCG. Queries without a relevant document are left out. Of
    clicks the errors are the rows shown beside them that are above them; what was shown
    is in rows of the documents, then of the queries. What is remembered of judged
    queries is added to the learned order of searches.
    """
    relevant = relevance.by_query()
    searches = compare_searches(
        similarity,
        queries[list(relevant)],
        documents,
        list(relevant.values()),
        memory=memory,
    )
    errors = ErrorComparison.from_trials(
        before=1.0 - searches.before.ndcgs,
        after=1.0 - searches.after.ndcgs,
        supervision="judgements",
    )
    if shown is not None:
        rows_of_both = stack_rows(documents, queries)
        errors = compare_clicks(similarity, rows_of_both, shown, memory=memory)
    rows = np.arange(documents.shape[0])
    return Measured(
        errors=errors,
        known_items=_known_items(similarity, documents, rows),
        n_rows=documents.shape[0],
        searches=searches,
        is_of_clicks=shown is not None,
    )


def _known_items(
    similarity: Rewriter, X: sp.csr_array, rows: np.ndarray
) -> dict[str, KnownItem]:
    """Return the ranks of rows of X for half of their features, by cosine and as learned."""
    if not (count_features(X)[rows] >= 2).any():
        return {}
    return {
        "cosine": _search_known_items(PlainCosine(similarity), X, rows),
        "learned": _search_known_items(similarity, X, rows),
    }


def _search_known_items(
    similarity: Rewriter, X: sp.csr_array, rows: np.ndarray
) -> KnownItem:
    """Return the ranks of a sample of rows; the queries do not depend on the similarity."""
    return known_item(
        similarity,
        X,
        rows=rows,
        n_queries=N_QUERIES,
        random_state=0,
    )


def _classifier_error(
    X: Any, y: Any, X_test: Any, y_test: Any
) -> ClassifierError | None:
    """Return the error of a linear support vector machine, None where it needs too much memory.

    Beyond what a fit of class scores learns from, it learns from half as much.
    """
    from sklearn.base import clone
    from sklearn.svm import LinearSVC

    if isinstance(X, Rows):
        # The same rows as the similarity has, embedding and all.
        X = X.to_sparse()
        X_test = X_test.to_sparse()
    (X, X_test), _ = drop_unused_columns(X, X_test)
    n_rows = X.shape[0]
    if isinstance(y, LabelSets):
        n_classes = len(y.classes)
    else:
        n_classes = len(np.unique(y))
    if n_classes < 2 or sum(X.shape) * n_classes > MAX_SCORES:
        return None
    svm = LinearSVC(random_state=0, tol=1e-3)
    is_sampled = n_affordable_rows(X, n_classes, COMPARISON_SIZE) < n_rows
    if is_sampled:
        n_learned = n_affordable_rows(X, n_classes, COMPARISON_SIZE)
        rows = sample_rows(y, n_learned, np.random.RandomState(0))
        X = X[rows]
        y = y[rows]
        limit_passes(svm, X)
    train = _as_training_rows(X)
    test = _as_training_rows(X_test)
    n_wrong: float
    with ended_early_on_purpose(is_sampled):
        if isinstance(y, LabelSets):
            scorer = fit_each_label(partial(clone, svm), train, y)
            voted = y.voted(scorer.decision_function(test) > 0)
            n_wrong = float(label_errors(voted, y_test).sum())
        else:
            predicted = svm.fit(train, y).predict(test)
            n_wrong = int(np.sum(predicted != y_test))
    n = len(y_test)
    rate = ErrorRate(n_wrong, n, wilson_interval(n_wrong, n))
    return ClassifierError(rate, n_learned=X.shape[0], n_rows=n_rows)


def _as_training_rows(X: Any) -> Any:
    """Return rows at unit length as the classifier takes them."""
    return narrow(sp.csr_matrix(unit_rows(sp.csr_array(X))))
