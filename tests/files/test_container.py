"""Model files: what is written comes back, and damage of any kind is found."""

import json
import pickle

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

from hdsl import load
from hdsl.files import container
from hdsl.files.container import read, write

HEADER = {"scale": 0.5, "names": ["a", "ü\ud800"], "nothing": None}
ARRAYS = {"weights": np.linspace(0, 1, 50), "atoms": np.arange(12).reshape(4, 3)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.hdsl"


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(
            lambda name: name != "__metadata__"
        ),
        hnp.arrays(
            st.sampled_from(["?", "u1", "i2", "<i8", ">i4", "<f4", "<f8", ">f8"]),
            hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
        ),
        max_size=4,
    )
)
def test_arrays_come_back_here_and_in_safetensors(tmp_path_factory, arrays):
    path = tmp_path_factory.getbasetemp() / "arrays.hdsl"
    write(path, arrays, HEADER)
    loaded, header = read(path)
    assert header == HEADER
    for others in (loaded, safetensors.numpy.load_file(path)):
        assert others.keys() == arrays.keys()
        for name, array in arrays.items():
            assert others[name].dtype == array.dtype.newbyteorder("=")
            assert_array_equal(others[name], array)


def test_same_content_makes_the_same_bytes(path):
    write(path, ARRAYS, HEADER)
    first = path.read_bytes()
    write(path, dict(reversed(ARRAYS.items())), dict(reversed(HEADER.items())))
    assert path.read_bytes() == first


def test_no_bit_can_change_unseen(path):
    write(path, ARRAYS, HEADER)
    raw = path.read_bytes()
    rng = np.random.default_rng(0)
    for k in {*rng.integers(len(raw), size=60).tolist(), 0, 9, len(raw) - 1}:
        damaged = bytearray(raw)
        damaged[k] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            arrays, header = read(path)
        except ValueError:
            continue
        assert header == HEADER  # a blank in the JSON text around the content
        assert arrays["weights"].tobytes() == ARRAYS["weights"].tobytes()


@pytest.mark.parametrize(
    ("arrays", "header"),
    [
        ({"a": np.array([None])}, {}),
        ({"a": np.array(["text"])}, {}),
        ({}, {"f": len}),
        ({}, {"a": np.zeros(3)}),
    ],
)
def test_what_has_no_form_is_refused_and_the_old_file_stays(path, arrays, header):
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match="model file"):
        write(path, arrays, header)
    assert path.read_bytes() == b"old"


def sealed(arrays=(), **changes):
    """Return a file whose metadata has other values, with the checksum of the header."""
    text = changes.pop("header", "{}")
    arrays = dict(arrays)
    checksum = changes.pop("sha256", None)
    if checksum is None and isinstance(text, str):
        checksum = container.checksum(arrays, text)
    content = {
        "format": container.FORMAT,
        "header": text,
        "sha256": checksum,
        **changes,
    }
    return safetensors.numpy.save(arrays, {container.KEY: json.dumps(content)})


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "empty"),
        (pickle.dumps({"a": 1}), "not a model"),
        (b"\xff" * 8 + b"{}", "not a model"),
        (safetensors.numpy.save(ARRAYS, {"other": "x"}), "not a model"),
        (safetensors.numpy.save({}, {container.KEY: "[" * 100_000}), "damaged"),
        (sealed(format=container.FORMAT + 1), "update"),
        (sealed(header="[]"), "object"),
        (sealed(header=5, sha256="x"), "damaged"),
        (sealed(sha256="0" * 64), "checksum"),
        (sealed(header="[" * 100_000), "damaged"),
        (sealed(header='{"a": ' + "9" * 5000 + "}"), "damaged"),
    ],
    ids=range(11),
)
def test_other_and_hostile_files_are_refused(path, raw, message):
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=message) as caught:
        read(path)
    assert len(str(caught.value)) < 700


def test_a_header_of_other_kinds_is_refused(path):
    write(path, {}, {"kind": "Pipeline", "steps": [["a", "b"]]})
    with pytest.raises(ValueError, match=path.name):
        load(path)
