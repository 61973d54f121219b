"""The same thing in two tables, or twice in one: found by a similarity learned from known matches.

Records become rows of words and of character n-grams. `HDSL` learns from each match against the
nearest other rows of both tables. Whether a pair is a match is then told by numbers: its score,
how far it is above or below the best other row of either record, its rank on both sides, the words
that only one record has, the columns. A small classifier of these learns from scores that are
cross-fitted, by models that have not seen the match, so that its probabilities hold for new pairs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, min_weight_full_bipartite_matching
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.metrics import average_precision_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from . import checks, saving
from . import explain as explain_module
from .evaluate import wilson_interval
from .files.container import Arrays, dumps
from .files.tables import nested, part_of
from .hdsl import HDSL
from .progress import Progress
from .readers.tables import read_columns
from .search import top_k
from .similarity import Similarity, unit_rows
from .solver.atoms import NOTHING

__all__ = ["Linker", "Links"]

#: Rows of the other table that a rank is known among, those that are candidates, and those that a
#: match is compared with to learn from.
DEPTH, N_CANDIDATES, N_OTHERS = 20, 10, 10

#: Fewer matches teach nothing; folds of the matches.
FEW, N_FOLDS = 5, 4

#: Share of the pairs that are no match, as their records have others, to learn from where
#: non-matches are given.
IMPLIED = 0.1

#: Pairs that are looked at together, and most columns that are compared one by one.
BLOCK, MOST_COLUMNS = 2**16, 12

#: Numbers of candidates that recall is shown for, and bins of the reliability.
RECALL_AT, EDGES = (1, 2, 5, 10, 20), (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)

#: Words, and character n-grams.
KINDS = {"token_pattern": r"(?u)\b\w+\b"}, {"analyzer": "char_wb", "ngram_range": (3, 4)}

#: What classifiers learn from, in a file.
TRAINING = "X", "labels", "fold"

_NUMBER = re.compile(r"[^\d.,+-]*([-+]?\d[\d,]*\.?\d*)\D*")


class Links(NamedTuple):
    """Pairs of records, and how likely each pair is one thing.

    `left` and `right` are ids where the tables have a column of ids, and row numbers otherwise.
    """

    left: np.ndarray
    right: np.ndarray
    probability: np.ndarray


# --- tables --------------------------------------------------------------------------------------


class _Table(NamedTuple):
    """Columns of strings, empty where a value is missing, and the ids or row numbers."""

    columns: dict[str, list[str]]
    ids: np.ndarray
    texts: list[str]


def _read_table(table: Any, columns: Any, id_column: str | None, name: str) -> _Table:
    """Return the columns that count; raise where there is no row, no text or no such column."""
    values = {"text": table} if np.ndim(table) == 1 else read_columns(table)
    values = {str(c): list(v) for c, v in values.items()}
    n_rows = {len(column) for column in values.values()} or {0}
    if n_rows == {0} or len(n_rows) > 1:
        fault = "is empty" if n_rows == {0} else f"has unequal columns, of {sorted(n_rows)} rows"
        raise ValueError(f"The {name} table {fault}: it must have a value per record and column.")
    if id_column is not None and id_column not in values:
        raise ValueError(f"The {name} table has no column {id_column!r}, only {_some(values)}.")
    ids = np.array(values.get(id_column, range(*n_rows)))  # type: ignore[arg-type]
    if len({*map(_text, ids.tolist())}) < len(ids):  # as they are looked up
        raise ValueError(f"Column {id_column!r} of the {name} table has an id twice: ids differ.")
    texts = {c: [*map(_text, v)] for c, v in values.items() if c != id_column}
    chosen = {c: v for c, v in texts.items() if (c in columns if columns else _is_content(c, v))}
    if not any(any(map(str.isalpha, text)) for v in chosen.values() for text in v):
        raise ValueError(
            f"The {name} table has no text in the columns {_some(chosen) or 'that are compared'}. "
            f"It has {_some(values)}: name those to compare with columns=."
        )
    rows = zip(*chosen.values(), strict=True)
    return _Table(chosen, ids, [" ".join(filter(None, row)) for row in rows])


def _text(value: Any) -> str:
    if checks.is_missing(value):
        return ""
    is_whole = isinstance(value, float | np.floating) and value.is_integer()
    return str(int(value)) if is_whole else str(value).strip()


def _is_content(name: str, values: list[str]) -> bool:
    """Return whether a column says something: it is not called id, and does not number the rows."""
    numbers = {int(v) for v in values if v.isdecimal() and len(v) < 20}
    is_count = 1 < len(numbers) == len(values) == max(numbers) - min(numbers) + 1
    return name.lower() != "id" and not is_count


def _some(values: Iterable[Any], n: int = 5) -> str:
    shown = [repr(str(v)[:60]) for v in values]
    return ", ".join(shown[:n]) + (", …" if len(shown) > n else "")


def _numbers(values: list[str]) -> np.ndarray | None:
    """Return a column as numbers, NaN where it has none; None for a column of text."""
    found = [_NUMBER.fullmatch(v) for v in values]
    if sum(m is not None for m in found) < 0.8 * sum(map(bool, values)):
        return None
    numbers = np.array([np.nan if m is None else float(m[1].replace(",", "")) for m in found])
    return np.where(np.isinf(numbers), np.nan, numbers)  # some hundred digits


# --- numbers of a pair ---------------------------------------------------------------------------


def _dots(A: Any, B: Any) -> np.ndarray:
    return np.asarray(A.multiply(B).sum(axis=1)).ravel()


class _View:
    """Rows of both tables by one similarity, and the best of each row.

    `only` are the rows of each table whose best are asked for, by default all.
    """

    def __init__(self, rows: Any, n_jobs: int | None, only: Any = None) -> None:
        self.rows, self.is_one = rows, rows[0] is rows[1]
        only = [np.arange(X.shape[0]) for X in rows] if only is None else only
        only = [np.union1d(*only)] if self.is_one else only
        self.lists = []
        for side, asked in enumerate(map(np.unique, only)):
            found = top_k(rows[side][asked], rows[1 - side], DEPTH + self.is_one, n_jobs=n_jobs)
            is_self = (found.rows == asked[:, None]) & self.is_one
            found.scores[is_self], found.rows[is_self] = -np.inf, -1
            place = np.full(rows[side].shape[0], -1)
            place[asked] = np.arange(len(asked))
            self.lists.append((place, found.scores, found.rows))
        self.lists *= 1 + self.is_one

    def features(self, pairs: np.ndarray) -> np.ndarray:
        """Return the score, leads over the best other row, and logs of ranks, shape (n, 5)."""
        score = _dots(self.rows[0][pairs[:, 0]], self.rows[1][pairs[:, 1]])
        leads, ranks = np.empty((2, len(pairs))), np.empty((2, len(pairs)))
        for side, (place, scores, near) in enumerate(self.lists):
            at = place[pairs[:, side]]
            others = np.where(near[at] != pairs[:, [1 - side]], scores[at], -np.inf)
            leads[side] = score - np.maximum(others.max(axis=1), 0.0)
            ranks[side] = np.log1p((others > score[:, None] + 1e-12).sum(axis=1))
        if self.is_one:  # the sides say nothing
            leads, ranks = np.sort(leads, axis=0), np.sort(ranks, axis=0)
        return np.column_stack([score, *leads, *ranks])

    def pairs(self) -> np.ndarray:
        """Return the candidates of each row that was asked for, from both sides, each pair once."""
        parts = []
        for side, (place, _, near) in enumerate(self.lists):
            best = np.where((near >= 0).cumsum(axis=1) > N_CANDIDATES, -1, near)
            row = np.repeat(np.flatnonzero(place >= 0), best.shape[1])
            pair = np.column_stack([row, best[place[place >= 0]].ravel()])[best.ravel() >= 0]
            parts.append(pair[:, ::-1] if side else pair)
        found = np.concatenate(parts)
        return np.unique(np.sort(found, axis=1) if self.is_one else found, axis=0)


def _counts(tables: list[_Table]) -> Iterator[tuple[list[dict[str, Any]], np.ndarray]]:
    """Yield how often each cell has each word, then each n-gram, and their names.

    What is between spaces is taken apart once, however often it occurs.
    """
    cells = [text for table in tables for column in table.columns.values() for text in column]
    vectorizer = CountVectorizer(tokenizer=str.split, token_pattern=None)
    tokens = vectorizer.fit_transform(cells)
    for kind in KINDS:
        parts = CountVectorizer(**kind)
        counts = sp.csr_array(tokens @ parts.fit_transform(vectorizer.get_feature_names_out()))
        by_table, first = [], 0
        for table in tables:
            n, columns = len(table.ids), {}
            for name in table.columns:
                columns[name], first = counts[first : first + n], first + n
            by_table.append(columns)
        yield by_table, parts.get_feature_names_out()


class _Space:
    """Both tables as rows of words and of character n-grams, and numbers of pairs of them."""

    def __init__(self, tables: list[_Table], n_jobs: int | None) -> None:
        self.is_one, self.names, blocks = len(tables) == 1, [], []
        for counts, names in _counts(tables):
            records = [sp.csr_array(sum(columns.values())) for columns in counts]
            every = sp.csr_array(sp.vstack(records))
            n_records = np.bincount(every.indices, minlength=every.shape[1])
            kept = np.flatnonzero(n_records > (every.shape[0] > 50))
            if not len(kept):
                raise ValueError("No word is in two records: nothing to link by.")
            tfidf = TfidfTransformer(sublinear_tf=True).fit(every[:, kept])
            blocks.append([sp.csr_array(tfidf.transform(part[:, kept])) for part in records])
            self.names.append(names[kept])
            if len(self.names) == 1:
                weight = tfidf.idf_**2
        words, grams = (names.tolist() for names in self.names)
        self.names, self.n_words = np.array([*words, *map(repr, grams)], dtype=object), len(words)
        both = [unit_rows(sp.csr_array(sp.hstack(side))) for side in zip(*blocks, strict=True)]
        self.rows = both[0], both[-1]
        self.views = [_View((rows[0], rows[-1]), n_jobs) for rows in (both, blocks[1])]
        self._weights = weight, weight * [any(map(str.isdigit, word)) for word in words]
        self._words = [(X > 0).astype(float) for X in (blocks[0][0], blocks[0][-1])]
        left, right = tables[0].columns, tables[-1].columns
        pairs = [(c, c) for c in left if c in right] or [*zip(left, right, strict=False)]
        self._compared: list[Any] = []  # numbers, or rows of n-grams
        for a, b in pairs[:MOST_COLUMNS] if max(len(left), len(right)) > 1 else ():
            both = [_numbers(left[a]), _numbers(right[b])]
            if any(column is None for column in both):
                cells = counts[0][a], counts[-1][b]
                both = [sp.csr_array(tfidf.transform(part[:, kept])) for part in cells]
            self._compared.append(both)

    def features(self, pairs: np.ndarray) -> np.ndarray:
        """Return what is known of pairs without learning."""
        parts = [view.features(pairs) for view in self.views]
        parts += self._shared(pairs)
        for left, right in self._compared:
            x, y = left[pairs[:, 0]], right[pairs[:, 1]]
            if sp.issparse(x):
                is_missing = (np.diff(x.indptr) == 0) | (np.diff(y.indptr) == 0)
                parts.append(np.where(is_missing, np.nan, _dots(x, y)))
            else:
                parts.append(abs(x - y) / np.maximum(np.maximum(abs(x), abs(y)), 1e-9))
        sizes = (np.diff(X.indptr)[at] for X, at in zip(self.rows, pairs.T, strict=True))
        return np.nan_to_num(np.column_stack([*parts, *sizes]), nan=-1.0)  # not known

    def _shared(self, pairs: np.ndarray) -> list[np.ndarray]:
        """Return shares of the words in common, by weight, and the rarest words."""
        left, right = (X[at] for X, at in zip(self._words, pairs.T, strict=True))
        common = sp.csr_array(left.multiply(right))
        parts, found = (common, left - common, right - common), []
        for weight in self._weights:
            total, a, b = (X @ weight for X in (common, left, right))
            with np.errstate(invalid="ignore", divide="ignore"):
                found += [total / a, total / b, total / (a + b - total), total]
            for X in parts:
                weighted = sp.csr_array((weight[X.indices], X.indices, X.indptr), shape=X.shape)
                found.append(weighted.max(axis=1).toarray().ravel())
        return found


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
    random_state : int, RandomState or None, default=None
    n_jobs : int, default=None
        Threads.
    verbose : int, default=0
        1 shows progress on stderr.

    Attributes
    ----------
    model_ : HDSL or None
        None if the cosine is used: there were too few matches, or it finds held-out matches better.
    is_learned_ : bool
        Whether there were matches enough to learn from.
    statement_ : str
        What was learned, in a sentence.
    recall_ : list of dict
        Of the matches, each held out, the share whose right record is among the first k of the left
        one, by cosine and as learned: k, and (share, low, high) with a 95 % interval.
    reliability_ : list of dict
        Held-out pairs by probability: from, to, n, the mean probability, and the share that match
        with its interval.

    Examples
    --------
    >>> left = ["apple iphone 4 black", "canon powershot a590", "sony bravia 40 inch tv"]
    >>> right = ["Sony 40in Bravia television", "iPhone 4 (black) by Apple", "Canon A590 camera"]
    >>> links = Linker().fit(left, right).candidates(k=1)
    >>> links.left.tolist(), links.right.tolist()
    ([0, 1, 2], [1, 2, 0])
    """

    def __init__(
        self, columns: list[str] | None = None, *, id_column: str | None = None,
        random_state: Any = None, n_jobs: int | None = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        self.columns = columns
        self.id_column = id_column
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, left: Any, right: Any = None, matches: Any = (), non_matches: Any = ()) -> Linker:
        """Learn from known matches.

        Parameters
        ----------
        left, right : DataFrame, list of str, or mapping of columns
            None as `right` looks for duplicates in `left`.
        matches : array-like of shape (n_matches, 2), default=()
            Pairs that are one thing: left and right row numbers, or ids with `id_column`. Name all
            matches of a record, or none: its other pairs count as non-matches.
        non_matches : array-like of shape (n, 2), default=()
            Pairs known to be different.

        Returns
        -------
        Linker
        """
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with Progress(self.verbose) as progress:
            progress.stage("reading the tables, searching by cosine")
            self._set_data([left] if right is None else [left, right], matches, non_matches)
            self._learn(progress)
            progress.stage("searching as learned")
            self._search()
        return self

    def _set_data(self, tables: list[Any], matches: Any, non_matches: Any) -> None:
        """Take tables and known pairs; nothing is learned yet."""
        named = zip(tables, ("left", "right"), strict=False)
        self._tables = [_read_table(t, self.columns, self.id_column, name) for t, name in named]
        unknown = {*(self.columns or ())}.difference(*(table.columns for table in self._tables))
        if unknown:
            raise ValueError(f"No table has a column {_some(unknown)}: columns= names others.")
        ids = [[*map(_text, table.ids.tolist())] for table in self._tables]
        self._rows = [dict(zip(names, range(len(names)), strict=True)) for names in ids]
        self._matches = self._pairs(matches, "matches")
        self._non_matches = self._pairs(non_matches, "non_matches")
        self._known: dict[tuple[int, int], float] = {}
        self._add_known(self._matches, 1.0)
        self._add_known(self._non_matches, 0.0)
        self._space = _Space(self._tables, self.n_jobs)
        self.model_: HDSL | None = None
        self._classifiers: list[Any] = []
        self._training: tuple[np.ndarray, ...] = ()
        self.recall_: list[dict[str, Any]] = []
        self.reliability_: list[dict[str, Any]] = []
        self.statement_ = (
            f"Nothing was learned from {len(self._matches)} matches ({FEW} of different records "
            "are needed): probabilities are cosines divided by ranks, and only their order means "
            "something."
        )

    @property
    def is_learned_(self) -> bool:
        """Whether there were matches enough to learn from."""
        return bool(self._classifiers)

    def _pairs(self, pairs: Any, name: str) -> np.ndarray:
        """Return pairs of ids or row numbers as row numbers; of one table, the smaller first."""
        pairs = pairs.to_numpy() if hasattr(pairs, "to_numpy") else pairs
        given = [] if pairs is None else [*pairs]
        if any(isinstance(pair, str) or np.size(pair) != 2 for pair in given):
            raise ValueError(f"{name} must be pairs of a left and a right record.")
        found = np.empty((len(given), 2), dtype=np.int64)
        for side, rows in enumerate((self._rows[0], self._rows[-1])):
            ends = [_text(pair[side]) for pair in given]
            unknown = [end for end in ends if end not in rows]
            if unknown:
                there = f"from 0 to {len(rows) - 1}, or ids with id_column="
                raise ValueError(
                    f"{name} has {_some(unknown)} as {('left', 'right')[side]} record, unknown: "
                    f"they are {there if self.id_column is None else _some(rows, 3)}."
                )
            found[:, side] = [rows[end] for end in ends]
        return np.sort(found, axis=1) if len(self._tables) == 1 else found

    def _add_known(self, pairs: np.ndarray, label: float) -> None:
        """Raise ValueError where a pair is listed twice, contradicts another, or is one record."""
        for pair in map(tuple, pairs.tolist()):
            fault = ""
            if len(self._tables) == 1 and pair[0] == pair[1]:
                fault = "is of a record with itself"
            elif pair in self._known:
                is_same = self._known[pair] == label
                fault = "is listed more than once" if is_same else "is both a match and a non-match"
            if fault:
                named = self._names(np.array(pair))
                raise ValueError("The pair ({}, {}) {}: remove it.".format(*named, fault))
            self._known[pair] = label

    def _names(self, pairs: np.ndarray) -> tuple[Any, Any]:
        """Return the ids, or the row numbers, of both sides."""
        return self._tables[0].ids[pairs[..., 0]], self._tables[-1].ids[pairs[..., 1]]

    def _learn(self, progress: Progress) -> None:
        """Learn a similarity and a classifier, each from what the other folds know."""
        pairs, labels = self._training_pairs()
        fold, n_groups = self._folds(pairs)
        n = len(self._matches)
        if n_groups < FEW or labels.all():
            return
        learned, prior = np.empty((len(pairs), 5)), None
        for f in range(N_FOLDS):
            progress.stage(f"learning, fold {f + 1} of {N_FOLDS}")
            here = fold == f
            model = self._fit_similarity(~here[:n], prior)  # the first fold chooses the prior
            learned[here] = self._view(model, pairs[here].T).features(pairs[here])
            prior = model.prior_
        progress.stage("learning, all matches")
        model = self._fit_similarity(np.ones(n, dtype=bool), prior)
        plain = np.concatenate([self._space.features(part) for part in _blocks(pairs)])
        ranks = {"cosine": plain[:n, 3], "learned": learned[:n, 3]}
        self.recall_ = [
            {"k": k} | {name: _share(np.expm1(r).round() < k) for name, r in ranks.items()}
            for k in RECALL_AT
        ]
        self.statement_ = (
            f"Of {n} matches, each held out, the right record is first for "
            f"{100 * self.recall_[0]['learned'][0]:.0f} % as learned and for "
            f"{100 * self.recall_[0]['cosine'][0]:.0f} % by cosine."
        )
        if np.exp(-ranks["learned"]).mean() >= np.exp(-ranks["cosine"]).mean():  # reciprocal ranks
            self.model_ = model
        else:
            learned = plain[:, :5]
            self.statement_ += " So the cosine is used, and only what makes a match is learned."
        progress.stage("learning what makes a match")
        self._training = np.hstack([learned, plain]), labels, fold
        found = self._fit_classifiers()
        before, now = (average_precision_score(labels, s) for s in (_by_rank(plain), found))
        if now <= before:
            self.statement_ += (
                f" Probabilities do not rank held-out pairs better than cosine and ranks do "
                f"(average precision {now:.3f} and {before:.3f}): label more pairs."
            )

    def _training_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return matches, non-matches and near pairs of the same records, and their labels."""
        near, (left, right) = self._space.views[0].pairs(), self._matches.T
        if self._space.is_one:
            left = right = np.union1d(left, right)
        near = near[np.isin(near[:, 0], left) | np.isin(near[:, 1], right)]
        is_new = [pair not in self._known for pair in map(tuple, near.tolist())]
        near = near[np.array(is_new, dtype=bool)]
        if len(self._non_matches) >= len(self._matches):
            near = near[np.random.default_rng(self._seed).random(len(near)) < IMPLIED]
        parts = self._matches, self._non_matches, near
        return np.concatenate(parts), np.repeat([1.0, 0.0, 0.0], [*map(len, parts)])

    def _folds(self, pairs: np.ndarray) -> tuple[np.ndarray, int]:
        """Return a fold per pair, one for all matches that hang together, and how many do not."""
        shift = 0 if self._space.is_one else self._space.rows[0].shape[0]
        n = shift + self._space.rows[1].shape[0]
        ends, rng = self._matches + np.array([0, shift]), np.random.default_rng(self._seed)
        graph = sp.coo_array((np.ones(len(ends)), tuple(ends.T)), shape=(n, n))
        n_parts, part = connected_components(graph, directed=False)
        fold, matched = rng.integers(N_FOLDS, size=n_parts), np.unique(part[ends[:, 0]])
        fold[matched] = rng.permutation(len(matched)) % N_FOLDS
        left, right = part[pairs[:, 0]], part[pairs[:, 1] + shift]
        return np.where(np.isin(left, matched), fold[left], fold[right]), len(matched)

    def _fit_similarity(self, is_used: np.ndarray, prior: float | None) -> HDSL:
        """Learn from some of the matches; without a prior, the others choose it.

        Triplets are a record, its match, one of its nearest others; from both sides.
        """
        L, R = self._space.rows
        X, shift = (L, 0) if self._space.is_one else (sp.csr_array(sp.vstack([L, R])), L.shape[0])
        ends, parts = self._matches + np.array([0, shift]), []
        for side, (place, _, near) in enumerate(self._space.views[0].lists):
            others = near[place[self._matches[:, side]], :N_OTHERS]
            records = np.repeat(ends[:, [side, 1 - side]], others.shape[1], axis=0)
            of_used = np.repeat(is_used, others.shape[1])
            parts.append(np.column_stack([records, others.ravel() + shift * (1 - side), of_used]))
            parts[-1] = parts[-1][others.ravel() >= 0]
        triplets = np.concatenate(parts)
        keys = (np.sort(rows, axis=1) @ [X.shape[0], 1] for rows in (triplets[:, [0, 2]], ends))
        triplets = triplets[~np.isin(*keys)]  # others that match are none
        used, held = (triplets[triplets[:, 3] == is_in, :3] for is_in in (1, 0))
        model = HDSL(random_state=self._seed, n_jobs=self.n_jobs, tol=0.0)  # no gap is certified
        if prior is not None:
            return model.set_params(prior=prior).fit(X, triplets=used)
        return model.fit(X, triplets=used, X_val=X, triplets_val=held)

    def _view(self, model: HDSL, only: Any = None) -> _View:
        left, right = self._space.rows
        rows = sp.csr_array(model.transform(left, cosine=True))
        other = rows if self._space.is_one else sp.csr_array(model.transform(right, cosine=True))
        return _View((rows, other), self.n_jobs, only)

    def _fit_classifiers(self) -> np.ndarray:
        """Fit one classifier per fold, to the others; return what each says of its own fold."""
        X, labels, fold = self._training
        found, min_leaf = np.empty(len(labels)), int(np.clip(labels.sum() / 10, 2, 20))
        with threadpool_limits(1, "openmp"):  # threads that wait for one another take longer
            for f in range(N_FOLDS):
                classifier = HistGradientBoostingClassifier(
                    max_iter=150, learning_rate=0.05, max_leaf_nodes=8, max_features=0.3,
                    min_samples_leaf=min_leaf, random_state=self._seed + f,
                )  # fmt: skip
                classifier.fit(X[fold != f], labels[fold != f])
                self._classifiers.append(classifier)
                found[fold == f] = classifier.predict_proba(X[fold == f])[:, 1]
        at = np.clip(np.searchsorted(EDGES, found, side="right") - 1, 0, len(EDGES) - 2)
        for b in np.unique(at).tolist():
            here = at == b
            self.reliability_.append(
                {"from": EDGES[b], "to": EDGES[b + 1], "n": int(here.sum()),
                 "probability": float(found[here].mean()), "matches": _share(labels[here])}
            )  # fmt: skip
        return found

    def _search(self) -> None:
        """Find the candidates and their probabilities."""
        self._best = self._space.views[0] if self.model_ is None else self._view(self.model_)
        known = np.array([*self._known], dtype=np.int64).reshape(-1, 2)
        self._candidates = np.unique(np.concatenate([self._best.pairs(), known]), axis=0)
        self._probability = self._scores(self._candidates)

    def _scores(self, pairs: np.ndarray) -> np.ndarray:
        """Return probabilities; known pairs have what is known."""
        found = np.empty(0)
        for part in _blocks(pairs):
            X = np.hstack([self._best.features(part), self._space.features(part)])
            with threadpool_limits(1, "openmp"):
                said = [c.predict_proba(X)[:, 1] for c in self._classifiers] or [_by_rank(X)]
            found = np.append(found, np.mean(said, axis=0))
        known = [self._known.get(pair, np.nan) for pair in map(tuple, pairs.tolist())]
        return np.where(np.isnan(known), found, known)

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
        checks.check_number("predict", "threshold", threshold, low=0)
        if not self.is_learned_:
            checks.warn(self.statement_)
        order = np.argsort(-self._probability, kind="stable")
        order = order[self._probability[order] >= threshold]
        if one_to_one and len(order):
            order = self._free(order) if self._space.is_one else self._assigned(order)
        return self._links(order)

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
        order = order[np.arange(len(left)) - np.searchsorted(left, left) < k]
        return Links(*self._names(pairs[order]), found[order])

    def to_label(self, n: int = 20) -> Links:
        """Return the pairs most worth asking a person about, each record at most once.

        They are the least certain ones. Where nothing was learned yet, they are pairs that are best
        for both records, from the most to the least alike.
        """
        check_is_fitted(self, "statement_")
        checks.check_number("to_label", "n", n, low=1, integer=True)
        worth = -abs(self._probability - 0.5) if self.is_learned_ else self._probability
        is_new = [pair not in self._known for pair in map(tuple, self._candidates.tolist())]
        order = np.argsort(-worth, kind="stable")
        free = self._free(order[np.array(is_new, dtype=bool)[order]])
        spread = np.linspace(0, max(len(free) - 1, 0), min(n, len(free))).astype(int)
        return self._links(free[:n] if self.is_learned_ else free[spread])

    def _links(self, chosen: np.ndarray) -> Links:
        return Links(*self._names(self._candidates[chosen]), self._probability[chosen])

    def _free(self, order: np.ndarray) -> np.ndarray:
        """Return candidates in their order, each record at most once."""
        taken: set[int] = set()
        chosen, shift = [], 0 if self._space.is_one else len(self._tables[0].ids)
        pairs = self._candidates[order] + np.array([0, shift])
        for at, ends in zip(order.tolist(), pairs.tolist(), strict=True):
            if taken.isdisjoint(ends):
                taken.update(ends)
                chosen.append(at)
        return np.array(chosen, dtype=np.int64)

    def _assigned(self, chosen: np.ndarray) -> np.ndarray:
        """Return the candidates of the assignment with the largest sum, the most likely first."""
        ends = self._candidates[chosen].T
        left, right = (np.unique(rows, return_inverse=True)[1] for rows in ends)
        own = np.arange(left.max() + 1)  # a column of its own per left record: no match
        values = np.concatenate([self._probability[chosen] + 1e-9, np.full(len(own), 1e-9)])
        at = np.concatenate([left, own]), np.concatenate([right, right.max() + 1 + own])
        best = min_weight_full_bipartite_matching(sp.csr_array((values, at)), maximize=True)[1]
        return chosen[best[left] == right]

    def explain(self, left: Any, right: Any, *, top: int | None = 10) -> explain_module.Explanation:
        """Return the words, n-grams and pairs of them that make two records alike, exactly.

        They add up to the similarity that was learned, or to the cosine.
        """
        check_is_fitted(self, "statement_")
        (L, R), (a, b) = self._space.rows, self._pairs([(left, right)], "explain")[0]
        cosine = Similarity(*NOTHING, scale=1.0, prior=1.0, n_features=L.shape[1], norm="l2")
        similarity = cosine if self.model_ is None else self.model_.similarity_
        names = self._space.names
        return explain_module.explain(similarity, L[[a]], R[[b]], feature_names=names, top=top)

    def reasons(self, left: Any, right: Any, n: int = 6) -> list[tuple[str, float]]:
        """Return the words and pairs of words that make two records most alike, and how much.

        What character n-grams add is one number, called "spelling".
        """
        found = {"spelling": 0.0}
        for part in self.explain(left, right).parts:  # a word may be learned and in the prior
            is_word = max(part["i"], part["j"]) < self._space.n_words
            name = str(part["name"]) if is_word else "spelling"
            found[name] = found.get(name, 0.0) + float(part["value"])
        return sorted(found.items(), key=lambda item: -abs(item[1]))[:n]

    def texts(self, links: Links) -> list[list[str]]:
        """Return the texts of the left and of the right records of links."""
        pairs = self._pairs(zip(links.left, links.right, strict=True), "links")
        left, right = self._tables[0].texts, self._tables[-1].texts
        return [[left[a] for a in pairs[:, 0]], [right[b] for b in pairs[:, 1]]]

    def save(self, path: Any) -> None:
        """Write the tables and what was learned to one file; ``hdsl.load`` reads it."""
        saving.save(self, path)

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the tables, the known pairs, the model, and what the classifiers learned from."""
        check_is_fitted(self, "statement_")
        arrays, header = ({}, None) if self.model_ is None else self.model_.to_arrays()
        known = (self._names(pairs) for pairs in (self._matches, self._non_matches))
        state = {
            "tables": [[table.columns, table.ids.tolist()] for table in self._tables],
            "known": [[*zip(left.tolist(), right.tolist(), strict=True)] for left, right in known],
            "has_ids": self.id_column is not None, "seed": self._seed, "model": header,
            "statement": self.statement_, "recall": self.recall_,
        }  # fmt: skip
        text = np.frombuffer(dumps(state).encode("utf-8", "surrogatepass"), dtype=np.uint8)
        training = dict(zip(TRAINING, self._training, strict=False))
        return {"state": text} | nested(training=training, model=arrays), {}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> Linker:
        """Return what `to_arrays` was called on; the classifiers learn anew."""
        state = json.loads(arrays["state"].tobytes().decode("utf-8", "surrogatepass"))
        linker = cls([name for columns, _ in state["tables"] for name in columns])
        linker.id_column, linker._seed = "\0" if state["has_ids"] else None, int(state["seed"])
        linker._set_data(
            [{**columns, "\0": ids} for columns, ids in state["tables"][:2]], *state["known"]
        )
        training = part_of(arrays, "training")
        if training:
            linker._training = tuple(training[name] for name in TRAINING)
            if not np.isin(linker._training[-1], range(N_FOLDS)).all():
                raise ValueError("a fold is not there")
            linker._fit_classifiers()
            linker.statement_, linker.recall_ = str(state["statement"]), list(state["recall"])
        if state["model"] is not None:
            linker.model_ = HDSL.from_arrays(part_of(arrays, "model"), state["model"])
        linker._search()
        return linker


def _blocks(pairs: np.ndarray) -> list[np.ndarray]:
    return [pairs[first : first + BLOCK] for first in range(0, len(pairs), BLOCK)]


def _by_rank(features: np.ndarray) -> np.ndarray:
    """Return cosines divided by ranks: what orders pairs where nothing was learned."""
    return np.clip(features[:, 0], 0.0, 1.0) * np.exp(-features[:, 3:5].mean(axis=1))


def _share(hits: np.ndarray) -> tuple[float, float, float]:
    """Return the share of hits, with its interval."""
    return float(np.mean(hits)), *wilson_interval(float(np.sum(hits)), len(hits))
