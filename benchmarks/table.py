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
    """Return rows of text as a table; the columns named in `right` end at the same place."""
    right = set(right)
    widths = [
        max(len(row[k]) for row in (headings, *rows)) for k in range(len(headings))
    ]
    lines = []
    for row in (headings, ["-" * width for width in widths], *rows):
        cells = (
            cell.rjust(width) if name in right else cell.ljust(width)
            for cell, width, name in zip(row, widths, headings, strict=True)
        )
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
    return (
        f"{megabytes:.0f} MiB" if megabytes < 10_000 else f"{megabytes / 1024:.2f} GiB"
    )


def number(value: float | None, form: str) -> str:
    """Return a formatted number, or a dash for None."""
    return "-" if value is None else format(value, form)


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
    before, after = (
        {
            (line["benchmark"], line["problem"], line["threads"]): line
            for line in records
        }
        for records in (old, new)
    )
    keys = [*before, *(key for key in after if key not in before)]
    rows = [_pair(key, before.get(key), after.get(key)) for key in keys]
    return aligned(rows, COMPARED, set(COMPARED) - {"benchmark", "problem", "note"})


def _pair(key: tuple[str, str, int], old: dict | None, new: dict | None) -> list[str]:
    both = [{} if line is None else line for line in (old, new)]

    def ratio(name: str) -> str:
        first, second = (line.get(name) for line in both)
        return f"{second / first:.2f}" if first and second is not None else "-"

    if old is None or new is None:
        said = "only in new" if old is None else "only in old"
    elif old["objective"] is not None and old["objective"] != new["objective"]:
        said = f"objective {old['objective']:.6f} -> {number(new['objective'], '.6f')}"
    else:
        said = "" if old["seconds"] is not None else f"{note(old)} -> {note(new)}"
    return [
        *map(str, key),
        *(duration(line.get("seconds")) for line in both),
        ratio("seconds"),
        *(number(line.get("ratio"), ".2f") for line in both),
        ratio("ratio"),
        ratio("peak_mb"),
        said,
    ]
