"""A table of people, of whom some stand in it several times, with typing errors."""

import itertools

import numpy as np

SYLLABLES = ("ba", "ker", "lin", "mo", "ra", "sen", "tor", "vel", "wi", "zan")
COLUMNS = ("given", "surname", "street", "suburb", "postcode", "birth")


def make_people(n=150, seed=0, n_most=4):
    """A table with an id per record, and all pairs of ids that are one person."""
    rng = np.random.default_rng(seed)
    records = []
    for person in range(n):
        values = _person(rng)
        for copy in range(rng.integers(1, n_most + 1)):
            texts = [_mistyped(text, rng) if copy else text for text in values]
            records.append((f"{person}-{copy}", *texts))
    order = rng.permutation(len(records))
    columns = zip(*(records[row] for row in order), strict=True)
    names = ("id", *COLUMNS)
    table = {name: [*column] for name, column in zip(names, columns, strict=True)}
    return table, matches_of(table["id"])


def matches_of(ids):
    """All pairs of ids of one person, the smaller one first."""
    return {
        (a, b)
        for a, b in itertools.combinations(sorted(ids), 2)
        if a.split("-")[0] == b.split("-")[0]
    }


def _person(rng):
    def word():
        return "".join(rng.choice(SYLLABLES, 3))

    return (
        word(),
        word(),
        f"{rng.integers(1, 200)} {word()} street",
        word(),
        str(rng.integers(1000, 9999)),
        f"{rng.integers(1930, 2005)}{rng.integers(101, 1229):04}",
    )


def _mistyped(text, rng):
    """A text with a letter changed in one of three, and none in one of ten."""
    chance = rng.random()
    if chance < 0.1:
        return ""
    if chance < 0.4:
        position = rng.integers(len(text))
        return text[:position] + rng.choice([*"aeiost"]) + text[position + 1 :]
    return text
