"""Classifiers that are cross-fitted, and the pairs that they learn from."""

import numpy as np
import pytest

from hdsl.linking import Linker
from hdsl.linking.classifiers import CrossFittedClassifier
from hdsl.linking.known import N_FOLDS
from products import make_tables


@pytest.fixture
def pairs():
    """Features of 80 pairs, which the first one tells apart, labels and folds."""
    rng = np.random.default_rng(0)
    labels = np.arange(80) % 2.0
    X = rng.random((80, 3))
    X[:, 0] += labels
    return X, labels, rng.permutation(80) % N_FOLDS


def test_each_fold_has_probabilities_of_a_classifier_that_has_not_seen_it(pairs):
    X, labels, fold = pairs
    probability = CrossFittedClassifier.of_pairs(X, labels, fold, 0).held_out(X, fold)
    swapped = np.where(fold == 1, 1.0 - labels, labels)
    after = CrossFittedClassifier.of_pairs(X, swapped, fold, 0).held_out(X, fold)
    np.testing.assert_array_equal(after[fold == 1], probability[fold == 1])
    assert (after[fold != 1] != probability[fold != 1]).any()


def test_a_fold_that_leaves_matches_alone_has_no_classifier(pairs):
    X, labels, fold = pairs
    fold[labels == 0.0] = 2
    classifier = CrossFittedClassifier.of_pairs(X, labels, fold, 0)
    probability = classifier.held_out(X, fold)
    assert np.isnan(probability[fold == 2]).all()
    assert (probability[fold != 2] > 0.5).all()  # they match
    np.testing.assert_allclose(classifier.probability(X[labels == 1.0]), 1.0, atol=0.3)


def test_non_matches_of_one_record_do_not_pull_probabilities_down():
    """A classifier that has learned from matches alone would say 0 of all pairs."""
    left, right, matches = make_tables(520, seed=2)
    partner = matches[0, 1]
    non_matches = [(0, row) for row in range(520) if row != partner][:505]
    linker = Linker(["title"], random_state=0)
    linker.fit(left, right, matches[:40], non_matches)
    unlikely = linker.reliability_[0]
    assert unlikely["matches"][0] < 0.01
    assert np.median(linker.predict_proba(matches[40:])) > 0.9
