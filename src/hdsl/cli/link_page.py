"""How good links are, as text, and the page of links with their reasons."""

from __future__ import annotations

import html
import re
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from ..printable import unturned
from ..report.page import policy
from .link_files import Record
from .output import counted, one_line

if TYPE_CHECKING:
    from ..linking import Linker

#: Most links and doubtful pairs on a page.
N_LINKS = 300
N_DOUBTFUL = 50

#: Most letters of a column of a record.
MAX_LETTERS = 300

#: What is compared of two texts, and marked where only one of them has it.
WORD = re.compile(r"\w+")

#: Parts of a probability that are shown.
N_PARTS = 5

#: Reasons that add less than this to a score are left out.
SMALL = 0.005


def page(title: str, linker: Linker, links: list[Record], threshold: str) -> str:
    """Return the page: how good it is, pairs to ask about, and new links, doubtful first.

    Each pair has its columns, with words that only one record has in colour, and takes
    an answer; the answers are saved as a file.
    """
    new = [link for link in links if not link["known"]]
    statement = linker.statement_
    n_known = len(links) - len(new)
    if n_known:
        known = counted(n_known, "known match", "known matches")
        statement += f" Not shown: {known}."
    new.sort(key=lambda link: abs(link["probability"] - 0.5))
    about_links = f"{counted(len(new), 'new link')} {threshold}, doubtful ones first"
    if len(new) > N_LINKS:
        about_links += f": {N_LINKS} of them"
    doubtful = linker.records(linker.to_label(N_DOUBTFUL))
    asked = {(link["left"], link["right"]) for link in doubtful}
    shown = [link for link in new if (link["left"], link["right"]) not in asked]
    shown = shown[:N_LINKS]
    report = files("hdsl.report")
    css = (report / "links.css").read_text("utf-8")
    script = (report / "links.js").read_text("utf-8")
    template = Template((report / "links.html").read_text("utf-8"))
    return template.substitute(
        policy=policy(css, script),
        title=_escaped(title),
        css=css,
        js=script,
        said=_escaped(statement),
        found=_escaped(about_links),
        n_pairs=len(doubtful) + len(shown),
        links=_html_pairs(linker, shown),
        doubtful=_html_pairs(linker, doubtful, has_parts=True),
    )


def _html_pairs(linker: Linker, links: list[Record], *, has_parts: bool = False) -> str:
    """Return pairs of records as HTML, each with its reasons and its columns.

    `has_parts` adds what pushed their probabilities.
    """
    pairs = []
    for link in links:
        reasons = _reasons(linker, link)
        if has_parts:
            reasons += f" – probability: {_parts(linker, link)}"
        pairs.append(_html_pair(linker, link, reasons))
    return "\n".join(pairs)


def _parts(linker: Linker, link: Record) -> str:
    """Return what pushed the probability of a link most, in log odds."""
    why = linker.explain_probability(link["left"], link["right"])
    strongest = why.parts[:N_PARTS]
    return ", ".join(f"{part['name']} {part['log_odds']:+.1f}" for part in strongest)


def _html_pair(linker: Linker, link: Record, reasons: str) -> str:
    left_id = html.escape(str(link["left"]))
    right_id = html.escape(str(link["right"]))
    fields = linker.fields(link["left"], link["right"])
    # Without a value to compare with it is the whole other record.
    left_text = link["left_text"]
    right_text = link["right_text"]
    header = "".join(f"<th>{_escaped(field.name)}" for field in fields)
    left = "".join(
        f"<td>{_marked(field.left, field.right or right_text)}" for field in fields
    )
    right = "".join(
        f"<td>{_marked(field.right, field.left or left_text)}" for field in fields
    )
    return (
        f'<article class="pair" data-left="{left_id}" data-right="{right_id}">'
        f"<p><b>{link['probability']:.2f}</b> "
        '<button value="yes">yes</button> <button value="no">no</button> '
        f"{_escaped(reasons)}</p>"
        f"<table><tr><th>{header}"
        f'<tr class="left"><th>{unturned(left_id)}{left}'
        f'<tr class="right"><th>{unturned(right_id)}{right}</table></article>'
    )


def _escaped(text: str) -> str:
    """Return a text as HTML; marks that turn its direction are escape sequences."""
    return html.escape(unturned(text))


def _marked(text: str, other: str) -> str:
    """Return a text as HTML, with the words marked that another one does not have."""
    text = one_line(text, MAX_LETTERS)
    words = {word.casefold() for word in WORD.findall(other)}
    pieces = []
    end = 0
    for found in WORD.finditer(text):
        pieces.append(html.escape(text[end : found.start()]))
        word = html.escape(found[0])
        if found[0].casefold() not in words:
            word = f"<mark>{word}</mark>"
        pieces.append(word)
        end = found.end()
    pieces.append(html.escape(text[end:]))
    return "".join(pieces)


def _reasons(linker: Linker, link: Record) -> str:
    """Return what adds to the score of a link, as words with numbers."""
    return ", ".join(
        f"{word} {value:+.2f}"
        for word, value in linker.reasons(link["left"], link["right"])
        if abs(value) >= SMALL
    )
