"""Classifiers that are cross-fitted, and the pairs that they learn from."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

from hdsl.linking.classifiers import N_FOLDS, CrossFittedClassifier, Targets
from hdsl.linking.learning import calibration


@pytest.fixture
def pairs():
    """Features of 80 pairs, which the first one tells apart, labels and folds."""
    rng = np.random.default_rng(0)
    labels = np.arange(80) % 2.0
    X = rng.random((80, 3))
    X[:, 0] += labels
    return X, labels, rng.permutation(80) % N_FOLDS


def learned(X, labels, fold):
    """Classifiers of pairs that count alike."""
    return CrossFittedClassifier(X, Targets(labels, fold, np.ones(len(X))), 0)


def test_each_fold_has_probabilities_of_a_classifier_that_has_not_seen_it(pairs):
    X, labels, fold = pairs
    probability = learned(X, labels, fold).held_out(X, fold)
    swapped = np.where(fold == 1, 1.0 - labels, labels)
    after = learned(X, swapped, fold).held_out(X, fold)
    np.testing.assert_array_equal(after[fold == 1], probability[fold == 1])
    assert (after[fold != 1] != probability[fold != 1]).any()


def test_a_fold_that_leaves_matches_alone_has_no_classifier(pairs):
    X, labels, fold = pairs
    fold[labels == 0.0] = 2
    classifier = learned(X, labels, fold)
    probability = classifier.held_out(X, fold)
    assert np.isnan(probability[fold == 2]).all()
    assert (probability[fold != 2] > 0.5).all()  # they match
    np.testing.assert_allclose(classifier.probability(X[labels == 1.0]), 1.0, atol=0.3)


def test_a_pair_of_unknown_side_counts_on_both(pairs):
    """A share of one half twice is a match and another pair."""
    _, labels, fold = pairs
    targets = Targets(np.full(80, 0.25), fold, np.full(80, 4.0))
    sides = targets.without(0)
    rows = np.flatnonzero(fold != 0)
    assert {*sides.rows.tolist()} == {*rows.tolist()}
    assert sides.weight[sides.is_match].sum() == len(rows)
    assert sides.weight[~sides.is_match].sum() == 3 * len(rows)
    certain = Targets(labels, fold, np.ones(80)).without(0)
    assert (labels[certain.rows] == certain.is_match).all()


def test_known_pairs_calibrate_what_unlisted_pairs_are_taken_for():
    rng = np.random.default_rng(0)
    log_odds = rng.normal(0.0, 3.0, 2000)
    labels = (rng.random(2000) < expit(0.5 * log_odds - 2.0)).astype(float)
    as_known = calibration(labels, log_odds)
    assert_allclose(as_known(np.array([0.0, 2.0])), [-2.0, -1.0], atol=0.3)
    few = calibration(np.array([1.0, 0.0]), np.array([3.0, -3.0]))
    assert_allclose(few(np.array([3.0])), [3.0], atol=0.7)
    assert calibration(np.ones(5), np.zeros(5))(1.5) == 1.5
