"""What a fit came to: a model with its documents and its errors, as facts and as text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..evaluate.choose import effects_in, losses
from ..evaluate.measured import Measured
from ..explain.tables import has_class
from ..rows import count_features
from ..similarity.cosine import COSINE
from ..text import Collection
from . import measure
from .measured_output import show_measured
from .output import show, show_table
from .wording import counted, one_line, share_of

if TYPE_CHECKING:
    from ..explain import Importance

#: Fields of a feature pair that are facts.
PAIR_FIELDS = ["name", "weight", "effect", "n_rows", "n_rows_i", "n_rows_j"]


@dataclass(frozen=True)
class Outcome:
    """A model with its documents, and its errors on rows held out.

    `supervision` is "labels" or "judgements". `changes` are those of forbidden and forced
    pairs of features.
    """

    collection: Collection
    supervision: str
    measured: Measured | None
    seconds: float
    n_skipped: int = 0
    changes: measure.Changes | None = None

    @property
    def model(self) -> Any:
        """The model without its class scores."""
        return self.collection.learned

    @property
    def is_interrupted(self) -> bool:
        """Whether the user ended the fit."""
        return self.model.status_ == "interrupted"

    @property
    def kind(self) -> str:
        """What a row is to a reader."""
        if self.collection.documents.texts is None:
            return "row"
        return "document"

    def facts(self) -> dict[str, Any]:
        """Return the outcome as values for JSON."""
        model = self.model
        documents = self.collection.documents
        labels = measure.labels_of(documents)
        n_labels = None
        if labels is not None:
            n_labels = measure.n_different(labels)
        n_queries = 0
        n_new_queries = 0
        if self.collection.queries is not None:
            n_queries = self.collection.queries.n_queries
            n_new_queries = int(self.collection.queries.rows.is_new.sum())
        facts = {
            "rows": documents.n_rows,
            "rows held out": int(documents.is_new.sum()),
            "queries": n_queries,
            "queries held out": n_new_queries,
            "rows skipped": self.n_skipped,
            "empty rows": int((count_features(documents.X) == 0).sum()),
            "tf-idf": self.collection.words is not None or documents.idf is not None,
            "labels": n_labels,
            "features": self.collection.scored.n_words,
            "class scores": self.collection.scored.n_scores,
            "embedding": self.collection.scored.embedding_width,
            "embedding weight": getattr(model, "embedding_weight_", None),
            "embedding directions": _n_directions(model),
            "triplets": model.n_triplets_,
            "iterations": model.n_iter_,
            "status": model.status_,
            "pairs": len(model.weights_),
            "scale": model.scale_,
            "prior": model.prior_,
            "ranking": model.ranking_,
            "choice": choice_of(model),
            "memory": _memory_of(model),
            "objective": model.objective_,
        }
        if self.changes is not None:
            facts["changed"] = self.changes.names
        return facts | self._error_facts() | {"seconds": round(self.seconds, 2)}

    def _error_facts(self) -> dict[str, Any]:
        """Return the errors and ranks, and on what they were measured."""
        if self.measured is None:
            return {"measure": None, "measured on": 0, "error": {}}
        facts = {"measure": self.measured.measure, "measured on": self.measured.n}
        return facts | measure.facts_of(self.measured)

    @cached_property
    def importance(self) -> Importance:
        """The features and the feature pairs by their effect on the rows learned from."""
        documents = self.collection.documents
        scored = self.collection.scored
        X = scored.rows(documents.X[~documents.is_new])
        names = scored.names(self.collection.feature_names)
        importance: Importance = self.model.importance(X, feature_names=names)
        return importance

    def strongest_pairs(self, n: int = 10) -> list[dict[str, Any]]:
        """Return the feature pairs with the largest effect on the rows that were learned from.

        Pairs with a class come last.
        """
        pairs = self.importance.pairs
        if self.collection.scored.n_scores:
            pairs = pairs[np.argsort(has_class(pairs["name"]), kind="stable")]
        return [
            dict(zip(PAIR_FIELDS, pair, strict=True))
            for pair in pairs[PAIR_FIELDS][:n].tolist()
        ]


def _n_directions(model: Any) -> int:
    """Return how many directions of the embedding are learned."""
    if model.directions_ is None:
        return 0
    return len(model.directions_)


def _memory_of(model: Any) -> str | None:
    """Return what is remembered of judged queries; None where nothing was judged."""
    memory = getattr(model, "memory_", None)
    if memory is None:
        return None
    return str(memory.sentence)


def choice_of(model: Any) -> str | None:
    """Return what was chosen and what it gains; None where nothing was chosen."""
    table = getattr(model, "choice_", None)
    if not table or not np.any(table.get("chosen", False)):
        return None
    is_learned = np.isfinite(table["prior"])
    chosen = int(np.flatnonzero(table["chosen"])[-1])
    prior = table["prior"][chosen]
    n_priors = len(np.unique(table["prior"][is_learned]))
    if not np.isfinite(prior):
        return (
            "Nothing was learned, and the order of the cosine is left alone: none of "
            f"{n_priors} priors is expected to gain on held-out data."
        )
    if "gain" not in table:
        return f"Of {n_priors} priors tried on held-out data, {prior:.4g} is taken."
    sentences = [
        f"Of {n_priors} priors tried on held-out data, {prior:.4g} is taken: score "
        f"{table['score'][chosen]:.3f}, {table['score'][~is_learned][-1]:.3f} before "
        f"learning; gain {_interval(table, 'gain', chosen)}."
    ]
    start = int(np.flatnonzero(~is_learned)[-1])
    sentences += [
        f"{loss.replace('goal=', '--goal ').replace(chr(34), '')}."
        for loss in losses(effects_in(table, start, chosen))
    ]
    if model.ranking_ != COSINE:
        sentences.append("Rows are ranked by S, not divided by their learned length.")
    return " ".join(f"{text[0].upper()}{text[1:]}" for text in sentences)


def _interval(table: dict[str, np.ndarray], name: str, line: int) -> str:
    """Return a value with its interval."""
    low = table[f"{name}_low"][line]
    high = table[f"{name}_high"][line]
    return f"{table[name][line]:+.3f} ({low:+.3f} to {high:+.3f})"


# --- as text --------------------------------------------------------------------------


def show_outcome(outcome: Outcome, *, n_pairs: int = 10) -> None:
    """Print the data, the model, its errors, and its strongest pairs."""
    facts = outcome.facts()
    show(
        _data_line(outcome, facts),
        *_left_out(facts, outcome.kind),
        _model_line(outcome, facts),
    )
    if facts["choice"]:
        show(facts["choice"])
    if facts["memory"]:
        show(facts["memory"])
    if outcome.changes is not None:
        show(outcome.changes.sentence)
    show("")
    _show_errors(outcome)
    _show_pairs(outcome, n_pairs)


def _data_line(outcome: Outcome, facts: dict[str, Any]) -> str:
    """Return how many rows, labels and features there are."""
    supervision = "judgements"
    if outcome.supervision == "labels":
        supervision = counted(facts["labels"], "label")
    if facts["queries"]:
        supervision += f" of {counted(facts['queries'], 'query', 'queries')}"
    features = counted(facts["features"], "feature")
    if facts["class scores"]:
        features += f" and {facts['class scores']} class scores"
    held_out = f"{facts['rows held out']:,}"
    if facts["queries"]:
        n_queries = facts["queries held out"]
        held_out = counted(n_queries, "query", "queries")
    return (
        f"{counted(facts['rows'], outcome.kind)} with {supervision}, {features}; "
        f"{held_out} held out."
    )


def _left_out(facts: dict[str, Any], kind: str) -> list[str]:
    """Return what was skipped, and the documents that nothing is known of."""
    lines = []
    if facts["rows skipped"]:
        rows = counted(facts["rows skipped"], "row")
        lines.append(f"{rows} without a value skipped.")
    n_empty = facts["empty rows"]
    feature = "known word" if kind == "document" else "value"
    if n_empty == 1:
        lines.append(f"1 {kind} has no {feature}: it matches nothing.")
    elif n_empty > 1:
        lines.append(f"{n_empty:,} {kind}s have no {feature}: they match nothing.")
    return lines


def _model_line(outcome: Outcome, facts: dict[str, Any]) -> str:
    """Return the size of the model, and of the work that it took."""
    pairs = "Nothing learned" if not facts["pairs"] else counted(facts["pairs"], "pair")
    return (
        f"{pairs} from "
        f"{counted(facts['triplets'], 'triplet')} in "
        f"{counted(facts['iterations'], 'iteration')}, {outcome.seconds:.1f} s; scale "
        f"{outcome.model.scale_:.4g}, prior {outcome.model.prior_:.4g}"
        f"{_embedding(facts)}."
    )


def _embedding(facts: dict[str, Any]) -> str:
    """Return the weight of the embedding, after a comma; nothing without one."""
    if not facts["embedding"]:
        return ""
    weight = facts["embedding weight"]
    text = f", embedding of {facts['embedding']} columns with weight {weight:g}"
    if facts["embedding directions"]:
        n_directions = counted(facts["embedding directions"], "direction")
        text += f", {n_directions} learned in it"
    return text


def _show_errors(outcome: Outcome) -> None:
    """Print the errors on rows held out, or that there are none."""
    measured = outcome.measured
    if measured is None:
        show(
            "No rows are held out, so it is not known whether this model is better "
            "than the cosine."
        )
        return
    trials = counted(measured.n, "judgement")
    if outcome.supervision == "labels":
        n_new = int(outcome.collection.documents.is_new.sum())
        trials = share_of(measured.n, n_new, outcome.kind)
    if measured.searches is not None:
        trials = counted(measured.searches.n_queries, "query", "queries")
    title = f"{measured.title}, {trials} held out"
    show_measured(title, measured)


def _show_pairs(outcome: Outcome, n_pairs: int) -> None:
    """Print the strongest pairs, with their effect, weight and numbers of rows."""
    kind = outcome.kind
    if not len(outcome.model.weights_):
        return
    show("")
    min_rows = outcome.model.min_rows
    title = "Strongest pairs"
    if min_rows != "auto":
        title += f" of features in {min_rows} {kind}s or more"
    show(f"{title}: + raises, - lowers the similarity of two {kind}s")
    rows = [("  pair", "effect", "weight", f"{kind}s with each")]
    for pair in outcome.strongest_pairs(n_pairs):
        name = f"  {one_line(pair['name'], 60)}"
        counts = f"{pair['n_rows_i']:,}, {pair['n_rows_j']:,}"
        rows.append((name, f"{pair['effect']:+.2g}", f"{pair['weight']:+.3g}", counts))
    show_table(rows, right=(1, 2, 3))
    if outcome.importance.note:
        show(outcome.importance.note)
