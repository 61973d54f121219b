"""What a search needs of a similarity."""

from typing import Any, Protocol


class Rewriter(Protocol):
    """What a search needs of a similarity: S(x, y) is a dot product of two rewritten rows."""

    def rewrite(self, X: Any) -> Any:
        """Return the query side."""

    def index_rows(self, X: Any) -> Any:
        """Return the other side."""
