"""Tables of texts, ids or judgements, from files, frames and mappings: columns are checked."""

from .columns import Table
from .ids import row_index, row_numbers, unique_index, without_unknown
from .names import MissingColumnError
from .read import column_names, other_separator, read_columns, read_table
from .values import flags, numbers

__all__ = [
    "MissingColumnError",
    "Table",
    "column_names",
    "flags",
    "numbers",
    "other_separator",
    "read_columns",
    "read_table",
    "row_index",
    "row_numbers",
    "unique_index",
    "without_unknown",
]
