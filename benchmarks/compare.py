"""Two result files side by side: `python -m benchmarks.compare old.jsonl new.jsonl`."""

from __future__ import annotations

import argparse
import sys

from . import table

HEADINGS = (
    "benchmark", "problem", "threads", "old", "new", "ratio", "old yd", "new yd", "yd ratio",
    "peak ratio", "note",
)  # fmt: skip

Key = tuple[str, str, int]


def keyed(records: list[dict]) -> dict[Key, dict]:
    """Return the last record of each benchmark, problem and number of threads."""
    return {(line["benchmark"], line["problem"], line["threads"]): line for line in records}


def compare(old: list[dict], new: list[dict]) -> str:
    """Return the table: old, new and new / old in seconds, in yardsticks and in peak memory."""
    before, after = keyed(old), keyed(new)
    keys = [*before, *(key for key in after if key not in before)]
    rows = [_row(key, before.get(key), after.get(key)) for key in keys]
    return table.aligned(rows, HEADINGS, set(HEADINGS) - {"benchmark", "problem", "note"})


def _row(key: Key, old: dict | None, new: dict | None) -> list[str]:
    return [
        key[0],
        key[1],
        str(key[2]),
        *(table.duration(_field(line, "seconds")) for line in (old, new)),
        _ratio(old, new, "seconds"),
        *(table.number(_field(line, "ratio"), ".2f") for line in (old, new)),
        _ratio(old, new, "ratio"),
        _ratio(old, new, "peak_mb"),
        _note(old, new),
    ]


def _field(line: dict | None, name: str) -> float | None:
    return None if line is None else line[name]


def _ratio(old: dict | None, new: dict | None, name: str) -> str:
    before, after = _field(old, name), _field(new, name)
    return f"{after / before:.2f}" if before and after is not None else "-"


def _note(old: dict | None, new: dict | None) -> str:
    if old is None or new is None:
        return "only in new" if old is None else "only in old"
    if old["seconds"] is None and new["seconds"] is None:
        return f"{table.note(old)} -> {table.note(new)}"
    if old["objective"] is not None and old["objective"] != new["objective"]:
        return f"objective {old['objective']:.6f} -> {table.number(new['objective'], '.6f')}"
    return ""


def main(arguments: list[str] | None = None) -> int:
    """Print the table of two files."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("old")
    parser.add_argument("new")
    given = parser.parse_args(arguments)
    print(compare(table.read(given.old), table.read(given.new)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
