"""Triplets mined again along the path."""

import pkgutil

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from hdsl import HDSL
from hdsl.triplets import neighbor_triplets
from small_fits import (
    LEARN,
    STEPS,
    VALIDATE,
    T,
    X,
    Y,
    any_length,
    assert_same_model,
    assert_whole,
    chosen_from,
    score_of,
    small,
    without_interrupt,
)

pytestmark = any_length


@pytest.mark.parametrize("step", STEPS)
def test_mined_triplets_join_the_old_ones(step):
    sizes = []
    model = small(mine_every=5, step=step)
    model.set_params(callback=lambda state: sizes.append(len(state.margins))).fit(X, Y)
    once = small(step=step).fit(X, Y)
    assert sizes[0] == once.n_triplets_
    assert (np.diff(sizes) >= 0).all()
    assert len(set(sizes)) > 2
    assert model.n_triplets_ == sizes[-1]
    assert model.n_iter_ == len(model.trace_) - 1 == 25
    assert model.status_ == "max_iter"
    assert_same_model(model.at(5), once.at(5))  # up to the first mining all is the same
    assert_allclose(model.at(25).weights_, model.weights_, atol=1e-12)


def test_the_objective_is_that_of_all_triplets_mined():
    model = small(mine_every=10).fit(X, Y)
    mined = [
        neighbor_triplets(sp.csr_array(X), Y, 2, 2, similarity=similarity)
        for similarity in (None, model.at(10).similarity_, model.at(20).similarity_)
    ]
    together = np.unique(np.vstack(mined), axis=0)
    assert model.n_triplets_ == len(together) > len(mined[0])
    assert_whole(model, triplets=together)
    assert_same_model(small(mine_every=10).fit(X, Y), model)


def test_only_neighbors_of_labels_are_mined_again():
    for mining, kind in [("random", "labels"), (lambda *_: T, "labels"), ("neighbors", "triplets")]:
        model, once = (small(mining=mining, mine_every=k).fit(X, **LEARN[kind]) for k in (5, None))
        assert_same_model(model, once)
        assert model.n_triplets_ == once.n_triplets_


FOUR_POINTS = np.repeat(np.eye(4), 3, axis=0) + np.eye(12, 4) / 8, np.repeat([0, 0, 1, 1], 3)


def test_mining_along_the_way_ends_where_nothing_is_new():
    seen = []
    model = HDSL(
        scale=1e3, prior=0.0, n_targets=1, n_impostors=1, mine_every=2, max_iter=500,
        callback=lambda state: seen.append(state.n_iter),
    ).fit(*FOUR_POINTS)  # fmt: skip
    assert model.status_ in ("optimal", "no_violation")
    assert model.n_iter_ < 500
    assert seen[: model.n_iter_] == list(range(model.n_iter_))  # once before each step


def test_early_stopping_while_mining():
    seen = []
    model = small(mine_every=5, max_iter=60, n_iter_no_change=20)
    model.set_params(callback=lambda state: seen.append(state.n_iter))
    model.fit(X, Y, **VALIDATE["labels"])
    assert seen == list(range(len(model.trace_)))  # once per iteration
    assert model.n_iter_ == chosen_from("labels", model)
    assert score_of("labels", model).value == model.validation_score_
    if model.status_ == "no_change":
        assert len(model.trace_) - 1 >= model.n_iter_ + 20


@pytest.mark.parametrize("where", ["hdsl.triplets.neighbor_triplets", "hdsl.cpu.layout.CPULayout"])
def test_interrupt_while_mining_again_keeps_the_model_so_far(where, monkeypatch):
    function, calls = pkgutil.resolve_name(where), []

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return function(*args, **kwargs)

    monkeypatch.setattr(where, interrupted)
    model = small(mine_every=5)
    without_interrupt(model.fit, X, Y)
    assert (model.status_, model.n_iter_) == ("interrupted", 5)
    assert_same_model(model, small(max_iter=5).fit(X, Y))


def test_mining_again_without_memory_keeps_the_model_so_far(monkeypatch):
    from hdsl.cpu import layout

    make, calls = layout.CPULayout, []

    def too_large(*args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise MemoryError("no room")
        return make(*args, **kwargs)

    monkeypatch.setattr(layout, "CPULayout", too_large)
    with pytest.warns(UserWarning, match="Mining again was given up: no room"):
        model = small(mine_every=5).fit(X, Y)
    assert_same_model(model, small(max_iter=5).fit(X, Y))
