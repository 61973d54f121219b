"""The same thing in two tables, or twice in one: found by a similarity learned from known matches.

Records become rows of words and of character n-grams. `HDSL` learns from each match
against the nearest other rows of both tables. Whether a pair is a match is then told by
numbers: its score, how far it is above or below the best other row of either record,
its rank on both sides, the words that only one record has, the columns. A small
classifier of these learns from scores that are cross-fitted, by models that have not
seen the match.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from copy import copy
from itertools import chain
from typing import Any, NamedTuple
from unicodedata import normalize

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import (
    connected_components,
    min_weight_full_bipartite_matching,
)
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.metrics import average_precision_score
from sklearn.utils.validation import check_is_fitted, check_random_state
from threadpoolctl import threadpool_limits

from . import explain as explain_module
from . import saving
from .evaluate import wilson_interval
from .files.container import Arrays, dumps
from .files.tables import nested, part_of
from .hdsl import HDSL
from .input.errors import warn
from .input.labels import is_missing
from .input.parameters import check_number
from .progress import Progress
from .readers.tables import read_columns, row_index, some
from .search import top_k
from .similarity import Similarity
from .similarity.products import row_products
from .similarity.rows import unit_rows
from .solver.atoms import NOTHING
from .triplets import link_triplets

__all__ = ["Linker", "Links"]

#: Rows of the other table that a rank is known among, and those that are candidates.
DEPTH = 20
N_CANDIDATES = 10

#: Weight of the cosine under what is learned. Of 2, 4 and 8 it was the best on
#: validation pairs of the benchmarks; a choice in each fit takes a third of the time
#: and had no better links there.
PRIOR = 4.0

#: Fewer matches teach nothing; folds of the matches.
FEW = 5
N_FOLDS = 4

#: Non-matches, and as many as matches, that are enough for the classifier: near pairs
#: of records with another match count as non-matches else, which is less certain.
ENOUGH = 500

#: Pairs that are looked at together, and most columns that are compared one by one.
BLOCK = 2**16
MOST_COLUMNS = 12

#: What is learned is not used where it leaves less of the cosine's mean reciprocal
#: rank.
LEAST_MRR = 0.95

#: Attributes that a file holds as they are.
SAVED = ("columns", "id_column", "statement_", "recall_", "_seed")

#: Numbers of candidates that recall is shown for, and bins of the reliability.
RECALL_AT = (1, 2, 5, 10, 20)
EDGES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)


class Links(NamedTuple):
    """Pairs of records, and how likely each pair is one thing.

    `left` and `right` are ids where the tables have a column of ids, and row numbers
    otherwise.
    """

    left: np.ndarray
    right: np.ndarray
    probability: np.ndarray


# --- tables ---------------------------------------------------------------------------


class _Table(NamedTuple):
    """Columns of strings, empty where a value is missing; ids or row numbers; the row of each."""

    columns: dict[str, list[str]]
    ids: np.ndarray
    rows: dict[str, int]


def _read_table(table: Any, columns: Any, id_column: str | None, name: str) -> _Table:
    """Return the columns that count; raise where there is no row, no text or no such column."""
    if (
        isinstance(table, list)
        and table
        and all(isinstance(row, Mapping) for row in table)
    ):
        table = {
            c: [row.get(c) for row in table] for c in dict.fromkeys(chain(*table))
        }  # records
    values = {"text": table} if np.ndim(table) == 1 else read_columns(table)
    values = {str(c): list(v) for c, v in values.items()}
    n_rows = {len(column) for column in values.values()} or {0}
    if n_rows == {0} or len(n_rows) > 1:
        fault = (
            "is empty"
            if n_rows == {0}
            else f"has unequal columns, of {sorted(n_rows)} rows"
        )
        raise ValueError(
            f"The {name} table {fault}: it must have a value per record and column."
        )
    if id_column is not None and id_column not in values:
        raise ValueError(
            f"The {name} table has no column {id_column!r}, only {some(values)}."
        )
    given = [*range(*n_rows)] if id_column is None else values[id_column]
    without = [row for row, value in enumerate(given) if _text(value) == ""]
    if without:
        raise ValueError(
            f"Row {without[0]} of the {name} table has no {id_column!r}: fill it in."
        )
    ids = np.array(given)
    if (
        ids.tolist() != given
    ):  # numbers that lose digits, texts that end in a null character
        ids = np.array(given, dtype=object)
    texts = {c: [*map(_text, v)] for c, v in values.items() if c != id_column}
    chosen = {
        c: v
        for c, v in texts.items()
        if (c in columns if columns else _is_content(c, v))
    }
    if columns and not chosen:
        there = f"{some(columns)}, only {some(values)}"
        raise ValueError(
            f"The {name} table has no column {there}: name others with columns=."
        )
    if not any(any(map(str.isalpha, text)) for v in chosen.values() for text in v):
        there = f"{some(columns or chosen) or 'any'} of {some(values)}"
        raise ValueError(
            f"The {name} table has no text in {there}: name others with columns=."
        )
    return _Table(chosen, ids, row_index([*map(_text, given)], is_text=True) or {})


def _text(value: Any) -> str:
    is_whole = isinstance(value, float | np.floating) and value.is_integer()
    return "" if is_missing(value) else str(int(value) if is_whole else value).strip()


def _plain_ids(ids: np.ndarray) -> list[Any]:
    """Return ids as a file holds them: dates and the like as text."""
    return [v if isinstance(v, str | int | float) else _text(v) for v in ids.tolist()]


def _is_content(name: str, values: list[str]) -> bool:
    """Return whether a column says something: it is not called id, and does not number the rows."""
    numbers = {int(v) for v in values if v.isdecimal() and len(v) < 20}
    is_count = 1 < len(numbers) == len(values) == max(numbers) - min(numbers) + 1
    return name.lower() != "id" and not is_count


def _folded(text: str) -> str:
    """Return a text in lower case, the same for all ways to write its characters."""
    return normalize("NFKC", text).lower()


# --- numbers of a pair ----------------------------------------------------------------


class _View:
    """Records by one similarity, and the best of each: of the other table, or of the only one.

    `n_left` of the rows are those of the first table; `only` are the records whose best
    are asked for, by default all.
    """

    def __init__(
        self, X: sp.csr_array, n_left: int, n_jobs: int | None, only: Any = None
    ) -> None:
        # in one table each finds itself
        n = X.shape[0]
        depth = DEPTH + (n_left == X.shape[0])
        self.X = X
        self.near = np.full((n, depth), -1)
        self.scores = np.full((n, depth), -np.inf)
        asked = np.arange(n) if only is None else np.unique(only)
        first = n_left % n  # of the other table
        sides = (asked[asked < n_left], X[first:]), (asked[asked >= n_left], X[:n_left])
        for rows, others in sides:
            found = top_k(X[rows], others, depth, n_jobs=n_jobs)
            self.near[rows] = np.where(found.rows < 0, -1, found.rows + first)
            self.scores[rows] = found.scores
            first = 0
        is_self = self.near == np.arange(n)[:, None]
        self.near[is_self] = -1
        self.scores[is_self] = -np.inf

    def features(self, pairs: np.ndarray) -> np.ndarray:
        """Return the score, leads over the best other row, and ranks from 1 on, shape (n, 5)."""
        score = row_products(*(self.X[rows] for rows in pairs.T))
        leads = []
        ranks = []
        for rows, other in zip(pairs.T, pairs.T[::-1], strict=True):
            others = np.where(
                self.near[rows] == other[:, None], -np.inf, self.scores[rows]
            )
            leads.append(score - np.maximum(others.max(axis=1), 0.0))
            ranks.append(1 + (others > score[:, None] + 1e-12).sum(axis=1))
        return np.column_stack([score, *leads, *ranks])

    def pairs(self) -> np.ndarray:
        """Return the candidates of each record, from both sides, each pair once."""
        is_best = (self.near >= 0) & ((self.near >= 0).cumsum(axis=1) <= N_CANDIDATES)
        found = np.column_stack([np.nonzero(is_best)[0], self.near[is_best]])
        return np.unique(np.sort(found, axis=1), axis=0)


class _Space:
    """Records of both tables as rows of words and of character n-grams, and numbers of pairs."""

    def __init__(self, tables: list[_Table], n_jobs: int | None) -> None:
        records = (
            row for table in tables for row in zip(*table.columns.values(), strict=True)
        )
        self.texts = [" ".join(filter(None, record)) for record in records]
        shared = [c for c in tables[0].columns if c in tables[-1].columns][
            :MOST_COLUMNS
        ]
        columns = [table.columns[c] for c in shared for table in tables]
        tokens = CountVectorizer(
            preprocessor=_folded, tokenizer=str.split, token_pattern=None
        )
        cells = tokens.fit_transform([*self.texts, *chain.from_iterable(columns)])
        parts = CountVectorizer(
            analyzer=_parts
        )  # of each token once, however often it occurs
        counts = sp.csr_array(
            cells @ parts.fit_transform(tokens.get_feature_names_out())
        )
        n = len(self.texts)
        n_records = np.bincount(counts[:n].indices, minlength=counts.shape[1])
        kept = np.flatnonzero(n_records > (n > 50))
        if not len(kept):
            raise ValueError("No word is in two records: nothing to link by.")
        tfidf = TfidfTransformer(sublinear_tf=True, norm=None).fit(counts[:n, kept])
        rows = sp.csr_array(tfidf.transform(counts[:, kept]))
        self.names = parts.get_feature_names_out()[kept].tolist()  # grams before words
        self.n_grams = sum(name[0] in "'\"" for name in self.names)
        self.n_left = len(tables[0].ids)
        grams = rows[:, : self.n_grams]
        words = rows[:n, self.n_grams :]
        self.X = unit_rows(
            sp.csr_array(sp.hstack([unit_rows(grams[:n]), unit_rows(words)]))
        )
        self.views = [
            _View(part, self.n_left, n_jobs) for part in (self.X, unit_rows(grams[:n]))
        ]
        has_digit = [any(map(str.isdigit, word)) for word in self.names[self.n_grams :]]
        blocks = [words, words[:, has_digit]]
        blocks += [grams[n * k : n * (k + 1)] for k in range(len(shared) + 1)]
        self._blocks = [
            (block, row_products(block, block)) for block in blocks if block.shape[1]
        ]

    def features(self, pairs: np.ndarray) -> np.ndarray:
        """Return where pairs stand by cosine, what they have in common by block, and lengths."""
        parts = [view.features(pairs) for view in self.views]
        for block, squares in self._blocks:
            left, right = (block[rows] for rows in pairs.T)
            common = row_products(left, right)
            only = left - right
            with np.errstate(invalid="ignore"):  # NaN where a record has nothing
                parts += [common / squares[rows] for rows in pairs.T]
            parts += [only.max(axis=1).toarray(), only.min(axis=1).toarray()]
        return np.column_stack([*parts, np.diff(self.X.indptr)[pairs]])


def _parts(token: str) -> list[str]:
    """Return the words of a token, and its character 3- and 4-grams in quotes."""
    padded = f" {token} "
    grams = (padded[k : k + n] for n in (3, 4) for k in range(len(padded) - n + 1))
    return [*re.findall(r"\w+", token), *map(repr, grams)]


# --- the estimator --------------------------------------------------------------------


class Linker(BaseEstimator):
    """Link the records of two tables, or find duplicates in one, by a similarity that is learned.

    Parameters
    ----------
    columns : list of str, default=None
        Columns to compare. Tables whose columns have different names: name those of
        both. None is all, without `id_column` and columns that only number the rows.
    id_column : str or (str, str), default=None
        Column with a different value per record, or one of each table. Matches name
        records by it, and so do answers.
    random_state : int, RandomState or None, default=None
    n_jobs : int, default=None
        Threads.
    verbose : int, default=0
        1 shows progress on stderr.

    Attributes
    ----------
    model_ : HDSL or None
        None if the cosine is used: there were too few matches, or it finds held-out
        matches better.
    is_learned_ : bool
        Whether there were matches enough to learn from.
    statement_ : str
        What was learned, in a sentence.
    recall_ : list of dict
        Of the matches, each held out, the share whose right record is among the first k
        of the left one, by cosine and as learned: k, and (share, low, high) with a 95 %
        interval.
    reliability_ : list of dict
        Held-out pairs by probability: from, to, n, the mean probability, and the share
        that match with its interval.

    Examples
    --------
    >>> left = ["apple iphone 4 black", "canon powershot a590", "sony bravia 40 inch tv"]
    >>> right = ["Sony 40in Bravia television", "iPhone 4 (black) by Apple", "Canon A590 camera"]
    >>> links = Linker().fit(left, right).candidates(k=1)
    >>> links.left.tolist(), links.right.tolist()
    ([0, 1, 2], [1, 2, 0])
    """

    def __init__(
        self,
        columns: list[str] | None = None,
        *,
        id_column: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.columns = columns
        self.id_column = id_column
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self, left: Any, right: Any = None, matches: Any = (), non_matches: Any = ()
    ) -> Linker:
        """Learn from known matches.

        Parameters
        ----------
        left, right : DataFrame, list of str or of dicts, or mapping of columns
            None as `right` looks for duplicates in `left`.
        matches : array-like of shape (n_matches, 2), default=()
            Pairs that are one thing: left and right row numbers, or ids with
            `id_column`. Name all matches of a record, or none: its other pairs count as
            non-matches.
        non_matches : array-like of shape (n, 2), default=()
            Pairs known to be different.

        Returns
        -------
        Linker
        """
        learned = copy(self)  # an error or an interrupt leaves this one as it was
        # Threads of OpenMP that wait for one another take longer.
        with Progress(self.verbose) as progress, threadpool_limits(1, "openmp"):
            progress.stage("reading the tables, searching by cosine")
            learned._set_data(
                [left] if right is None else [left, right], matches, non_matches
            )
            learned._learn(progress)
            progress.stage("searching as learned")
            learned._search()
        self.__dict__ = learned.__dict__
        return self

    def _set_data(self, tables: list[Any], matches: Any, non_matches: Any) -> None:
        """Take tables and known pairs; nothing is learned yet."""
        id_columns = 2 * (
            [self.id_column] if np.ndim(self.id_column) == 0 else [*self.id_column]
        )
        named = zip(tables, id_columns, ("left", "right"), strict=False)
        columns = [self.columns] if isinstance(self.columns, str) else self.columns
        self._tables = [_read_table(t, columns, *names) for t, *names in named]
        unknown = {*(columns or ())}.difference(
            *(table.columns for table in self._tables)
        )
        if unknown:
            raise ValueError(
                f"No table has a column {some(unknown)}: columns= names others."
            )
        self._shift = len(self._tables[0].ids) * (len(tables) - 1)  # 0 in one table
        self._matches = self._pairs(matches, "matches")
        self._non_matches = self._pairs(non_matches, "non_matches")
        self._known: dict[
            tuple[int, ...], float
        ] = {}  # 1 for a match and 0 for a non-match
        for answer, pairs in ((1.0, self._matches), (0.0, self._non_matches)):
            for pair in map(tuple, pairs.tolist()):
                if pair[0] == pair[1] or pair in self._known:
                    is_same = self._known.get(pair, answer) == answer
                    fault = (
                        "is listed twice"
                        if is_same
                        else "is both a match and a non-match"
                    )
                    fault = (
                        "is of a record with itself" if pair[0] == pair[1] else fault
                    )
                    left, right = self._names(np.array(pair))
                    raise ValueError(f"The pair ({left}, {right}) {fault}: remove it.")
                self._known[pair] = answer
        self._space = _Space(self._tables, self.n_jobs)
        self.is_learned_ = False
        self.model_: HDSL | None = None
        self._classifiers: list[Any] = []
        self._training: Arrays = {}
        self.recall_: list[dict[str, Any]] = []
        self.reliability_: list[dict[str, Any]] = []
        self.statement_ = (
            f"Nothing was learned from {len(self._matches)} matches ({FEW} of "
            "different records are needed): probabilities are cosines divided by "
            "ranks, and only their order means something."
        )

    def _pairs(self, pairs: Any, name: str) -> np.ndarray:
        """Return pairs of ids or row numbers as numbers of records, the smaller one first."""
        return np.sort(self._ends(pairs, name), axis=1)

    def _ends(self, pairs: Any, name: str) -> np.ndarray:
        """Return pairs of ids or row numbers as numbers of records, left and right as given.

        Those of the right table follow those of the left one.
        """
        if isinstance(pairs, Links):
            pairs = zip(*pairs[:2], strict=True)
        elif hasattr(pairs, "to_numpy") and hasattr(pairs, "columns"):
            if "match" in pairs.columns:
                way_out = "pass the rows that match, and the others as non_matches"
                raise ValueError(
                    f"{name} has a column match, which is not read: {way_out}."
                )
            sides = (
                ["left", "right"]
                if {"left", "right"} <= {*pairs.columns}
                else pairs.columns
            )
            # Column by column: one array of both may round ids.
            pairs = zip(*(pairs[side].to_list() for side in sides), strict=True)
        given = [] if pairs is None else [*pairs]
        if any(isinstance(pair, str) or np.size(pair) != 2 for pair in given):
            raise ValueError(f"{name} must be pairs of a left and a right record.")
        found = np.empty((len(given), 2), dtype=np.int64)
        for side, table in enumerate((self._tables[0], self._tables[-1])):
            ends = [_text(pair[side]) for pair in given]
            unknown = [end for end in ends if end not in table.rows]
            if unknown:
                fault = f"{some(unknown)} as {('left', 'right')[side]} record"
                there = f"but these are {some(table.rows, 3)}"
                way_out = "name row numbers, or ids with id_column (--id)"
                raise ValueError(f"{name} has {fault}, {there}: {way_out}.")
            found[:, side] = [table.rows[end] + side * self._shift for end in ends]
        return found

    def _answers(self, pairs: np.ndarray) -> np.ndarray:
        """Return 1 for known matches, 0 for known non-matches, and NaN for other pairs."""
        return np.array(
            [self._known.get(pair, np.nan) for pair in map(tuple, pairs.tolist())]
        )

    def _names(self, pairs: np.ndarray) -> tuple[Any, Any]:
        """Return the ids, or the row numbers, of both sides."""
        left = pairs[..., 0]
        right = pairs[..., 1] - self._shift
        return self._tables[0].ids[left], self._tables[-1].ids[right]

    def _learn(self, progress: Progress) -> None:
        """Learn a similarity and a classifier, each from what the other folds know."""
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        near = self._space.views[0].pairs()
        near = near[
            np.isin(near, self._matches).any(axis=1) & np.isnan(self._answers(near))
        ]
        parts = self._matches, self._non_matches, near
        pairs = np.concatenate(parts)
        labels = np.repeat([1.0, 0.0, 0.0], [*map(len, parts)])
        fold, n_groups = self._folds(pairs)
        if n_groups < FEW or labels.all():
            return
        n = len(self._matches)
        n_others = len(self._non_matches)
        used = slice(None if n_others < max(n, ENOUGH) else n + n_others)
        asked = pairs[used]
        learned = np.empty((len(pairs[used]), 5))
        for f in range(N_FOLDS):
            progress.stage(f"learning, fold {f + 1} of {N_FOLDS}")
            model = self._fit_similarity(pairs[fold != f], labels[fold != f])
            here = fold[used] == f
            learned[here] = _in_blocks(
                self._view(model, asked[here]).features, asked[here]
            )
        plain = _in_blocks(self._space.features, asked)
        ranks = {"cosine": plain[:n, 3], "learned": learned[:n, 3]}
        self.recall_ = [
            {"k": k} | {name: _share(r <= k) for name, r in ranks.items()}
            for k in RECALL_AT
        ]
        now, before = (100 * self.recall_[0][name][0] for name in ("learned", "cosine"))
        self.statement_ = (
            f"Of {n} matches, each held out, the right record is first for {now:.0f} % "
            f"as learned and for {before:.0f} % by cosine."
        )
        if (1 / ranks["learned"]).mean() < LEAST_MRR * (1 / ranks["cosine"]).mean():
            learned = plain[:, :5]
            self.statement_ += (
                " So the cosine is used, and only what makes a match is learned."
            )
        else:
            progress.stage("learning, all matches")
            self.model_ = self._fit_similarity(pairs, labels)
        X = np.hstack([learned, plain])
        self._training = {"X": X, "labels": labels[used], "fold": fold[used]}
        found = self._fit_classifiers(**self._training)
        before, now = (
            average_precision_score(labels[used], s) for s in (_by_rank(plain), found)
        )
        if now < before:
            self.statement_ += (
                " Held-out pairs are ranked no better than by cosine: label more."
            )

    def _folds(self, pairs: np.ndarray) -> tuple[np.ndarray, int]:
        """Return a fold per pair, one for all matches that hang together, and how many do not."""
        n = self._space.X.shape[0]
        rng = np.random.default_rng(self._seed)
        graph = sp.coo_array(
            (np.ones(len(self._matches)), tuple(self._matches.T)), shape=(n, n)
        )
        n_parts, part = connected_components(graph, directed=False)
        fold = rng.integers(N_FOLDS, size=n_parts)
        matched = np.unique(part[self._matches])
        fold[matched] = rng.permutation(len(matched)) % N_FOLDS
        left, right = part[pairs.T]
        return np.where(np.isin(left, matched), fold[left], fold[right]), len(matched)

    def _fit_similarity(self, pairs: np.ndarray, labels: np.ndarray) -> HDSL:
        """Learn from triplets: a record, its match, one of its nearest others."""
        triplets = link_triplets(pairs, labels == 1.0, n_per_link=None)
        near = self._space.views[0].near[triplets[:, 0], :N_CANDIDATES]
        triplets = triplets[(near == triplets[:, 2:]).any(axis=1)]
        # With a tol of 0 no gap is certified: that takes a third of the time with long
        # texts.
        model = HDSL(prior=PRIOR, tol=0.0, random_state=self._seed, n_jobs=self.n_jobs)
        model.fit(self._space.X, triplets=triplets)
        if model.status_ == "interrupted":  # it would be one of several models
            raise KeyboardInterrupt
        return model

    def _view(self, model: HDSL, only: Any = None) -> _View:
        X = sp.csr_array(model.transform(self._space.X, cosine=True))
        return _View(X, self._space.n_left, self.n_jobs, only)

    def _fit_classifiers(
        self, X: np.ndarray, labels: np.ndarray, fold: np.ndarray
    ) -> np.ndarray:
        """Fit one classifier per fold, to the others; return what each says of its own fold."""
        classifier = HistGradientBoostingClassifier(
            max_iter=75,
            learning_rate=0.1,
            max_leaf_nodes=8,
            max_features=0.3,
            min_samples_leaf=int(np.clip(labels.sum() / 10, 2, 20)),
            random_state=self._seed,
        )

        def fitted(rows: np.ndarray) -> Any:
            part = X[rows]
            part[:, np.isnan(part).all(axis=0)] = (
                0.0  # scikit-learn refuses a column of NaN
            )
            return clone(classifier).fit(part, labels[rows])

        self._classifiers = [fitted(fold != f) for f in range(N_FOLDS)]
        found = np.choose(fold, [c.predict_proba(X)[:, 1] for c in self._classifiers])
        self.is_learned_ = True
        at = np.clip(np.searchsorted(EDGES, found, side="right") - 1, 0, len(EDGES) - 2)
        self.reliability_ = [
            {
                "from": EDGES[b],
                "to": EDGES[b + 1],
                "n": int(np.sum(at == b)),
                "probability": float(found[at == b].mean()),
                "matches": _share(labels[at == b]),
            }
            for b in np.unique(at).tolist()
        ]
        return found

    def _search(self) -> None:
        """Find the candidates and their probabilities."""
        self._best = (
            self._space.views[0] if self.model_ is None else self._view(self.model_)
        )
        pairs = self._best.pairs(), self._matches, self._non_matches
        self._candidates = np.unique(np.concatenate(pairs), axis=0)
        self._probability = self._scores(self._candidates)

    def _scores(self, pairs: np.ndarray) -> np.ndarray:
        """Return probabilities; known pairs have what is known."""

        def score(part: np.ndarray) -> np.ndarray:
            X = np.hstack([self._best.features(part), self._space.features(part)])
            said = [c.predict_proba(X)[:, 1] for c in self._classifiers] or [
                _by_rank(X)
            ]
            return np.mean(said, axis=0)

        found = _in_blocks(score, pairs) if len(pairs) else np.empty(0)
        known = self._answers(pairs)
        return np.where(np.isnan(known), found, known)

    def predict(self, threshold: float = 0.5, *, one_to_one: bool = False) -> Links:
        """Return all candidates from a probability on, the most likely first.

        Each record has its ten nearest of the other table as candidates, the first of
        equals, and known pairs. Known matches have the probability 1, and known
        non-matches 0.

        Parameters
        ----------
        threshold : float, default=0.5
        one_to_one : bool, default=False
            Each record is in at most one pair: the pairs with the largest sum of
            probabilities. In one table, the most likely pair first, then the next that
            is free.

        Returns
        -------
        Links
        """
        check_is_fitted(self, "statement_")
        check_number("predict", "threshold", threshold, low=0)
        if not self.is_learned_:
            warn(self.statement_)
        order = np.argsort(-self._probability, kind="stable")
        order = order[self._probability[order] >= threshold]
        if one_to_one and len(order):
            order = self._assigned(order) if self._shift else self._free(order)
        return Links(*self._names(self._candidates[order]), self._probability[order])

    def predict_proba(self, pairs: Any) -> np.ndarray:
        """Return the probability that pairs, of ids or row numbers, are one thing, (n_pairs,)."""
        check_is_fitted(self, "statement_")
        return self._scores(self._pairs(pairs, "pairs"))

    def candidates(self, k: int = 10) -> Links:
        """Return the k most likely right records of each left one, left by left, best first.

        Of one table, each record has its most likely duplicates, so that a pair may
        come twice.
        """
        check_is_fitted(self, "statement_")
        check_number("candidates", "k", k, low=1, integer=True)
        sides = [self._candidates, self._candidates[:, ::-1]][: 1 if self._shift else 2]
        pairs = np.concatenate(sides)
        found = np.tile(self._probability, len(sides))
        order = np.lexsort((-found, pairs[:, 0]))
        left = pairs[order, 0]
        order = order[np.arange(len(left)) - np.searchsorted(left, left) < k]
        return Links(*self._names(pairs[order]), found[order])

    def to_label(self, n: int = 20) -> Links:
        """Return the pairs most worth asking a person about, each record at most once.

        They are the least certain ones. Where nothing was learned yet, they are pairs
        that are best for both records, from the most to the least alike.
        """
        check_is_fitted(self, "statement_")
        check_number("to_label", "n", n, low=1, integer=True)
        worth = -abs(self._probability - 0.5) if self.is_learned_ else self._probability
        order = np.argsort(-worth, kind="stable")
        free = self._free(order[np.isnan(self._answers(self._candidates[order]))])
        spread = np.linspace(0, max(len(free) - 1, 0), min(n, len(free))).astype(int)
        order = free[:n] if self.is_learned_ else free[spread]
        return Links(*self._names(self._candidates[order]), self._probability[order])

    def _free(self, order: np.ndarray) -> np.ndarray:
        """Return candidates in their order, each record at most once."""
        taken: set[int] = set()
        chosen = []
        for at, ends in zip(
            order.tolist(), self._candidates[order].tolist(), strict=True
        ):
            if taken.isdisjoint(ends):
                taken.update(ends)
                chosen.append(at)
        return np.array(chosen, dtype=np.int64)

    def _assigned(self, chosen: np.ndarray) -> np.ndarray:
        """Return the candidates of the assignment with the largest sum; known ones count most."""
        ends = self._candidates[chosen].T
        left, right = (np.unique(rows, return_inverse=True)[1] for rows in ends)
        spare = np.arange(
            left.max() + 1
        )  # a column of its own per left record: no match
        worth = self._probability[chosen] + len(spare) * (self._answers(ends.T) == 1.0)
        values = np.concatenate([worth + 1e-9, np.full(len(spare), 1e-9)])
        at = np.append(left, spare), np.append(right, right.max() + 1 + spare)
        table = sp.csr_array((values, (at[0].astype(np.int32), at[1].astype(np.int32))))
        best = min_weight_full_bipartite_matching(table, maximize=True)[1]  # of 32 bits
        return chosen[best[left] == right]

    def explain(
        self, left: Any, right: Any, *, top: int | None = 10
    ) -> explain_module.Explanation:
        """Return the words, n-grams and pairs of them that make two records alike, exactly.

        They add up to the similarity that was learned, or to the cosine.
        """
        check_is_fitted(self, "statement_")
        X = self._space.X
        (a, b) = self._pairs([(left, right)], "explain")[0]
        cosine = Similarity(
            *NOTHING, scale=1.0, prior=1.0, n_features=X.shape[1], norm="l2"
        )
        similarity = cosine if self.model_ is None else self.model_.similarity_
        names = self._space.names
        return explain_module.explain(
            similarity, X[[a]], X[[b]], feature_names=names, top=top
        )

    def reasons(self, left: Any, right: Any, n: int = 6) -> list[tuple[str, float]]:
        """Return the words and pairs of words that make two records most alike, and how much.

        What character n-grams add is one number, called "spelling".
        """
        found = {"spelling": 0.0}
        for part in self.explain(
            left, right
        ).parts:  # a word may be learned and in the prior
            is_word = min(part["i"], part["j"]) >= self._space.n_grams
            name = str(part["name"]) if is_word else "spelling"
            found[name] = found.get(name, 0.0) + float(part["value"])
        return sorted(found.items(), key=lambda item: -abs(item[1]))[:n]

    def records(self, links: Links) -> list[dict[str, Any]]:
        """Return links to read, or to write as a table: with texts, and whether they are known.

        Each has the keys left, right, probability, left_text, right_text and known,
        "yes" or "".
        """
        ends = self._ends(links, "links")
        texts = ([self._space.texts[row] for row in rows] for rows in ends.T)
        known = [
            "yes" if said == 1.0 else ""
            for said in self._answers(np.sort(ends, axis=1))
        ]
        names = (*Links._fields, "left_text", "right_text", "known")
        columns = *links[:2], links.probability.round(4), *texts, known
        return [
            dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)
        ]

    def save(self, path: Any) -> None:
        """Write the tables and what was learned to one file; ``hdsl.load`` reads it."""
        saving.save(self, path)

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the tables, the known pairs, the model, and what the classifiers learned from."""
        check_is_fitted(self, "statement_")
        arrays, header = ({}, None) if self.model_ is None else self.model_.to_arrays()
        known = (self._names(pairs) for pairs in (self._matches, self._non_matches))
        state = {name: getattr(self, name) for name in SAVED} | {
            "tables": [
                [[*table.columns.items()], _plain_ids(table.ids)]
                for table in self._tables
            ],
            "known": [[*zip(*map(_plain_ids, sides), strict=True)] for sides in known],
            "model": header,
        }
        text = np.frombuffer(
            dumps(state).encode("utf-8", "surrogatepass"), dtype=np.uint8
        )
        return {"state": text} | nested(training=self._training, model=arrays), {}

    @classmethod
    def from_arrays(cls, arrays: Arrays, header: dict[str, Any]) -> Linker:
        """Return what `to_arrays` was called on; the classifiers learn anew."""
        state = json.loads(arrays["state"].tobytes().decode("utf-8", "surrogatepass"))
        tables = [(dict(columns), ids) for columns, ids in state["tables"][:2]]
        linker = cls(
            [name for columns, _ in tables for name in columns], id_column="\0"
        )
        linker._set_data(
            [{**columns, "\0": ids} for columns, ids in tables], *state["known"]
        )
        linker.__dict__.update({name: state[name] for name in SAVED})
        linker._training = part_of(arrays, "training")
        if state["model"] is not None:
            linker.model_ = HDSL.from_arrays(part_of(arrays, "model"), state["model"])
        with threadpool_limits(
            1, "openmp"
        ):  # as in `fit`: sums by threads have other bits
            if linker._training:
                linker._fit_classifiers(**linker._training)
            linker._search()
        return linker


def _in_blocks(
    function: Callable[[np.ndarray], np.ndarray], pairs: np.ndarray
) -> np.ndarray:
    firsts = range(0, max(1, len(pairs)), BLOCK)
    return np.concatenate([function(pairs[first : first + BLOCK]) for first in firsts])


def _by_rank(features: np.ndarray) -> np.ndarray:
    """Return cosines divided by ranks: what orders pairs where nothing was learned."""
    return np.clip(features[:, 0], 0.0, 1.0) / np.sqrt(features[:, 3] * features[:, 4])


def _share(hits: np.ndarray) -> tuple[float, float, float]:
    """Return the share of hits, with its interval."""
    return float(np.mean(hits)), *wilson_interval(float(np.sum(hits)), len(hits))
