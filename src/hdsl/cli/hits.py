"""Print the neighbours that a search found, with the reasons for each."""

from __future__ import annotations

from typing import Any

from .output import show, table_lines, width
from .wording import counted, one_line, ordinal

#: Most words of a query that are named as unknown.
N_UNKNOWN = 5

#: Known queries that are named for a document.
N_REMEMBERED = 2

#: Reasons below this share of a similarity are summed up.
SMALL = 0.01


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
