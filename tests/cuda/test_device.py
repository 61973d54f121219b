"""``device="cuda"`` of HDSL, in the emulator and on a card; cards that fail."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from devices import DEVICES, no_card
from emulator.device import Emulator
from hdsl import HDSL, Solver, load
from hdsl.cuda import runtime
from hdsl.memory import NotEnoughMemory
from hdsl.settings import nested_parameters
from hdsl.solver.losses import Logistic
from judged_queries import better_by_product
from strategies import random_arrays

X, T = random_arrays(3, n=40, d=12, T=120, density=0.4)
Y = (X[:, 0] > X[:, 1]).astype(int)
FIXED = {"prior": 0.5, "scale": 5.0, "random_state": 0}

needs_device = pytest.mark.skipif(
    not DEVICES, reason="no C++ compiler for the emulator, no card"
)
emulated = pytest.mark.skipif(
    "emulator" not in DEVICES, reason="no C++ compiler for the emulator"
)


@pytest.fixture(params=DEVICES)
def device(request, monkeypatch):
    """Let "cuda" be a device that runs here."""
    monkeypatch.setattr(
        runtime, "get_device", lambda name="cuda": DEVICES[request.param]
    )
    return request.param


def assert_same_path(one, other):
    for part in ("i", "j", "sign", "away_i", "away_j", "away_sign", "kind"):
        assert_array_equal(one.trace_[part], other.trace_[part])
    assert_allclose(one.trace_["objective"], other.trace_["objective"], rtol=1e-9)
    assert_allclose(one.weights_, other.weights_, rtol=1e-6, atol=1e-9)


FITS = {
    "corrections": ({**FIXED, "max_iter": 6}, {"triplets": T}),
    "labels": ({**FIXED, "scale": "auto", "max_iter": 3}, {"y": Y}),
    "quadruplets": (
        {**FIXED, "step": "away", "oracle": "exact", "max_iter": 8},
        {"quadruplets": T[:, [0, 1, 0, 2]]},
    ),
    "batches": (
        {
            **FIXED,
            "batch_size": 30,
            "step": "forward",
            "oracle": "heuristic",
            "max_iter": 8,
        },
        {"triplets": T},
    ),
}


@needs_device
@pytest.mark.parametrize("name", FITS)
def test_both_devices_take_the_same_path(device, name):
    parameters, data = FITS[name]
    on_cpu, on_gpu = (
        HDSL(**nested_parameters(device=where, **parameters)).fit(X, **data)
        for where in ("cpu", "cuda")
    )
    assert_same_path(on_cpu, on_gpu)
    assert isinstance(on_gpu.weights_, np.ndarray)
    assert on_gpu.similarity(X).shape == (len(X), len(X))


@needs_device
@pytest.mark.parametrize(("first", "second"), [("cpu", "cuda"), ("cuda", "cpu")])
def test_a_run_goes_on_where_another_device_left_it(device, first, second):
    fixed = {**FIXED, "step": "away", "tol": 0.0}
    whole = HDSL(**nested_parameters(max_iter=8, **fixed)).fit(X, triplets=T)
    model = HDSL(
        **nested_parameters(max_iter=4, device=first, warm_start=True, **fixed)
    ).fit(X, triplets=T)
    assert_same_path(model.set_params(device=second).fit(X, triplets=T), whole)


@needs_device
def test_a_saved_model_knows_nothing_of_the_device(device, tmp_path):
    model = HDSL(**nested_parameters(max_iter=3, device="cuda", **FIXED)).fit(
        X, triplets=T
    )
    model.save(tmp_path / "model.hdsl")
    again = load(tmp_path / "model.hdsl")
    assert again.device == "cpu"
    assert_array_equal(again.weights_, model.weights_)


@needs_device
def test_a_choice_on_the_card_ranks_rows_as_on_the_cpu(device, tmp_path, monkeypatch):
    monkeypatch.setattr("hdsl.evaluate.choose.PRIORS", (16.0, 8.0))
    rows, triplets = better_by_product()
    on_cpu, on_gpu = (
        HDSL(device=where, solver=Solver(max_iter=2), random_state=0).fit(
            rows, triplets=triplets
        )
        for where in ("cpu", "cuda")
    )
    assert on_cpu.ranking_ == on_gpu.ranking_ == "product"
    assert on_gpu.prior_ == pytest.approx(on_cpu.prior_, rel=1e-12)
    assert_same_path(on_cpu, on_gpu)
    on_gpu.save(tmp_path / "model.hdsl")
    assert load(tmp_path / "model.hdsl").ranking_ == "product"
    assert on_gpu.partial_fit(rows, triplets=triplets).ranking_ == "product"


@needs_device
def test_too_large_a_problem_is_refused_with_the_figure(device):
    with pytest.raises(NotEnoughMemory, match=r"GPU.*memory_limit"):
        HDSL(**nested_parameters(max_iter=2, device="cuda", **FIXED)).fit(
            X, triplets=T, memory_limit=1e-9
        )
    HDSL(**nested_parameters(max_iter=2, device="cuda", **FIXED)).fit(
        X, triplets=T, memory_limit=None
    )


# --- a card that fails in the middle --------------------------------------------------


def like_cupy(name, base=RuntimeError):
    """Return a class of errors as CuPy has them."""
    return type(name, (base,), {"__module__": "cupy_backends.cuda.api"})


FAILURES = {
    "memory": like_cupy("OutOfMemoryError", MemoryError)(
        "Out of memory allocating 8 bytes"
    ),
    "address": like_cupy("CUDARuntimeError")(
        "cudaErrorIllegalAddress: an illegal memory access"
    ),
    "launch": like_cupy("CUDADriverError")(
        "CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure"
    ),
}
ALLOCATES = ("empty", "zeros", "upload")
CALLS = (*ALLOCATES, "copy", "clear", "download", "run", "launch", "mark", "wait")


class Failing:
    """The emulator, which fails from one of its calls on.

    Without memory only the calls fail that allocate.
    """

    def __init__(self, failure, at=10**9):
        self.device = Emulator()
        self.failure = failure
        self.at = at
        self.n_calls = 0

    def __getattr__(self, name):
        found = getattr(self.device, name)
        if name not in CALLS:
            return found

        @runtime.names_failures
        def call(self, *args, **kwargs):
            if name in ALLOCATES or not isinstance(self.failure, MemoryError):
                self.n_calls += 1
                if self.n_calls >= self.at:
                    raise self.failure
            return found(*args, **kwargs)

        return lambda *args, **kwargs: call(self, *args, **kwargs)


@emulated
@pytest.mark.parametrize("part", [0.02, 0.5, 0.9])
@pytest.mark.parametrize("failure", FAILURES)
def test_a_card_that_fails_loses_nothing(monkeypatch, failure, part):
    """The error says what failed and what to do; the model is as it was."""
    device = Failing(FAILURES[failure])
    monkeypatch.setattr(runtime, "get_device", lambda name="cuda": device)
    fixed = {**FIXED, "tol": 0.0}
    whole = HDSL(**nested_parameters(max_iter=6, device="cuda", **fixed)).fit(
        X, triplets=T
    )
    n_calls = device.n_calls
    device.n_calls = 0
    model = HDSL(**nested_parameters(max_iter=2, warm_start=True, **fixed)).fit(
        X, triplets=T
    )
    before = model.weights_.copy(), model.n_iter_
    device.at = max(1, int(part * n_calls / 2))
    error = (
        runtime.DeviceMemoryError if failure == "memory" else runtime.BrokenDeviceError
    )
    with pytest.raises(error, match=r"The GPU emulator.*device='cpu'") as caught:
        model.set_params(solver__max_iter=6, device="cuda").fit(X, triplets=T)
    assert caught.value.__cause__ is FAILURES[failure]
    assert_array_equal(model.weights_, before[0])
    assert model.n_iter_ == before[1]
    after = model.set_params(device="cpu").fit(X, triplets=T)
    assert after.objective_ == pytest.approx(whole.objective_, rel=1e-6)


class Dead:
    """All that a card asks CuPy for, after an error that stays."""

    def __getattr__(self, name):
        raise FAILURES["address"]

    def __enter__(self):
        raise FAILURES["address"]

    def __exit__(self, *exc):
        pass


def test_every_call_of_a_dead_card_names_what_failed():
    card = runtime.Device.__new__(runtime.Device)
    numbers = np.zeros(2)
    card.name = "dead"
    card._module = None
    card._functions = {}
    card._blocks = {}
    card._cupy = card._device = card._stream = card._pool = Dead()
    calls = [
        lambda: card.empty(2),
        lambda: card.host(2),
        lambda: card.zeros(2),
        lambda: card.copy(numbers, numbers),
        lambda: card.clear(numbers),
        lambda: card.upload(numbers),
        lambda: card.download(numbers),
        lambda: card.launch("count_features", 1, n=2, idx=numbers, counts=numbers),
        lambda: card.run("count_features", 2, n=2, idx=numbers, counts=numbers),
        card.mark,
        card.wait,
        lambda: card.argsort(numbers),
        lambda: card.cumsum(numbers),
        card.memory,
        lambda: card.take(numbers, numbers),
        lambda: card.largest(numbers, 1),
        lambda: card.multiply(numbers, numbers, numbers),
        lambda: card.doubled(numbers),
        lambda: card.replay({0: None}, 0, list),
    ]
    for call in calls:
        with pytest.raises(runtime.BrokenDeviceError, match="The GPU dead failed"):
            call()


def test_a_card_that_has_failed_is_none(monkeypatch):
    """A new process may find it again; this one says so before any work."""
    error = type(FAILURES["address"])
    known = SimpleNamespace(getDeviceCount=lambda: 1, CUDARuntimeError=error)
    cupy = SimpleNamespace(
        cuda=SimpleNamespace(runtime=known, Device=lambda number: Dead())
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    with pytest.raises(runtime.DeviceError, match="device='cpu'"):
        runtime.get_device("cuda")


def test_an_error_of_our_own_is_not_the_cards():
    class Broken:
        name = "card"

        @runtime.names_failures
        def call(self):
            raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        Broken().call()


# --- refusals -------------------------------------------------------------------------


def test_unknown_devices_and_missing_libraries_are_named(monkeypatch):
    with pytest.raises(ValueError, match="'gpu'"):
        runtime.get_device("gpu")
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(runtime.DeviceError, match=r"hdsl\[cuda\].*device='cpu'"):
        runtime.get_device("cuda:1")


@pytest.mark.skipif(no_card is None, reason="this machine has a card")
def test_without_a_card_the_fit_is_refused_before_any_work():
    for name in ("cuda", "cuda:1"):
        with pytest.raises(runtime.DeviceError, match="device='cpu'"):
            HDSL(device=name).fit(X, triplets=T)


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:-1", "CUDA", 0, None])
def test_unknown_devices_are_refused(name):
    with pytest.raises(ValueError, match="'device'"):
        HDSL(device=name).fit(X, triplets=T)


def test_an_own_loss_needs_the_cpu():
    with pytest.raises(ValueError, match="device='cpu'"):
        HDSL(device="cuda", loss=Logistic()).fit(X, triplets=T)
