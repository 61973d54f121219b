"""The rows or texts of a data file, with their labels or judgements."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..labels import split_labels
from ..relevance import Relevance
from ..triplets import Judgements


@dataclass(frozen=True)
class Data:
    """Rows or texts, with labels or judgements.

    `judgements` are comparisons or clicks. `n_skipped` rows of the file had no text,
    label or id and are left out. `queries` are not rows of the data, `relevance` has the
    grades of rows for them, and `judgements` number them after the rows.
    `feature_names` are of the columns of `X`. Rows of one of the `groups` are held out
    together.
    """

    path: Path
    X: Any = None
    texts: np.ndarray | None = None
    labels: np.ndarray | None = None
    judgements: Judgements | None = None
    columns: dict[str, str] = field(default_factory=dict)
    ids: np.ndarray | None = None
    n_skipped: int = 0
    label_sep: str | None = None
    queries: Data | None = None
    relevance: Relevance | None = None
    feature_names: np.ndarray | None = None
    groups: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        if self.texts is None:
            return self.X.shape[0]
        return len(self.texts)

    @property
    def has_judgements(self) -> bool:
        """Whether there are judgements, of rows or of queries."""
        return self.judgements is not None or self.relevance is not None

    @property
    def y(self) -> Any:
        """The labels, split where a row has several."""
        return split_labels(self.labels, self.label_sep)
