"""Tables in memory: DataFrames of any library that narwhals knows, and mappings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...input.errors import short
from .arrow_text import check_arrow_text
from .columns import RawTable
from .names import check_wanted

#: What messages call a table that has no name of its own.
NAME = "table"


@dataclass(frozen=True)
class ColumnMapping:
    """A mapping of names to columns."""

    mapping: Mapping[str, Any]

    def column_names(self) -> list[str]:
        """Return the keys."""
        return list(self.mapping)

    def read(self, wanted: dict[str, str]) -> RawTable:
        """Return the wanted columns, {parameter: column name}."""
        check_wanted(NAME, self.column_names(), wanted)
        columns = {name: self.mapping[name] for name in wanted.values()}
        for name, column in columns.items():
            if isinstance(column, str | bytes):
                raise ValueError(
                    f"Column {name!r} of {NAME} must be a list of values, one per row. "
                    f"Got {short(column)}."
                )
        return RawTable(NAME, columns)


@dataclass(frozen=True)
class Frame:
    """A DataFrame of pandas, polars or pyarrow."""

    table: Any

    def column_names(self) -> list[str]:
        """Return the names of the columns."""
        return self._narwhals().columns

    def read(self, wanted: dict[str, str]) -> RawTable:
        """Return the wanted columns, {parameter: column name}, and where the frame has nulls."""
        frame = self._narwhals()
        check_wanted(NAME, frame.columns, wanted)
        check_arrow_text(NAME, self.table)
        columns = {name: frame.get_column(name) for name in wanted.values()}
        return RawTable(
            name=NAME,
            columns={name: column.to_numpy() for name, column in columns.items()},
            is_null={
                name: column.is_null().to_numpy() for name, column in columns.items()
            },
        )

    def _narwhals(self) -> Any:
        """Return the frame with the verbs that all libraries share."""
        import narwhals.stable.v1 as nw
        from narwhals.exceptions import DuplicateError

        try:
            return nw.from_native(self.table, eager_only=True)
        except DuplicateError as error:
            words = " ".join(str(error).split())
            raise ValueError(
                f"{NAME} has a column name more than once: rename one. {words}."
            ) from None
        except TypeError:
            kind = type(self.table)
            raise TypeError(
                "table must be a DataFrame of pandas, polars or pyarrow in memory, a "
                "mapping of columns, or a path to a .csv, .tsv, .jsonl or .parquet "
                f"file. Got {kind.__module__}.{kind.__name__}."
            ) from None
