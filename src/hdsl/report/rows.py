"""The rows that a page is about: checked, and those of them that it shows."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import column_or_1d

from ..input import embeddings
from ..labels import LabelSets, label_sets
from ..rows import Rows, blocks_of

#: Values of items on a page: at most 0.8 MB with their columns. Of longer rows fewer
#: fit.
MAX_VALUES = 50_000


class PageRows(NamedTuple):
    """Rows of X with their labels and texts, None where not given."""

    X: sp.csr_array | Rows | None
    y: np.ndarray | LabelSets | None
    texts: list[Any] | None

    @property
    def labels(self) -> np.ndarray | None:
        """The label of each row as it is shown; several with commas between them."""
        if not isinstance(self.y, LabelSets):
            return self.y
        indicator = self.y.indicator
        labels_of_rows = np.split(
            self.y.classes[indicator.indices], indicator.indptr[1:-1]
        )
        shown = [", ".join(map(str, labels)) for labels in labels_of_rows]
        return np.array(shown, dtype=object)


def check_rows(model: Any, X: Any, y: Any, texts: Any) -> PageRows:
    """Return X as a CSR array, labels as an array and texts as a list."""
    for name, value in (("y", y), ("texts", texts)):
        if X is None and value is not None:
            raise ValueError(
                f"{name} goes with the rows of X, but X is None: pass X too."
            )
    if X is None:
        return PageRows(None, None, None)
    X = embeddings.check_rows(model, X, reset=False)
    if not isinstance(X, Rows):
        X = sp.csr_array(X)
    y = check_labels(y)
    if isinstance(texts, str):
        raise ValueError(
            "texts must be a sequence of strings, one per row of X. Got one string."
        )
    if texts is not None:
        texts = list(texts)
    for name, value in (("y", y), ("texts", texts)):
        if value is not None and len(value) != X.shape[0]:
            raise ValueError(
                f"{name} has {len(value)} entries, but X has {X.shape[0]} rows: one "
                "per row is expected."
            )
    return PageRows(X, y, texts)


def check_labels(y: Any) -> Any:
    """Return one label per row as an array, and several as sets; None stays None."""
    sets = label_sets(y)
    if sets is not None or y is None:
        return sets
    return column_or_1d(y, warn=True)


def choose_rows(X: Any, max_items: int, n_directions: int = 0) -> np.ndarray:
    """Return numbers of rows spread evenly over X, so that sorted rows give all classes.

    A row has a value more per direction that is learned inside its embedding.
    """
    n = X.shape[0]
    n_values = n * n_directions + sum(
        block.nnz if sp.issparse(block) else block.size for block in blocks_of(X)
    )
    n_that_fit = max(2, int(MAX_VALUES * n / max(n_values, 1)))
    numbers = np.linspace(0, n - 1, min(n, max_items, n_that_fit))
    return np.unique(numbers.round().astype(np.int64))
