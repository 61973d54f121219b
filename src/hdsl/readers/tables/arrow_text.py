"""The text in tables of pyarrow, which takes any bytes for UTF-8 until it is asked."""

from typing import Any


def check_arrow_text(name: str, table: Any) -> None:
    """Raise ValueError where a pyarrow table has text that is not UTF-8.

    A table of another library passes: they check text when they read it.
    """
    if not hasattr(table, "validate"):
        return
    try:
        table.validate(full=True)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0][:200]
        raise ValueError(
            f"{name} is damaged, or has text that is not UTF-8: {reason}"
        ) from None
