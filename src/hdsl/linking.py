"""The same thing in two tables, or twice in one: found by a similarity learned from known matches.

Records become rows of words and of character n-grams. `HDSL` learns from each match against the
nearest other rows of both tables. Whether a pair is a match is then told by numbers: its score,
how far it is above or below the best other row of either record, its rank on both sides, the words
that only one record has, the columns. A small classifier of these learns from scores that are
cross-fitted, by models that have not seen the match, so that its probabilities hold for new pairs.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from . import checks
from . import explain as explain_module
from .evaluate import wilson_interval
from .hdsl import HDSL
from .progress import Progress
from .search import top_k
from .similarity import Similarity, unit_rows
from .solver.atoms import NOTHING

__all__ = ["Linker", "Links"]

#: Rows of the other table that a rank is known among; candidates of a row for the classifier.
DEPTH, N_CANDIDATES = 20, 10

#: Fewer matches than these teach nothing, or only a linear classifier of few numbers.
FEW, SOME = 5, 40

#: Weight of a pair that counts as a non-match as its rows have other matches, where non-matches
#: are given.
IMPLIED = 0.2

#: Pairs that are looked at together, most columns that are compared one by one, and numbers of
#: candidates that recall is shown for.
BLOCK, MOST_COLUMNS, RECALL_AT = 2**16, 12, (1, 2, 5, 10, 20)

#: A column of this share of numbers is compared by the difference.
NUMERIC = 0.8

_NUMBER = re.compile(r"[^\d.,\-+]*([-+]?\d[\d,]*\.?\d*)\D*")


class Links(NamedTuple):
    """Pairs of records, and how likely each pair is one thing.

    `left` and `right` are ids where the tables have a column of ids, and row numbers otherwise.
    """

    left: np.ndarray
    right: np.ndarray
    probability: np.ndarray


# --- tables --------------------------------------------------------------------------------------


class _Table(NamedTuple):
    """Columns of strings, empty where a value is missing, and the ids."""

    columns: dict[str, list[str]]
    ids: list[Any] | None

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def texts(self) -> list[str]:
        return [" ".join(filter(None, row)) for row in zip(*self.columns.values(), strict=True)]


def _read_table(table: Any, columns: Any, id_column: str | None, name: str) -> _Table:
    """Return the columns that count; raise where there is no row, no text or no such column."""
    values = _values(table, name)
    if not values or not len(next(iter(values.values()))):
        raise ValueError(f"The {name} table has no rows: at least one is needed.")
    if id_column is not None and id_column not in values:
        raise ValueError(f"The {name} table has no column {id_column!r}. It has {_some(values)}.")
    ids = None if id_column is None else values[id_column]
    if ids is not None and len({*map(str, ids)}) < len(ids):
        twice = [v for v, n in zip(*np.unique(ids, return_counts=True), strict=True) if n > 1]
        raise ValueError(
            f"Ids must differ, but {id_column!r} of the {name} table has {_some(twice)} twice."
        )
    texts = {c: list(map(_text, v)) for c, v in values.items() if c != id_column}
    if columns is None:
        chosen = {c: v for c, v in texts.items() if not _numbers_rows(c, v)}
    else:
        chosen = {c: texts[c] for c in columns if c in texts}
    if not any(any(map(str.isalpha, text)) for v in chosen.values() for text in v):
        asked = "" if columns is None else f" among {_some(columns)}"
        raise ValueError(
            f"The {name} table has no column of text{asked}. Its columns are {_some(values)}: "
            "name those to compare with columns=."
        )
    return _Table(chosen, ids)


def _values(table: Any, name: str) -> dict[str, list[Any]]:
    if isinstance(table, Mapping):
        values = {str(c): list(v) for c, v in table.items()}
    elif isinstance(table, list | tuple) or (isinstance(table, np.ndarray) and table.ndim == 1):
        values = {"text": list(table)}
    else:
        import narwhals.stable.v1 as nw

        try:
            frame = nw.from_native(table, eager_only=True, allow_series=True)
        except TypeError:
            raise TypeError(
                f"The {name} table must be a DataFrame of pandas, polars or pyarrow, a list of "
                f"texts, or a mapping of columns. Got {type(table).__name__}."
            ) from None
        parts = (
            {"text": frame}
            if isinstance(frame, nw.Series)
            else {c: frame[c] for c in frame.columns}
        )
        values = {
            str(c): [
                None if no else v
                for v, no in zip(s.to_list(), s.is_null().to_list(), strict=True)
            ]
            for c, s in parts.items()
        }  # fmt: skip
    if len({len(v) for v in values.values()}) > 1:
        raise ValueError(f"The columns of the {name} table have different lengths.")
    return values


def _text(value: Any) -> str:
    if value is None or (isinstance(value, float) and value != value):
        return ""
    return (
        str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()
    )


def _numbers_rows(name: str, values: list[str]) -> bool:
    """Return whether a column only numbers the rows, or is called "id"."""
    if name.lower() == "id":
        return True
    if len(values) < 2 or not all(v.isdecimal() for v in values):
        return False
    numbers = {int(v) for v in values}
    return len(numbers) == len(values) == max(numbers) - min(numbers) + 1


def _some(values: Iterable[Any], n: int = 5) -> str:
    shown = [repr(str(v)[:60]) for v in values]
    return ", ".join(shown[:n]) + (", …" if len(shown) > n else "")


def _numbers(values: list[str]) -> np.ndarray | None:
    """Return a column as numbers, NaN where it has none; None for a column of text."""
    found = [_NUMBER.fullmatch(v) for v in values]
    if sum(m is not None for m in found) < NUMERIC * max(1, sum(map(bool, values))):
        return None
    return np.array([np.nan if m is None else float(m[1].replace(",", "")) for m in found])


# --- numbers of a pair ---------------------------------------------------------------------------


def _dots(A: sp.csr_array, B: sp.csr_array) -> np.ndarray:
    return np.asarray(A.multiply(B).sum(axis=1)).ravel()


class _View:
    """Rows of both tables by one similarity, and the best of each row.

    `only` are the rows of each table whose best are asked for, by default all.
    """

    def __init__(
        self, rows: tuple[sp.csr_array, sp.csr_array], *, n_jobs: int | None, only: Any = None
    ) -> None:
        self.rows, self.is_one = rows, rows[0] is rows[1]
        if only is not None and self.is_one:
            only = (np.union1d(*only),) * 2
        self.lists: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for side in range(1 if self.is_one else 2):
            A, B = rows[side], rows[1 - side]
            asked = np.arange(A.shape[0]) if only is None else np.unique(only[side])
            found = top_k(A[asked], B, DEPTH + self.is_one, n_jobs=n_jobs)
            scores, near = found.scores, found.rows
            if self.is_one:
                scores[near == asked[:, None]] = -np.inf
                near[near == asked[:, None]] = -1
            place = np.full(A.shape[0], -1)
            place[asked] = np.arange(len(asked))
            self.lists.append((place, scores, near))
        self.lists *= 1 + self.is_one

    def features(self, pairs: np.ndarray) -> np.ndarray:
        """Return the score, its lead over the best other row, and the log of its rank, (n, 5)."""
        left, right = pairs.T
        score = _dots(self.rows[0][left], self.rows[1][right])
        out = [score]
        for (place, scores, near), row, other in zip(
            self.lists, (left, right), (right, left), strict=True
        ):
            is_other = near[place[row]] != other[:, None]
            best = scores[place[row]]
            lead = score - np.maximum(np.where(is_other, best, 0.0).max(axis=1), 0.0)
            rank = ((best > score[:, None] + 1e-12) & is_other).sum(axis=1)
            out += [lead, np.log1p(rank)]
        if self.is_one:  # the sides say nothing
            out[1:] = [*np.sort(out[1::2], axis=0), *np.sort(out[2::2], axis=0)]
        return np.column_stack(out)

    def pairs(self, k: int = N_CANDIDATES) -> np.ndarray:
        """Return the k best of each row that was asked for, from both sides, each pair once."""
        parts = []
        for side, (place, _, near) in enumerate(self.lists[: 2 - self.is_one]):
            row = np.repeat(np.flatnonzero(place >= 0), near.shape[1])
            best = near.copy()
            best[(near >= 0).cumsum(axis=1) > k] = -1
            other = best[place[place >= 0]].ravel()
            pair = np.column_stack([other, row] if side else [row, other])
            parts.append(pair[other >= 0])
        found = np.concatenate(parts)
        found = np.sort(found, axis=1) if self.is_one else found
        key = np.unique(found[:, 0] * self.rows[1].shape[0] + found[:, 1])
        return np.column_stack(np.divmod(key, self.rows[1].shape[0]))


class _Space:
    """Both tables as rows of words and of character n-grams, and numbers of pairs of them."""

    def __init__(self, left: _Table, right: _Table | None, n_jobs: int | None) -> None:
        tables = (left,) if right is None else (left, right)
        texts = [table.texts() for table in tables]
        every = [text for part in texts for text in part]
        min_df = 2 if len(every) > 50 else 1
        self.names: list[str] = []
        blocks, self._chars = [], None
        for kind in (
            {"token_pattern": r"(?u)\b\w+\b"},
            {"analyzer": "char_wb", "ngram_range": (3, 4)},
        ):
            vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=min_df, **kind)
            try:
                vectorizer.fit(every)
            except ValueError:
                raise ValueError(
                    "The tables have no word in common: at least one must be in two records."
                ) from None
            rows = [sp.csr_array(vectorizer.transform(part)) for part in texts]
            blocks.append((rows[0], rows[-1]))
            names = vectorizer.get_feature_names_out().tolist()
            if self._chars is None:
                self._idf, self.n_words = vectorizer.idf_, len(names)
                self._has_digit = np.array([any(map(str.isdigit, name)) for name in names])
            self.names += names if not self.names else [repr(name) for name in names]
            self._chars = vectorizer
        words, chars = blocks
        both = [
            unit_rows(sp.csr_array(sp.hstack(side, format="csr")))
            for side in zip(words, chars, strict=True)
        ]
        self.rows = (both[0], both[0] if right is None else both[1])
        self.is_one = right is None
        self.views = [_View(rows, n_jobs=n_jobs) for rows in (self.rows, words, chars)]
        self._sets = tuple(
            sp.csr_array((np.ones(w.nnz), w.indices, w.indptr), shape=w.shape) for w in words
        )
        self._tables = tables[0], tables[-1]
        self._compared: list[Any] = []

    def align(self, matches: np.ndarray) -> None:
        """Decide which columns of the tables are compared: of one name, or alike in matches."""
        left, right = (table.columns for table in self._tables)
        pairs = [(c, c) for c in left if c in right]
        rest = [c for c in left if c not in right], [c for c in right if c not in left]
        if len(left) == len(right) == 1:
            pairs = []
        elif all(rest) and len(matches):
            at = matches[:500]
            rows = [
                [self._chars.transform([table[c][r] for r in at[:, side]]) for c in rest[side]]  # type: ignore[union-attr]
                for side, table in enumerate((left, right))
            ]
            alike = np.array([[_dots(a, b).mean() for b in rows[1]] for a in rows[0]])
            while alike.max(initial=0.0) > 0.1:
                i, j = np.unravel_index(alike.argmax(), alike.shape)
                pairs.append((rest[0][i], rest[1][j]))
                alike[i], alike[:, j] = 0.0, 0.0
        self._compared = []
        for a, b in pairs[:MOST_COLUMNS]:
            numbers = _numbers(left[a]), _numbers(right[b])
            if numbers[0] is not None and numbers[1] is not None:
                self._compared.append(numbers)
            else:
                self._compared.append(
                    tuple(sp.csr_array(self._chars.transform(v)) for v in (left[a], right[b]))  # type: ignore[union-attr]
                )

    def features(self, pairs: np.ndarray) -> np.ndarray:
        """Return what is known of pairs without learning."""
        parts = [view.features(pairs) for view in self.views]
        parts += [self._shared(pairs, np.ones_like(self._idf))]
        parts += [self._shared(pairs, self._has_digit)]
        for a, b in self._compared:
            x, y = a[pairs[:, 0]], b[pairs[:, 1]]
            if sp.issparse(x):
                is_missing = (np.diff(x.indptr) == 0) | (np.diff(y.indptr) == 0)
                parts.append(np.where(is_missing, np.nan, _dots(x, y))[:, None])
            else:
                largest = np.maximum(np.maximum(abs(x), abs(y)), 1e-9)
                parts.append((abs(x - y) / largest)[:, None])
        sizes = (np.diff(X.indptr)[rows] for X, rows in zip(self.rows, pairs.T, strict=True))
        return np.hstack([*parts, np.column_stack(self.sides(*sizes))])

    def _shared(self, pairs: np.ndarray, counted: np.ndarray) -> np.ndarray:
        """Return the shares of the words in common, by squared IDF, and the rarest words."""
        weight = self._idf**2 * counted
        left, right = (rows[at] for rows, at in zip(self._sets, pairs.T, strict=True))
        common = sp.csr_array(left.multiply(right))
        total, a, b = (np.asarray(rows @ weight).ravel() for rows in (common, left, right))
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = *self.sides(total / a, total / b), total / (a + b - total)
        rarest = [_largest(rows, weight) for rows in (common, left - common, right - common)]
        return np.column_stack([*shares, rarest[0], *self.sides(*rarest[1:]), total])

    def sides(self, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return numbers of both sides; of one table the smaller first."""
        return (np.fmin(left, right), np.fmax(left, right)) if self.is_one else (left, right)


def _largest(rows: Any, weight: np.ndarray) -> np.ndarray:
    rows = sp.csr_array(rows)
    values = np.where(rows.data != 0, weight[rows.indices], 0.0)
    out = np.zeros(rows.shape[0])
    np.maximum.at(out, np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), values)
    return out


# --- the estimator -------------------------------------------------------------------------------


class Linker(BaseEstimator):
    """Link the records of two tables, or find duplicates in one, by a similarity that is learned.

    Parameters
    ----------
    columns : list of str, default=None
        Columns to compare. Tables whose columns have different names: name those of both. None is
        all, without `id_column` and columns that only number the rows.
    id_column : str, default=None
        Column with a different value per record. Matches name records by it, and so do answers.
    prior : float or "auto", default=3.0
        Weight of the cosine under what is learned, as in `HDSL`.
    max_iter : int or "auto", default=15
        Iterations of `HDSL`.
    n_folds : int, default=4
        Parts of the matches that are held out in turn, so that each is scored by a model that has
        not seen it.
    random_state : int, RandomState or None, default=None
    n_jobs : int, default=None
        Threads.
    verbose : int, default=0
        1 shows progress on stderr.

    Attributes
    ----------
    model_ : HDSL or None
        None if nothing was learned: too few matches, or the cosine finds held-out matches better.
    recall_ : list of dict
        Of the held-out matches, the share whose right record is among the first k of the left one:
        k, cosine and learned, each with its interval.
    reliability_ : list of dict
        Held-out pairs by probability: how many, the mean probability, and the share that match
        with its interval.
    is_learned_ : bool
        Whether there were matches enough to learn at least a classifier from.
    statement_ : str
        What was learned, in a sentence.

    Examples
    --------
    >>> left = ["apple iphone 4 black", "canon powershot a590", "sony bravia 40 inch tv"]
    >>> right = ["Sony 40in Bravia television", "iPhone 4 (black) by Apple", "Canon A590 camera"]
    >>> links = Linker().fit(left, right).predict(threshold=0.1, one_to_one=True)
    >>> sorted(zip(links.left.tolist(), links.right.tolist()))
    [(0, 1), (1, 2), (2, 0)]
    """

    def __init__(
        self,
        columns: list[str] | None = None,
        *,
        id_column: str | None = None,
        prior: float | str = 3.0,
        max_iter: int | str = 15,
        n_folds: int = 4,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.columns = columns
        self.id_column = id_column
        self.prior = prior
        self.max_iter = max_iter
        self.n_folds = n_folds
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self, left: Any, right: Any = None, matches: Any = (), non_matches: Any = None
    ) -> Linker:
        """Learn from known matches.

        Parameters
        ----------
        left, right : DataFrame, list of str, or mapping of columns
            None as `right` looks for duplicates in `left`.
        matches : array-like of shape (n_matches, 2), default=()
            Pairs that are one thing: left and right row numbers, or ids with `id_column`. Name all
            matches of a record, or none: its other pairs count as non-matches.
        non_matches : array-like of shape (n, 2), default=None
            Pairs known to be different.

        Returns
        -------
        Linker
        """
        checks.check_number("Linker", "n_folds", self.n_folds, low=2, integer=True)
        self._seed = check_random_state(self.random_state).randint(2**31 - 1)
        with Progress(self.verbose) as progress:
            progress.stage("reading the tables")
            self._tables = [_read_table(left, self.columns, self.id_column, "left")]
            if right is not None:
                self._tables.append(_read_table(right, self.columns, self.id_column, "right"))
            self._rows_of = [
                {str(v): r for r, v in enumerate(range(t.n_rows) if t.ids is None else t.ids)}
                for t in self._tables
            ]
            self._set_known(matches, [] if non_matches is None else non_matches)
            progress.stage("searching by cosine")
            self._prepare()
            self._learn(progress)
            self.is_learned_ = bool(self._classifiers)
            progress.stage("searching as learned")
            self._search()
        return self

    def _set_known(self, matches: Any, non_matches: Any) -> None:
        given = [self._pairs(matches, "matches"), self._pairs(non_matches, "non_matches")]
        for pairs, name in zip(given, ("matches", "non_matches"), strict=True):
            _, first, count = np.unique(pairs, axis=0, return_index=True, return_counts=True)
            if (count > 1).any():
                twice = self._named(pairs[first[count > 1][:1]])
                raise ValueError(f"{name} has the pair {twice} more than once: list it once.")
        keys = [{*map(tuple, pairs.tolist())} for pairs in given]
        if keys[0] & keys[1]:
            both = self._named(np.array([min(keys[0] & keys[1])]))
            raise ValueError(f"The pair {both} is both in matches and in non_matches: drop one.")
        self._matches, self._non_matches = given
        self._known = dict.fromkeys(keys[0], 1.0) | dict.fromkeys(keys[1], 0.0)

    def _pairs(self, pairs: Any, name: str) -> np.ndarray:
        """Return pairs of ids or row numbers as row numbers; of one table, the smaller first."""
        pairs = pairs.to_numpy() if hasattr(pairs, "to_numpy") else pairs
        given = [tuple(pair) for pair in pairs]
        if any(len(pair) != 2 for pair in given):
            raise ValueError(f"{name} must be pairs of a left and a right record.")
        found = np.empty((len(given), 2), dtype=np.int64)
        for side in (0, 1):
            rows = self._rows_of[side % len(self._tables)]
            unknown = [pair[side] for pair in given if _text(pair[side]) not in rows]
            if unknown:
                which, n = ("left", "right")[side], len(rows)
                hint = (
                    f"rows are numbered from 0 to {n - 1}; to name records by id, pass id_column="
                    if self.id_column is None
                    else f"column {self.id_column!r} has {_some(rows, 3)}"
                )
                raise ValueError(f"{name} names {_some(unknown)} on the {which} side, but {hint}.")
            found[:, side] = [rows[_text(pair[side])] for pair in given]
        if len(self._tables) == 1:
            found = np.sort(found, axis=1)
            if (found[:, 0] == found[:, 1]).any():
                raise ValueError(f"{name} pairs a record with itself.")
        return found

    def _named(self, pairs: np.ndarray) -> str:
        return "({}, {})".format(*(values[0] for values in self._names(pairs)))

    def _names(self, pairs: np.ndarray) -> list[np.ndarray]:
        """Return the ids, or the row numbers, of both sides."""
        tables = self._tables[0], self._tables[-1]
        return [
            rows if table.ids is None else np.array([table.ids[r] for r in rows])
            for table, rows in zip(tables, pairs.T, strict=True)
        ]

    def _prepare(self) -> None:
        """Lay out the tables and their nearest rows by cosine."""
        self._space = _Space(self._tables[0], None if len(self._tables) == 1 else self._tables[1],
                             self.n_jobs)  # fmt: skip
        self._space.align(self._matches)
        self.n_words_ = self._space.n_words
        self.feature_names_ = np.array(self._space.names, dtype=object)

    def _learn(self, progress: Progress) -> None:
        """Learn a similarity and a classifier, each from what the other folds know."""
        self.model_ = None
        self._classifiers: list[Any] = []
        self.recall_: list[dict[str, Any]] = []
        self.reliability_: list[dict[str, Any]] = []
        matches, n = self._matches, len(self._matches)
        groups = _groups(matches, self._space.rows[0].shape[0], self._space.is_one)
        if n < FEW or len(np.unique(groups)) < 2:
            self.statement_ = (
                f"Nothing was learned from {n} matches (at least {FEW} are needed): probabilities "
                "are cosines divided by ranks, and only their order means something."
            )
            return
        n_folds = min(self.n_folds, len(np.unique(groups)))
        rng = np.random.default_rng(self._seed)
        fold_of = rng.permutation(groups.max() + 1)[groups] % n_folds
        pairs, y, weight = self._training_pairs()
        fold = _folds(pairs, matches, fold_of, n_folds, rng, self._space.is_one)
        learned = np.empty((len(pairs), 5))
        for f in range(n_folds):
            progress.stage(f"learning, fold {f + 1} of {n_folds}")
            view = self._view(self._fit_similarity(matches[fold_of != f]), pairs[fold == f].T)
            learned[fold == f] = view.features(pairs[fold == f])
        plain = np.concatenate([self._space.features(part) for part in _blocks(pairs)])
        self._describe_recall(learned[:n], plain[:n])
        if _mean_reciprocal_rank(learned[:n]) >= _mean_reciprocal_rank(plain[:n]):
            self.model_ = self._fit_similarity(matches)
        else:
            learned = plain[:, :5]
            self.statement_ += " So the cosine is used, and only the classifier is learned."
        progress.stage("learning the classifier")
        self._training = np.hstack([learned, plain]), y, weight, fold
        self._fit_classifiers()

    def _training_pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return matches, non-matches and near pairs of the same records, labels and weights."""
        cosine, matches, others = self._space.views[0], self._matches, self._non_matches
        rows = matches.T if not self._space.is_one else (matches.ravel(),) * 2
        near = cosine.pairs()
        near = near[np.isin(near[:, 0], rows[0]) | np.isin(near[:, 1], rows[1])]
        new = np.array([tuple(pair) not in self._known for pair in near.tolist()], dtype=bool)
        pairs = np.concatenate([matches, others, near[new]])
        sizes = [len(matches), len(others), int(new.sum())]
        implied = IMPLIED if len(others) >= len(matches) else 1.0
        return pairs, np.repeat([1.0, 0.0, 0.0], sizes), np.repeat([1.0, 1.0, implied], sizes)

    def _fit_similarity(self, matches: np.ndarray) -> HDSL:
        L, R = self._space.rows
        X, first_right = (
            (L, 0) if self._space.is_one else (sp.csr_array(sp.vstack([L, R])), L.shape[0])
        )
        triplets = []
        others: dict[tuple[int, int], list[int]] = {}
        for a, b in self._non_matches.tolist():
            others.setdefault((0, a), []).append(b)
            others.setdefault((1, b), []).append(a)
        shift = first_right, 0
        for side, (place, _, near) in enumerate(self._space.views[0].lists):
            for pair in matches.tolist():
                row, match = pair[side], pair[1 - side]
                negatives = [*near[place[row]].tolist(), *others.get((side, row), [])]
                for other in dict.fromkeys(negatives):
                    key = (other, row) if side else (row, other)
                    key = tuple(sorted(key)) if self._space.is_one else key
                    if other >= 0 and other != match and self._known.get(key) != 1.0:
                        triplets.append(
                            (row + shift[1 - side], match + shift[side], other + shift[side])
                        )
        model = HDSL(prior=self.prior, max_iter=self.max_iter, random_state=self._seed,
                     n_jobs=self.n_jobs)  # fmt: skip
        return model.fit(X, triplets=np.array(triplets))

    def _view(self, model: HDSL, only: Any = None) -> _View:
        rows = [model.transform(X, cosine=True) for X in self._space.rows[: 2 - self._space.is_one]]
        rows = [sp.csr_array(X) for X in rows]
        return _View((rows[0], rows[-1]), n_jobs=self.n_jobs, only=only)

    def _fit_classifiers(self) -> None:
        """Fit one classifier per fold, to the others; its own fold says how honest it is."""
        X, y, weight, fold = self._training
        found = np.empty(len(y))
        with threadpool_limits(1, "openmp"):  # threads that wait for one another take longer
            for f in range(fold.max() + 1):
                known = fold != f
                classifier = _classifier(int(y.sum()), self._seed + f)
                classifier.fit(
                    _numbers_of(classifier, X[known]),
                    y[known],
                    **_weights(classifier, weight[known]),
                )
                self._classifiers.append(classifier)
                found[fold == f] = classifier.predict_proba(_numbers_of(classifier, X[fold == f]))[
                    :, 1
                ]
        shown = weight == 1.0
        self._describe_reliability(found[shown], y[shown])

    def _describe_recall(self, learned: np.ndarray, plain: np.ndarray) -> None:
        n = len(learned)
        for k in RECALL_AT:
            line: dict[str, Any] = {"k": k}
            for name, numbers in (("cosine", plain), ("learned", learned)):
                hits = int((np.expm1(numbers[:, 2]).round() < k).sum())
                line |= {name: hits / n, f"{name}_interval": wilson_interval(hits, n)}
            self.recall_.append(line)
        first = self.recall_[0]
        self.statement_ = (
            f"Of {n} matches, each held out, the right record is first for "
            f"{100 * first['learned']:.0f} % as learned, {100 * first['cosine']:.0f} % by cosine."
        )

    def _describe_reliability(self, found: np.ndarray, y: np.ndarray) -> None:
        edges = np.array([0.0, 0.1, 0.3, 0.5, 0.7, 0.9])
        at = np.searchsorted(edges, found, side="right") - 1
        for b in np.unique(at):
            here, n = at == b, int((at == b).sum())
            upper = 1.0 if b == len(edges) - 1 else edges[b + 1]
            self.reliability_.append(
                {
                    "from": float(edges[b]), "to": float(upper), "n": n,
                    "probability": float(found[here].mean()), "matches": float(y[here].mean()),
                    "interval": wilson_interval(float(y[here].sum()), n),
                }
            )  # fmt: skip

    def _search(self) -> None:
        """Find the candidates and their probabilities; known pairs have what is known."""
        self._learned_view = (
            self._space.views[0] if self.model_ is None else self._view(self.model_)
        )
        pairs = self._learned_view.pairs()
        known = np.array(list(self._known), dtype=np.int64).reshape(-1, 2)
        key = np.unique(np.concatenate([pairs, known]), axis=0)
        self._candidates, self._probability = key, self._scores(key)

    def _scores(self, pairs: np.ndarray) -> np.ndarray:
        parts = [self._score_block(part) for part in _blocks(pairs)]
        found = np.concatenate(parts) if parts else np.empty(0)
        if self._known:
            given = [self._known.get(pair, np.nan) for pair in map(tuple, pairs.tolist())]
            found = np.where(np.isnan(given), found, given)
        return found

    def _score_block(self, pairs: np.ndarray) -> np.ndarray:
        learned = self._learned_view.features(pairs)
        if not self._classifiers:
            ranks = learned[:, [3, 4] if self._space.is_one else [2, 4]]
            return np.clip(learned[:, 0], 0.0, 1.0) * np.exp(-ranks.sum(axis=1) / 2)
        X = np.hstack([learned, self._space.features(pairs)])
        with threadpool_limits(1, "openmp"):
            return np.mean(
                [c.predict_proba(_numbers_of(c, X))[:, 1] for c in self._classifiers], axis=0
            )

    def _links(self, chosen: np.ndarray) -> Links:
        return Links(*self._names(self._candidates[chosen]), self._probability[chosen])  # type: ignore[call-arg]

    def predict(self, threshold: float = 0.5, *, one_to_one: bool = False) -> Links:
        """Return all pairs from a probability on, the most likely first.

        Known matches have the probability 1, and known non-matches 0.

        Parameters
        ----------
        threshold : float, default=0.5
        one_to_one : bool, default=False
            Each record is in at most one pair: the pairs with the largest sum of probabilities. In
            one table, the most likely pair first, then the next that is free.

        Returns
        -------
        Links
        """
        check_is_fitted(self, "statement_")
        checks.check_number("predict", "threshold", threshold, low=0, high=1)
        if not self.is_learned_:
            warnings.warn(self.statement_, UserWarning, stacklevel=2)
        chosen = np.flatnonzero(self._probability >= threshold)
        chosen = chosen[np.argsort(-self._probability[chosen], kind="stable")]
        if one_to_one and len(chosen):
            chosen = (_free if self._space.is_one else _assigned)(
                self._candidates, self._probability, chosen
            )
        return self._links(chosen)

    def predict_proba(self, pairs: Any) -> np.ndarray:
        """Return the probability that pairs, of ids or row numbers, are one thing, (n_pairs,)."""
        check_is_fitted(self, "statement_")
        return self._scores(self._pairs(pairs, "pairs"))

    def candidates(self, k: int = 10) -> Links:
        """Return the k most likely right records of each left one, left by left, best first.

        Of one table, each record has its most likely duplicates, so that a pair may come twice.
        """
        check_is_fitted(self, "statement_")
        checks.check_number("candidates", "k", k, low=1, integer=True)
        pairs, found = self._candidates, self._probability
        if self._space.is_one:
            pairs, found = np.concatenate([pairs, pairs[:, ::-1]]), np.concatenate([found, found])
        order = np.lexsort((-found, pairs[:, 0]))
        left = pairs[order, 0]
        rank = np.arange(len(left)) - np.searchsorted(left, left)
        order = order[rank < k]
        return Links(*self._names(pairs[order]), found[order])  # type: ignore[call-arg]

    def to_label(self, n: int = 20) -> Links:
        """Return the pairs most worth asking a person about, each record at most once.

        They are the least certain ones. Where nothing was learned yet, they are pairs that are best
        for both records, from the most to the least alike.
        """
        check_is_fitted(self, "statement_")
        checks.check_number("to_label", "n", n, low=1, integer=True)
        new = np.array([pair not in self._known for pair in map(tuple, self._candidates.tolist())])
        if self._classifiers:
            order = np.argsort(np.abs(self._probability - 0.5), kind="stable")
            return self._links(_free(self._candidates, self._probability, order[new[order]], n))
        order = np.argsort(-self._probability, kind="stable")
        free = _free(self._candidates, self._probability, order[new[order]])
        return self._links(free[np.unique(np.linspace(0, len(free) - 1, n).astype(int))])

    def texts(self, links: Links) -> tuple[list[str], list[str]]:
        """Return the texts of the records of links: left and right."""
        pairs = self._pairs(zip(links.left, links.right, strict=True), "links")
        tables = self._tables[0].texts(), self._tables[-1].texts()
        left, right = ([text[r] for r in rows] for text, rows in zip(tables, pairs.T, strict=True))
        return left, right

    def reasons(self, left: Any, right: Any, n: int = 6) -> list[tuple[str, float]]:
        """Return the words and pairs of words that make two records most alike, and how much.

        What character n-grams add is one number, called "spelling".
        """
        parts = self.explain(left, right).parts
        is_word = (parts["i"] < self.n_words_) & (parts["j"] < self.n_words_)
        found: dict[str, float] = {}
        for part in parts[is_word]:  # a word may have a learned part and one of the prior
            found[str(part["name"])] = found.get(str(part["name"]), 0.0) + float(part["value"])
        found["spelling"] = float(parts["value"][~is_word].sum())
        return sorted(found.items(), key=lambda item: -abs(item[1]))[:n]

    def explain(self, left: Any, right: Any, *, top: int | None = 10) -> explain_module.Explanation:
        """Return the words, n-grams and pairs of them that make two records alike, exactly.

        They add up to the similarity that was learned, or to the cosine.
        """
        check_is_fitted(self, "statement_")
        L, R = self._space.rows
        similarity = (
            Similarity(*NOTHING, scale=1.0, prior=1.0, n_features=L.shape[1], norm="l2")
            if self.model_ is None
            else self.model_.similarity_
        )
        a, b = self._pairs([(left, right)], "explain")[0]
        return explain_module.explain(
            similarity, L[[a]], R[[b]], feature_names=self.feature_names_, top=top
        )


def _blocks(pairs: np.ndarray) -> Iterator[np.ndarray]:
    for first in range(0, len(pairs), BLOCK):
        yield pairs[first : first + BLOCK]


def _groups(matches: np.ndarray, n_left: int, is_one: bool) -> np.ndarray:
    """Return a number per match, the same for matches that share a record."""
    from scipy.sparse.csgraph import connected_components

    ends = matches + np.array([0, 0 if is_one else n_left])
    n = int(ends.max(initial=0)) + 1
    graph = sp.coo_array((np.ones(len(ends)), tuple(ends.T)), shape=(n, n))
    labels = connected_components(graph, directed=False)[1][ends[:, 0]]
    return np.unique(labels, return_inverse=True)[1]


def _folds(
    pairs: np.ndarray, matches: np.ndarray, fold_of: np.ndarray, n_folds: int, rng: Any,
    is_one: bool,
) -> np.ndarray:  # fmt: skip
    """Return the fold of each pair: that of its left record's match, of its right one's, or any."""
    fold = rng.integers(n_folds, size=len(pairs))
    for side in (1, 0):
        known = np.full(int(pairs.max(initial=0)) + 1, -1)
        for column in (0, 1) if is_one else (side,):
            known[matches[:, column]] = fold_of
        own = known[pairs[:, side]]
        fold = np.where(own >= 0, own, fold)
    return fold


def _mean_reciprocal_rank(numbers: np.ndarray) -> float:
    return float(np.exp(-numbers[:, 2]).mean())


def _classifier(n_matches: int, seed: int) -> Any:
    if n_matches < SOME:
        return make_pipeline(StandardScaler(), LogisticRegression(C=1.0))
    return HistGradientBoostingClassifier(
        max_iter=150, learning_rate=0.05, max_leaf_nodes=8, max_features=0.3, random_state=seed
    )


def _numbers_of(classifier: Any, X: np.ndarray) -> np.ndarray:
    """Return the numbers that a classifier takes: a linear one the scores and leads alone."""
    return X[:, :10] if hasattr(classifier, "steps") else X


def _weights(classifier: Any, weight: np.ndarray) -> dict[str, np.ndarray]:
    name = "logisticregression__" if hasattr(classifier, "steps") else ""
    return {f"{name}sample_weight": weight}


def _free(
    pairs: np.ndarray, found: np.ndarray, order: np.ndarray, n: int | None = None
) -> np.ndarray:
    """Return pairs in their order, each record at most once."""
    taken: tuple[set[int], set[int]] = set(), set()
    chosen = []
    for at in order.tolist():
        a, b = pairs[at].tolist()
        if a not in taken[0] and b not in taken[1]:
            taken[0].add(a)
            taken[1].add(b)
            chosen.append(at)
            if len(chosen) == n:
                break
    return np.array(chosen, dtype=np.int64)


def _assigned(pairs: np.ndarray, found: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return the pairs of the assignment with the largest sum, the most likely first."""
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    left, right = (np.unique(pairs[chosen, side], return_inverse=True)[1] for side in (0, 1))
    n, m = left.max() + 1, right.max() + 1
    own = np.arange(n)  # a column of its own per left record: no match
    graph = sp.csr_array(
        (
            np.concatenate([1e-9 + found[chosen], np.full(n, 1e-9)]),
            (np.concatenate([left, own]), np.concatenate([right, m + own])),
        ),
        shape=(n, m + n),
    )
    rows, columns = min_weight_full_bipartite_matching(graph, maximize=True)
    best = np.full(n, -1)
    best[rows] = columns
    return chosen[best[left] == right]
