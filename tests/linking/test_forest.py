"""Trees by a compiled loop say what scikit-learn's say."""

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier

from hdsl.linking.forest import Forest


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_probabilities_are_those_of_scikit_learn(n_jobs):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6)).astype(np.float32)
    labels = (X[:, 0] * X[:, 1] > 0.2).astype(float)
    weight = rng.uniform(0.1, 1.0, size=300)
    classifiers = [
        ExtraTreesClassifier(7, random_state=seed).fit(X[seed:200], labels[seed:200])
        for seed in (0, 1)
    ]
    classifiers[1].fit(X[:200], labels[:200], sample_weight=weight[:200])
    new = np.tile(X[200:], (60, 1))
    each = [classifier.predict_proba(new)[:, 1] for classifier in classifiers]
    probability = Forest(classifiers).probability(new, n_jobs)
    np.testing.assert_allclose(probability, np.mean(each, axis=0), atol=1e-12)


def test_no_row_has_no_probability():
    X = np.arange(6.0, dtype=np.float32)[:, None]
    classifier = ExtraTreesClassifier(3, random_state=0).fit(X, [0, 0, 0, 1, 1, 1])
    assert Forest([classifier]).probability(X[:0], None).shape == (0,)
