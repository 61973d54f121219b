"""Atoms on positions in a list of features, and on the features themselves."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given
from numpy.testing import assert_array_equal

import reference
from hdsl.solver.atoms import positioned, renumbered


@given(st.lists(st.integers(0, 20), unique=True, min_size=2, max_size=6))
def test_each_numbering_undoes_the_other(features):
    no_atom = [-1, -1, 0]
    own = np.array([*reference.all_atoms(len(features)), no_atom])
    users = renumbered(own, np.array(features))
    wanted = [sorted(features[k] for k in pair) for pair in own[:-1, :2]]
    assert users.tolist() == [
        *(
            [*pair, sign]
            for pair, sign in zip(wanted, own[:-1, 2].tolist(), strict=True)
        ),
        no_atom,
    ]
    assert_array_equal(positioned(users, np.array(features)), own)
    assert_array_equal(positioned(users[:0], np.array(features)), own[:0])
