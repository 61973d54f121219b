"""A similarity as the arrays and the header of a file, and files of the format before."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import reference
import strategies
from hdsl import load
from hdsl.files import container
from hdsl.similarity import FixedPart, Similarity
from hdsl.similarity.arrays import similarity_from_arrays, similarity_to_arrays
from small_fits import small

X = np.array([[2.0, 0, 1], [0, 3, 1], [1, 1, 0]])
TRIPLETS = [[0, 2, 1], [1, 2, 0]]


@given(st.integers(2, 8), st.data())
def test_every_fixed_part_comes_back(d, data):
    fixed = data.draw(strategies.fixed_parts(d))
    atoms, weights = data.draw(strategies.models_beside(fixed, d))
    *others, last = fixed
    n_columns = d - last.start
    columns = np.arange(data.draw(st.integers(1, n_columns)))
    last = dataclasses.replace(last, norm="l2", length_columns=columns)
    directions = data.draw(strategies.directions_beside(fixed, d))
    similarity = Similarity(atoms, weights, 2.0, (*others, last), d, directions)
    again = similarity_from_arrays(*similarity_to_arrays(similarity))
    assert_array_equal(again.atoms, atoms)
    assert_array_equal(again.weights, weights)
    W = reference.embedding_part(similarity)
    assert_array_equal(reference.embedding_part(again), W)
    assert (again.scale, again.n_features) == (2.0, d)
    assert_array_equal(again.fixed[-1].length_columns, columns)
    *_, last_again = again.fixed
    assert again.fixed[:-1] == (*others,)
    assert dataclasses.replace(last_again, length_columns=columns) == last


def damaged_parts():
    """Return values that no fixed part of three columns can have."""
    values = [
        {"name": 3},
        {"weight": -1.0},
        {"weight": float("inf")},
        {"weight": None},
        {"norm": "l1"},
        {"start": 3},
        {"start": -1},
        {"stop": 4},
        {"stop": "3"},
        {"by_feature": 1},
    ]
    return pytest.mark.parametrize("values", values, ids=str)


@damaged_parts()
def test_a_damaged_fixed_part_is_refused(values):
    fixed = (FixedPart("prior", 1.0),)
    similarity = Similarity(np.array([[0, 1, 1]]), np.ones(1), 1.0, fixed, 3)
    arrays, header = similarity_to_arrays(similarity)
    header["fixed"][0].update(values)
    with pytest.raises(ValueError, match=r"part|weight|norm|columns|expected"):
        similarity_from_arrays(arrays, header)


@pytest.mark.parametrize("norm", ["l2", None])
def test_a_file_of_format_5_is_read(norm, tmp_path, monkeypatch):
    """It has one fixed part: prior and norm in the header, and the columns of lengths."""
    path = tmp_path / "model.hdsl"
    wide = np.hstack([X, np.zeros((3, 1))])  # a column without a value
    model = small(prior=0.5, norm=norm).fit(wide, triplets=TRIPLETS)
    model.save(path)
    arrays, header = container.read(path)
    (part,) = header.pop("fixed")
    header |= {"prior": part["weight"], "norm": part["norm"]}
    if norm is not None:
        arrays["columns"] = arrays.pop("fixed.0.columns")
    monkeypatch.setattr(container, "FORMAT", 5)
    container.write(path, arrays, header)
    again = load(path)
    assert (again.prior_, again.norm_) == (0.5, norm)
    assert_array_equal(again.columns_, model.columns_)
    assert_array_equal(again.similarity(wide), model.similarity(wide))
