"""``hdsl search``: the documents most similar to a query, and why."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from . import shared_options
from .output import (
    counted,
    one_line,
    ordinal,
    say,
    show,
    show_json,
    show_table,
    table_lines,
    width,
)
from .shared_options import OptionGroup, add_command

#: Most terms of a query, the largest.
N_TERMS = 20

#: Weights below are not listed for a person; the largest is 1.
SMALL_WEIGHT = 0.01

#: Most words of a query that are named as unknown.
N_UNKNOWN = 5

#: Known queries that are named for a document.
N_REMEMBERED = 2

#: Reasons below this share of a similarity are summed up.
SMALL = 0.01


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, search)
    shared_options.add_model(parser)
    parser.add_argument("query", metavar="WORDS", nargs="*", help="words to search for")
    options = OptionGroup(parser, "search")
    about_row = (
        "A document in the model, by its id, or its number from 0; or a query of the "
        "fit, by its id, as query:ID if a document has the same id."
    )
    options.add_text("--row", about_row, metavar="ROW")
    shared_options.add_encoder(options, shared_options.ENCODER_NOW)
    options.add_path("--queries", "File of queries, one text per line.", metavar="FILE")
    options.add_integer("-k", "Neighbours to show.", 5, dest="n_neighbors")
    about_plain = (
        "Order by the plain cosine: to find one particular document, which the learned "
        "cosine may put behind others of its kind."
    )
    options.add_flag("--plain", about_plain)
    options.add_flag("--no-memory", shared_options.NO_MEMORY)
    about_expand = (
        "Show the terms that the query is searched by, with their weights, for an engine "
        "that has the documents. `hdsl export --query` writes them as its query."
    )
    options.add_flag("--expand", about_expand)
    options.add_integer("--why", "Reasons to show per neighbour.", 4)
    shared_options.add_json(options)


def search(arguments: Namespace) -> None:
    """Find the documents most similar to a query, and why.

    Each has its learned cosine, its rank by plain cosine, and the parts that the
    learned cosine is the sum of. "a ~ b" is a pair: a is in one text and b in the
    other. A single word is in both. Words that the model does not know are named: the
    score rests on the others. All documents are compared.

    For example:

      hdsl search model.hdsl "open a connection"

      hdsl search model.hdsl --row 17 -k 10

      hdsl search model.hdsl "the exact words of one document" --plain

      hdsl search model.hdsl --queries queries.txt --json

      hdsl search model.hdsl "open a connection" --expand
    """
    _check_options(arguments)
    from . import files

    texts = _read_queries(arguments)
    collection = files.load_collection(arguments.model, arguments.encoder)
    collection.uses_memory = not arguments.no_memory
    if arguments.expand:
        _show_expansions(collection, texts, arguments)
        return
    if not arguments.plain and collection.documents.facts.get("verdict") == "worse":
        say(
            "warning: on rows held out, this model makes more errors than the cosine: "
            "--plain orders by the cosine."
        )
    if arguments.row is not None:
        answers = [_answer_of_row(collection, arguments)]
    else:
        answers = _answers_of_texts(collection, texts, arguments)
    has_queries = arguments.queries is not None
    if arguments.as_json:
        show_json(answers if has_queries else answers[0])
    elif has_queries:
        for answer in answers:
            show(one_line(answer["query"]))
            show_answer(answer)
            show("")
    else:
        show_answer(answers[0])


def _check_options(arguments: Namespace) -> None:
    """Raise ValueError unless there is one kind of query, and the numbers are in range."""
    kinds = [
        arguments.row is not None,
        arguments.queries is not None,
        bool(arguments.query),
    ]
    if sum(kinds) != 1:
        raise ValueError(
            "Give words to search for, a document with --row, or a file with "
            "--queries, and one of them only."
        )
    if arguments.expand and (arguments.row is not None or arguments.plain):
        raise ValueError(
            "--expand shows the learned terms of a typed query: leave out --row and "
            "--plain."
        )
    if arguments.n_neighbors < 1 or arguments.why < 0:
        raise ValueError(
            "-k must be 1 or more and --why 0 or more. Got "
            f"{arguments.n_neighbors} and {arguments.why}."
        )


def _read_queries(arguments: Namespace) -> list[str]:
    """Return the texts to search for."""
    if arguments.queries is None:
        return [" ".join(arguments.query)]
    from .files import read_lines

    return read_lines(arguments.queries)


def _answer_of_row(collection: Any, arguments: Namespace) -> dict[str, Any]:
    """Return the neighbours of a document in the model."""
    hits = collection.search(
        None,
        arguments.n_neighbors,
        why=arguments.why,
        row=arguments.row,
        plain=arguments.plain,
    )
    order = _order(arguments)
    return {"query": arguments.row, "order": order, "neighbours": hits}


def _order(arguments: Namespace) -> str:
    """Return what documents are ordered by."""
    return "cosine" if arguments.plain else "learned"


def _answers_of_texts(
    collection: Any, texts: list[str], arguments: Namespace
) -> list[dict[str, Any]]:
    """Return the neighbours of each text, and what the model knows of its words."""
    if arguments.queries is None:
        collection.row_of_text(texts[0])  # an error where no word is known
    k = arguments.n_neighbors
    neighbors = collection.search_rows(
        collection.rows_of(texts),
        k,
        why=arguments.why,
        first_by_cosine=True,
        plain=arguments.plain,
    )
    answers = []
    for text, hits in zip(texts, neighbors, strict=True):
        first = next((hit for hit in hits if hit["rank by cosine"] == 1), None)
        answers.append(
            {
                "query": text,
                "order": _order(arguments),
                "unknown words": collection.unknown_words(text),
                "known share": collection.known_share(text),
                "neighbours": hits[:k],
                "first by cosine": first,
            }
        )
    return answers


# --- what is found --------------------------------------------------------------------


def show_answer(answer: dict[str, Any]) -> None:
    """Print the neighbours of a query, and the words of it that nothing rests on."""
    if answer.get("unknown words"):
        _show_unknown_words(answer["unknown words"], answer["known share"])
    if answer["neighbours"]:
        show_hits(answer["neighbours"], answer["order"])
    else:
        show("  nothing found")
    first = answer.get("first by cosine")
    if answer["order"] == "cosine":
        return
    if first and first["rank"] > len(answer["neighbours"]):
        _show_first_by_cosine(first)


def _show_unknown_words(unknown: list[str], known_share: float) -> None:
    words = ", ".join(repr(one_line(word, 40)) for word in unknown[:N_UNKNOWN])
    if len(unknown) > N_UNKNOWN:
        words += f" and {len(unknown) - N_UNKNOWN} more"
    rest = f"the scores rest on {100 * known_share:.0f} % of the words"
    show(f"The model does not know {words}: {rest}.")


def _show_first_by_cosine(hit: dict[str, Any]) -> None:
    name = f"row {hit['row']}"
    if hit["id"] is not None:
        name = one_line(hit["id"], 40)
    if hit["text"] is not None:
        name += f": {one_line(hit['text'], 60)}"
    show(f"First by cosine, {ordinal(hit['rank'])} as learned: {name}")


def show_hits(hits: list[dict[str, Any]], order: str = "learned") -> None:
    """Print neighbours, each with the reasons that sum up to what they are ordered by."""
    score = "similarity"
    other_rank = "rank by cosine"
    header = ["learned", "by cosine"]
    if order == "cosine":
        score = "cosine"
        other_rank = "rank"
        header = ["cosine", "as learned"]
    has_ids = any(hit["id"] is not None for hit in hits)
    has_labels = any(hit["label"] is not None for hit in hits)
    if has_ids:
        header.append("id")
    if has_labels:
        header.append("label")
    rows = [[*header, "document"]]
    for hit in hits:
        cells = [f"{hit[score]:.2f}", ordinal(hit[other_rank])]
        if has_ids:
            cells.append(one_line(hit["id"], 24))
        if has_labels:
            cells.append(_label(hit))
        rows.append([*cells, _text(hit)])
    header_line, *lines = table_lines(rows, right=(0, 1))
    show(header_line)
    for line, hit in zip(lines, hits, strict=True):
        show(line, *_reasons(hit, hit[score]), *_remembered(hit))


def _label(hit: dict[str, Any]) -> str:
    if hit["label"] is None:
        return ""
    return one_line(hit["label"], 24)


def _text(hit: dict[str, Any]) -> str:
    if hit["text"] is None:
        return f"row {hit['row']}"
    return one_line(hit["text"])


# --- reasons --------------------------------------------------------------------------


def _reasons(hit: dict[str, Any], score: float) -> list[str]:
    """Return the reasons of a neighbour as a line: those too small or too many as one sum."""
    least = SMALL * abs(score)
    n_named = sum(abs(reason["value"]) >= least for reason in hit["why"])
    if n_named == 0:
        return []
    line = _sum_line(hit, n_named)
    while len(line) > width() and n_named > 1:
        n_named -= 1
        line = _sum_line(hit, n_named)
    return [line]


def _remembered(hit: dict[str, Any]) -> list[str]:
    """Return a line per known query that a document was judged relevant for."""
    remembered = hit.get("remembered", [])
    named = [reason for reason in remembered if round(reason["value"], 2) > 0]
    lines = [
        f"{' ' * 9}{reason['value']:+.2f} judged relevant for "
        f'"{one_line(reason["query"], 60)}", a query like this '
        f"({reason['similarity']:.2f})"
        for reason in named[:N_REMEMBERED]
    ]
    others = remembered[len(lines) :]
    total = sum(reason["value"] for reason in others)
    if round(total, 2) > 0:
        queries = counted(len(others), "other known query", "other known queries")
        lines.append(f"{' ' * 9}{total:+.2f} judged relevant for {queries}")
    return lines


def _sum_line(hit: dict[str, Any], n_named: int) -> str:
    """Return the largest reasons by name, and the sum of the others."""
    terms = [
        f"{_reason_name(reason)} {reason['value']:+.2f}"
        for reason in hit["why"][:n_named]
    ]
    others = hit["why"][n_named:]
    n_others = hit["more"]["n"] + len(others)
    if n_others:
        total = hit["more"]["value"] + sum(reason["value"] for reason in others)
        rounded = round(total, 2) + 0.0  # no -0.00
        terms.append(f"and {n_others} more {rounded:+.2f}")
    return f"{' ' * 9}= {', '.join(terms)}"


def _reason_name(reason: dict[str, Any]) -> str:
    """Return the name of a reason, of a class with the words that speak for it."""
    name = one_line(reason["name"], 40)
    words = ", ".join(one_line(word, 20) for word in reason.get("words", [])[:2])
    if not words:
        return name
    return f"{name} ({words})"


# --- the terms of a query -------------------------------------------------------------


def _show_expansions(collection: Any, texts: list[str], arguments: Namespace) -> None:
    """Print the terms that each query is searched by."""
    expansions = [expanded(collection, text) for text in texts]
    has_queries = arguments.queries is not None
    if arguments.as_json:
        show_json(expansions if has_queries else expansions[0])
        return
    for expansion in expansions:
        if has_queries:
            show(one_line(expansion["query"]))
        show_expansion(expansion)


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
    large = [term for term in terms if abs(term["weight"]) >= SMALL_WEIGHT]
    for term in large:
        origin = "typed" if term["typed"] else "learned"
        rows.append((one_line(term["term"], 40), f"{term['weight']:+.3f}", origin))
    show_table(rows, right=(1,))
    if len(large) < len(terms):
        show(f"[{len(terms) - len(large)} more, below {SMALL_WEIGHT}]")
    if expansion["unknown words"]:
        unknown = ", ".join(one_line(word, 40) for word in expansion["unknown words"])
        show(f"Not known to the model, and searched by as they are: {unknown}")
    if expansion["class scores left out"]:
        show("Class scores are not terms, and are left out.")
    if expansion["embedding left out"]:
        show("The embedding is not a term, and is left out.")
