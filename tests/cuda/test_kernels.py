"""Kernels of the GPU against plain NumPy, in the emulator and on a card."""

import ctypes
import importlib.util
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from devices import DEVICES
from hdsl.cuda import rows as card_rows
from hdsl.cuda import runtime
from hdsl.cuda.rows import Segments
from strategies import matrices

every_device = pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
fewer = settings(max_examples=settings().max_examples // 3)

pytestmark = pytest.mark.skipif(
    not DEVICES, reason="no C++ compiler for the emulator, and no card"
)


@every_device
@fewer
@given(
    X=matrices(max_features=9),
    width=st.integers(1, 8),
    block=st.sampled_from([1, 3, 1000]),
    limit=st.sampled_from([1, 2, 64]),
    absolute=st.booleans(),
)
def test_segmented_sums(device, X, width, block, limit, absolute):
    """Whatever is cut, and wherever, the sums are those of a matrix product."""
    matrix = sp.csr_array(X)
    n, n_source = X.shape
    source = np.random.default_rng(0).standard_normal((n_source, width))
    lanes = next(lane for lane in (1, 2, 4, 8) if lane >= width)
    padded = np.zeros((n_source, lanes))
    padded[:, :width] = source
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(card_rows, "SHORTEST", limit)
        patch.setattr(card_rows, "LONGEST", limit)
        idx = device.upload(matrix.indices.astype(np.int32))
        ptr = matrix.indptr.astype(np.int64)
        val = device.upload(matrix.data)
        cut = Segments(
            device, ptr=ptr, idx=idx, val=val, n_source=n_source, block=block
        )
    out = device.empty(n * lanes)
    slots = device.empty(max(1, cut.n_slots * lanes))
    query = device.upload(np.array([width, *range(8)]))
    cut.sum(query, device.upload(padded.ravel()), slots, out, absolute=absolute)
    expected = (np.abs(X) if absolute else X) @ source
    found = device.download(out).reshape(n, lanes)[:, :width]
    assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@every_device
@fewer
@given(
    values=st.lists(
        st.sampled_from([0.0, 1.0, -1.0, 2.5, 3.0]), min_size=1, max_size=40
    ),
    repeats=st.sampled_from([1, 150]),
    count=st.integers(1, 8),
)
def test_largest_places(device, values, repeats, count):
    """The kernel's, of a few; those of a sort, of any number."""
    x = np.tile(np.array(values), repeats)
    tiles = -(-len(x) // runtime.CHUNK)
    out = device.empty(8, np.int64)
    x_on_device = device.upload(x)
    device.run(
        "largest_places",
        len(x),
        per_block=runtime.CHUNK,
        n=len(x),
        count=count,
        values=x_on_device,
        tile_value=device.empty(8 * tiles),
        tile_place=device.empty(8 * tiles, np.int64),
        ticket=device.zeros(1, np.uint32),
        out=out,
    )
    expected = np.argsort(-x, kind="stable")
    assert_array_equal(device.download(out)[: min(count, len(x))], expected[:count])
    assert_array_equal(device.largest(x_on_device, 3 * count), expected[: 3 * count])


FAST = ("-Xcicc", "-O0", "-Xptxas", "-O0")
FULLY = [pytest.param(arch, (), marks=pytest.mark.slow) for arch in ("sm_80", "sm_90")]


@pytest.mark.parametrize(("arch", "more"), [("sm_80", FAST), *FULLY])
def test_every_kernel_is_compiled_for_the_cards_we_know(arch, more, tmp_path):
    """By NVRTC, as on a user's machine, or by nvcc, fast or fully; without a card."""
    names = compiled_names(runtime.source(), arch, more, tmp_path)
    assert all(name.encode() in names for name in runtime.signatures())


def compiled_names(source, arch, more, folder):
    """Return compiled code, which has the names of its kernels in it."""
    nvrtc = nvrtc_library()
    if nvrtc is None and shutil.which("nvcc") is None:
        pytest.skip("neither NVRTC (package nvidia-cuda-nvrtc) nor nvcc is installed")
    if nvrtc is None:
        code = folder / "kernels.cu"
        out = folder / "kernels.cubin"
        code.write_text(source, encoding="utf-8")
        options = [*runtime.COMPILER_OPTIONS, f"-arch={arch}", *more]
        subprocess.run(["nvcc", *options, "-cubin", code, "-o", out], check=True)
        return out.read_bytes()
    program = ctypes.c_void_p()
    options = [
        *(option.encode() for option in runtime.COMPILER_OPTIONS),
        f"-arch={arch}".encode(),
    ]
    given_options = (ctypes.c_char_p * len(options))(*options)
    text = source.encode()
    assert (
        nvrtc.nvrtcCreateProgram(
            ctypes.byref(program), text, b"kernels.cu", 0, None, None
        )
        == 0
    )
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
