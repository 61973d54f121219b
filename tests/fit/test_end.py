"""How a fit ends: status, gap, callbacks, interrupts, errors."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import strategies
from hdsl.memory import NotEnoughMemory
from small_fits import (
    N,
    T,
    X,
    Y,
    assert_same_model,
    assert_whole,
    interrupt_at,
    small,
    without_interrupt,
)


def test_status_names_the_reason():
    assert small(max_iter=3).fit(X, triplets=T).status_ == "max_iter"
    optimal = small(oracle="exact", max_iter=1000, tol=1e-2).fit(X, triplets=T)
    assert (optimal.status_, optimal.gap_is_exact_) == ("optimal", True)
    assert 0 <= optimal.gap_ <= 1e-2
    easy = small(scale=1e3, max_iter=1000).fit(
        [[1.0, 0], [1, 0], [0, 1]], triplets=[[0, 1, 2]]
    )
    assert (easy.status_, easy.objective_, easy.gap_) == ("no_violation", 0, 0)


@pytest.mark.parametrize(
    ("step", "oracle", "seed"),
    [
        ("away", "ascent", 2),
        ("pairwise", "heuristic", 5),
        ("blended", "ascent", 9),
        ("away", "heuristic", 10),
    ],
)
def test_a_run_ends_with_the_gap_it_was_asked_for(step, oracle, seed):
    # Few starts find the best atom here, so small gaps are reported long before they
    # are true.
    rows, judged = strategies.random_arrays(seed, n=60, d=400, T=600, density=0.05)
    model = small(scale=20.0, step=step, oracle=oracle, max_iter=20_000, tol=1e-5)
    model.fit(rows, triplets=judged)
    assert (model.status_, model.gap_is_exact_) == ("optimal", True)
    assert 0 <= model.gap_ <= 1e-5


def test_callback_sees_every_iteration_and_can_stop():
    seen = []

    def callback(state):
        seen.append((state.objective, state.atoms.copy(), len(state.weights)))
        assert state.n_iter == len(seen) - 1
        assert state.margins.shape == (len(T),)
        assert state.seconds >= 0
        assert state.gap >= 0
        return state.n_iter == 7

    shifted = np.hstack([np.zeros((N, 2)), X])  # empty columns are left out inside
    model = small().fit(shifted, triplets=T, callback=callback)
    assert (model.status_, model.n_iter_) == ("callback", 7)
    assert_array_equal([objective for objective, *_ in seen], model.trace_["objective"])
    assert_array_equal([n_atoms for *_, n_atoms in seen], model.trace_["n_atoms"])
    for k, (_, atoms, _) in enumerate(seen):
        assert_array_equal(atoms, model.at(k).atoms_)
    assert_same_model(model, small(max_iter=7).fit(shifted, triplets=T))


def test_interrupt_in_a_callback_keeps_the_model_so_far():
    for when in (0, 1, 6):
        model = small()
        callback = interrupt_at(when)
        without_interrupt(model.fit, X, triplets=T, callback=callback)
        assert (model.status_, model.n_iter_) == ("interrupted", when)
        assert_whole(model)
        assert model.transform(X).shape == (N, len(model.weights_))


def test_an_error_in_a_callback_comes_out():
    with pytest.raises(ZeroDivisionError):
        small().fit(X, triplets=T, callback=lambda state: 1 / 0)


def test_memory_refusal_says_what_is_needed():
    with pytest.raises(NotEnoughMemory, match="memory_limit") as caught:
        small().fit(X, Y, memory_limit=1e-7)
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.is_limit
    assert error.needed > error.allowed == int(1e-7 * 2**30)
    assert small().fit(X, Y, memory_limit=None).n_iter_ == 25
