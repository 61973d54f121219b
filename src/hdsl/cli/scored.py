"""A model as the commands use it: with class scores beside the rows, or without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline, make_pipeline

from ..class_scores import ClassScores
from ..hdsl import HDSL
from ..local import LocalHDSL


@dataclass(frozen=True)
class ScoredModel:
    """A fitted model, and the class scores that it was learned with.

    ``rewrite`` and ``index_rows`` take rows without scores, so a model with scores is compared
    with the cosine of the rows as they are.

    Parameters
    ----------
    model : HDSL or LocalHDSL
    scores : ClassScores, default=None
    """

    model: HDSL | LocalHDSL
    scores: ClassScores | None = None

    @classmethod
    def from_saved(cls, saved: HDSL | LocalHDSL | Pipeline) -> ScoredModel:
        """Return what `hdsl.load` read."""
        return cls(saved[-1], saved[0]) if isinstance(saved, Pipeline) else cls(saved)

    def to_save(self) -> HDSL | LocalHDSL | Pipeline:
        """Return what `hdsl.save` writes."""
        return self.model if self.scores is None else make_pipeline(self.scores, self.model)

    @property
    def n_features(self) -> int:
        """The number of features of a row without scores."""
        return int((self.scores or self.model).n_features_in_)

    @property
    def n_scores(self) -> int:
        """The number of class scores beside a row."""
        return 0 if self.scores is None else len(self.scores.classes_)

    def rows(self, X: Any) -> sp.csr_array:
        """Return rows as the model was learned on, with their class scores."""
        return X if self.scores is None else sp.csr_array(self.scores.transform(X))

    def feature_names(self, names: np.ndarray | None) -> np.ndarray | None:
        """Return the names of the features, then ``class:LABEL`` for each score."""
        return names if self.scores is None else self.scores.get_feature_names_out(names)

    def rewrite(self, X: Any) -> Any:
        """Return the query side of the learned similarity."""
        return self.model.similarity_.rewrite(self.rows(X))

    def index_rows(self, X: Any) -> Any:
        """Return the other side."""
        return self.model.similarity_.index_rows(self.rows(X))
