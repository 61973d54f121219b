"""What every model with a learned similarity can do: transform, compare, explain, report."""

from abc import abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin

from . import explain as explain_module
from . import saving
from .explain.parts import one_row
from .explain.tables import as_names
from .input.embeddings import as_given, check_rows
from .input.estimators import TakesSparse, numbered_names
from .rows import unit_rows
from .similarity import Similarity
from .similarity.cosine import LearnedCosine, Rewriter
from .similarity.limits import limit_weights
from .solver import atoms as atoms_module


class SimilarityModel(TakesSparse, TransformerMixin, BaseEstimator):
    """The use of a learned similarity; how it is learned is up to the subclass."""

    n_features_in_: int

    @property
    @abstractmethod
    def similarity_(self) -> Similarity:
        """The learned similarity as a plain value; raises NotFittedError before the fit."""

    @property
    def components_(self) -> sp.csr_array:
        """Rows sqrt(λ·weight)(e_i ± e_j), shape (n_atoms, n_features)."""
        return self.similarity_.components

    def embedding_matrix(self) -> np.ndarray:
        """Return W, the learned part of an embedding, dense, of shape (width, width)."""
        return self.similarity_.embedding_matrix()

    def matrix(self) -> sp.csr_array | sp.coo_array:
        """Return M as a sparse array of shape (n_features, n_features).

        The format is CSR, and COO for more than 2**27 features: CSR stores a number per
        row.
        """
        return self.similarity_.matrix()

    def transform(self, X: Any, *, cosine: bool = False) -> Any:
        """Return rows whose dot products are the similarity.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
        cosine : bool, default=False
            Return rows at unit length, whose dot products are the learned cosine
            S(x, y) / sqrt(S(x, x) S(y, y)).

        Returns
        -------
        array or sparse matrix, as X, of shape (n_rows, n_atoms) or (n_rows, n_atoms +
        n_features)
            The atoms' components, then sqrt(prior)·X where prior > 0, and so on for
            each fixed part, then the embedding along its learned directions.
        """
        similarity, rows = self._similarity_and(X)
        Z = similarity.transform(rows)
        if cosine:
            Z = unit_rows(Z)
        return as_given(Z, X)

    def rewrite(
        self,
        X: Any,
        *,
        cosine: bool = False,
        nonnegative: bool = False,
        max_terms: int | None = None,
        max_weight: float | None = None,
    ) -> Any:
        """Return queries whose dot products with rows y are S(x, y): prior·X + XM.

        An embedding z beside X becomes prior·w·z + Wz.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
        cosine : bool, default=False
            Return queries of the learned cosine, for an index of ``index_rows(Y,
            cosine=True)``.
        nonnegative : bool, default=False
            Leave out negative weights, which some engines refuse. The scores of
            non-negative rows are then upper bounds: see `hdsl.serving.certified_top_k`.
        max_terms : int, default=None
            Maximum number of weights per query: the largest in absolute value are kept.
            It counts features; an embedding is kept as it is.
        max_weight : float, default=None
            Queries whose largest absolute feature weight is greater are scaled down,
            with their embedding. All scores of a query change by the same factor, so
            ranks do not change.

        Returns
        -------
        array or sparse matrix, as X, of shape (n_rows, n_features)
            With ``norm="l2"``, x and y are rows at unit length: an index holds
            ``index_rows(Y)``.
        """
        rewriter, rows = self._rewriter_and(X, cosine)
        Z = rewriter.rewrite(rows)
        Z = limit_weights(
            Z, nonnegative=nonnegative, max_terms=max_terms, max_weight=max_weight
        )
        return as_given(Z, X)

    def lengths(self, Y: Any) -> np.ndarray:
        """Return the learned length sqrt(S(y, y)) of each row, 1 where it is 0, shape (n_rows,).

        The learned cosine divides each row by it: one number per document of an index
        that holds ``index_rows(Y)``.
        """
        similarity, Y = self._similarity_and(Y)
        return LearnedCosine(similarity).lengths(Y)

    def index_rows(self, Y: Any, *, cosine: bool = False) -> Any:
        """Return rows for an index whose dot products with ``rewrite(X)`` are the similarity.

        They are Y itself, at unit length with ``norm="l2"``, and with `cosine` each
        divided by its learned length sqrt(S(y, y)).
        """
        rewriter, rows = self._rewriter_and(Y, cosine)
        return as_given(rewriter.index_rows(rows), Y)

    def similarity(self, X: Any, Y: Any = None, *, cosine: bool = False) -> np.ndarray:
        """Return S between all rows of X and all rows of Y (X if None), dense.

        With `cosine` it is S(x, y) / sqrt(S(x, x) S(y, y)).
        """
        similarity, X = self._similarity_and(X)
        if Y is not None:
            Y = self._check(Y, "Y")
        return similarity.pairwise(X, Y, cosine=cosine)

    def pair_score(self, X: Any, Y: Any, *, cosine: bool = False) -> np.ndarray:
        """Return S(x, y), or its cosine, of the rows of X and Y side by side, shape (n_rows,)."""
        similarity, X = self._similarity_and(X)
        Y = self._check(Y, "Y")
        if X.shape[0] != Y.shape[0]:
            raise ValueError(
                f"X has {X.shape[0]} rows and Y has {Y.shape[0]}: pair_score scores "
                "them side by side. Use similarity(X, Y) for all pairs."
            )
        return similarity.pair_score(X, Y, cosine=cosine)

    def _similarity_and(self, X: Any) -> tuple[Similarity, Any]:
        """Return the learned similarity and a checked X; raise first if not fitted."""
        similarity = self.similarity_
        return similarity, self._check(X)

    def _rewriter_and(self, X: Any, cosine: bool) -> tuple[Rewriter, Any]:
        """Return the learned similarity or its cosine, and a checked X."""
        similarity, X = self._similarity_and(X)
        if cosine:
            return LearnedCosine(similarity), X
        return similarity, X

    def _check(self, X: Any, name: str = "X") -> Any:
        """Return X checked against what the model was fitted on."""
        return check_rows(self, X, reset=False, name=name)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each column of ``transform``: ``wordA+wordB`` or ``wordA-wordB``.

        The learned directions of an embedding are ``direction0`` and so on.
        """
        similarity = self.similarity_
        n_features = self.n_features_in_
        features = self._feature_names(input_features)
        pairs = atoms_module.names(similarity.atoms, as_names(features, n_features))
        weighted = [
            fixed_part for fixed_part in similarity.fixed if fixed_part.weight != 0
        ]
        directions = []
        if similarity.directions is not None:
            n_directions = len(similarity.directions)
            directions = [f"direction{k}" for k in range(n_directions)]
        learned_last = np.array(directions, dtype=object)
        if not weighted:
            return np.append(pairs, learned_last)
        if features is None:
            why = (
                "The transform has a column per feature "
                "(with prior=0 it has feature pairs alone)"
            )
            features = numbered_names(n_features, why)
        blocks = [features[block.start : block.stop] for block in weighted]
        return np.concatenate([pairs, *blocks, learned_last])

    def _feature_names(self, input_features: Any) -> np.ndarray | None:
        """Return the names given to ``fit`` or to this method, or None."""
        fitted_names = getattr(self, "feature_names_in_", None)
        if input_features is None:
            input_features = fitted_names
        if input_features is None:
            return None
        names = np.asarray(input_features, dtype=object)
        width = getattr(self, "embedding_width_", 0)
        if width and len(names) == self.n_features_in_ - width:
            of_embedding = [f"embedding{k}" for k in range(width)]
            names = np.append(names, np.array(of_embedding, dtype=object))
        if fitted_names is not None and not np.array_equal(names, fitted_names):
            raise ValueError("input_features is not equal to feature_names_in_")
        if len(names) != self.n_features_in_:
            raise ValueError(
                f"input_features should have length equal to number of features "
                f"({self.n_features_in_}), got {len(names)}"
            )
        return names

    def explain(
        self,
        x: Any,
        y: Any,
        *,
        rather_than: Any = None,
        by: str = "pair",
        feature_names: Any = None,
        top: int | None = 10,
    ) -> explain_module.Explanation:
        """Return the exact additive parts of S(x, y), or why x is more like y than like z.

        Parameters
        ----------
        x, y : array-like, sparse matrix or DataFrame of shape (1, n_features)
        rather_than : array-like, sparse matrix or DataFrame, default=None
            One row z: the parts then add up to S(x, y) - S(x, z).
        by : {"pair", "atom"}, default="pair"
            One part per feature pair, M_ij (x_i y_j + x_j y_i), or one per atom; the
            prior has one per feature in either case.
        feature_names : array-like of str of shape (n_features,), default=None
            None is ``feature_names_in_``, or x0, x1 and so on.
        top : int or None, default=10
            Number of parts to show; the object has all.

        Returns
        -------
        hdsl.explain.Explanation
            ``total``, ``parts``, ``to_frame()``, ``to_dict()``; it prints as text and
            as HTML.

        Examples
        --------
        >>> from hdsl import HDSL, Mining
        >>> X = np.array([[2.0, 0, 1], [1, 0, 2], [0, 2, 1], [0, 1, 2]])
        >>> model = HDSL(scale=1.0, prior=0.5, mining=Mining(n_targets=1, n_impostors=1))
        >>> model = model.fit(X, [0, 0, 1, 1])
        >>> model.explain(X[0], X[1], rather_than=X[2], feature_names=["cat", "dog", "pet"])
        S(x, y) - S(x, z) = 1.5, learned +1.2, prior +0.3
                     sum learned prior
          cat ~ dog +0.8    +0.8       |++++++++++++++++++++
          cat       +0.6    +0.4  +0.2 |+++++++++++++++
          pet       +0.1          +0.1 |++
        """
        similarity = self.similarity_
        rows = {"x": x, "y": y, "rather_than": rather_than}
        checked = {
            name: self._check(one_row(z), name)
            for name, z in rows.items()
            if z is not None
        }
        names = self._feature_names(feature_names)
        return explain_module.explain(
            similarity, **checked, by=by, feature_names=names, top=top
        )

    def strongest_directions(
        self,
        x: Any,
        y: Any,
        X: Any,
        texts: Any = None,
        *,
        top: int = 3,
        n_ends: int = 3,
    ) -> list[explain_module.Direction]:
        """Return the learned directions of the embedding that add most to S(x, y).

        Parameters
        ----------
        x, y : Rows or array-like of one row
        X : Rows or array-like of shape (n_rows, n_features)
            Rows to show at both ends of a direction, such as the training rows.
        texts : sequence of length n_rows, default=None
            Texts to show for these rows; None shows row numbers.
        top : int, default=3
            Number of directions.
        n_ends : int, default=3
            Number of rows per end.

        Returns
        -------
        list of hdsl.explain.Direction
            Each has ``value``, its contribution to S, and the rows at its ends, ``low``
            and ``high``. The values of all directions sum to *meaning, learned*.
        """
        similarity = self.similarity_
        x = self._check(one_row(x), "x")
        y = self._check(one_row(y), "y")
        X = self._check(X)
        return explain_module.strongest_directions(
            similarity, x, y, X, texts, top=top, n_ends=n_ends
        )

    def importance(
        self,
        X: Any = None,
        *,
        min_rows: int = 5,
        feature_names: Any = None,
        top: int | None = 10,
    ) -> explain_module.Importance:
        """Return features and feature pairs by their effect on the rows of X, or by their weight.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features), default=None
            Rows to rank by. The effect of a feature pair is the root mean square of its
            contribution to S(x, y), over pairs of rows x and y of X, times n / (n + 5),
            with n the number of rows that have its rarer feature. None ranks by the
            weight in M.
        min_rows : int, default=5
            With X, features in fewer rows, and pairs with such a feature, come last.
        feature_names : array-like of str of shape (n_features,), default=None
            None is ``feature_names_in_``, or x0, x1 and so on.
        top : int or None, default=10
            Number to show; the object has all.

        Returns
        -------
        hdsl.explain.Importance
            ``features``, ``pairs``, ``to_frame()``, ``to_dict()``; it prints as text
            and as HTML.
        """
        similarity = self.similarity_
        if X is not None:
            X = self._check(X)
        names = self._feature_names(feature_names)
        return explain_module.importance(
            similarity, X, min_rows=min_rows, feature_names=names, top=top
        )

    def report(
        self,
        path: Any,
        X: Any = None,
        y: Any = None,
        *,
        X_test: Any = None,
        y_test: Any = None,
        texts: Any = None,
        feature_names: Any = None,
        title: str | None = None,
        max_items: int = 200,
    ) -> None:
        """Write a report about the learned similarity, as one HTML file.

        The page goes through all models of the path, searches the feature pairs, draws
        their network, and shows why two rows of X match.

        Parameters
        ----------
        path : str or path-like
            By convention ``*.html``; written whole or not at all.
        X : array-like or sparse matrix of shape (n_rows, n_features), default=None
            Rows to compare, and to count the feature pairs in.
        y : array-like of shape (n_rows,), default=None
            Their labels.
        X_test, y_test : as X and y, default=None
            Test rows for the error of 3 nearest neighbours among the rows of X, by
            cosine and by the learned similarity. Without them the page shows no error.
        texts : sequence of str of length n_rows, default=None
            The texts behind the rows of X.
        feature_names : array-like of str of shape (n_features,), default=None
            None is ``feature_names_in_``, or x0, x1 and so on.
        title : str, default=None
        max_items : int, default=200
            Maximum number of rows of X on the page, spread evenly; fewer if rows are
            long. A page of texts is usually smaller than 1 MB.
        """
        from . import report  # rarely needed

        report.check_path(path)
        text = report.page(
            self,
            X,
            y,
            X_test=X_test,
            y_test=y_test,
            texts=texts,
            feature_names=feature_names,
            title=title,
            max_items=max_items,
        )
        report.write(path, text)

    def save(self, path: Any) -> None:
        """Write the fitted model to a file, completely or not at all; `hdsl.load` reads it.

        The file is safetensors with a JSON header: atoms, weights, scale, prior, names,
        parameters, versions and the trace. It holds no code: parameters that are
        functions or objects are left out.

        The same data and parameters make the same bytes. So `device`, `n_jobs` and
        `verbose` are left out too, and the seconds of the trace, which are NaN in a
        loaded model. The checkpoint of the run is deleted.

        Parameters
        ----------
        path : str or path-like
            By convention ``*.hdsl``.
        """
        saving.save(self, path)
