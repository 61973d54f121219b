"""Names of columns: those that a caller wants against those that a table has."""

from collections import Counter
from collections.abc import Sequence

from ...input.errors import WayOutError, first_few


class MissingColumnError(WayOutError):
    """A table without a column that the caller wants; `columns` are those that it has."""

    def __init__(
        self, facts: str, way_out: str, remedy: str, columns: tuple[str, ...]
    ) -> None:
        super().__init__(facts, way_out, remedy)
        self.args = (facts, way_out, remedy, columns)
        self.columns = columns


def check_wanted(table: str, names: Sequence[str], wanted: dict[str, str]) -> None:
    """Raise ValueError unless a table has each wanted column, {parameter: name}, once.

    A table of which no column is wanted raises MissingColumnError too: the caller learns
    from it what to choose from.
    """
    if not wanted:
        raise _missing_columns(
            f"No column of {table} is named", "name at least one", names
        )
    counts = Counter(names)
    missing = {key: name for key, name in wanted.items() if not counts[name]}
    if missing:
        different = dict.fromkeys(missing.values())  # two keys may be one column
        parameters = ", ".join(f"{key}=" for key in missing)
        raise _missing_columns(
            f"{table} has no column {', '.join(map(repr, different))}",
            f"say which is meant with {parameters}",
            names,
        )
    for name in wanted.values():
        if counts[name] > 1:
            raise ValueError(f"{table} has column {name!r} more than once: rename one.")


def _missing_columns(
    fault: str, way_out: str, names: Sequence[str]
) -> MissingColumnError:
    listed = first_few(names, 12) or "none"
    return MissingColumnError(
        f"{fault}. Its columns are {listed}", way_out, "columns", tuple(names)
    )
