"""Results as aligned tables of plain text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

HEADINGS = (
    "benchmark",
    "problem",
    "threads",
    "time",
    "yardsticks",
    "peak",
    "objective",
    "note",
)
RIGHT = frozenset({"threads", "time", "yardsticks", "peak", "objective"})


def read(path: str | Path) -> list[dict]:
    """Return the records of a file of JSON lines; a last line cut short is left out."""
    records = []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return records


def aligned(
    rows: Sequence[Sequence[str]], headings: Sequence[str], right: Iterable[str]
) -> str:
    """Return rows of text as a table; columns named in `right` are aligned there."""
    right = set(right)
    columns = zip(headings, *rows, strict=True)
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in (headings, ["-" * width for width in widths], *rows):
        cells = []
        for cell, width, name in zip(row, widths, headings, strict=True):
            if name in right:
                cells.append(cell.rjust(width))
            else:
                cells.append(cell.ljust(width))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def results(records: Iterable[dict]) -> str:
    """Return the table of a run."""
    return aligned([_row(record) for record in records], HEADINGS, RIGHT)


def _row(record: dict) -> list[str]:
    return [
        record["benchmark"],
        record["problem"],
        str(record["threads"]),
        duration(record["seconds"]),
        number(record["ratio"], ".2f"),
        memory(record["peak_mb"]),
        number(record["objective"], ".5f"),
        note(record),
    ]


def note(record: dict) -> str:
    """Return a few words on a record: its own note, else iterations and atoms."""
    if record["extra"].get("note"):
        return record["extra"]["note"]
    if record["n_iter"] is None:
        return ""
    text = f"{record['n_iter']} iterations, {record['n_atoms']} atoms"
    if record["extra"].get("cpu_ratio"):
        text += f", CPU {record['extra']['cpu_ratio']:.2f} yardsticks"
    return text


def duration(seconds: float | None) -> str:
    """Return seconds in a readable unit."""
    if seconds is None:
        return "-"
    if seconds < 1e-3:
        return f"{1e6 * seconds:.1f} µs"
    if seconds < 1.0:
        return f"{1e3 * seconds:.2f} ms"
    return f"{seconds:.2f} s"


def memory(megabytes: float | None) -> str:
    """Return MiB, or GiB from 10,000 MiB on."""
    if megabytes is None:
        return "-"
    if megabytes < 10_000:
        return f"{megabytes:.0f} MiB"
    return f"{megabytes / 1024:.2f} GiB"


def number(value: float | None, form: str) -> str:
    """Return a formatted number, or a dash for None."""
    if value is None:
        return "-"
    return format(value, form)


# --- two files side by side -----------------------------------------------------------

COMPARED = (
    "benchmark",
    "problem",
    "threads",
    "old",
    "new",
    "ratio",
    "old yd",
    "new yd",
    "yd ratio",
    "peak ratio",
    "note",
)


def compare(old: list[dict], new: list[dict]) -> str:
    """Return old, new and new / old in seconds, in yardsticks and in peak memory."""
    before = _by_key(old)
    after = _by_key(new)
    rows = [_pair(key, before.get(key), after.get(key)) for key in {**before, **after}]
    return aligned(rows, COMPARED, set(COMPARED) - {"benchmark", "problem", "note"})


def _by_key(records: list[dict]) -> dict[tuple[str, str, int], dict]:
    """Return records by what was run: benchmark, problem and threads."""
    return {
        (line["benchmark"], line["problem"], line["threads"]): line for line in records
    }


def _pair(key: tuple[str, str, int], old: dict | None, new: dict | None) -> list[str]:
    """Return a row of the comparison; either side may be missing."""
    before = old or {}
    after = new or {}

    def ratio(name: str) -> str:
        first = before.get(name)
        second = after.get(name)
        if not first or second is None:
            return "-"
        return f"{second / first:.2f}"

    return [
        *map(str, key),
        duration(before.get("seconds")),
        duration(after.get("seconds")),
        ratio("seconds"),
        number(before.get("ratio"), ".2f"),
        number(after.get("ratio"), ".2f"),
        ratio("ratio"),
        ratio("peak_mb"),
        _what_changed(old, new),
    ]


def _what_changed(old: dict | None, new: dict | None) -> str:
    """Return in words what changed beside the time."""
    if old is None:
        return "only in new"
    if new is None:
        return "only in old"
    if old["objective"] is not None and old["objective"] != new["objective"]:
        return f"objective {old['objective']:.6f} -> {number(new['objective'], '.6f')}"
    if old["seconds"] is None:
        return f"{note(old)} -> {note(new)}"
    return ""
