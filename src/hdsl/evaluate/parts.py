"""Parts of the data to learn from, and what measures on the rest of them, by the goal."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..input.errors import NoTripletError
from ..rows import Rows, sparse_block, stack_rows
from ..supervision.compared_rows import (
    MOST_PER_ANCHOR,
    ComparedRows,
    Miner,
    Supervision,
)
from ..supervision.labeled_rows import MOST_MINED, LabeledRows
from ..triplets.mining import mixed
from ..triplets.rows import CLICKS, JUDGED
from ..wide_matrices import drop_unused_columns
from .comparisons import position_power
from .measures import (
    COMPARISONS,
    FEWEST_QUERIES,
    MOST_QUERIES,
    MOST_SCORES,
    NEIGHBORS,
    SEARCH,
    HeldOutClicks,
    HeldOutComparisons,
    JudgedSearch,
    KnownRows,
    Measure,
    NeighborVotes,
    Units,
    search_by_comparisons,
)

#: Most units to learn from and to choose by: a part is enough to tell priors apart, to a
#: percent, in the time of a fit.
MOST_TRAIN = 3000

#: Of very many anchors such a share learns: what a smaller one teaches says little of what
#: all teach, since features are rare.
LEAST_SHARE = 0.01

MOST_HELD_OUT = 1500

#: Most held-out comparisons that are judged: their share is known to a third of a percent.
MOST_JUDGED = 20_000

#: Turns of a split are made until so many units were held out: their mean is then known
#: to about a percent.
ENOUGH_HELD_OUT = 1000

#: Few data are learned from nearly all at once, in several turns: as many as learn from so
#: many comparisons in all, as many as a thousand labelled rows make.
ENOUGH_LEARNED = 1000 * MOST_MINED**2

MOST_TURNS = 5

#: A part learns from so many comparisons, if there are as many.
LEAST_LEARNED = 5000

#: The share of many comparisons that a part learns from, as of those that labels make.
SHARE_LEARNED = 0.25

#: Rows are put in an order of their own up to so many: of more a sample is chosen on in
#: any case.
MOST_ORDERED = 20_000

# --- goals ----------------------------------------------------------------------------


def goal_of(goal: str, data: Supervision) -> str:
    """Return what a model is for: as it says, or what its supervision asks for."""
    has_labels = isinstance(data, LabeledRows)
    if goal == "auto":
        if has_labels:
            return NEIGHBORS
        assert isinstance(data, ComparedRows)
        if data.judgements is not None and data.judgements.kind in (JUDGED, CLICKS):
            return SEARCH
        return COMPARISONS
    if goal == NEIGHBORS and not has_labels:
        raise ValueError(
            "goal='neighbors' is measured by labels, but fit got comparisons: use "
            "goal='comparisons' or 'search', or 'auto'."
        )
    if goal == COMPARISONS and has_labels:
        raise ValueError(
            "goal='comparisons' is measured by comparisons, but fit got labels: use "
            "goal='neighbors' or 'search', or 'auto'."
        )
    return goal


# --- parts of the data ----------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A part of the data to learn from, and what is measured on the rest.

    Parameters
    ----------
    train : ComparedRows
    measure : Measure
        That of the goal.
    others : list of callable
        Each makes a measure of a side effect, which decides nothing.
    share : float
        The share of the units that is held out; 0 for validation data.
    """

    train: ComparedRows
    measure: Measure
    others: list[Callable[[], Measure | None]]
    share: float


def in_own_order(data: Any) -> tuple[Any, np.ndarray]:
    """Return data in an order of rows and columns that their values give, and a key per row.

    Names of labels, and the order in which rows and columns come, then change nothing.
    """
    data = replace(data, X=_without_unused_columns(data.X))
    rows, columns, keys = orders_of_their_own(data.X)
    return data.reordered(rows, columns), keys[rows]


def _without_unused_columns(X: Any) -> Any:
    """Return rows on the columns that they use where there are far more, as hashing makes."""
    (features,), columns = drop_unused_columns(sparse_block(X))
    if columns is None:
        return X
    if isinstance(X, Rows):
        return Rows(features, X.dense)
    return features


def make_parts(
    model: Any,
    data: Any,
    validation: Any,
    rng: np.random.Generator,
) -> list[Part]:
    """Return parts to learn from and to choose by; none where the data are too few.

    They are several turns of a split where units are few, else one split. Given
    validation data replace the split.
    """
    goal = goal_of(model.goal, data)
    if validation is not None:
        held_out = validation.sample(MOST_HELD_OUT, rng)
        units = held_out.units(np.arange(held_out.X.shape[0]))
        data = data.present()
        train = data.sample(_n_train(data), rng)
        return _that_measure([_part(model, goal, train, held_out, units, 0.0, rng)])
    if callable(model.mining):
        # What a function makes of a part of the rows may differ from what it makes of
        # all: its comparisons are split as if a person had judged.
        data = replace(data.compare(Miner.of(model), rng), is_mined=False)
        goal = COMPARISONS if goal == NEIGHBORS else goal
    data = data.present()
    n_train = _n_train(data)
    n_learned = max(LEAST_LEARNED, round(SHARE_LEARNED * data.n_comparisons))
    if data.X.shape[0] > MOST_ORDERED:
        data = _smaller(data, goal, n_train, rng)
    keys = np.arange(data.X.shape[0])
    if data.X.shape[0] <= MOST_ORDERED:
        data, keys = in_own_order(data)
    if isinstance(data, ComparedRows):
        data = data.with_fewer(MOST_PER_ANCHOR * (n_train + MOST_HELD_OUT), rng)
    units = data.units(keys)
    n_units = int(units.max(initial=-1)) + 1
    if not data.is_enough(n_units):
        return []
    share = held_out_share(model.validation_fraction, data, n_learned)
    parts: list[Part] = []
    n_held_out = 0
    for is_held_out in turns(units, share, rng, data.classes_of_units()):
        train, held_out, chosen = data.split(is_held_out)
        if not (train.can_teach() and held_out.can_judge()):
            continue
        # A part may have rows of too few classes left to compare. What is warned of a
        # part does not hold for all rows.
        with suppress(NoTripletError), warnings.catch_warnings(action="ignore"):
            part = _part(
                model,
                goal,
                train.sample(n_train, rng).with_fewer(n_learned, rng),
                held_out,
                units[chosen],
                share,
                rng,
            )
            parts.append(part)
            n_held_out += len(np.unique(part.measure.units.numbers))
        if n_held_out >= ENOUGH_HELD_OUT:
            break
    return _that_measure(parts)


def _that_measure(parts: list[Part]) -> list[Part]:
    """Return parts that measure two units or more, else none: one says nothing of chance."""
    units = [part.measure.units for part in parts]
    numbers = {number for of in units for number in of.numbers[of.weights > 0].tolist()}
    return parts if len(numbers) > 1 else []


def _n_train(data: Any) -> int:
    """Return how many units learn at most."""
    if isinstance(data, LabeledRows):
        return MOST_TRAIN
    return max(MOST_TRAIN, round(LEAST_SHARE * len(data.anchors)))


def _smaller(data: Any, goal: str, n_train: int, rng: np.random.Generator) -> Any:
    """Return a sample of many rows that is large enough for each part; a search sees all."""
    if isinstance(data, LabeledRows):
        return data.sample(MOST_ORDERED, rng)
    if goal == COMPARISONS and data.groups is None:
        return data.sample(n_train + MOST_HELD_OUT, rng)
    return data


def held_out_share(most: float, data: Any, n_learned: int) -> float:
    """Return the share of the units that each turn holds out: few where data are few.

    Of comparisons a turn learns from `n_learned` at most; those of labels are mined.
    """
    n_of_a_turn = data.n_comparisons
    if isinstance(data, ComparedRows):
        n_of_a_turn = min(n_of_a_turn, n_learned)
    return min(most, 1.0 / min(MOST_TURNS, max(1, ENOUGH_LEARNED // n_of_a_turn)))


def _part(
    model: Any,
    goal: str,
    train: Any,
    held_out: Any,
    units: np.ndarray,
    share: float,
    rng: np.random.Generator,
) -> Part:
    """Return one part, with what its held-out data measure."""
    if isinstance(held_out, LabeledRows):
        measure, others = _measures_of_labels(goal, train, held_out, units, rng)
    else:
        options = {"n_jobs": model.n_jobs, "device": model.device}
        measure, others = _measures_of_comparisons(goal, held_out, units, rng, options)
    if measure is None:
        raise NoTripletError(
            f"goal={goal!r} cannot be measured on the held-out data: take another goal."
        )
    miner = Miner.of(model).with_at_most(MOST_MINED)
    return Part(train.compare(miner, rng), measure, others, share)


Measures = tuple[Measure | None, list[Callable[[], Measure | None]]]


def _measures_of_labels(
    goal: str, train: Any, held_out: Any, units: np.ndarray, rng: np.random.Generator
) -> Measures:
    """Return the measure of the goal on held-out rows with labels, and the others."""
    n_rows = held_out.X.shape[0]
    if n_rows > MOST_HELD_OUT:
        chosen = np.sort(rng.choice(n_rows, MOST_HELD_OUT, replace=False))
        held_out = held_out.take(chosen)
        units = units[chosen]
    weights = held_out.weights
    if weights is None:
        weights = np.ones(len(units))
    (half_rng,) = rng.spawn(1)

    def votes() -> Measure:
        return NeighborVotes(
            train.X, train.y, held_out.X, held_out.y, Units(units, weights)
        )

    def known() -> Measure | None:
        X = stack_rows(held_out.X, train.X)
        if not sparse_block(X).shape[1]:
            return None  # half of a vector is no query
        return KnownRows(X, np.arange(len(units)), units, half_rng)

    if goal == SEARCH:
        return known(), [votes]
    return votes(), [known]


def _measures_of_comparisons(
    goal: str,
    held_out: ComparedRows,
    units: np.ndarray,
    rng: np.random.Generator,
    options: dict[str, Any],
) -> Measures:
    """Return the measure of the goal on held-out comparisons, and the others."""
    (half_rng,) = rng.spawn(1)
    X = held_out.X
    judgements = held_out.judgements
    documents = held_out.documents
    unit_of_row = np.zeros(X.shape[0], dtype=np.int64)
    unit_of_row[held_out.compared[:, 0]] = units
    is_searched = np.zeros(X.shape[0], dtype=bool)
    anchors = np.unique(held_out.compared[:, 0])
    is_clicked = (
        judgements is not None
        and judgements.kind == CLICKS
        and judgements.shown is not None
    )
    n_most = max(FEWEST_QUERIES, min(MOST_QUERIES, MOST_SCORES // X.shape[0]))
    if len(anchors) > n_most and not is_clicked:
        anchors = np.sort(rng.choice(anchors, n_most, replace=False))
    is_searched[anchors] = True

    def hold() -> Measure:
        chosen: Any = slice(None)
        if len(units) > MOST_JUDGED:
            chosen = np.sort(rng.choice(len(units), MOST_JUDGED, replace=False))
        weights = np.ones(len(units))
        if held_out.weights is not None:
            weights = held_out.weights
        return HeldOutComparisons(
            X, held_out.compared[chosen], Units(units[chosen], weights[chosen])
        )

    def known() -> Measure:
        return KnownRows(X, anchors, unit_of_row[anchors], half_rng)

    def searched() -> Measure | None:
        if (
            judgements is not None
            and judgements.kind == CLICKS
            and judgements.shown is not None
        ):
            lines = judgements.shown.take(is_searched[judgements.shown.queries])
            power = position_power(judgements.shown)
            clicks = HeldOutClicks(X, lines, power, unit_of_row)
            return clicks if len(clicks.units.weights) else None
        if held_out.compared.shape[1] != 3:
            return known()
        if judgements is not None and judgements.grades is not None:
            grades = judgements.grades
            chosen = is_searched[grades.queries]
            return JudgedSearch(
                X,
                np.arange(X.shape[0]) if documents is None else documents,
                grades.queries[chosen],
                grades.documents[chosen],
                grades.grades[chosen],
                unit_of_row=unit_of_row,
                **options,
            )
        is_chosen = is_searched[held_out.compared[:, 0]]
        chosen_weights = held_out.weights
        if chosen_weights is not None:
            chosen_weights = chosen_weights[is_chosen]
        return search_by_comparisons(
            X,
            held_out.compared[is_chosen],
            chosen_weights,
            documents,
            unit_of_row=unit_of_row,
            **options,
        )

    if goal == SEARCH:
        return searched(), [hold, known]
    return hold(), [searched, known]


#: Values are told apart by so many binary digits: their last ones are rounding, which
#: the order of the columns moves.
VALUE_BITS = 30


#: Shares are rounded to fractions with at most this denominator, which are exact.
MOST_DENOMINATOR = 10**6


def orders_of_their_own(X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return an order of the rows, one of the columns, and a key per row, from the values alone.

    However the rows and the columns of X are ordered, ``X[rows][:, columns]`` is the same
    matrix, up to rows or columns that look alike. Keys of equal rows are equal.

    Parameters
    ----------
    X : csr_array or Rows of shape (n_rows, n_columns)
        The columns of a dense block keep their order.

    Examples
    --------
    >>> X = sp.csr_array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    >>> Y = X[[1, 0]][:, [2, 0, 1]]
    >>> rows, columns, keys = orders_of_their_own(X)
    >>> other_rows, other_columns, _ = orders_of_their_own(Y)
    >>> (X[rows][:, columns] != Y[other_rows][:, other_columns]).nnz
    0
    """
    features = sp.csr_array(X.sparse if isinstance(X, Rows) else X)
    n_rows, n_columns = features.shape
    row_numbers = np.repeat(np.arange(n_rows), np.diff(features.indptr))
    column_numbers = features.indices
    values = mixed(_words(features.data))
    by_row = _sums(values, row_numbers, n_rows)
    by_column = _sums(mixed(values ^ by_row[row_numbers]), column_numbers, n_columns)
    keys = _sums(mixed(values ^ by_column[column_numbers]), row_numbers, n_rows)
    if isinstance(X, Rows) and X.dense.shape[1]:
        places = mixed(np.arange(1, X.dense.shape[1] + 1, dtype=np.uint64))
        keys = keys + mixed(_words(X.dense) ^ places).sum(axis=1, dtype=np.uint64)
    rows = np.argsort(mixed(keys), kind="stable")
    columns = np.argsort(by_column, kind="stable")
    return rows, columns, keys


def _words(values: np.ndarray) -> np.ndarray:
    """Return values as numbers of 64 bits, without the digits that are rounding."""
    fraction, exponent = np.frexp(values.astype(np.float64))
    digits = np.rint(np.ldexp(fraction, VALUE_BITS)).astype(np.int64)
    # 0.5 with an exponent is 1.0 with the one before, to which rounding may lead.
    is_next = np.abs(digits) == 1 << VALUE_BITS
    digits = np.where(is_next, digits >> 1, digits)
    exponents = exponent.astype(np.int64) + is_next
    return ((exponents << 40) ^ digits).view(np.uint64)


def _sums(words: np.ndarray, numbers: np.ndarray, n: int) -> np.ndarray:
    """Return the sum of the words of each number, modulo 2**64: in any order the same."""
    sums = np.zeros(n, dtype=np.uint64)
    np.add.at(sums, numbers, words)
    return sums


def turns(
    units: np.ndarray,
    fraction: float,
    rng: np.random.Generator,
    classes: np.ndarray | None = None,
) -> Iterator[np.ndarray]:
    """Yield a mask of what is held out in each turn, whole units of about an equal share.

    There are about as many turns as the share goes into 1: for a third and for a quarter
    each unit has one turn. Each class gives its share.

    Parameters
    ----------
    units : ndarray of int of shape (n,)
        Numbers of units from 0.
    fraction : float
        The share that is held out, between 0 and 1.
    rng : numpy.random.Generator
    classes : ndarray of int of shape (n,), default=None

    Examples
    --------
    >>> units = np.array([0, 0, 1, 2])
    >>> masks = [*turns(units, 1 / 3, np.random.default_rng(0))]
    >>> sum(mask.astype(int) for mask in masks).tolist()
    [1, 1, 1, 1]
    >>> all(mask[0] == mask[1] for mask in masks)
    True
    """
    n_units = int(units.max(initial=-1)) + 1
    class_of_unit = np.zeros(n_units, dtype=np.int64)
    if classes is not None:
        class_of_unit[units[::-1]] = classes[::-1]
    order = np.lexsort((rng.random(n_units), class_of_unit))
    positions = np.empty(n_units, dtype=np.int64)
    positions[order] = np.arange(n_units)  # consecutive along the classes
    share = Fraction(fraction).limit_denominator(MOST_DENOMINATOR)
    for turn in range(max(1, round(1.0 / fraction))):
        steps = (positions - turn) * share.numerator % share.denominator
        is_held_out = steps < share.numerator
        yield is_held_out[units]
