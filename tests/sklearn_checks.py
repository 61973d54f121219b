"""scikit-learn's own checks of estimators, for `pytest.mark.parametrize`."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks


def every_check(*estimators):
    """Parametrize a test by estimator and check; scikit-learn 1.6 makes a generator of them."""
    mark = parametrize_with_checks(list(estimators))
    names, values = mark.args
    return pytest.mark.parametrize(names, list(values), **mark.kwargs)
