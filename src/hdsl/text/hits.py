"""What a search in a collection finds: a list of documents that reads as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..explain.tables import shown, signed
from ..tabular import frame_of, html_table, text_table

#: Characters of a document's text, and of its id and its label.
TEXT_WIDTH = 60
NAME_WIDTH = 24

#: Reasons that are shown for each document.
N_REASONS = 3


class Hits(list[dict[str, Any]]):
    """Documents as `Collection.search` returns them, best first: a list that prints as a table.

    Parameters
    ----------
    hits : iterable of dict, default=()
    is_plain : bool, default=False
        Whether they are ordered by the plain cosine, which the table then shows.
    """

    def __init__(
        self, hits: Iterable[dict[str, Any]] = (), *, is_plain: bool = False
    ) -> None:
        super().__init__(hits)
        self.is_plain = is_plain

    def __repr__(self) -> str:
        if not self:
            return "nothing found"
        header = self._header()
        return text_table(header, self._cells(), left=range(2, len(header)))

    def _repr_html_(self) -> str:
        if not self:
            return "<p>nothing found</p>"
        header = self._header()
        return html_table(header, self._cells(), left=range(2, len(header)))

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one line per document; reasons are text."""
        records = [
            {name: value for name, value in hit.items() if name != "more"}
            | {"why": _reasons(hit, len(hit["why"]))}
            for hit in self
        ]
        return frame_of(records)

    def _header(self) -> list[str]:
        """Return the names of the columns that the documents have."""
        names = [
            name
            for name in ("id", "label", "text")
            if any(hit[name] is not None for hit in self)
        ]
        if "text" not in names and "id" not in names:
            names.append("row")
        scores = ["similarity", "rank by cosine"]
        if self.is_plain:
            scores = ["cosine", "rank as learned"]
        return [*scores, *names, "why"]

    def _cells(self) -> list[list[str]]:
        """Return the documents as rows of text."""
        names = self._header()[2:-1]
        score = "similarity"
        other_rank = "rank by cosine"
        if self.is_plain:
            score = "cosine"
            other_rank = "rank"
        return [
            [
                f"{hit[score]:.3f}",
                str(hit[other_rank]),
                *(_shown_value(hit, name) for name in names),
                _reasons(hit, N_REASONS) + _remembered(hit),
            ]
            for hit in self
        ]


def _shown_value(hit: dict[str, Any], name: str) -> str:
    """Return what is known of a document as one short line."""
    value = hit[name]
    if value is None:
        return ""
    if name == "text":
        return shown(" ".join(str(value).split()), TEXT_WIDTH)
    return shown(value, NAME_WIDTH)


def _remembered(hit: dict[str, Any]) -> str:
    """Return the known query that adds most, after a comma; nothing without one."""
    if not hit["remembered"]:
        return ""
    reason = hit["remembered"][0]
    total = sum(known["value"] for known in hit["remembered"])
    query = shown(reason["query"], NAME_WIDTH)
    return f', judged relevant for "{query}" {signed(total, total)}'


def _reasons(hit: dict[str, Any], n_reasons: int) -> str:
    """Return the largest reasons with what they add."""
    reasons = hit["why"][:n_reasons]
    largest = max((abs(reason["value"]) for reason in reasons), default=0.0)
    return ", ".join(
        f"{shown(reason['name'])} {signed(reason['value'], largest)}"
        for reason in reasons
    )
