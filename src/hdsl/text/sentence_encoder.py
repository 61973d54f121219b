"""An encoder of texts as a transformer: apart from encoders, which load no scikit-learn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from ..input.parameters import check_number
from .encoders import PROBE, encode, load_encoder


class SentenceEncoder(TransformerMixin, BaseEstimator):
    """Texts as dense rows at unit length, for scikit-learn pipelines.

    Parameters
    ----------
    encoder : object or str
        An object with ``encode(list of str) -> array``, such as those of
        sentence-transformers and model2vec; or the name or folder of a model that one
        of these loads.
    batch_size : int, default=256
        Number of texts per call of the encoder.
    verbose : int, default=0
        1 shows the progress on stderr.

    Examples
    --------
    >>> class Letters:
    ...     def encode(self, texts):
    ...         return np.array([[text.count(c) for c in "abc"] for text in texts])
    >>> SentenceEncoder(Letters()).fit_transform(["aac", "b"]).round(2).tolist()
    [[0.8899999856948853, 0.0, 0.44999998807907104], [0.0, 1.0, 0.0]]
    """

    def __init__(
        self, encoder: Any, *, batch_size: int = 256, verbose: int = 0
    ) -> None:
        self.encoder = encoder
        self.batch_size = batch_size
        self.verbose = verbose

    def fit(self, X: Iterable[str], y: Any = None) -> SentenceEncoder:
        """Load the encoder; nothing is learned of the texts."""
        self.encoder_ = load_encoder(self.encoder)
        return self

    def transform(self, X: Iterable[str]) -> np.ndarray:
        """Return texts as rows, shape (n_texts, width), float32."""
        check_number(
            "SentenceEncoder", "batch_size", self.batch_size, low=1, integer=True
        )
        encoder = self._loaded()
        return encode(encoder, X, batch_size=self.batch_size, verbose=self.verbose)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return ``embedding0`` and so on, one name per column."""
        width = encode(self._loaded(), [PROBE]).shape[1]
        return np.array([f"embedding{k}" for k in range(width)], dtype=object)

    def _loaded(self) -> Any:
        """Return the encoder, which is loaded here if nothing was fitted."""
        if hasattr(self, "encoder_"):
            return self.encoder_
        return load_encoder(self.encoder)

    def __sklearn_is_fitted__(self) -> bool:
        """Return True: there is nothing to learn."""
        return True
