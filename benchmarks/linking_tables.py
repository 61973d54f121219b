"""Generated tables of records to link: products and people, with typing errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: Things of a family share all naming words but one.
FAMILY = 4

#: Words of a record: those that name it, and those that any record may have.
N_NAMING = 5
N_COMMON = 6

#: Words that name records, per thousand records, and words that any record may have.
NAMING_PER_THOUSAND = 60
LEAST_NAMING = 400
N_COMMON_WORDS = 600

#: Share of words that a copy has mistyped, leaves out, or has others for.
MISTYPED = 0.15
LEFT_OUT = 0.2
REPLACED = 0.1

#: Share of the records of a table that are copies, where duplicates are looked for.
SHARE_OF_COPIES = 0.3

LETTERS = np.array([*"abcdefghijklmnopqrstuvwxyz"])
CONSONANTS = np.array([*"bcdfghjklmnprstvwz"])
VOWELS = np.array([*"aeiou"])

Table = dict[str, list[str]]


class Records(NamedTuple):
    """Tables as columns of texts, and the pairs of rows that are one thing.

    `right` is None where duplicates are looked for in `left`.
    """

    left: Table
    right: Table | None
    matches: np.ndarray


def two_tables(n_rows: int, seed: int = 0) -> Records:
    """Return two tables in which each record of one has its copy in the other."""
    rng = np.random.default_rng(seed)
    things = _Things(n_rows, rng)
    order = rng.permutation(n_rows)
    return Records(
        left=things.table(np.arange(n_rows), is_copy=np.zeros(n_rows, dtype=bool)),
        right=things.table(order, is_copy=np.ones(n_rows, dtype=bool)),
        matches=np.column_stack([order, np.arange(n_rows)]),
    )


def one_table(n_rows: int, seed: int = 0) -> Records:
    """Return a table in which some records are copies of others."""
    rng = np.random.default_rng(seed)
    n_copies = int(SHARE_OF_COPIES * n_rows)
    n_things = n_rows - n_copies
    things = _Things(n_things, rng)
    copied = rng.choice(n_things, n_copies, replace=False)
    order = rng.permutation(n_rows)
    row_of = np.empty(n_rows, dtype=np.int64)
    row_of[order] = np.arange(n_rows)
    numbers = np.concatenate([np.arange(n_things), copied])[order]
    matches = np.column_stack([row_of[copied], row_of[n_things:]])
    return Records(things.table(numbers, is_copy=order >= n_things), None, matches)


class _Things:
    """What records stand for: words, a code, and a price, each written in some way."""

    def __init__(self, n_things: int, rng: np.random.Generator) -> None:
        self._rng = rng
        n_words = LEAST_NAMING + NAMING_PER_THOUSAND * n_things // 1000
        self._words = np.concatenate(
            [_new_words(rng, n_words), _new_words(rng, N_COMMON_WORDS)]
        )
        n_families = 1 + n_things // FAMILY
        naming = _frequent_first(rng, n_words, (n_families, N_NAMING))
        naming = naming[rng.integers(n_families, size=n_things)]
        naming[:, -1] = _frequent_first(rng, n_words, n_things)
        common = _frequent_first(rng, N_COMMON_WORDS, (n_things, N_COMMON))
        self._n_naming = n_words
        self._numbers = np.concatenate([naming, n_words + common], axis=1)
        self._codes = rng.integers(10**5, size=n_things)
        self._prices = rng.integers(500, 100_000, size=n_things)

    def table(self, things: np.ndarray, *, is_copy: np.ndarray) -> Table:
        """Return records of things, of which copies have errors."""
        rng = self._rng
        numbers = self._numbers[things].copy()
        chance = rng.random(numbers.shape)
        is_replaced = is_copy[:, None] & (chance < REPLACED)
        others = rng.integers(len(self._words), size=numbers.shape)
        numbers[is_replaced] = others[is_replaced]
        words = self._words[numbers].astype(object)
        is_mistyped = is_copy[:, None] & (rng.random(numbers.shape) < MISTYPED)
        words[is_mistyped] = [_mistyped(word, rng) for word in words[is_mistyped]]
        is_kept = ~(is_copy[:, None] & (rng.random(numbers.shape) < LEFT_OUT))
        order = np.argsort(rng.random(numbers.shape) + ~is_copy[:, None], axis=1)
        order[~is_copy] = np.arange(numbers.shape[1])
        words = np.take_along_axis(words, order, axis=1)
        is_kept = np.take_along_axis(is_kept, order, axis=1)
        codes = [f"{LETTERS[code % 26]}{code // 26}" for code in self._codes[things]]
        is_mistyped = is_copy & (rng.random(len(things)) < LEFT_OUT)
        codes = [
            _mistyped(code, rng) if mistyped else code
            for code, mistyped in zip(codes, is_mistyped, strict=True)
        ]
        titles = [
            " ".join(
                [code, *(word for word, kept in zip(record, keep, strict=True) if kept)]
            )
            for code, record, keep in zip(codes, words.tolist(), is_kept, strict=True)
        ]
        prices = self._prices[things] + is_copy * rng.integers(-200, 200, len(things))
        return {"title": titles, "price": [f"{price / 100:.2f}" for price in prices]}


def _new_words(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return words of two to four syllables."""
    syllables = np.char.add(rng.choice(CONSONANTS, (n, 4)), rng.choice(VOWELS, (n, 4)))
    syllables[rng.random(n) < 0.6, 3] = ""
    syllables[rng.random(n) < 0.3, 2] = ""
    words = syllables[:, 0]
    for column in syllables.T[1:]:
        words = np.char.add(words, column)
    return np.char.add(words, rng.choice(CONSONANTS, n))


def _frequent_first(
    rng: np.random.Generator, n: int, shape: int | tuple[int, int]
) -> np.ndarray:
    """Return numbers below n, of which the first ones are frequent, as in Zipf's law."""
    frequency = 1.0 / np.arange(20, n + 20)
    return rng.choice(n, size=shape, p=frequency / frequency.sum())


def _mistyped(word: str, rng: np.random.Generator) -> str:
    """Return a word with one letter changed, left out, or doubled."""
    position = int(rng.integers(len(word)))
    letter = word[position]
    written = ["", letter + letter, str(rng.choice(LETTERS))][rng.integers(3)]
    return word[:position] + written + word[position + 1 :]
