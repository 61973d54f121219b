"""Pairwise coverings: few combinations of parameters in which every pair of values occurs."""

from itertools import combinations, product


def pairwise(*values, allowed=lambda *row: True):
    """Return combinations of the values that hold every pair of values of two parameters.

    Greedy, so the combinations are few but not always the fewest; always the same ones.

    Parameters
    ----------
    *values : iterables
        The values of each parameter.
    allowed : callable
        Whether a combination makes sense. Pairs that no such combination holds are left
        out.

    Returns
    -------
    list of tuples, one value per parameter, as `pytest.mark.parametrize` takes them

    Examples
    --------
    >>> pairwise("ab", [1, 2], [True, False])
    [('a', 1, True), ('a', 2, False), ('b', 1, False), ('b', 2, True)]
    """
    values = [list(choices) for choices in values]
    pairs = {}
    for numbers in product(*(range(len(choices)) for choices in values)):
        numbered = zip(values, numbers, strict=True)
        row = tuple(choices[number] for choices, number in numbered)
        if allowed(*row):
            pairs[row] = set(combinations(enumerate(numbers), min(2, len(values))))
    missing = set().union(*pairs.values())
    chosen = []
    while missing:
        row = max(pairs, key=lambda row: len(pairs[row] & missing))
        missing -= pairs[row]
        chosen.append(row)
    return chosen
