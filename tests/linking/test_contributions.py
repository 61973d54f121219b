"""What pushed a probability: parts that add up, and that know what counts."""

import numpy as np
import pytest
from scipy.special import expit, logit

from hdsl.linking import Linker
from hdsl.linking.reasons import Group, contributions, groups_of
from products import make_tables


@pytest.fixture
def linear():
    """Log odds that are a sum have known parts."""
    rng = np.random.default_rng(0)
    weights = np.array([1.0, -0.5, 0.0, 0.3])
    background = rng.normal(size=(50, 4))
    groups = [Group("a", [0, 2], ["p", "q"]), Group("b", [1], ["r"])]
    groups.append(Group("c", [3], ["s"]))
    return weights, background, groups


def test_parts_and_base_add_up_to_the_log_odds(linear):
    weights, background, groups = linear

    def probability(X):
        return expit(np.tanh(X @ weights) + X[:, 0] * X[:, 1])

    row = np.array([1.0, 0.5, -1.0, 2.0])
    why = contributions(probability, row, background, groups, seed=3)
    total = why.base + sum(part["log_odds"] for part in why.parts)
    assert total == pytest.approx(logit(why.probability), abs=1e-9)


def test_parts_of_a_sum_are_its_terms(linear):
    weights, background, groups = linear
    background = np.tile(background[:1], (2, 1))
    row = np.array([1.0, 0.5, -1.0, 2.0])
    why = contributions(lambda X: expit(X @ weights), row, background, groups, seed=3)
    added = {part["name"]: part["log_odds"] for part in why.parts}
    terms = weights * (row - background[0])
    assert added["a"] == pytest.approx(terms[0] + terms[2])
    assert added["b"] == pytest.approx(terms[1])
    assert added["c"] == pytest.approx(terms[3])
    sizes = [abs(part["log_odds"]) for part in why.parts]
    assert sizes == sorted(sizes, reverse=True)


def test_without_classifiers_each_column_adds_its_part():
    left, right, _ = make_tables(40)
    linker = Linker(["title", "price"], random_state=0).fit(left, right)
    pair = (3, 5)
    why = linker.explain_probability(*pair)
    assert why.probability == pytest.approx(linker.predict_proba([pair])[0])
    assert {part["name"] for part in why.parts} == {
        "title",
        "price",
        "words with digits",
        "the most similar record",
    }
    total = why.base + sum(part["log_odds"] for part in why.parts)
    assert total == pytest.approx(logit(why.probability), abs=0.05)


def test_a_subject_that_comes_twice_is_one_group():
    groups = groups_of([("x", ["a"]), ("y", ["b", "c"]), ("x", ["d"])])
    assert [group.columns for group in groups] == [[0, 3], [1, 2]]
