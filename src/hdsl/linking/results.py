"""Results as tables: in the form of the tables that came in, as text, and in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from ..input.errors import short
from ..printable import Columns, frame_of

#: Rows that are printed.
N_SHOWN = 20

#: The libraries whose DataFrames results take the form of.
LIBRARIES = ("pandas", "polars", "pyarrow")


class Links(NamedTuple):
    """Pairs of records with their probability of a match.

    `left` and `right` are ids if the tables have a column of ids, else row numbers.
    """

    left: np.ndarray
    right: np.ndarray
    probability: np.ndarray

    def to_frame(self) -> Any:
        """Return the links as a pandas DataFrame."""
        return frame_of(self._asdict())

    def __repr__(self) -> str:
        return text_of_columns(self._asdict(), len(self.left))

    def _repr_html_(self) -> str:
        return html_of_columns(self._asdict(), len(self.left))


def text_of_columns(columns: dict[str, np.ndarray], n_rows: int) -> str:
    """Return the first rows of columns as text."""
    text = repr(_first_rows(columns))
    if n_rows > N_SHOWN:
        text += f"\n… {n_rows - N_SHOWN:,} more"
    return text


def html_of_columns(columns: dict[str, np.ndarray], n_rows: int) -> str:
    """Return the first rows of columns as an HTML table."""
    text = _first_rows(columns).to_html()
    if n_rows > N_SHOWN:
        text += f"<p>… {n_rows - N_SHOWN:,} more</p>"
    return text


def _first_rows(columns: dict[str, np.ndarray]) -> Columns:
    return Columns({name: values[:N_SHOWN] for name, values in columns.items()})


def library_of(table: Any) -> str | None:
    """Return the library of a DataFrame; None if a table is none.

    Examples
    --------
    >>> library_of(["a text"]) is None
    True
    """
    import narwhals.stable.v1 as nw

    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return None
    return str(nw.get_native_namespace(frame).__name__)


def in_form_of(result: Any, library: str | None) -> Any:
    """Return a result of columns as a DataFrame of a library.

    Without a library, with another one than `LIBRARIES`, and if the library is not
    installed, the result stays as it is.
    """
    if library not in LIBRARIES:
        return result
    try:
        module = import_module(library)
    except ImportError:
        return result
    import narwhals.stable.v1 as nw

    columns = {
        name: nw.new_series(
            name, _of_one_type(values.tolist()), native_namespace=module
        )
        for name, values in result._asdict().items()
    }
    return nw.from_dict(columns, native_namespace=module).to_native()


def _of_one_type(values: list[Any]) -> list[Any]:
    """Return values as they are, or as texts where their types differ.

    The ids of two tables may be numbers and texts, which no column holds.
    """
    if len({type(value) for value in values}) > 1:
        return [str(value) for value in values]
    return values


def check_library(library: Any) -> str | None:
    """Return the library that a file names; raise ValueError unless it is a known one."""
    if library is None or library in LIBRARIES:
        return library
    raise ValueError(
        f"it names the library {short(library)}, expected one of "
        f"{', '.join(LIBRARIES)}, or none"
    )


def as_links(links: Any) -> Links:
    """Return links that are a frame or `Links`, as `Links`."""
    if isinstance(links, Links):
        return links
    if library_of(links) is None and not isinstance(links, Mapping):
        raise TypeError(
            "links must be what predict or another method of the linker returns. Got "
            f"{short(links)}."
        )
    return Links(
        left=np.asarray(links["left"]),
        right=np.asarray(links["right"]),
        probability=np.asarray(links["probability"]),
    )
