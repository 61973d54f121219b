"""The probability that two records are one thing: a mixture of matches and other pairs.

The model is that of Fellegi and Sunter. Each column has levels of agreement, and each
level says how much more frequent it is in matches than in other pairs. Both frequencies
and the rate of matches are fitted by EM to all pairs: candidates, and random pairs that
stand for the rest. Pairs with a known answer are pairs whose side is given.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import OSA, JaroWinkler
from scipy.ndimage import gaussian_filter1d
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import binom

from ..files.container import Arrays, get_array
from .candidates import N_CANDIDATES, NearestRecords, SearchedRecords
from .features import RecordFeatures, relative_difference

#: Levels of agreement: equal, four steps of alike, different, and exchanged with another
#: column. A missing value has none.
N_LEVELS = 7
EQUAL = 0
UNLIKE = 4
DIFFERENT = 5
EXCHANGED = 6
MISSING = -1

#: Least Jaro-Winkler similarity of letters for each step of alike.
LETTERS = (0.94, 0.88, 0.80, 0.65)

#: Least cosine of long texts.
COSINES = (0.75, 0.55, 0.40, 0.25)

#: Most relative difference of amounts.
DIFFERENCES = (0.01, 0.05, 0.15, 0.40)

#: Most single edits of codes; those that change half of a code make another one.
MAX_EDITS = 4

#: A column is of long texts where its values have so many words on average.
LONG_TEXT = 3.0

#: Where one of two records stands among those that are near the other: of long texts,
#: this says more than how alike they are.
RANK = "the most similar record"

#: Most of both ranks for each level, the first one that of equal.
RANKS = (1, 2, 3, 5, 10)

#: Kinds of long texts.
WIDE = ("long text", "whole record")

#: Share of the values of a column that tells its kind.
MOST = 0.9

#: Amounts are told from codes by a point or a currency in this share of them.
MIN_POINTS = 0.1

#: A code: it has a digit, and no three letters that stand together.
CODE = re.compile(r"(?=.*\d)(?!.*[^\W\d_]{3}).*", re.DOTALL)
POINT = re.compile(r"\d\.\d|[^\w\s.,:/-]")

#: Values that are looked at to tell the kind of a column.
N_LOOKED_AT = 2000


class Column(NamedTuple):
    """What is known of the values of a column.

    Attributes
    ----------
    name : str
    kind : {"letters", "code", "amount", "long text", "whole record", ...}
        "words with digits" are those of whole records.
    shares : dict of str to float
        How many of the records have a value, for values that several have.
    least : float
        The share of any other value.
    """

    name: str
    kind: str
    shares: dict[str, float]
    least: float

    @classmethod
    def of_values(cls, name: str, texts: Sequence[str], kind: str) -> Column:
        """Return what the values of a column, empty where missing, are like."""
        counts = Counter(filter(None, texts))
        total = max(counts.total(), 1)
        shares = {text: n / total for text, n in counts.items() if n > 1}
        return cls(name, kind, shares, 1.0 / total)

    @property
    def typical(self) -> float:
        """The log of how often two values are equal by chance."""
        squares = sum(share**2 for share in self.shares.values())
        rest = max(1.0 - sum(self.shares.values()), 0.0)
        return float(np.log(max(squares + rest * self.least, self.least)))

    def rarity(self, texts: np.ndarray) -> np.ndarray:
        """Return the log of how much rarer values are than equal ones mostly are."""
        shares = [self.shares.get(text, self.least) for text in texts.tolist()]
        return self.typical - np.log(np.array(shares, dtype=np.float64))


class Agreement(NamedTuple):
    """How the columns of records are compared.

    Attributes
    ----------
    columns : list of Column
        Those that both tables have. Where one is of long texts, the words with digits of
        whole records follow, and where one record stands among those near the other.
    """

    columns: list[Column]

    @classmethod
    def of_records(cls, records: RecordFeatures) -> Agreement:
        """Return how the columns of these records are compared."""
        strings = records.strings
        amounts = {
            name for name, kind in strings.column_kinds.items() if kind != "days"
        }
        columns: list[Column] = []
        if not strings.columns:
            columns.append(Column("text", "whole record", {}, 1.0))
        for name in strings.columns:
            texts = strings.values(name).tolist()
            kind = kind_of(texts, is_amount=name in amounts)
            columns.append(Column.of_values(name, texts, kind))
        kinds = {column.kind for column in columns}
        if not kinds.isdisjoint(WIDE):
            columns.append(Column("words with digits", "words with digits", {}, 1.0))
            columns.append(Column(RANK, RANK, {}, 1.0))
        return cls(columns)

    @property
    def is_wide(self) -> bool:
        """Whether a column is of long texts, in which words count differently."""
        return any(column.kind in WIDE for column in self.columns)

    def to_json(self) -> list[list[Any]]:
        """Return what a file holds."""
        return [[*column] for column in self.columns]

    @classmethod
    def from_json(cls, columns: list[list[Any]]) -> Agreement:
        """Return what `to_json` was called on; raise ValueError if it is none."""
        read = [Column(*column) for column in columns]
        for column in read:
            if not isinstance(column.shares, dict):
                raise ValueError("shares must be those of values")
            shares = [*column.shares.values(), column.least]
            if not all(0.0 < float(share) <= 1.0 for share in shares):
                raise ValueError("shares of values must be above 0, and 1 at most")
        return cls(read)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    def compare(
        self, searched: SearchedRecords, pairs: np.ndarray, n_jobs: int | None
    ) -> Compared:
        """Return how far pairs of records agree in each column."""
        records = searched.records
        levels = np.empty((len(pairs), len(self.columns)), dtype=np.int8)
        rarity = np.zeros((len(pairs), len(self.columns)), dtype=np.float32)
        left, right = pairs.T
        for number, column in enumerate(self.columns):
            if column.kind == RANK:
                cosine = records.unit_rows.products(pairs, n_jobs)
                levels[:, number] = of_ranks(searched.by_cosine, pairs, cosine)
                continue
            if column.kind in ("whole record", "words with digits"):
                cosine = records.cosine_of_records(pairs, n_jobs, kind=column.kind)
                levels[:, number] = of_cosines(cosine)
                continue
            texts = records.strings.values(column.name)
            first, second = texts[left], texts[right]
            levels[:, number] = self._levels(
                column, records, pairs, first, second, n_jobs
            )
            are_equal = levels[:, number] == EQUAL
            rarity[are_equal, number] = column.rarity(first[are_equal])
        self._exchange(records, pairs, levels)
        return Compared(levels, rarity)

    def _levels(
        self,
        column: Column,
        records: RecordFeatures,
        pairs: np.ndarray,
        first: np.ndarray,
        second: np.ndarray,
        n_jobs: int | None,
    ) -> np.ndarray:
        if column.kind == "long text":
            levels = of_cosines(records.cosine_of_column(column.name, pairs, n_jobs))
        elif column.kind == "amount":
            amounts = records.strings.amounts(column.name)
            levels = of_amounts(amounts[pairs[:, 0]], amounts[pairs[:, 1]])
        elif column.kind == "code":
            levels = of_codes(first, second, n_jobs)
        else:
            levels = of_letters(first, second, n_jobs)
        levels[first == second] = EQUAL
        levels[(first == "") | (second == "")] = MISSING
        return levels

    def _exchange(
        self, records: RecordFeatures, pairs: np.ndarray, levels: np.ndarray
    ) -> None:
        """Mark where records have the values of two columns the other way round.

        The first of both columns is exchanged, and the second one then says nothing.
        """
        names = [
            (number, records.strings.values(column.name))
            for number, column in enumerate(self.columns)
            if column.kind == "letters"
        ]
        left, right = pairs.T
        for position, (k, first) in enumerate(names):
            for j, second in names[position + 1 :]:
                rows = np.flatnonzero(
                    (levels[:, k] >= UNLIKE - 1) & (levels[:, j] >= UNLIKE - 1)
                )
                is_exchanged = (first[left[rows]] == second[right[rows]]) & (
                    second[left[rows]] == first[right[rows]]
                )
                levels[rows[is_exchanged], k] = EXCHANGED
                levels[rows[is_exchanged], j] = MISSING


class Compared(NamedTuple):
    """How far pairs agree, shape (n_pairs, n_columns).

    `levels` count from equal on, and a missing value is -1. `rarity` is, of equal values,
    the log of how much rarer the value is than equal ones mostly are, and 0 of others.
    """

    levels: np.ndarray
    rarity: np.ndarray

    def take(self, rows: Any) -> Compared:
        """Return some of the pairs."""
        return Compared(self.levels[rows], self.rarity[rows])


def kind_of(texts: Sequence[str], *, is_amount: bool) -> str:
    """Return how the values of a column are compared.

    Examples
    --------
    >>> kind_of(["2600", "2612"], is_amount=True), kind_of(["9.50"], is_amount=True)
    ('code', 'amount')
    >>> kind_of(["anna", "jon"], is_amount=False)
    'letters'
    """
    filled = [text for text in texts if text][:N_LOOKED_AT]
    if not filled:
        return "letters"
    n_points = sum(POINT.search(text) is not None for text in filled)
    if is_amount and n_points >= MIN_POINTS * len(filled):
        return "amount"
    n_codes = sum(CODE.fullmatch(text) is not None for text in filled)
    if n_codes >= MOST * len(filled):
        return "code"
    if np.mean([len(text.split()) for text in filled]) >= LONG_TEXT:
        return "long text"
    return "letters"


def of_letters(first: np.ndarray, second: np.ndarray, n_jobs: int | None) -> np.ndarray:
    """Return the levels of texts by the similarity of Jaro and Winkler."""
    similarity = process.cpdist(
        first,
        second,
        scorer=JaroWinkler.normalized_similarity,
        workers=n_jobs or 1,
        dtype=np.float32,
    )
    return _steps(-similarity, [-edge for edge in LETTERS])


def of_codes(first: np.ndarray, second: np.ndarray, n_jobs: int | None) -> np.ndarray:
    """Return the levels of codes by single edits, of which one may swap two characters.

    Examples
    --------
    >>> codes = np.array(["1980", "1980", "19801201"], dtype=object)
    >>> of_codes(codes, np.array(["1908", "2071", "19781210"], dtype=object), 1).tolist()
    [1, 5, 3]
    """
    edits = process.cpdist(
        first, second, scorer=OSA.distance, workers=n_jobs or 1, dtype=np.int32
    )
    lengths = [max(len(a), len(b)) for a, b in zip(first, second, strict=True)]
    is_other = 2 * edits >= np.array(lengths, dtype=np.int64)
    return np.where(is_other | (edits > MAX_EDITS), DIFFERENT, edits)


def of_amounts(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the levels of amounts by their relative difference."""
    difference = relative_difference(np.nan_to_num(first), np.nan_to_num(second))
    levels = _steps(difference, DIFFERENCES)
    levels[np.isnan(first) | np.isnan(second)] = MISSING
    return levels


def of_cosines(cosine: np.ndarray) -> np.ndarray:
    """Return the levels of cosines, of which NaN is a missing value."""
    levels = _steps(-np.nan_to_num(cosine), [-edge for edge in COSINES])
    levels[np.isnan(cosine)] = MISSING
    return levels


def of_ranks(
    nearest: NearestRecords, pairs: np.ndarray, similarity: np.ndarray
) -> np.ndarray:
    """Return the levels of pairs by their ranks among the nearest records of both.

    A pair that is no candidate has none: that it is not near is known already.
    """
    standing = nearest.standing(pairs, similarity)
    first = np.minimum(standing.rank_left, standing.rank_right)
    levels = np.searchsorted(
        RANKS, np.maximum(standing.rank_left, standing.rank_right), side="left"
    )
    has_any = nearest.neighbors.max(axis=1, initial=-1) >= 0
    is_candidate = (first <= N_CANDIDATES) & has_any[pairs].any(axis=1)
    return np.where(is_candidate, levels, MISSING)


def _steps(distance: np.ndarray, edges: Sequence[float]) -> np.ndarray:
    """Return levels from 1 on, by the largest distance of each."""
    return 1 + np.searchsorted(edges, distance, side="left")


#: Levels of matches before any is seen: nearly all columns agree.
USUAL_MATCH = np.array([0.70, 0.08, 0.06, 0.04, 0.04, 0.05, 0.03])

#: Matches that `USUAL_MATCH` counts as, in each column, and `FIRST_RATE`: else equal
#: records of a few would be no match.
PRIOR_MATCHES = 10.0

#: Random pairs that stand for all pairs that are no candidates.
N_RANDOM = 200_000

#: Candidates that the mixture is fitted to; of more, a random part stands for all.
MAX_CANDIDATES = 200_000

#: A level that no pair of a class has is as frequent as by this part of a random pair.
UNSEEN = 0.5

#: How often matches differ in a column, at the most: so many may be among the pairs that
#: differ in most other columns.
MOST_DIFFERENT = 0.3

#: Matches per record, at the most: as where each thing has thirty records.
MOST_MATCHES = 15.0

#: Rarities that differ by less are one, so that equal patterns of pairs are counted once.
STEP = 0.25

#: Matches per record, before any pair is seen.
FIRST_RATE = 0.5

MAX_ITER = 200

#: The mixture has converged where no probability moves by more.
TOLERANCE = 1e-3

#: Decimals of a probability: more are not known.
N_DECIMALS = 9

#: From these log odds on, the tail of other pairs is measured: less probable ones are
#: many, and of several kinds.
TAIL_START = -5.0

#: Log odds of matches are smoothed by so much, and counted in cells of this width.
SMOOTHING = 2.0
CELL = 0.25

#: The log odds of a mixture may be off by so much before they are compared with pairs: by
#: a factor, and by a sum.
USUAL_SLOPE_ERROR = 1.0
USUAL_ODDS = 3.0


class Sample(NamedTuple):
    """Pairs that stand for all pairs of records.

    `weights` are the numbers of pairs that each stands for.
    """

    pairs: np.ndarray
    weights: np.ndarray


class Doubt(NamedTuple):
    """By what line log odds become less sure: a slope up to 1, an intercept up to 0.

    Log odds below the line stay as they are.
    """

    slope: float = 1.0
    intercept: float = 0.0

    def __call__(self, log_odds: Any) -> Any:
        """Return the log odds that are left."""
        return np.minimum(log_odds, self.slope * log_odds + self.intercept)


class Mixture(NamedTuple):
    """How frequent levels of agreement are in matches and in other pairs.

    Attributes
    ----------
    matches, others : ndarray of shape (n_columns, n_levels)
        Shares of the levels.
    rate : float
        Share of matches among all pairs.
    ties : ndarray of shape (n_ties, 2)
        Columns that depend on each other in pairs that do not match: a tree.
    strength : ndarray of shape (n_ties, n_levels, n_levels)
        The log of how much more frequent two levels are together than by chance, at
        least 0.
    doubt : Doubt
        How much less the evidence of all columns together tells than their sum.
    """

    matches: np.ndarray
    others: np.ndarray
    rate: float
    ties: np.ndarray
    strength: np.ndarray
    doubt: Doubt = Doubt()

    def log_odds(self, compared: Compared) -> np.ndarray:
        """Return the log odds of pairs."""
        return self.doubt(logit(self.rate) + self._counted(compared).sum(axis=1))

    def probability(self, compared: Compared) -> np.ndarray:
        """Return the probability of pairs."""
        return as_probability(self.log_odds(compared))

    @property
    def prior(self) -> float:
        """The log odds of a random pair."""
        return float(self.doubt(logit(self.rate)))

    def evidence(self, compared: Compared) -> np.ndarray:
        """Return what each column adds to the log odds of pairs.

        What is doubted is taken from all columns in proportion.
        """
        counted = self._counted(compared)
        total = counted.sum(axis=1)
        believed = self.doubt(logit(self.rate) + total) - self.prior
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(total == 0.0, self.doubt.slope, believed / total)
        return counted * part[:, None]

    def _counted(self, compared: Compared) -> np.ndarray:
        """Return what each column speaks for, before any doubt.

        A missing value adds nothing. An equal value adds the more the rarer it is. Where
        two columns depend on each other, agreement that comes with the other's does not
        count twice.
        """
        levels, rarity = compared
        columns = np.arange(levels.shape[1])
        is_there = levels >= 0
        log_others = np.log(self.others)
        added = np.log(self.matches) - log_others
        evidence = np.where(is_there, added[columns, levels], 0.0)
        rare = rarity.astype(np.float64)
        rows = np.arange(len(levels))
        for (a, b), strength in zip(self.ties.tolist(), self.strength, strict=True):
            first, second = levels[:, a], levels[:, b]
            chance_a = -log_others[a, first]
            chance_b = -log_others[b, second]
            weaker = np.where(chance_a < chance_b, a, b)
            least = np.minimum(chance_a, chance_b)
            both = is_there[:, a] & is_there[:, b]
            tied = np.where(both, np.minimum(strength[first, second], least), 0.0)
            evidence[rows, weaker] -= tied
            rare[rows, weaker] *= 1.0 - tied / least
        return evidence + rare

    def to_arrays(self) -> Arrays:
        """Return what a file holds."""
        return {
            "matches": self.matches,
            "others": self.others,
            "ties": self.ties,
            "strength": self.strength,
            "rate": np.array([self.rate]),
            "doubt": np.array(self.doubt),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays, n_columns: int) -> Mixture:
        """Return what `to_arrays` was called on; raise ValueError if it is none."""
        shape = (n_columns, N_LEVELS)
        matches = get_array(arrays, "matches", "f", shape)
        others = get_array(arrays, "others", "f", shape)
        ties = get_array(arrays, "ties", "iu", (None, 2))
        strength = get_array(arrays, "strength", "f", (len(ties), N_LEVELS, N_LEVELS))
        [rate] = get_array(arrays, "rate", "f", (1,)).tolist()
        if not (0.0 < rate < 1.0 and (matches > 0.0).all() and (others > 0.0).all()):
            raise ValueError("shares must be larger than 0")
        if ties.size and not 0 <= ties.min() <= ties.max() < n_columns:
            raise ValueError("ties are of columns that are not there")
        slope, intercept = get_array(arrays, "doubt", "f", (2,)).tolist()
        if not (0.0 <= slope <= 1.0 and intercept <= 0.0):
            raise ValueError("doubt must not add to log odds")
        doubt = Doubt(slope, intercept)
        return cls(matches, others, rate, ties.astype(np.int64), strength, doubt)


def as_probability(log_odds: np.ndarray) -> np.ndarray:
    """Return probabilities, to nine decimals."""
    return np.round(expit(log_odds), N_DECIMALS)


def draw_pairs(
    candidates: np.ndarray, n_left: int, n_right: int | None, seed: int
) -> Sample:
    """Return candidates, and random other pairs that stand for all the rest.

    Parameters
    ----------
    candidates : ndarray of shape (n_candidates, 2)
        Each once, the smaller number first; they come first, if not all of them.
    n_left, n_right : int
        Records of both tables; None as `n_right` is one table.
    seed : int
    """
    rng = np.random.default_rng(seed)
    if n_right is None:
        n_pairs = n_left * (n_left - 1) // 2
        others = np.sort(rng.integers(n_left, size=(N_RANDOM, 2)), axis=1)
        others = others[others[:, 0] < others[:, 1]]
        if n_pairs <= N_RANDOM:
            others = np.column_stack(np.triu_indices(n_left, 1))
    else:
        n_pairs = n_left * n_right
        left = rng.integers(n_left, size=N_RANDOM)
        others = np.column_stack([left, n_left + rng.integers(n_right, size=N_RANDOM)])
        if n_pairs <= N_RANDOM:
            left, right = np.divmod(np.arange(n_pairs), n_right)
            others = np.column_stack([left, n_left + right])
    width = n_left + (n_right or 0)
    is_candidate = np.isin(others @ (width, 1), candidates @ (width, 1))
    others = others[~is_candidate]
    n_candidates = len(candidates)
    if n_candidates > MAX_CANDIDATES:
        chosen = rng.choice(n_candidates, MAX_CANDIDATES, replace=False)
        candidates = candidates[np.sort(chosen)]
    sizes = [len(candidates), len(others)]
    stands_for = [n_candidates, n_pairs - n_candidates] / np.maximum(sizes, 1)
    pairs = np.concatenate([candidates, others])
    return Sample(pairs, np.repeat(stands_for, sizes))


def fit_mixture(
    compared: Compared, weights: np.ndarray, answers: np.ndarray, n_records: int
) -> Mixture:
    """Return the mixture that is fitted to pairs, some of which have an answer.

    Columns are first taken as independent. Then pairs that differ in most other columns
    show which ones depend on each other, and the mixture is fitted again.

    Parameters
    ----------
    compared : Compared
    weights : ndarray of shape (n_pairs,)
        Pairs that each stands for.
    answers : ndarray of shape (n_pairs,)
        1 for a match, 0 for a known other pair, NaN where nothing is known.
    n_records : int
    """
    counted = _Patterns.of_pairs(compared, weights, answers)
    n_columns = compared.levels.shape[1]
    no_ties = np.zeros((0, 2), dtype=np.int64)
    no_strength = np.zeros((0, N_LEVELS, N_LEVELS))
    first = Mixture(
        matches=np.tile(USUAL_MATCH, (n_columns, 1)),
        others=counted.shares_of_others(np.nan_to_num(counted.answers)),
        rate=float(np.clip(FIRST_RATE * n_records / counted.total, 1e-12, 0.2)),
        ties=no_ties,
        strength=no_strength,
    )
    independent = counted.fit(first)
    ties, strength = _ties(counted, independent, n_records)
    if len(ties) == 0:
        return independent
    return counted.fit(first._replace(ties=ties, strength=strength))


class _Patterns(NamedTuple):
    """Pairs that agree alike and have the same answer, each kind once.

    `weights` are the numbers of pairs of each kind; `unit` is the number of pairs that
    one random pair stands for.
    """

    compared: Compared
    weights: np.ndarray
    answers: np.ndarray
    unit: float

    @classmethod
    def of_pairs(
        cls, compared: Compared, weights: np.ndarray, answers: np.ndarray
    ) -> _Patterns:
        """Return the kinds of pairs."""
        steps = np.round(compared.rarity / STEP).astype(np.int16)
        sides = np.nan_to_num(answers, nan=2.0)[:, None].astype(np.int16)
        rows = np.column_stack([compared.levels.astype(np.int16), steps, sides])
        rows = np.ascontiguousarray(rows)
        keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
        _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
        return cls(
            Compared(compared.levels[first], steps[first] * STEP),
            np.bincount(kind.ravel(), weights),
            answers[first],
            float(weights.max(initial=1.0)),
        )

    @property
    def total(self) -> float:
        """How many pairs there are."""
        return float(self.weights.sum())

    def fit(self, mixture: Mixture) -> Mixture:
        """Return the mixture of largest likelihood that EM reaches from another one."""
        first_rate = mixture.rate
        is_known = ~np.isnan(self.answers)
        previous = np.zeros(len(self.weights))
        for _ in range(MAX_ITER):
            probability = expit(mixture.log_odds(self.compared))
            probability[is_known] = self.answers[is_known]
            n_matches = self.weights @ probability + PRIOR_MATCHES
            rate = n_matches / (self.total + PRIOR_MATCHES / first_rate)
            mixture = mixture._replace(
                matches=self._shares_of_matches(probability),
                others=self.shares_of_others(probability),
                rate=float(np.clip(rate, 1e-12, 0.5)),
            )
            if abs(probability - previous).max(initial=0.0) < TOLERANCE:
                break
            previous = probability
        return mixture

    def _shares_of_matches(self, probability: np.ndarray) -> np.ndarray:
        counts = self._counts(self.weights * probability) + PRIOR_MATCHES * USUAL_MATCH
        return counts / counts.sum(axis=1, keepdims=True)

    def shares_of_others(self, probability: np.ndarray) -> np.ndarray:
        """Return the shares of levels among pairs that do not match."""
        counts = self._counts(self.weights * (1.0 - probability))
        counts = counts + UNSEEN * self.unit / N_LEVELS
        return counts / counts.sum(axis=1, keepdims=True)

    def _counts(self, weights: np.ndarray) -> np.ndarray:
        """Return how many pairs have each level, by column."""
        rows = []
        for levels in self.compared.levels.T:
            is_there = levels >= 0
            counts = np.bincount(levels[is_there], weights[is_there], N_LEVELS)
            rows.append(counts)
        return np.array(rows)


def _ties(
    counted: _Patterns, mixture: Mixture, n_records: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return columns that depend on each other in pairs that do not match.

    Of two columns, the pairs that differ in most others show it, as few of them match;
    and so do all pairs, where more are alike than can match. As many as may match are
    left out of account. The strongest ties make a tree.
    """
    levels = counted.compared.levels
    n_columns = levels.shape[1]
    strengths = {}
    gains = {}
    for a in range(n_columns):
        for b in range(a + 1, n_columns):
            first, second = levels[:, a], levels[:, b]
            rest = np.delete(levels, [a, b], axis=1)
            n_there = (rest >= 0).sum(axis=1)
            have_both = (first >= 0) & (second >= 0)
            have_rest = have_both & (n_there > 0)
            differ = have_rest & (2 * (rest >= UNLIKE).sum(axis=1) > n_there)
            share = binom.sf(n_there // 2, n_there, MOST_DIFFERENT)
            n_differing = mixture.rate * (counted.weights * have_rest) @ share
            of_some = _strength(counted, (first, second), differ, n_differing)
            n_matches = MOST_MATCHES * n_records
            of_all = _strength(counted, (first, second), have_both, n_matches)
            strengths[a, b] = np.maximum(of_some, of_all)
            codes = first[have_both].astype(np.int64) * N_LEVELS + second[have_both]
            gains[a, b] = counted.weights[have_both] @ strengths[a, b].ravel()[codes]
    group = np.arange(n_columns)
    ties = []
    for a, b in sorted(gains, key=gains.__getitem__, reverse=True):
        if group[a] != group[b] and gains[a, b] > 0.0:
            ties.append((a, b))
            group[group == group[b]] = group[a]
    return (
        np.array(ties, dtype=np.int64).reshape(-1, 2),
        np.array([strengths[tie] for tie in ties]).reshape(-1, N_LEVELS, N_LEVELS),
    )


def _strength(
    counted: _Patterns,
    columns: tuple[np.ndarray, np.ndarray],
    rows: np.ndarray,
    n_matches: float,
) -> np.ndarray:
    """Return the log of how much more often levels come together than by chance.

    Among some kinds of pairs, of which no more than `n_matches` match.
    """
    first = columns[0][rows].astype(np.int64)
    second = columns[1][rows].astype(np.int64)
    codes = first * N_LEVELS + second
    counts = np.bincount(codes, counted.weights[rows], N_LEVELS**2)
    counts = counts.reshape(N_LEVELS, N_LEVELS)
    total = max(counts.sum(), 1e-12)
    by_chance = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / total
    others = np.maximum(counts - n_matches * np.outer(USUAL_MATCH, USUAL_MATCH), 0.0)
    ratio = (others + counted.unit) / (by_chance + counted.unit)
    return np.log(np.maximum(ratio, 1.0))


def doubt_of_tail(
    log_odds: np.ndarray, weights: np.ndarray, answers: np.ndarray
) -> Doubt:
    """Return how far log odds are to be believed, by how other pairs thin out.

    Of pairs that do not match, the fewer there are the larger their log odds: from
    `TAIL_START` on, by the same factor for each unit. If columns are counted twice, this
    tail is long, and does not end where the mixture says that matches begin. So it is
    fitted together with matches, whose log odds may be distributed in any smooth way, by
    EM. What is left to matches gives the line that corrects the log odds; they never
    become surer.

    Parameters
    ----------
    log_odds : ndarray of shape (n_pairs,)
        Of candidates and known pairs, by a mixture.
    weights : ndarray of shape (n_pairs,)
        Pairs that each stands for.
    answers : ndarray of shape (n_pairs,)
        1 for a match, 0 for a known other pair, NaN where nothing is known.
    """
    rows = log_odds >= TAIL_START
    if not rows.any():
        return Doubt()
    cell = ((log_odds[rows] - TAIL_START) / CELL).astype(np.int64)
    n_cells = int(cell.max()) + 1
    above = (np.arange(n_cells) + 0.5) * CELL
    weights = weights[rows]
    answers = answers[rows]

    def counted(parts: np.ndarray) -> np.ndarray:
        return np.bincount(cell, weights * parts, n_cells)

    is_unknown = np.isnan(answers)
    unknown = counted(is_unknown)
    known_matches = counted(answers == 1.0)
    known_others = counted(answers == 0.0)
    share = expit(above + TAIL_START)
    for _ in range(MAX_ITER):
        previous = share
        matches = known_matches + share * unknown
        others = known_others + (1.0 - share) * unknown
        n_others = max(others.sum(), 1e-12)
        decay = n_others / max(others @ above, 1e-12)
        tail = n_others * decay * CELL * np.exp(-decay * above)
        smooth = gaussian_filter1d(matches, SMOOTHING / CELL, mode="constant")
        share = smooth / np.maximum(smooth + tail, 1e-300)
        if abs(share - previous).max() < TOLERANCE:
            break
    matches = known_matches + share * unknown
    total = unknown + known_matches + known_others

    def loss(line: np.ndarray) -> float:
        slope, intercept = line
        error = ((slope - 1.0) / USUAL_SLOPE_ERROR) ** 2
        error += (intercept / np.log(USUAL_ODDS)) ** 2
        corrected = slope * (above + TAIL_START) + intercept
        of_cells = total * np.logaddexp(0.0, corrected) - matches * corrected
        return float(of_cells.sum() + 0.5 * error)

    bounds = [(0.0, 1.0), (None, 0.0)]
    slope, intercept = minimize(loss, (1.0, 0.0), bounds=bounds).x
    return Doubt(float(slope), float(intercept))
