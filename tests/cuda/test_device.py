"""``device="cuda"`` of the estimators, in the emulator and on a card where there is one."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone

from devices import DEVICES, no_card
from emulator.device import Emulator
from hdsl import HDSL, HDSLCV, load
from hdsl.cuda import runtime
from hdsl.cuda.memory import estimate
from hdsl.memory import NotEnoughMemory
from hdsl.solver.losses import Logistic
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


AUTOMATIC = {"init": "zero", "norm": "l2", "prior": "auto", "scale": "auto"}
FITS = {
    "labels": (AUTOMATIC, {"y": Y}),
    "triplets": ({"step": "pairwise"}, {"triplets": T}),
    "quadruplets": ({"oracle": "exact"}, {"quadruplets": as_quadruplets(T)}),
    "batches": ({"batch_size": 30, "oracle": "heuristic"}, {"triplets": T}),
    "validation": ({}, {"y": Y, "X_val": X_VAL, "y_val": Y_VAL}),
    "corrections": ({**AUTOMATIC, "step": "corrective"}, {"y": Y}),
    "float32": ({**AUTOMATIC, "storage": "float32"}, {"y": Y}),
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
def test_too_large_a_problem_is_refused_with_the_figure(device):
    """Corrections need room of their own."""
    fit = lambda **given: small(max_iter=2, device="cuda", **given).fit(X, triplets=T)  # noqa: E731
    with pytest.raises(NotEnoughMemory, match=r"GPU needs about .* allowed by memory_limit"):
        fit(memory_limit=1e-9)
    limit = 1.1 * estimate(csr_array(X), T).total / 2**30
    fit(memory_limit=limit)
    with pytest.raises(NotEnoughMemory, match="fit on the GPU"):
        fit(memory_limit=limit, step="corrective")
    fit(memory_limit=None, step="corrective")


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


# --- a card that fails in the middle -------------------------------------------------------------


def like_cupy(name, base=RuntimeError):
    """Return a class of errors as CuPy has them."""
    return type(name, (base,), {"__module__": "cupy_backends.cuda.api"})


FAILURES = {
    "memory": like_cupy("OutOfMemoryError", MemoryError)("Out of memory allocating 8 bytes"),
    "address": like_cupy("CUDARuntimeError")("cudaErrorIllegalAddress: an illegal memory access"),
    "launch": like_cupy("CUDADriverError")("CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure"),
}


class Failing:
    """The emulator, which fails from one of its calls on; without memory, where it needs more."""

    def __init__(self, failure, at=10**9, kernel=None):
        self.device, self.failure, self.at, self.n_calls = Emulator(), failure, at, 0
        self.kernel, self.kernels = kernel, set()

    def __getattr__(self, name):
        found = getattr(self.device, name)
        if name not in CALLS:
            return found

        @runtime.names_failures
        def call(self, *args, **kwargs):
            if self.kernel is not None:
                counts = name == "run" and args[0] == self.kernel
            else:
                counts = name in ALLOCATES or not isinstance(self.failure, MemoryError)
            if counts:
                self.n_calls += 1
                if self.n_calls >= self.at:
                    raise self.failure
            if name in ("run", "launch"):
                self.kernels.add(args[0])
            return found(*args, **kwargs)

        return lambda *args, **kwargs: call(self, *args, **kwargs)


ALLOCATES = ("empty", "zeros", "upload")
CALLS = (*ALLOCATES, "copy", "clear", "download", "run", "launch", "mark", "wait")


@pytest.mark.skipif("emulator" not in DEVICES, reason="no C++ compiler for the emulator")
@pytest.mark.usefixtures("write_each_iteration")
@pytest.mark.filterwarnings("ignore:There is no memory to write the checkpoint")
@pytest.mark.parametrize("part", [0.02, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("failure", FAILURES)
def test_a_card_that_fails_loses_nothing(monkeypatch, tmp_path, failure, part):
    """The error says what failed and what to do; model and checkpoint are as they were."""
    path = tmp_path / "run.ckpt"
    device = Failing(FAILURES[failure])
    monkeypatch.setattr(runtime, "get_device", lambda name="cuda": device)
    whole = small(max_iter=8, init="zero", device="cuda").fit(X, Y)
    n_calls, device.n_calls = device.n_calls, 0

    model = small(max_iter=2, init="zero").fit(X, Y)
    before = model.weights_.copy(), model.n_iter_
    model.set_params(max_iter=8, device="cuda", checkpoint=path)
    device.at = int(part * n_calls)
    error = runtime.DeviceMemoryError if failure == "memory" else runtime.BrokenDeviceError
    words = "out of memory: Out of" if failure == "memory" else "failed: .* checkpoint="
    with pytest.raises(error, match=f"The GPU emulator.*{words}.*") as caught:
        model.fit(X, Y)
    assert "device='cpu'" in str(caught.value)
    assert caught.value.__cause__ is FAILURES[failure]
    assert_array_equal(model.weights_, before[0])
    assert model.n_iter_ == before[1]
    model.set_params(device="cpu")
    assert_same_path(model.fit(X, Y), whole)  # from the checkpoint, where there is one


LATER = {
    "mining": (small(max_iter=6, mine_every=3), "Mining again was given up: The GPU"),
    "refit": (small(max_iter=6, early_stopping=True), "refit on all rows was given up: The GPU"),
    "search": (
        HDSLCV(estimator=HDSL(max_iter=5, random_state=0), cv=2, scales=[1.0], priors=[1.0]),
        "HDSLCV ended after 1 of 2 runs: BrokenDeviceError: The GPU",
    ),
}


@pytest.mark.skipif("emulator" not in DEVICES, reason="no C++ compiler for the emulator")
@pytest.mark.filterwarnings("ignore:.*rows are held out:UserWarning")
@pytest.mark.parametrize("name", LATER)
def test_what_is_learned_stays_where_later_work_fails(monkeypatch, name):
    """The second set-up fails: that of new triplets, of all rows, or of another fold."""
    device = Failing(FAILURES["address"], at=2, kernel="interleave")
    monkeypatch.setattr(runtime, "get_device", lambda name="cuda": device)
    model, warning = LATER[name]
    model = clone(model)
    getattr(model, "estimator", model).set_params(device="cuda")
    with pytest.warns(UserWarning, match=warning):
        model.fit(X, Y)
    assert model.similarity(X).shape == (len(X), len(X))


@pytest.mark.skipif("emulator" not in DEVICES, reason="no C++ compiler for the emulator")
def test_the_storage_of_a_model_is_that_of_its_kernels(monkeypatch):
    for storage in ("float64", "float32"):
        device = Failing(None)
        monkeypatch.setattr(runtime, "get_device", lambda name="cuda", device=device: device)
        small(max_iter=2, device="cuda", storage=storage).fit(X, Y)
        names = {name for name in device.kernels if name.endswith(runtime.SINGLE)}
        assert bool(names) == (storage == "float32")


class Dead:
    """All that a card asks CuPy for, after an error that stays."""

    def __getattr__(self, name):
        raise FAILURES["address"]

    def __enter__(self):
        raise FAILURES["address"]

    def __exit__(self, *exc):
        pass


def test_every_call_of_a_dead_card_names_what_failed():
    card, numbers = runtime.Card.__new__(runtime.Card), np.zeros(2)
    card.name, card._functions, card._blocks = "dead", {}, {}
    card._cupy = card._device = card._stream = card._pool = Dead()
    calls = [
        lambda: card.empty(2), lambda: card.host(2), lambda: card.zeros(2),
        lambda: card.copy(numbers, numbers), lambda: card.clear(numbers),
        lambda: card.upload(numbers), lambda: card.download(numbers),
        lambda: card.launch("advance", 1), lambda: card.run("advance", 1), card.mark, card.wait,
        lambda: card.argsort(numbers), lambda: card.cumsum(numbers), card.memory,
    ]  # fmt: skip
    works = [card.record(lambda: None)] * runtime.CAPTURE_AT  # the last of them begins a capture
    for work in works[1:]:
        work()
    for call in [*calls, works[0]]:
        with pytest.raises(runtime.BrokenDeviceError, match="The GPU dead failed: cudaErrorIll"):
            call()


def test_a_card_that_has_failed_is_none(monkeypatch):
    """A new process may find it again; this one says so before any work."""
    error = type(FAILURES["address"])
    known = SimpleNamespace(getDeviceCount=lambda: 1, CUDARuntimeError=error)
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=known, Device=lambda number: Dead()))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    with pytest.raises(runtime.DeviceError, match=r"No GPU can be used: cudaErrorIll.*cpu"):
        runtime.get_device("cuda")


def test_an_error_of_our_own_is_not_the_cards():
    class Broken:
        name = "card"

        @runtime.names_failures
        def call(self):
            raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        Broken().call()


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
