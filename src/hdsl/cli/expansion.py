"""The terms that a typed query is searched by, for an engine that has the documents."""

from __future__ import annotations

from typing import Any

from .output import show, show_table
from .wording import one_line

#: Most terms of a query, the largest.
N_TERMS = 20

#: Weights below are not listed for a person; the largest is 1.
SMALL = 0.01


def expanded(collection: Any, text: str) -> dict[str, Any]:
    """Return a text with its terms and their weights, and whether each was typed."""
    from ..rows import sparse_block
    from ..serving import expand_query

    row = sparse_block(collection.row_of_text(text))
    typed = set(collection.feature_names[row.indices])
    terms = [
        {"term": term, "weight": weight, "typed": term in typed}
        for term, weight in expand_query(collection, text, n_terms=N_TERMS)
    ]
    return {
        "query": text,
        "unknown words": collection.unknown_words(text),
        "terms": terms,
        "class scores left out": collection.scored.n_scores,
        "embedding left out": collection.scored.embedding_width,
    }


def show_expansion(expansion: dict[str, Any]) -> None:
    """Print the terms of a query as a table: those typed, and those that were learned."""
    rows = [("term", "weight", "")]
    terms = expansion["terms"]
    large = [term for term in terms if abs(term["weight"]) >= SMALL]
    for term in large:
        origin = "typed" if term["typed"] else "learned"
        rows.append((one_line(term["term"], 40), f"{term['weight']:+.3f}", origin))
    show_table(rows, right=(1,))
    if len(large) < len(terms):
        show(f"[{len(terms) - len(large)} more, below {SMALL}]")
    if expansion["unknown words"]:
        unknown = ", ".join(one_line(word, 40) for word in expansion["unknown words"])
        show(f"Not known to the model, and searched by as they are: {unknown}")
    if expansion["class scores left out"]:
        show("What was learned of class scores is no term, and is left out.")
    if expansion["embedding left out"]:
        show("The embedding is no term, and is left out.")
