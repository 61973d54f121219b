"""`hdsl evaluate`: new texts, and which rows the model has seen."""

import numpy as np
import scipy.sparse as sp

from commands import good, texts, write_csv
from hdsl.cli.measure import are_among


def test_evaluate_new_texts(folder, tmp_path):
    new = write_csv(tmp_path / "new.csv", texts(45, seed=9))
    result = good("evaluate", folder / "model.hdsl", new, "-k", 5)
    assert (
        "rror of 5 nearest neighbours among the documents in the model, 45"
        in result.stdout
    )
    assert result.stderr == ""
    result = good("evaluate", folder / "model.hdsl", folder / "texts.csv")
    assert "90 of 90 rows are in the model already" in result.stderr


def test_rows_are_those_of_the_model_only_where_they_are_equal():
    """Up to the last bits of a value, of any size and however many columns there are."""
    rng = np.random.default_rng(0)
    columns = rng.permutation(2**20)[:1200]
    known = sp.csr_array(
        (1e-10 * rng.random(1200), columns, np.arange(0, 1201, 3)), shape=(400, 2**40)
    )
    others = known.copy()
    others.indices = others.indices + 2**32
    assert not are_among(others, known).any()
    nearly = known[::2].copy()
    nearly.data *= 1.0 + 1e-15
    assert are_among(nearly, known).all()
    empty = sp.csr_array((1, 2**40))
    assert not are_among(empty, empty).any()


def test_rows_of_huge_and_tiny_values_are_told_apart():
    """No value becomes infinite or 0 where rows are compared."""
    known = sp.csr_array(np.array([[1e300, 0.0], [0.0, 1e-300]]))
    others = sp.csr_array(np.array([[2e300, 0.0], [0.0, 2e-300]]))
    assert not are_among(others, known).any()
    assert are_among(known, known).all()
