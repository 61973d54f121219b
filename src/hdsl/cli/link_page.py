"""How good links are, as text, and the page of links with their reasons."""

from __future__ import annotations

import html
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from .link_tables import Record
from .output import table_lines
from .wording import counted, one_line, percent

if TYPE_CHECKING:
    from ..linking import Linker

#: Most links and doubtful pairs on a page.
N_LINKS = 300
N_DOUBTFUL = 50

#: Reasons that add less than this to a score are left out.
SMALL = 0.005


def measured_lines(linker: Linker) -> list[str]:
    """Return recall and reliability as lines of text, shares with their 95 % intervals."""
    about_recall = (
        "Held-out matches whose right record is among the first k (95 % intervals)"
    )
    about_reliability = "Held-out pairs by probability, and the share that matches"
    return [
        *_table(about_recall, linker.recall_),
        *_table(about_reliability, linker.reliability_),
    ]


def _table(title: str, records: list[Record]) -> list[str]:
    """Return records as a table with a title; no line where there is no record."""
    if not records:
        return []
    header = list(records[0])
    cells = [[_shown(value) for value in record.values()] for record in records]
    return ["", title, *table_lines([header, *cells], right=range(len(header)))]


def _shown(value: Any) -> str:
    """Return a cell: a share, a share with its interval, or anything else."""
    if isinstance(value, tuple):
        share, low, high = value
        return f"{percent(share)} ({100 * low:.0f} to {100 * high:.0f})"
    if isinstance(value, float):
        return percent(value)
    return str(value)


def page(title: str, linker: Linker, links: list[Record], threshold: str) -> str:
    """Return the page: how good it is, the new links with their reasons, and the doubtful ones."""
    new = [link for link in links if not link["known"]]
    known = counted(len(links) - len(new), "known match", "known matches")
    about_links = f"{counted(len(new), 'new link')} {threshold}"
    if len(new) > N_LINKS:
        about_links += f", the first {N_LINKS}"
    doubtful = linker.records(linker.to_label(N_DOUBTFUL))
    template = Template((files("hdsl.report") / "links.html").read_text("utf-8"))
    return template.substitute(
        title=html.escape(title),
        measured=html.escape("\n".join(measured_lines(linker))),
        said=html.escape(f"{linker.statement_} Not shown: {known}."),
        found=html.escape(about_links),
        links=_html_rows(linker, new[:N_LINKS]),
        doubtful=_html_rows(linker, doubtful),
    )


def _html_rows(linker: Linker, links: list[Record]) -> str:
    """Return rows of HTML: links with their texts and reasons."""
    rows = []
    for link in links:
        cells = [
            f"{link['probability']:.2f}",
            f"{link['left']}: {one_line(link['left_text'], 300)}",
            f"{link['right']}: {one_line(link['right_text'], 300)}",
            _reasons(linker, link),
        ]
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}" for cell in cells))
    return "\n".join(rows)


def _reasons(linker: Linker, link: Record) -> str:
    """Return what adds to the score of a link, as words with numbers."""
    return ", ".join(
        f"{word} {value:+.2f}"
        for word, value in linker.reasons(link["left"], link["right"])
        if abs(value) >= SMALL
    )
