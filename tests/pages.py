"""Pages of a model in a browser: data, a model with a path, and questions to a page."""

import time
from functools import cache

import numpy as np
import scipy.sparse as sp

from hdsl import HDSL, Solver


def three_classes(seed=0, n=60, d=30):
    """Rows of three classes, each with words of its own, and labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.random((n, d)) * (rng.random((n, d)) < 0.25)
    X[np.arange(n), 4 * y + rng.integers(4, size=n)] += 1
    return sp.csr_array(X), np.array(["a", "b", "c"])[y]


X, Y = three_classes()
X_TEST, Y_TEST = three_classes(seed=1, n=40)


@cache
def path_model():
    """Return a model with a path of 60 iterations; tests do not change it."""
    model = HDSL(
        scale=20.0,
        prior=0.3,
        solver=Solver(step="away", max_iter=60, tol=0.0),
        random_state=0,
    )
    return model.fit(X, Y)


def until(page, expression, patience=20.0):
    """Wait until something holds; wait_for_function needs eval, which the page forbids."""
    end = time.monotonic() + patience
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(20)


def until_at(page, k):
    """Wait until the page shows the model of iteration k."""
    until(
        page, f"document.getElementById('now').textContent.startsWith('iteration{k} ')"
    )


def go_to(page, k):
    """Show the model of iteration k."""
    page.locator("#iteration").fill(str(k))
    page.locator("#iteration").press("Enter")
    until_at(page, k)


def column(page, n):
    """Return the texts of the n-th column of the table of pairs."""
    return page.locator(f"#table tbody td:nth-child({n})").all_inner_texts()


def number(text):
    """Return a number that the page wrote."""
    return float(text.replace(",", "").replace("−", "-"))
