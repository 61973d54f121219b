"""The problem on a GPU: dense answers, the CPU's path, the same bits, interrupts.

Kernels run in the emulator, and on a card where there is one.
"""

import tracemalloc
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference
from devices import DEVICES
from emulator.device import Emulator
from hdsl.cpu.layout import CPULayout
from hdsl.cpu.workers import Workers
from hdsl.cuda import atoms as atoms_on_card
from hdsl.cuda import comparisons as pairs_of_rows
from hdsl.cuda import curvature
from hdsl.cuda import rows as card_rows
from hdsl.cuda.layout import CUDALayout
from hdsl.cuda.memory import estimate, for_corrections
from hdsl.solver import losses
from hdsl.solver.atoms import Correction
from hdsl.solver.loop import Options, frank_wolfe
from hdsl.solver.oracle import ORACLES
from hdsl.solver.steps import RULES
from layouts import Hyperbola
from pairwise import pairwise
from runs import assert_same_path, assert_same_run, run_in_parts
from strategies import LOSSES, comparisons, make_twin, models, random_arrays, twins

ONE = Workers(1)
every_device = pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
emulated = pytest.mark.skipif(
    "emulator" not in DEVICES, reason="no C++ compiler for the emulator"
)
fewer = settings(max_examples=settings().max_examples // 3)

pytestmark = pytest.mark.skipif(
    not DEVICES, reason="no C++ compiler for the emulator, and no card"
)


def on(device):
    return partial(CUDALayout, device=device)


@pytest.fixture
def short_chunks(monkeypatch):
    """Cut even small problems into chunks, and these into blocks."""
    monkeypatch.setattr(card_rows, "SHORTEST", 2)
    monkeypatch.setattr(card_rows, "LONGEST", 2)
    monkeypatch.setattr(card_rows, "ROW_BLOCK", 4)
    monkeypatch.setattr(pairs_of_rows, "PAIR_BLOCK", 8)


# --- dense answers --------------------------------------------------------------------


def cut_atoms(patch, data):
    """Cut atoms, pairs and samples into blocks of random sizes."""
    sizes = st.sampled_from([2, 9, 1000])
    patch.setattr(atoms_on_card, "ENTRIES_LIMIT", data.draw(sizes, "ENTRIES_LIMIT"))
    patch.setattr(curvature, "SAMPLE_LIMIT", data.draw(sizes, "SAMPLE_LIMIT"))
    patch.setattr(curvature, "PARTS_LIMIT", data.draw(sizes, "PARTS_LIMIT"))
    patch.setattr(atoms_on_card, "SHORTEST", data.draw(sizes, "SHORTEST"))
    patch.setattr(atoms_on_card, "MOST_SINGLE", data.draw(st.sampled_from([0, 1000])))
    patch.setattr(atoms_on_card, "TERMS_LIMIT", data.draw(st.sampled_from([9, 1000])))
    patch.setattr(atoms_on_card, "LEAST_TERMS", 2)


@every_device
@fewer
@given(data=st.data())
def test_many_atoms_at_once_are_the_dense_ones(device, data):
    """Margins, scores and second derivatives, however they are cut."""
    with pytest.MonkeyPatch.context() as patch:
        cut_atoms(patch, data)
        twin = data.draw(twins(LOSSES, layout=on(device), compared=comparisons))
        ours = twin.ours
        dense = twin.dense
        some, change = data.draw(models(dense.d))
        margins = ours.margins(some, change)
        m = np.asarray(margins)
        gradient = ours.gradient(margins)
        scores = gradient.scores(some)
        ours.reset()
        again = gradient.scores(some)
        found = ours.curvature(margins, some)
    V = reference.atom_margins(dense, some)
    size = dense.scale * np.abs(twin.X).max() ** 2
    assert_allclose(m, dense.margins(some, change), rtol=0, atol=1e-12 * (1 + 8 * size))
    tolerance = 1e-12 * max(dense.score_size(m), 1e-290)
    for found_scores in (scores, again):
        assert_allclose(found_scores, dense.scores(m, some), rtol=0, atol=tolerance)
    bend = dense.omega * losses.get(dense.loss).curvature(m)
    tolerance = 1e-11 + 1e-12 * (8 * size) ** 2 * max(1.0, bend.max())
    assert_allclose(found, V.T @ (bend[:, None] * V), rtol=0, atol=tolerance)
    assert_array_equal(found, found.T)


@every_device
@pytest.mark.parametrize("width", [3, 4])
@pytest.mark.parametrize("sample", [100_000, 7])
def test_statistics_are_the_cpus(device, monkeypatch, width, sample):
    X, T = random_arrays(5, n=20, d=15, T=60, density=0.4)
    rng = np.random.default_rng(0)
    T = np.column_stack([T, rng.integers(20, size=60)])[:, :width]
    monkeypatch.setattr("hdsl.solver.statistics.SAMPLE_SIZE", sample)
    for weights in (None, rng.random(60), np.eye(60)[59]):
        found = CUDALayout(sp.csr_array(X), T, weights, device=device).statistics()
        expected = CPULayout(sp.csr_array(X), T, weights, workers=ONE).statistics()
        assert_allclose(found, expected, rtol=1e-12)


@every_device
def test_rare_columns_count_in_the_prior_alone(device):
    X, T = random_arrays(5, n=20, d=15, T=60, density=0.3)
    options = {"columns": np.array([14]), "min_rows": 7}
    ours, cpu = (of(sp.csr_array(X), T, **options) for of in (on(device), cpus()))
    assert 2 < ours.n_features < 15
    assert_array_equal(ours.features, cpu.features)
    assert_allclose(ours.statistics(), cpu.statistics(), rtol=1e-12)
    some = np.array([[0, 1, 1], [1, 2, -1]])
    weights = np.full(2, 0.5)
    ours, cpu = (of.problem(losses.get("logistic"), 2.0, 0.7) for of in (ours, cpu))
    margins = ours.margins(some, weights)
    assert_allclose(np.asarray(margins), cpu.margins(some, weights), atol=1e-13)
    gradients = ours.gradient(margins), cpu.gradient(np.asarray(margins))
    assert_allclose(*(gradient.diagonal for gradient in gradients), atol=1e-14)
    assert_allclose(*(gradient.scores(some) for gradient in gradients), atol=1e-14)


@every_device
def test_second_derivatives_of_many_atoms_rest_on_the_cpus_sample(device, monkeypatch):
    X, T = random_arrays(3, n=25, d=27, T=120, density=0.3)
    weights = np.random.default_rng(1).random(120)
    i, j = np.triu_indices(27, 1)
    every = np.concatenate(
        [np.column_stack([i, j, np.full(len(i), s)]) for s in (1, -1)]
    )
    for loss, work in (
        ("logistic", 1 << 24),
        ("logistic", 200),
        ("smoothed_hinge", 200),
    ):
        given_twin = X, T, loss, 5.0, 0.0, weights
        monkeypatch.setattr("hdsl.solver.protocols.CURVATURE_WORK", work)
        monkeypatch.setattr(
            "hdsl.solver.protocols.PER_ATOM", 1e-9 if work == 200 else 16
        )
        ours, cpu = (
            make_twin(*given_twin, layout=of).ours for of in (on(device), cpus())
        )
        margins = ours.margins(every[:3], np.full(3, 1 / 3))
        found = ours.curvature(margins, every[:70])
        expected = cpu.curvature(np.asarray(margins), every[:70])
        assert_allclose(found, expected, rtol=0, atol=1e-13 * np.abs(expected).max())
        gradients = ours.gradient(margins), cpu.gradient(np.asarray(margins))
        assert_allclose(*(gradient.scores(every) for gradient in gradients), atol=1e-13)
        assert ours.exact_search_cost() == cpu.exact_search_cost()


def cpus():
    return partial(CPULayout, workers=ONE)


@emulated
def test_the_number_of_blocks_changes_no_bit():
    """Sums have an order of the problem: cards with more or fewer processors agree."""
    X, T = random_arrays(3, n=25, d=27, T=120, density=0.3)
    answers = []
    for n_blocks in (1, 2, 50):
        device = Emulator()
        device.n_blocks = n_blocks
        ours = make_twin(X, T, scale=5.0, layout=on(device)).ours
        some = np.array([[0, 5, 1], [1, 2, -1], [3, 26, 1], [0, 2, 1]])
        margins = ours.margins(some, np.full(4, 0.25))
        gradient = ours.gradient(margins)
        found = (
            ours.curvature(margins, some),
            np.asarray(margins),
            gradient.scores(some),
        )
        answers.append(
            [part.tobytes() for part in (*found, *gradient.partners(np.arange(8)))]
        )
    assert answers[0] == answers[1] == answers[2]


@emulated
def test_a_fit_takes_no_more_memory_than_is_estimated():
    """The emulator's arrays are NumPy's."""
    X, T = random_arrays(3, n=400, d=80, T=3000, density=0.2)
    X = sp.csr_array(X)
    some = np.array(
        [[i, j, s] for i in range(12) for j in range(i + 1, 12) for s in (1, -1)]
    )
    tracemalloc.start()
    try:
        ours = CUDALayout(X, T, device=Emulator()).problem(
            losses.get("logistic"), 1.0, 1.0
        )
        margins = ours.margins(some, np.full(len(some), 1 / len(some)))
        ours.curvature(margins, some)
        ours.gradient(margins).scores(some)
        ours.step(
            margins, Correction("", None, None, 1.0, some, np.full(len(some), -0.001))
        )
        taken = tracemalloc.get_traced_memory()[1]
        del ours, margins
        tracemalloc.reset_peak()
        ours = CUDALayout(X, T, device=Emulator()).problem(losses.get("logistic"), 9.0)
        single = Options("zero", None, 30, 0.0, False)
        rng = np.random.default_rng(0)
        frank_wolfe(ours, ORACLES["ascent"](), RULES["away"], single, rng=rng)
        one_by_one = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    corrects = estimate(X, T, corrects=True)
    assert taken <= corrects
    assert one_by_one <= estimate(X, T) < corrects
    assert for_corrections(4 * 10**6, 10**6, 10**8, 10**8) < 6e9  # there is a limit


# --- the path -------------------------------------------------------------------------

CASES = pairwise(
    sorted(ORACLES),
    ["away", "corrective", "pairwise"],
    ["smoothed_hinge", "logistic"],
    [None, 12],
    [False, True],
    [0.0, 0.3],
    [3, 4],
)
NAMES = "oracle", "rule", "loss", "batch_size", "weighted", "prior", "width"


@every_device
@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("short_chunks")
def test_the_path_is_the_cpus(device, monkeypatch, case):
    """From the start; from a rest, then to the last bit; from a rest of the other's."""
    monkeypatch.setattr("hdsl.solver.loop.restart_every", lambda rule: 3)
    run = partial(run_in_parts, **dict(zip(NAMES, case, strict=True)))
    run = partial(run, max_iter=4 if case[1] in ("corrective", "pairwise") else 7)
    taken = []
    taken_by_cpu = []
    found = run(on(device), save=lambda take: taken.append(take()))
    expected = run(cpus(), save=lambda take: taken_by_cpu.append(take()))
    assert_same_path(found, expected)
    if taken and taken_by_cpu:
        assert_same_run(run(on(device), latest=taken[0]), found)
        assert_same_path(run(cpus(), latest=taken[0]), expected)
        assert_same_path(run(on(device), latest=taken_by_cpu[0]), expected)


class Interrupted(Emulator):
    """Raises KeyboardInterrupt at one of its launches."""

    def __init__(self, at):
        super().__init__()
        self.left = at

    def launch(self, kernel, n_blocks, /, **arguments):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        super().launch(kernel, n_blocks, **arguments)


@emulated
@pytest.mark.parametrize(
    ("rule", "at"),
    [
        *(("away", at) for at in range(1, 200, 51)),
        *(("corrective", at) for at in range(20, 120, 27)),
    ],
)
def test_an_interrupt_between_two_launches_leaves_nothing_half_done(rule, at):
    """The run ends with the margins of its model; the next one takes the same path."""
    X, T = random_arrays(7, n=20, d=15, T=60, density=0.4)
    device = Interrupted(10**9)
    twin = make_twin(X, T, scale=5.0, layout=on(device))

    def solve():
        twin.ours.reset()
        return frank_wolfe(
            twin.ours,
            ORACLES["ascent"](),
            RULES[rule],
            Options(max_iter=4, tol=0.0),
            rng=np.random.default_rng(0),
        )

    whole = solve()
    device.left = at
    try:
        ended = solve()
    except KeyboardInterrupt:  # before the first model
        ended = None
    if ended is not None:
        margins = twin.dense.margins(twin.ours.from_user(ended.atoms), ended.weights)
        assert ended.objective == pytest.approx(twin.dense.value(margins), rel=1e-12)
    device.left = 10**9
    assert_array_equal(solve().weights, whole.weights)


@every_device
def test_a_loss_without_a_kernel_is_refused(device, monkeypatch):
    """One of the user's own, one of the library without a code, and a child of another."""
    slow = type("Slow", (losses.Logistic,), {"name": "slow", "code": None})
    monkeypatch.setitem(losses.LOSSES, "slow", slow)
    child = type("Child", (losses.Logistic,), {})
    layout = CUDALayout(sp.csr_array(np.eye(3)), np.array([[0, 1, 2]]), device=device)
    names = "smoothed_hinge, squared_hinge, logistic, exponential need device='cpu'"
    for loss in (Hyperbola(), slow(), child()):
        with pytest.raises(ValueError, match=f"no kernel .* other than {names}"):
            layout.problem(loss, 1.0)
