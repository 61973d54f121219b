"""``device="cuda"`` of the estimators, in the emulator and on a card where there is one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from devices import DEVICES, no_card
from hdsl import HDSL, HDSLCV, load
from hdsl.backends.cuda import runtime
from hdsl.core.losses import Logistic
from small_fits import X_VAL, Y_VAL, T, X, Y, as_quadruplets, interrupt_at, small, without_interrupt

needs_device = pytest.mark.skipif(not DEVICES, reason="no C++ compiler for the emulator, no card")


@pytest.fixture(params=DEVICES)
def device(request, monkeypatch):
    """Let "cuda" be a device that runs here."""
    monkeypatch.setattr(runtime, "get_device", lambda name="cuda": DEVICES[request.param])
    return request.param


def assert_same_path(one, other):
    for part in ("i", "j", "sign", "away_i", "away_j", "away_sign", "kind"):
        assert_array_equal(one.trace_[part], other.trace_[part])
    assert_allclose(one.trace_["objective"], other.trace_["objective"], rtol=1e-9)
    assert_allclose(one.weights_, other.weights_, rtol=1e-7)


FITS = {
    "labels": ({"init": "zero", "norm": "l2", "prior": "auto", "scale": "auto"}, {"y": Y}),
    "triplets": ({"step": "pairwise"}, {"triplets": T}),
    "quadruplets": ({"oracle": "exact"}, {"quadruplets": as_quadruplets(T)}),
    "batches": ({"batch_size": 30, "oracle": "heuristic"}, {"triplets": T}),
    "validation": ({}, {"y": Y, "X_val": X_VAL, "y_val": Y_VAL}),
    "float32": ({"norm": "l2", "storage": "float32"}, {"y": Y}),
}


@needs_device
@pytest.mark.parametrize("name", FITS)
def test_both_devices_take_the_same_path(device, name):
    parameters, data = FITS[name]
    on_cpu, on_gpu = (
        small(max_iter=12, device=where, **parameters).fit(X, **data) for where in ("cpu", "cuda")
    )
    assert_same_path(on_cpu, on_gpu)
    assert isinstance(on_gpu.weights_, np.ndarray)
    assert on_gpu.similarity(X).shape == (len(X), len(X))


@needs_device
@pytest.mark.usefixtures("write_each_iteration")
@pytest.mark.parametrize(("first", "second"), [("cpu", "cuda"), ("cuda", "cpu")])
def test_a_run_goes_on_where_another_device_left_it(device, tmp_path, first, second):
    whole = small(max_iter=6, init="zero").fit(X, Y)
    path = tmp_path / "run.ckpt"
    one = small(max_iter=6, init="zero", device=first, checkpoint=path, callback=interrupt_at(3))
    without_interrupt(one.fit, X, Y)
    assert one.n_iter_ == 3
    assert path.exists()
    other = small(max_iter=6, init="zero", device=second, checkpoint=path).fit(X, Y)
    assert_same_path(other, whole)
    warm = small(max_iter=3, init="zero", device=first).fit(X, Y)
    warm.set_params(device=second, warm_start=True).fit(X, Y)
    assert_same_path(warm, whole)


@needs_device
def test_a_saved_model_knows_nothing_of_the_device(device, tmp_path):
    model = small(max_iter=5, device="cuda").fit(X, Y)
    model.save(tmp_path / "model.hdsl")
    again = load(tmp_path / "model.hdsl")
    assert again.device == "cpu"
    assert_array_equal(again.weights_, model.weights_)


@needs_device
def test_a_search_runs_on_the_device(device):
    params = {"cv": 2, "scales": [1.0], "priors": [1.0]}
    searches = [
        HDSLCV(estimator=HDSL(max_iter=10, random_state=0, device=where), n_jobs=1, **params).fit(
            X, Y
        )
        for where in ("cpu", "cuda")
    ]
    assert_same_path(*(search.best_estimator_ for search in searches))


@pytest.mark.skipif(no_card is None, reason="this machine has a card")
def test_without_a_card_the_fit_is_refused_before_any_work():
    for name in ("cuda", "cuda:1"):
        with pytest.raises(runtime.DeviceError, match="device='cpu'"):
            HDSL(device=name).fit(X, Y)


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:-1", "CUDA", 0, None])
def test_unknown_devices_are_refused(name):
    with pytest.raises(ValueError, match="'device' parameter of HDSL must be 'cpu', 'cuda'"):
        HDSL(device=name).fit(X, Y)


def test_an_own_loss_needs_the_cpu():
    with pytest.raises(ValueError, match="a loss of your own needs device='cpu'"):
        HDSL(device="cuda", loss=Logistic()).fit(X, Y)
