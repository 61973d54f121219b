"""Generated lists of people: 2 to 30 records each, nicknames, swapped and missing values."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

import numpy as np

SUBSETS_OF_LISTS = (
    "given surname birth town occupation postcode",
    "given surname town postcode",
    "given surname birth",
    "given surname birth occupation",
)

#: Persons of a list, and the most records of one.
SIZES = {"list10": (200, 10), "list30": (60, 30)}

NICKNAMES = {
    "alexander": ("alex", "sandy"),
    "andrew": ("andy", "drew"),
    "anthony": ("tony",),
    "charles": ("charlie", "chuck"),
    "edward": ("ted", "ed"),
    "elizabeth": ("liz", "beth", "betty"),
    "james": ("jim", "jimmy"),
    "john": ("jack", "johnny"),
    "katherine": ("kate", "kathy"),
    "margaret": ("peggy", "maggie"),
    "michael": ("mike", "mick"),
    "patricia": ("pat", "trish"),
    "richard": ("dick", "rick"),
    "robert": ("bob", "rob"),
    "samuel": ("sam",),
    "susan": ("sue",),
    "thomas": ("tom",),
    "william": ("bill", "will"),
}

SYLLABLES = (
    *("ba", "by", "del", "ford", "ham", "ing", "ker", "ley", "lin", "mar"),
    *("mo", "ra", "sen", "shu", "ton", "tor", "vel", "wi", "zan"),
)

LETTERS = "abcdefghijklmnopqrstuvwxyz"
DIGITS = "0123456789"

#: Shares of the records with each kind of fault; of a value, typing errors and gaps.
NICKNAMED = 0.25
MOVED = 0.1
OTHER_WORK = 0.2
SWAPPED = 0.05
MISTYPED = 0.12
MISSING = 0.1


def make_list(name: str) -> dict[str, list[str]]:
    """Return a table of people; the id of a record begins with the person's number."""
    n_persons, most = SIZES[name]
    rng = np.random.default_rng(n_persons)
    surnames = [_word(rng, 2 + k % 2) for k in range(400)]
    towns = [f"{_word(rng, 2)}{rng.choice(['ton', 'ham', ' bay'])}" for _ in range(60)]
    works = [f"{_word(rng, 3)}er" for _ in range(40)]
    given = [*NICKNAMES, *(_word(rng, 2) for _ in range(100))]
    postcode = {town: str(1000 + 7 * k) for k, town in enumerate(towns)}
    records = []
    for person in range(n_persons):
        first = _common(rng, given)
        last = _common(rng, surnames)
        home = _common(rng, towns)
        work = rng.choice(works)
        birth = f"{rng.integers(1930, 2005)}-{rng.integers(1, 13):02}-{rng.integers(1, 29):02}"
        for copy in range(rng.integers(2, most + 1)):
            name_used = first
            if first in NICKNAMES and rng.random() < NICKNAMED:
                name_used = rng.choice(NICKNAMES[first])
            town = _common(rng, towns) if rng.random() < MOVED else home
            job = rng.choice(works) if rng.random() < OTHER_WORK else work
            values = [name_used, last, birth, town, job, postcode[town]]
            values = [_mistyped(rng, str(value)) for value in values]
            if rng.random() < SWAPPED:
                values[:2] = values[1::-1]
            values = ["" if rng.random() < MISSING else value for value in values]
            records.append([f"{person}-{copy}", *values])
    order = rng.permutation(len(records)).tolist()
    names = ("id", *SUBSETS_OF_LISTS[0].split())
    columns = zip(*(records[row] for row in order), strict=True)
    return {name: [*column] for name, column in zip(names, columns, strict=True)}


def pairs_of_one_person(ids: list[str]) -> set[tuple[str, str]]:
    """Return all pairs of ids of one person, the smaller one first.

    Examples
    --------
    >>> sorted(pairs_of_one_person(["7-0", "8-0", "7-1", "rec-3-org", "rec-3-dup"]))
    [('7-0', '7-1'), ('rec-3-dup', 'rec-3-org')]
    """
    records = defaultdict(list)
    for key in ids:
        parts = key.split("-")
        records[parts[1] if parts[0] == "rec" else parts[0]].append(key)
    return {pair for same in records.values() for pair in combinations(sorted(same), 2)}


def _word(rng: np.random.Generator, n_syllables: int) -> str:
    return "".join(rng.choice(SYLLABLES, n_syllables))


def _common(rng: np.random.Generator, values: list[str]) -> str:
    """Return a value, the first ones more often."""
    weights = np.arange(1, len(values) + 1) ** -0.8
    return str(rng.choice(values, p=weights / weights.sum()))


def _mistyped(rng: np.random.Generator, text: str) -> str:
    """Return a text, sometimes with a character changed, missing, added or swapped."""
    if rng.random() >= MISTYPED:
        return text
    k = int(rng.integers(len(text)))
    other = rng.choice([*(DIGITS if text[0].isdecimal() else LETTERS)])
    faults = (
        text[:k] + other + text[k + 1 :],
        text[:k] + text[k + 1 :],
        text[:k] + other + text[k:],
        text[:k] + text[k + 1 : k + 2] + text[k : k + 1] + text[k + 2 :],
    )
    return str(rng.choice(faults))
