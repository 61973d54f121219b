"""Tables in text files with one JSON object per line: .jsonl."""

import json
import math
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...input.errors import short
from ..expansion import check_expansion, expansion_limit
from .columns import RawTable
from .names import check_wanted
from .text_lines import text_lines

#: Bytes of a value in a column that a record does not have.
POINTER = 8


@dataclass(frozen=True)
class JsonlFile:
    """A file of records, each of which has some of the columns."""

    path: Path
    encoding: str

    def column_names(self) -> list[str]:
        """Return the names in all records, since a later one may have others."""
        names: dict[str, None] = {}
        for _, record in self._records():
            names |= dict.fromkeys(record)
        return list(names)

    def read(self, wanted: dict[str, str]) -> RawTable:
        """Return the wanted columns, {parameter: column name}; None where a record has none."""
        columns: dict[str, list[Any]] = {name: [] for name in wanted.values()}
        names: dict[str, None] = {}
        lines = array("q")
        n_most = expansion_limit(self.path) // POINTER
        for number, record in self._records():
            if len(columns) * len(lines) > n_most:
                size = POINTER * len(columns) * len(lines)
                check_expansion(self.path, size, "Save it as .csv")
            names |= dict.fromkeys(record)
            for name, values in columns.items():
                values.append(record.get(name))
            lines.append(number)
        if lines:
            check_wanted(self.path.name, list(names), wanted)
        return RawTable(self.path.name, columns, lines)

    def _records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the number of each line that is not blank, and its record."""
        for number, line in enumerate(text_lines(self.path, self.encoding), start=1):
            if line.strip():
                yield number, _record(f"{self.path.name}, line {number}", line)


def _record(where: str, line: str) -> dict[str, Any]:
    """Return the object in a line; raise ValueError where there is none, or a doubtful one."""
    try:
        record = json.loads(line, object_pairs_hook=_members, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        reason = str(error)[:100]
        raise ValueError(f"{where} cannot be read: {reason}.") from None
    if not isinstance(record, dict):
        raise ValueError(f"{where} must be an object, {{...}}.")
    return record


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object; refuse a name that occurs twice, and endless numbers."""
    for _, value in pairs:
        if isinstance(value, float) and math.isinf(value):
            raise ValueError("a number is too large")
    members = dict(pairs)
    if len(members) < len(pairs):
        repeated, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"the name {short(repeated)} occurs twice")
    return members


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
