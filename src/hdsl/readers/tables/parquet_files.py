"""Tables in Parquet files, read by pyarrow: Polars prints a panic where one is damaged."""

from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import parsing
from ..expansion import check_expansion
from .arrow_text import check_arrow_text
from .columns import RawTable, not_plain
from .names import check_wanted


@dataclass(frozen=True)
class ParquetFile:
    """A file whose schema names the columns."""

    path: Path

    def column_names(self) -> list[str]:
        """Return the names in the schema."""
        return list(self._schema().names)

    def read(self, wanted: dict[str, str]) -> RawTable:
        """Return the wanted columns, {parameter: column name}."""
        schema = self._schema()
        check_wanted(self.path.name, schema.names, wanted)
        names = list(wanted.values())
        self._check_plain(schema, names)
        parquet = self._parquet()
        with (
            parsing(self.path, "Parquet"),
            parquet.ParquetFile(self.path, read_dictionary=names) as file,
        ):
            _check_sizes(self.path, file.metadata, n_columns=len(names))
            table = file.read(names, use_threads=False)
        check_arrow_text(self.path.name, table)
        columns = {name: _values(table.column(name)) for name in names}
        return RawTable(self.path.name, columns)

    def _parquet(self) -> ModuleType:
        """Return the module of pyarrow that reads Parquet."""
        try:
            import pyarrow.parquet
        except ImportError:
            raise ImportError(
                f"Reading {self.path.name} needs pyarrow: install it, pass a DataFrame, "
                "or save the table as .csv."
            ) from None
        return pyarrow.parquet

    def _schema(self) -> Any:
        parquet = self._parquet()
        with parsing(self.path, "Parquet"):
            return parquet.read_schema(self.path)

    def _check_plain(self, schema: Any, names: list[str]) -> None:
        """Raise ValueError where a column holds lists, records or pieces of bytes."""
        from pyarrow import types

        for name in names:
            kind = schema.field(name).type
            if types.is_nested(kind) or types.is_fixed_size_binary(kind):
                raise not_plain(self.path.name, name)


def _check_sizes(path: Path, metadata: Any, *, n_columns: int) -> None:
    """Raise DataFileError where the sizes in the file say that it expands to far more."""
    # Of all columns: to ask for the size of a single column ends the process where the
    # file is damaged.
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    content = sum(max(group.total_byte_size, 0) for group in groups)
    pointers = 8 * n_columns * metadata.num_rows
    check_expansion(path, pointers + content, "Save it as .csv")


def _values(column: Any) -> list[Any]:
    """Return the values of a column that comes in chunks."""
    return list(chain.from_iterable(map(_chunk_values, column.chunks)))


def _chunk_values(chunk: Any) -> list[Any]:
    """Return the values of a chunk; a text that occurs a million times is one object."""
    if not hasattr(chunk, "dictionary"):
        return chunk.to_pylist()
    words = chunk.dictionary.to_pylist()
    return [_word(words, number) for number in chunk.indices.to_pylist()]


def _word(words: list[Any], number: int | None) -> Any:
    return None if number is None else words[number]
