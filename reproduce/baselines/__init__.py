"""The paper's own model, and the methods that it compares with.

A method that learns a similarity stores it as ``similarity_``, so the same k-NN serves
all::

    knn_error(None, X, y, X_test, y_test, cosine=False)         # DOT
    knn_error(DiagonalSimilarity("l1").fit(X, y), X, y, ...)    # DIAG
    knn_error(None, Z, y, Z_test, y_test, cosine=False)         # RP, PCA
    knn_error(pipeline[-1], Z, y, Z_test, y_test)               # RP+OASIS, PCA+OASIS

Z has the projected rows, ``pipeline[:-1].transform(X)``.
"""

from .dense import COMET, OASIS
from .diagonal import DiagonalSimilarity
from .learner import BilinearSimilarity
from .published import PAPER_MODEL, PAPER_SCALES, paper_hdsl, pca_oasis, rp_oasis

__all__ = [
    "COMET",
    "OASIS",
    "PAPER_MODEL",
    "PAPER_SCALES",
    "BilinearSimilarity",
    "DiagonalSimilarity",
    "paper_hdsl",
    "pca_oasis",
    "rp_oasis",
]
