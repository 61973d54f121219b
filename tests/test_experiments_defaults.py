"""The experiment that compares candidates for the defaults."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from hdsl import HDSL
from reproduce import defaults, quality, runner
from reproduce.defaults import DEFAULT, REFERENCE, Ratio, geometric_mean, ratio_of_means

CHOSEN = [str(REFERENCE), str(DEFAULT), f"{DEFAULT}, class scores"]


def split():
    """Rows of three classes with some words of their class, at unit length."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = (rng.random((60, 40)) < 0.15) + (np.arange(40) // 5 == y[:, None]) * rng.random((60, 40))
    X = sp.csr_array(X / np.linalg.norm(X, axis=1, keepdims=True))
    return quality.Split(X, y, X[:0], y[:0])


@pytest.fixture
def settings(monkeypatch, tmp_path):
    monkeypatch.setattr(quality, "load", lambda settings, name: split())
    monkeypatch.setattr(quality, "names_of_sets", lambda settings: ["texts", "dorothea"])
    monkeypatch.setattr(defaults, "N_FOLDS", 2)
    few = {name: defaults.CANDIDATES[name]._replace(iterations=(20, 300)) for name in CHOSEN}
    monkeypatch.setattr(defaults, "CANDIDATES", few)
    return runner.Settings(tmp_path, None, 1)


@pytest.mark.filterwarnings("ignore:n_quantiles")
def test_candidates_are_compared_with_the_cosine_and_the_reference(settings):
    lines = runner.run("defaults", defaults, settings)
    means, error, found = defaults.publish(settings, lines).tables
    assert [row[0] for row in means.rows] == [
        name + end for name in CHOSEN for end in (", 20 iterations", "")
    ]
    assert means.rows[1][2] == "1.00 (1.00-1.00)"
    assert error.head == ["candidate", "texts", "dorothea"]
    assert found.head == ["candidate", "texts"]  # no known items of what is no text


def test_the_default_candidate_is_the_default():
    rows = split()
    candidate = DEFAULT._replace(iterations=(30,)).fit(rows.X, rows.y)
    model = HDSL(max_iter=30, random_state=0).fit(rows.X, rows.y)
    assert_allclose([candidate.scale_, candidate.prior_], [model.scale_, model.prior_], rtol=1e-9)
    assert_allclose(candidate.weights_, model.weights_, rtol=1e-6)


def test_every_candidate_has_a_name_of_its_own():
    assert len(defaults.CANDIDATES) == len(set(defaults.CANDIDATES.values()))
    assert {str(DEFAULT), str(REFERENCE)} <= set(defaults.CANDIDATES)


def test_ratios_of_paired_means():
    both, one = np.array([1.0, 1, 0, 0]), np.array([1.0, 0, 0, 0])
    ratio = ratio_of_means(one, both)
    assert ratio.value == 0.5
    assert_allclose(ratio.error**2, 1 / (1 * 2))  # (only one + only other) / (a · b)
    assert math.isnan(ratio_of_means(0 * one, both).value)
    mean = geometric_mean([Ratio(0.5, 0.3), Ratio(2.0, 0.4), Ratio(math.nan, math.nan)])
    assert_allclose(mean, [1.0, 0.25])
    assert math.isnan(geometric_mean([]).value)
    assert str(Ratio(1.0, 0.0)) == "1.00 (1.00-1.00)"
