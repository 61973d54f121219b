"""The GPU's side: its kernels against plain NumPy, the CPU's path, clear refusals.

Kernels run in the emulator, and on a card where there is one. Conformance of the layout is tested
with all others.
"""

import ctypes
import importlib.util
import shutil
import subprocess
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference
from devices import DEVICES
from emulator.device import Emulator
from hdsl.cpu import corrective as host
from hdsl.cpu.layout import CPULayout
from hdsl.cpu.workers import Workers
from hdsl.cuda import corrective, runtime, segments, terms
from hdsl.cuda import layout as layout_module
from hdsl.cuda.layout import CUDALayout
from hdsl.cuda.memory import estimate, for_corrections
from hdsl.cuda.segments import Segments
from hdsl.rows import stored_rows
from hdsl.solver import losses
from hdsl.solver.atoms import Atom
from hdsl.solver.loop import Options, frank_wolfe
from hdsl.solver.oracle import ORACLES
from hdsl.solver.protocols import Move, Problem
from hdsl.solver.snapshot import Snapshots
from hdsl.solver.steps import RULES
from pairwise import pairwise
from runs import assert_same_path
from strategies import (
    LOSSES,
    atoms,
    comparisons,
    make_twin,
    matrices,
    models,
    random_arrays,
    twins,
)

ONE = Workers(1)
every_device = pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
fewer = settings(max_examples=settings().max_examples // 3)
STORAGES = st.sampled_from(["float64", "float32"])

pytestmark = pytest.mark.skipif(not DEVICES, reason="no C++ compiler for the emulator, and no card")


@pytest.fixture
def short_chunks(monkeypatch):
    """Cut even small problems into chunks, and these into blocks."""
    monkeypatch.setattr(segments, "SHORTEST", 2)
    monkeypatch.setattr(segments, "LONGEST", 2)
    monkeypatch.setattr(layout_module, "ROW_BLOCK", 4)
    monkeypatch.setattr(layout_module, "PAIR_BLOCK", 8)


# --- kernels -------------------------------------------------------------------------------------


@every_device
@fewer
@given(
    X=matrices(max_features=9),
    width=st.integers(1, 8),
    block=st.sampled_from([1, 3, 1000]),
    limit=st.sampled_from([1, 2, 64]),
    absolute=st.booleans(),
    storage=st.sampled_from(["float64", "float32"]),
)
def test_segmented_sums(device, X, width, block, limit, absolute, storage):
    """Whatever is cut, and wherever, the sums are those of a matrix product, in float64."""
    X = X.astype(storage).astype(np.float64)
    matrix = sp.csr_array(X)
    n, n_source = X.shape
    source = np.random.default_rng(0).standard_normal((n_source, width))
    lanes = next(lane for lane in (1, 2, 4, 8) if lane >= width)
    padded = np.zeros((n_source, lanes))
    padded[:, :width] = source
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "SHORTEST", limit)
        patch.setattr(segments, "LONGEST", limit)
        idx = device.upload(matrix.indices.astype(np.int32))
        ptr, val = matrix.indptr.astype(np.int64), device.upload(matrix.data.astype(storage))
        cut = Segments(device, ptr, idx, val, n_source, block)
    out, slots = device.empty(n * lanes), device.empty(max(1, cut.n_slots * lanes))
    query = device.upload(np.array([width, *range(8)]))
    cut.sum(query, device.upload(padded.ravel()), slots, out, absolute=absolute)
    expected = (np.abs(X) if absolute else X) @ source
    found = device.download(out).reshape(n, lanes)[:, :width]
    assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@every_device
@fewer
@given(
    values=st.lists(st.sampled_from([0.0, 1.0, -1.0, 2.5, 3.0]), min_size=1, max_size=40),
    repeats=st.sampled_from([1, 150]),
    count=st.integers(1, 8),
)
def test_largest_places(device, values, repeats, count):
    x = np.tile(np.array(values), repeats)
    tiles = -(-len(x) // 2048)
    room = device.empty(8 * tiles), device.empty(8 * tiles, np.int64), device.zeros(1, np.uint32)
    out = device.empty(8, np.int64)
    device.run(
        "largest_places", len(x), len(x), count, device.upload(x), *room, out, per_block=2048
    )
    expected = np.argsort(-x, kind="stable")[:count]
    assert_array_equal(device.download(out)[: len(expected)], expected)


@every_device
def test_products_and_terms_are_those_of_the_host(device):
    """Products come by feature and pair, terms of a pair in the order of the comparisons."""
    X, T = random_arrays(3, n=20, d=15, T=60, density=0.4)
    T[0, 1] = T[0, 0]  # a row with itself
    layout = make_twin(X, T, layout=partial(CUDALayout, device=device, workers=ONE)).layout
    card, of = layout.card, layout.host.comparisons
    dense = of.rows.matrix.toarray()
    products = dense[of.pairs.a] * dense[of.pairs.b]
    expected = sp.csc_array(products)
    expected.sort_indices()
    assert_array_equal(device.download(card.products.ptr), expected.indptr)
    assert_array_equal(device.download(card.products.idx), expected.indices)
    assert_array_equal(device.download(card.products.val), expected.data)
    ptr, term = device.download(card.term_ptr), device.download(card.term)
    for s in range(of.pairs.n_pairs):
        listed = [
            t if side == s else ~t
            for t in range(of.n_comparisons)
            for side, other in [(of.positive_pair[t], of.negative_pair[t])]
            if s in (side, other)
        ]
        assert term[ptr[s] : ptr[s + 1]].tolist() == listed


@every_device
@fewer
@given(data=st.data())
def test_the_line_search_is_the_cpus(device, data):
    """On the card it takes the steps of ``core.line_search`` on the same slopes."""
    layout = partial(CUDALayout, device=device, workers=ONE)
    twin = data.draw(twins(LOSSES, layout=layout, compared=comparisons))
    ours = twin.ours
    margins = ours.margins(*data.draw(models(twin.dense.d)))
    atom, limit = Atom(*data.draw(atoms(twin.dense.d))), data.draw(st.sampled_from([0.1, 1.0]))
    for move in (Move("forward", atom, None, limit), Move("away", None, atom, limit)):
        found, expected = ours.step(margins, move), Problem.step(ours, margins, move)
        if found is None or expected is None:  # rounding may hide a slope that is all but 0
            value = ours.value(margins)
            for step in filter(None, (found, expected)):
                assert step.value == pytest.approx(value, rel=1e-9, abs=1e-12)
        else:
            assert found.value == pytest.approx(expected.value, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("arch", "single"), [("sm_80", False), ("sm_90", False), ("sm_90", True)])
def test_every_kernel_is_compiled_for_the_cards_we_know(arch, single, tmp_path):
    """By NVRTC, as on a user's machine, or by nvcc; without a card."""
    names = compiled_names(runtime.source(single=single), arch, tmp_path)
    assert all(name.encode() in names for name in runtime.kernel_names(single=single))


def compiled_names(source, arch, folder):
    """Return compiled code, which has the names of its kernels in it."""
    nvrtc = nvrtc_library()
    if nvrtc is None and shutil.which("nvcc") is None:
        pytest.skip("neither NVRTC (package nvidia-cuda-nvrtc) nor nvcc is installed")
    if nvrtc is None:
        code, out = folder / "kernels.cu", folder / "kernels.cubin"
        code.write_text(source, encoding="utf-8")
        options = ["-std=c++17", "-fmad=false", f"-arch={arch}", "-cubin"]
        subprocess.run(["nvcc", *options, code, "-o", out], check=True)
        return out.read_bytes()
    program = ctypes.c_void_p()
    options = [*(option.encode() for option in runtime.COMPILER_OPTIONS), f"-arch={arch}".encode()]
    given_options = (ctypes.c_char_p * len(options))(*options)
    text = source.encode()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"kernels.cu", 0, None, None) == 0
    status = nvrtc.nvrtcCompileProgram(program, len(options), given_options)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    assert status == 0, log.value.decode()
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, cubin)
    return cubin.raw


def nvrtc_library():
    """Return NVRTC of NVIDIA's package where it is installed, else None."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations if spec else ():
        for path in sorted(Path(folder).glob("**/libnvrtc.so.*")):
            return ctypes.CDLL(str(path))
    return None


# --- corrections ---------------------------------------------------------------------------------


@every_device
@fewer
@given(data=st.data())
def test_second_derivatives_and_shifts_are_the_dense_ones(device, data):
    """However atoms, comparisons and sums are cut; X as float where that changes nothing."""
    layout = partial(CUDALayout, device=device, workers=ONE, storage=data.draw(STORAGES))
    X = data.draw(matrices()).astype(np.float32).astype(np.float64)
    compared = data.draw(comparisons(len(X)))
    twin = make_twin(X, compared, data.draw(st.sampled_from(LOSSES)), 2.0, layout=layout)
    margins = twin.ours.margins(*data.draw(models(twin.dense.d)))
    some, change = data.draw(models(twin.dense.d))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("ROWS_LIMIT", "TERMS_LIMIT", "PARTS_LIMIT", "SHORTEST"):
            patch.setattr(corrective, name, data.draw(st.sampled_from([2, 9, 1000]), name))
        found, shift = twin.ours.curvature(margins, some), np.asarray(twin.ours.shift(some, change))
    V = reference.atom_margins(twin.dense, some)
    m = np.asarray(margins)
    bend = twin.dense.omega * losses.get(twin.dense.loss).curvature(m)
    size = bend.sum() * (16 * np.abs(X).max() ** 2) ** 2  # terms may be large and cancel
    assert_allclose(found, V.T @ (bend[:, None] * V), rtol=0, atol=1e-11 + 1e-13 * size)
    assert_array_equal(found, found.T)
    assert_allclose(shift, V @ change, rtol=0, atol=1e-12 * (1 + np.abs(V).max()))


@pytest.fixture(scope="module")
def many_atoms():
    """All atoms of 27 features, more than a warp sums at a time, and weighted triplets."""
    X, T = random_arrays(3, n=25, d=27, T=120, density=0.3)
    i, j = np.triu_indices(27, 1)
    every = np.concatenate([np.column_stack([i, j, np.full(len(i), s)]) for s in (1, -1)])
    return (X, T, "logistic", 5.0, 0.0, np.random.default_rng(1).random(120)), every


@every_device
def test_second_derivatives_of_many_atoms_are_the_cpus(device, monkeypatch, many_atoms):
    """From the same sample of the comparisons, too; what comes back is the matrix."""
    given, every = many_atoms
    n = len(every)
    for sample in (1 << 18, 30):
        monkeypatch.setattr(host, "CURVATURE_SAMPLE", sample)
        ours, cpu = (make_twin(*given, layout=of).ours for of in layouts(device))
        margins = ours.margins(every[:3], np.full(3, 1 / 3))
        back = []
        with monkeypatch.context() as patch:
            patch.setattr(device, "download", partial(noting, device.download, back))
            found = ours.curvature(margins, every)
        expected = cpu.curvature(np.asarray(margins), every)
        assert_allclose(found, expected, rtol=0, atol=1e-13 * np.abs(expected).max())
        assert sum(back) <= 8 * (n * n + n + 2)


def layouts(device):
    return partial(CUDALayout, device=device, workers=ONE), partial(CPULayout, workers=ONE)


def noting(download, sizes, array):
    sizes.append(array.nbytes)
    return download(array)


@pytest.mark.skipif("emulator" not in DEVICES, reason="no C++ compiler for the emulator")
def test_the_number_of_blocks_changes_no_bit_of_a_correction(many_atoms):
    """Sums have an order of the problem: cards with more or fewer processors agree."""
    given, every = many_atoms
    answers = []
    for n_blocks in (1, 2, 50):
        device = Emulator()
        device.n_blocks = n_blocks
        ours = make_twin(*given, layout=layouts(device)[0]).ours
        margins = ours.margins(every[:3], np.full(3, 1 / 3))
        found = ours.curvature(margins, every), np.asarray(ours.shift(every, np.arange(702.0)))
        answers.append([part.tobytes() for part in found])
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.skipif("emulator" not in DEVICES, reason="no C++ compiler for the emulator")
def test_corrections_take_no_more_memory_than_is_estimated(many_atoms):
    """Beyond the fit's own; the emulator's arrays are NumPy's."""
    (X, T, *rest), every = many_atoms
    ours = make_twin(X, T, *rest, layout=layouts(Emulator())[0]).ours
    margins = ours.margins(every[:3], np.full(3, 1 / 3))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        ours.curvature(margins, every)
        ours.shift(every, np.ones(len(every)))
        taken = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    X = sp.csr_array(X)
    plain, corrects = (estimate(X, T, corrects=flag) for flag in (False, True))
    assert taken <= corrects.total - plain.total <= 10 * taken
    assert corrects.atoms - plain.atoms == for_corrections(*X.shape, len(T))
    assert for_corrections(4 * 10**6, 10**6, 10**8) < 1.5e9  # there is a limit


# --- the path ------------------------------------------------------------------------------------


def run(layout, case, latest=None, save=lambda take: None):
    """Return the result of a run on a layout."""
    oracle, rule, loss, batch_size, weighted, prior, width = case
    X, T = random_arrays(7, n=20, d=15, T=60, density=0.4)
    rng = np.random.default_rng(8)
    T = np.column_stack([T, rng.integers(20, size=len(T))])[:, :width]
    weights = rng.random(len(T)) if weighted else None
    # Exact pairwise steps leave ties of scores, which rounding settles, from 0 and later on.
    init = "oracle" if rule == "pairwise" else "zero"
    max_iter = 6 if rule in ("corrective", "pairwise") else 14
    options = Options(batch_size=batch_size, max_iter=max_iter, tol=1e-6, init=init)
    problem = make_twin(X, T, loss, 5.0, prior, weights, layout=layout).ours
    return frank_wolfe(
        problem, ORACLES[oracle](), RULES[rule], options, rng=np.random.default_rng(5),
        snapshots=Snapshots(latest, save),
    )  # fmt: skip


CASES = pairwise(
    sorted(ORACLES), sorted(RULES), ["smoothed_hinge", "logistic"], [None, 12], [False, True],
    [0.0, 0.3], [3, 4],
)  # fmt: skip


@every_device
@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("short_chunks")
def test_the_path_is_the_cpus(device, case):
    """From the start; from a snapshot, then to the last bit; from a snapshot of the other's."""
    ours, cpu = partial(CUDALayout, device=device, workers=ONE), partial(CPULayout, workers=ONE)
    taken, taken_by_cpu = [], []
    found = run(ours, case, save=lambda take: taken.append(take()))
    expected = run(cpu, case, save=lambda take: taken_by_cpu.append(take()))
    assert_same_path(found, expected)
    at = min(6, len(taken) - 1, len(taken_by_cpu) - 1) // 2
    continued = run(ours, case, taken[at])
    assert_array_equal(continued.weights, found.weights)
    for name in set(found.trace.dtype.names) - {"seconds"}:
        assert_array_equal(continued.trace[name], found.trace[name])
    assert_same_path(run(cpu, case, taken[at]), expected)
    assert_same_path(run(ours, case, taken_by_cpu[at]), expected)


def rounded(layout):
    """Return a layout of the rows that float32 has room for."""
    return lambda X, *rest: layout(stored_rows(X, "float32"), *rest)


@every_device
@pytest.mark.parametrize("case", CASES[::3])
@pytest.mark.usefixtures("short_chunks")
def test_float32_holds_rounded_rows_to_the_last_bit(device, case):
    """Values that need no rounding have the path of float64, in the same bits; the CPU's atoms."""
    ours = partial(CUDALayout, device=device, workers=ONE)
    one, other = (run(rounded(partial(ours, storage=s)), case) for s in ("float32", "float64"))
    assert_array_equal(one.weights, other.weights)
    for name in set(one.trace.dtype.names) - {"seconds"}:
        assert_array_equal(one.trace[name], other.trace[name])
    assert_same_path(one, run(rounded(partial(CPULayout, workers=ONE)), case))


@every_device
def test_float32_takes_half_of_the_memory_of_the_values(device):
    X, T = random_arrays(3, n=20, d=15, T=60, density=0.4)
    X = stored_rows(sp.csr_array(X), "float32")
    cards = [
        CUDALayout(X, T, device=device, workers=ONE, storage=storage).card
        for storage in ("float64", "float32")
    ]
    sizes = [card.columns.val.nbytes for card in cards]
    assert sizes == [8 * X.nnz, 4 * X.nnz]
    assert cards[1].products.val.dtype == np.float64
    wide, narrow = (estimate(X, T, storage) for storage in ("float64", "float32"))
    assert wide.matrix - narrow.matrix == 4 * X.nnz
    assert narrow.total < wide.total


@every_device
def test_terms_beyond_the_limit_are_computed_anew(device, monkeypatch):
    """With room for few feature pairs, or for none, scores are the same numbers."""
    X, T = random_arrays(5, n=20, d=15, T=60, density=0.4)
    some = np.array([[0, 1, 1], [2, 5, -1], [3, 4, 1], [1, 9, 1]])
    found = []
    for limit in (1 << 20, 150, 1):
        monkeypatch.setattr(terms.Terms.__init__, "__defaults__", (limit,))
        ours = make_twin(X, T, layout=partial(CUDALayout, device=device, workers=ONE)).ours
        gradient = ours.gradient(ours.margins(some[:1], np.ones(1)))
        found.append([gradient.scores(some), gradient.scores(some[2:]), gradient.entries(some)])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert_array_equal(a, b)


class Interrupted(Emulator):
    """Raises KeyboardInterrupt at one of its launches."""

    def __init__(self, at):
        super().__init__()
        self.left = at

    def launch(self, kernel, n_blocks, *args):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        super().launch(kernel, n_blocks, *args)


@pytest.mark.skipif("emulator" not in DEVICES, reason="no C++ compiler for the emulator")
@pytest.mark.parametrize(
    ("rule", "at"),
    [
        *(("away", at) for at in range(1, 140, 11)),
        *(("corrective", at) for at in range(21, 62, 4)),
    ],
)
def test_an_interrupt_between_two_launches_leaves_nothing_half_done(rule, at):
    """The run ends with the margins of its model, and the next one takes the same path."""
    X, T = random_arrays(7, n=20, d=15, T=60, density=0.4)
    device = Interrupted(10**9)
    twin = make_twin(X, T, scale=5.0, layout=partial(CUDALayout, device=device, workers=ONE))

    def solve():
        return frank_wolfe(
            twin.ours, ORACLES["ascent"](), RULES[rule], Options(max_iter=4, tol=0.0),
            rng=np.random.default_rng(0),
        )  # fmt: skip

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


# --- refusals ------------------------------------------------------------------------------------


def test_unknown_devices_and_missing_libraries_are_named(monkeypatch):
    with pytest.raises(ValueError, match="No device is named 'gpu'"):
        runtime.get_device("gpu")
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    with pytest.raises(runtime.DeviceError, match=r"hdsl\[cuda\].*device='cpu'"):
        runtime.get_device("cuda:1")


def test_a_loss_of_ones_own_is_refused():
    device = next(iter(DEVICES.values()))
    layout = make_twin(
        *random_arrays(0), layout=partial(CUDALayout, device=device, workers=ONE)
    ).layout
    with pytest.raises(ValueError, match=r"losses of the library only.*device='cpu'"):
        layout.problem(object(), 1.0)
    assert layout.problem(losses.get("logistic"), 1.0).n_comparisons == 30
