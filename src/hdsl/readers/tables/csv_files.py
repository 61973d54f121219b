"""Tables in text files whose fields a separator is between: .csv and .tsv."""

import csv
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .columns import RawTable
from .names import check_wanted
from .text_lines import text_lines

#: Characters of a field, which may hold a whole book: the largest C long on Windows.
FIELD_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class CsvFile:
    """A file whose first line names the columns."""

    path: Path
    separator: str
    encoding: str

    def column_names(self) -> list[str]:
        """Return the fields of the header."""
        with self._records() as records:
            return next(records, [])

    def read(self, wanted: dict[str, str]) -> RawTable:
        """Return the wanted columns, {parameter: column name}; all values are text."""
        name = self.path.name
        columns: dict[str, list[str]] = {column: [] for column in wanted.values()}
        lines = array("q")
        with self._records() as records:
            header: list[str] = next(records, [])
            check_wanted(name, header, wanted)
            numbers = {column: number for number, column in enumerate(header)}
            appends = [
                (numbers[column], values.append) for column, values in columns.items()
            ]
            for fields in records:
                if not fields:  # an empty line
                    continue
                if len(fields) != len(header):
                    raise ValueError(
                        f"{name}, line {records.line_num} has {_n_fields(fields)}, but "
                        f"the header has {len(header)}."
                    )
                for number, append in appends:
                    append(fields[number])
                lines.append(records.line_num)
        return RawTable(name, columns, lines, is_text=True)

    @contextmanager
    def _records(self) -> Iterator[Any]:
        """Yield a reader of records; an error of its parser names the line."""
        text = text_lines(self.path, self.encoding)
        records = csv.reader(text, delimiter=self.separator, strict=True)
        limit = csv.field_size_limit(FIELD_LIMIT)
        try:
            yield records
        except csv.Error as error:
            raise ValueError(
                f"{self.path.name}, line {records.line_num} cannot be read: {error}."
            ) from None
        finally:
            csv.field_size_limit(limit)
            text.close()  # the file, also where its lines are not read to the end


def _n_fields(fields: list[str]) -> str:
    return "1 field" if len(fields) == 1 else f"{len(fields)} fields"
