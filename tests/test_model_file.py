"""Model files: a model comes back as it was, and what is no model is refused."""

import ast
import random
import sys
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from hdsl import strict_json
from hdsl.files import atomic, container, model, tables
from hdsl.files.model import model_from_arrays, model_to_arrays, read_model, write_model
from hdsl.solver.loop import TRACE_DTYPE

GOLDEN = Path(__file__).parent / "golden" / "model-v2.hdsl"
GOLDEN_1 = GOLDEN.with_name("model-v1.hdsl")
UNSEALED = GOLDEN.with_name("model-v1-unsealed.hdsl")  # without a checksum, as others may write it


# --- models to save ------------------------------------------------------------------------------


def mine(X, y, rng):
    """A parameter that no file can hold."""


def make_trace(n_iter, d, seed=0):
    """A trace with steps of all kinds."""
    rng = np.random.default_rng(seed)
    trace = np.zeros(n_iter + 1, dtype=TRACE_DTYPE)
    for name in ("objective", "gap", "step_size", "seconds"):
        trace[name] = rng.random(n_iter + 1)
    trace["gap"][rng.random(n_iter + 1) < 0.2] = np.nan
    trace["kind"] = rng.choice(["forward", "away", "pairwise"], n_iter + 1)
    trace["kind"][0] = "start"
    for prefix, absent in (("", "away"), ("away_", "forward")):
        trace[prefix + "i"] = rng.integers(d - 1, size=n_iter + 1)
        trace[prefix + "j"] = rng.integers(trace[prefix + "i"] + 1, d)
        trace[prefix + "sign"] = rng.choice([-1, 1], n_iter + 1)
        none = (trace["kind"] == absent) | ((trace["kind"] == "start") & (prefix == "away_"))
        for part, value in (("i", -1), ("j", -1), ("sign", 0)):
            trace[prefix + part][none] = value
    trace["n_atoms"] = trace["n_features"] = 1 + np.arange(n_iter + 1)
    return trace


def make_state(n_atoms=3, n_iter=4, d=5, **changes):
    pairs = np.column_stack(np.triu_indices(min(d, 200), 1))[:n_atoms]
    weights = np.arange(1.0, n_atoms + 1)
    return {
        "params": {"scale": "auto", "tol": 1e-3, "batch_size": None, "n_targets": 3},
        "atoms": np.column_stack([pairs, np.where(np.arange(n_atoms) % 2, -1, 1)]),
        "weights": weights / weights.sum(),
        "scale": 12.5,
        "prior": 0.1,
        "objective": 0.25,
        "gap": 0.001,
        "gap_is_exact": True,
        "status": "optimal",
        "n_iter": n_iter,
        "n_triplets": 100,
        "n_features_in": d,
        "norm": "l2",
        "columns": None,
        "trace": make_trace(n_iter, d),
        "versions": {"hdsl": "0.1.0", "numpy": "2.0.0", "python": "3.11.7"},
        **changes,
    }


#: The trace's columns when the format was made.
TRACE_DTYPE_1 = np.dtype(
    [
        *[("objective", "f8"), ("gap", "f8"), ("gap_is_exact", "?"), ("kind", "U8")],
        *[("step_size", "f8"), ("i", "i8"), ("j", "i8"), ("sign", "i1")],
        *[("away_i", "i8"), ("away_j", "i8"), ("away_sign", "i1"), ("drop", "?")],
        *[("n_atoms", "i8"), ("n_features", "i8"), ("seconds", "f8")],
    ]
)


def golden_state_1():
    """What tests/golden/model-v1.hdsl holds: only literals, so that it never changes.

    The file was made once by ``write_model(GOLDEN_1, golden_state_1())`` at format 1, which had
    neither a norm nor columns; a later format gets a file of its own and this one stays.
    """
    trace = np.array(
        [
            (0.5, 0.25, False, "start", 1.0, 0, 2, 1, -1, -1, 0, False, 1, 2, 0.125),
            (0.4, np.nan, False, "forward", 0.1, 1, 300, -1, -1, -1, 0, False, 2, 4, 0.25),
            (0.3, 1e-300, True, "pairwise", 0.3, 1, 300, -1, 0, 2, 1, False, 2, 4, 0.5),
        ],
        dtype=TRACE_DTYPE_1,
    )
    return {
        "params": {"scale": "auto", "prior": 0.1, "max_iter": 2, "callback": None, "mining": None},
        "params_left_out": {"mining": "mine"},
        "atoms": np.array([[0, 2, 1], [1, 300, -1]]),
        "weights": np.array([0.6, 0.4]),
        "scale": 0.1 + 0.2,
        "prior": 0.1,
        "objective": 0.3,
        "gap": np.nan,
        "gap_is_exact": False,
        "status": "max_iter",
        "n_iter": 2,
        "n_triplets": 7,
        "n_features_in": 301,
        "norm": None,
        "columns": None,
        "feature_names_in": np.array(["", "ü\n", "\ud800", *map(str, range(298))], dtype=object),
        "trace": trace,
        "versions": {"hdsl": "0.1.0", "numpy": "2.0.0", "python": "3.11.7", "format": 1},
        "extra": {
            "lowercase": True,
            "ngram_range": [1, 2],
            "idf": np.array([1.5, np.inf], dtype=np.float32),
            "vocabulary": np.array(["price", "cost"], dtype=object),
        },
    }


def golden_state():
    """What tests/golden/model-v2.hdsl holds, made once as `golden_state_1` was, at format 2.

    The run starts at 0, which keeps some of the weight, and one step leads away from it.
    """
    state = golden_state_1()
    trace = np.array(
        [
            (0.5, 0.25, False, "start", 1.0, -1, -1, 1, -1, -1, 0, False, 0, 0, 0.125),
            (0.4, np.nan, False, "forward", 0.1, 1, 300, -1, -1, -1, 0, False, 1, 2, 0.25),
            (0.3, 1e-300, True, "pairwise", 0.3, 0, 2, 1, -1, -1, 1, False, 2, 4, 0.5),
        ],
        dtype=TRACE_DTYPE_1,
    )
    return {
        **state,
        "weights": np.array([0.5, 0.125]),
        "norm": "l2",
        "columns": np.array([0, 1, 2, 7, 8, 300]),
        "trace": trace,
        "versions": {**state["versions"], "format": 2},
    }


def assert_same(one, other):
    """Equal values of equal types, floats bit for bit."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if one.dtype == object:
            assert one.tolist() == other.tolist()
        else:
            assert one.tobytes() == other.tobytes()
    else:
        assert repr(one) == repr(other)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.hdsl"


@pytest.fixture(scope="module")
def shared_path(tmp_path_factory):
    """One path for all examples of a property."""
    return tmp_path_factory.mktemp("models") / "model.hdsl"


# --- models --------------------------------------------------------------------------------------


def through_file(path, state):
    write_model(path, state)
    return read_model(path)


def test_a_model_comes_back(path):
    extra = {
        "settings": {"ngram_range": (1, 2), "token_pattern": r"\w+"},
        "vocabulary": np.array(["price", "", "ü\n"]),
        "no words": np.array([], dtype=object),
        "no numbers": np.array([]),
        "idf": np.array([[1.5], [np.nan]]),
    }
    state = make_state(feature_names_in=np.array(list("abcde")), extra=extra)
    back = through_file(path, state)
    assert_same(
        back,
        {
            **state,
            "params_left_out": {},
            "versions": {**state["versions"], "format": 2},
            "feature_names_in": np.array(list("abcde"), dtype=object),
            "extra": {
                **extra,
                "settings": {"ngram_range": [1, 2], "token_pattern": r"\w+"},
                "vocabulary": extra["vocabulary"].astype(object),
            },
        },
    )
    assert back["atoms"].dtype == np.int64
    assert_same(through_file(path, back), back)


def test_a_model_at_zero_comes_back(path):
    trace = make_trace(0, 5)
    trace[["i", "j", "sign"]] = (-1, -1, 1)
    trace["n_atoms"] = trace["n_features"] = 0
    state = make_state(0, 0, trace=trace)
    back = through_file(path, state)
    for name in ("atoms", "weights", "trace"):
        assert_same(back[name], state[name])


def test_weights_may_leave_some_to_zero(path):
    trace = make_trace(4, 5)
    trace["kind"][1] = "away"
    trace[["i", "j", "sign"]][1] = (-1, -1, 0)
    trace[["away_i", "away_j", "away_sign"]][1] = (-1, -1, 1)
    state = make_state(weights=np.array([0.25, 0.125, 0.125]), trace=trace)
    back = through_file(path, state)
    for name in ("weights", "trace"):
        assert_same(back[name], state[name])


def test_columns_come_back_from_bits_and_from_numbers(path):
    for d, columns, dtype in [
        (5, [0, 4], np.uint8),
        (9, range(9), np.uint8),
        (64, [63], np.uint8),
        (65, [64], np.int8),
        (100_000, [0, 70_000], np.int32),
    ]:
        state = make_state(d=d, columns=np.array(columns, dtype=np.int64))
        assert model_to_arrays(state)[0]["columns"].dtype == dtype
        assert_same(through_file(path, state)["columns"], state["columns"])


def test_parameters_that_json_has_no_form_for_are_left_out(path):
    given = {
        "callback": print,
        "mining": mine,
        "random_state": np.random.RandomState(0),
        "scale": np.nan,
    }
    params = {**given, "n_jobs": np.int64(2), "tol": np.float32(0.5)}
    back = through_file(path, make_state(params=params))
    names = {"callback": "print", "mining": "mine", "random_state": "RandomState", "scale": "float"}
    assert back["params"] == {**dict.fromkeys(given), "n_jobs": 2, "tol": 0.5}
    assert back["params_left_out"] == names
    assert through_file(path, back)["params_left_out"] == names


FLOATS = st.sampled_from([np.nan, np.inf, -np.inf, 1e-300, np.float64(0.1)])


@settings(max_examples=20)
@given(st.integers(1, 10), st.integers(0, 30), st.integers(5, 10**6), st.booleans(), FLOATS)
def test_models_of_many_sizes_come_back(shared_path, n_atoms, n_iter, d, exact, gap):
    state = make_state(n_atoms, n_iter, d, gap_is_exact=np.bool_(exact), n_triplets=np.int64(9))
    back = through_file(shared_path, state | {"gap": gap, "objective": gap})
    for name in ("atoms", "weights", "trace"):
        assert_same(back[name], state[name])
    assert back["gap_is_exact"] is exact
    assert type(back["n_triplets"]) is int
    assert_same(back["gap"], float(gap))
    assert_same(back["objective"], float(gap))
    assert back["feature_names_in"] is None
    assert back["extra"] == {}


def test_a_trace_may_have_other_columns(path):
    own = make_trace(4, 5)
    trace = np.zeros(5, dtype=[*TRACE_DTYPE.descr, ("score", "<f4"), ("note", "<U3")])
    for name in TRACE_DTYPE.names:
        trace[name] = own[name]
    trace["note"] = ["a", "", "ü", "abc", "a"]
    assert_same(through_file(path, make_state(trace=trace))["trace"], trace)


def test_a_large_model_is_a_small_file(path):
    """A few hundred KB for thousands of atoms; 40 bytes per step are floats that do not shrink."""
    write_model(path, make_state(3000, 5000, 47_236))
    assert path.stat().st_size < 400_000


# --- states that no model has --------------------------------------------------------------------


def changed(name, at, value, column=None):
    """A change of one entry of an array of the state."""

    def change(state):
        array = state[name].copy()
        (array if column is None else array[column])[at] = value
        return {**state, name: array}

    return change


def instead(**changes):
    return lambda state: {**state, **changes}


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        (changed("atoms", (1, 0), -1), r"atoms\[1\] is \[-1, 2, -1\], expected .* < n_features_in"),
        (changed("atoms", (1, 1), 5), r"atoms\[1\] is \[0, 5, -1\]"),
        (changed("atoms", (0, slice(2)), [1, 1]), r"atoms\[0\] is \[1, 1, 1\]"),
        (changed("atoms", (2, 2), 0), r"atoms\[2\] is \[0, 3, 0\].* sign of -1 or 1"),
        (changed("atoms", 2, [0, 1, 1]), r"atoms\[2\] is \[0, 1, 1\], as is an earlier one"),
        (instead(atoms=np.zeros((3, 2), int)), r"atoms has shape \(3, 2\)"),
        (instead(weights=np.full(2, 0.5)), r"weights has shape \(2,\)"),
        (changed("weights", 1, np.nan), r"weights\[1\] is nan"),
        (changed("weights", 1, -0.1), r"weights\[1\] is -0.1"),
        (changed("weights", slice(None), 1e308), "weights sum to inf"),
        (changed("weights", 0, 1 / 6 + 1e-8), "weights sum to 1.00000001"),
        (instead(scale=0.0), "scale is 0.0, expected a finite number > 0"),
        (instead(scale=np.nan), "scale is nan"),
        (instead(scale=np.inf), "scale is inf"),
        (instead(prior=-0.1), "prior is -0.1, expected a finite number >= 0"),
        (instead(prior=np.nan), "prior is nan"),
        (instead(prior=np.inf), "prior is inf"),
        (instead(n_iter=5), r"trace has shape \(5,\), expected n_iter \+ 1 = 6 rows or more"),
        (instead(n_iter=-1), "n_iter is -1, expected an int >= 0"),
        (instead(n_triplets=0), "n_triplets is 0"),
        (instead(n_features_in=1), "n_features_in is 1"),
        (instead(n_features_in=2**63), "n_features_in is 9223372036854775808"),
        (changed("trace", 2, 5, "j"), r"the atom of trace\[2\] is"),
        (changed("trace", 0, -1, "i"), r"the atom of trace\[0\] is \[-1, "),
        (changed("trace", 0, 2, "away_sign"), r"the away atom of trace\[0\] is \[-1, -1, 2\]"),
        (instead(norm="l1"), "norm is 'l1', expected 'l2' or null"),
        (instead(feature_names_in=["a"]), "feature_names_in has 1 names, but n_features_in is 5"),
        (
            lambda state: {**state, "trace": state["trace"][["objective", "kind"]].copy()},
            "column 'away_i' of trace is missing, expected <i8",
        ),
    ],
)
def test_a_state_that_is_no_model_is_neither_saved_nor_loaded(monkeypatch, change, fragment):
    state = change(make_state())
    with pytest.raises(ValueError, match=fragment):
        model_to_arrays(state)
    with monkeypatch.context() as patch:
        patch.setattr(model, "check_model", lambda state: None)
        arrays, header = model_to_arrays(state)
    with pytest.raises(ValueError, match=f"^Cannot load 'some file': .*{fragment}.*damaged"):
        model_from_arrays(arrays, header, path="some file")


def test_arrays_of_other_types_are_refused():
    state = make_state()
    arrays, header = model_to_arrays(state)
    for name, dtype in [("atoms", "f8"), ("atoms", "?"), ("weights", "i8"), ("weights", "f4")]:
        fragment = f"{name} has shape .* dtype {np.dtype(dtype).name}, expected"
        with pytest.raises(ValueError, match=fragment):
            model_to_arrays({**state, name: state[name].astype(dtype)})
        with pytest.raises(ValueError, match=fragment):
            model_from_arrays({**arrays, name: arrays[name].astype(dtype)}, header)


def test_damaged_columns_are_refused():
    state = make_state()
    for columns in ([], [-1, 2], [2, 5], [2, 2], [2, 1], [[1, 2]]):
        with pytest.raises(ValueError, match="columns must hold rising column numbers"):
            model_to_arrays({**state, "columns": np.array(columns, dtype=np.int64)})
    arrays, header = model_to_arrays({**state, "columns": np.array([0, 4])})
    for packed in (
        np.zeros(1, np.uint8),  # no column
        np.full(1, 0xFF, np.uint8),  # bits after the last feature
        np.ones(2, np.uint8),
        np.ones((1, 1), np.uint8),
        np.array([4, 0], np.int8),
        np.array([0, 4], np.uint16),
        np.array([0.0, 4.0]),
        np.array([True]),
        np.array(0, np.int8),
    ):
        with pytest.raises(ValueError, match=r"^Cannot load 'the model': .*columns .*damaged"):
            model_from_arrays({**arrays, "columns": packed}, header)


def test_only_a_file_of_format_1_may_have_no_norm():
    arrays, header = model_to_arrays(make_state())
    del header["norm"]
    with pytest.raises(ValueError, match="norm is missing"):
        model_from_arrays(arrays, header)
    header["versions"]["format"] = 1
    assert model_from_arrays(arrays, header)["norm"] is None


def test_a_missing_array_is_refused():
    arrays, header = model_to_arrays(make_state(extra={"idf": np.ones(2)}))
    for name in ("atoms", "weights", "trace.gap", "extra_arrays.idf"):
        others = {other: array for other, array in arrays.items() if other != name}
        with pytest.raises(ValueError, match=r"array '.*' is missing"):
            model_from_arrays(others, header)


def test_headers_of_other_types_are_refused():
    arrays, header = model_to_arrays(make_state())
    for value in (None, "x", 1, 1.0, True, [], {}, [["x", "O"]]):
        for name in header:
            if type(value) is not type(header[name]) and (name, value) != ("norm", None):
                with pytest.raises(ValueError, match=name):
                    model_from_arrays(arrays, {**header, name: value})


def test_damage_without_a_checksum_is_refused_or_harmless(path):
    whole = UNSEALED.read_bytes()
    rng = random.Random(0)
    path.write_bytes(whole)
    messages = []
    with open(path, "r+b", buffering=0) as file:
        for at in range(0, len(whole), 2):
            file.seek(at)
            file.write(bytes([whole[at] ^ rng.choice([1, 2, 4, 8, 16, 32, 64, 128, 255])]))
            try:
                model_to_arrays(read_model(path))
            except ValueError as error:
                messages.append(str(error))
            file.seek(at)
            file.write(whole[at : at + 1])
    assert all(message.startswith("Cannot load") for message in messages)
    # Digits of floats and letters of free text may change unseen, not much else.
    assert len(messages) > len(whole) / 2 / 3
    for n in sorted({*range(64), *range(64, len(whole), 37), len(whole) - 1}):
        path.write_bytes(whole[:n])
        with pytest.raises(ValueError, match="Cannot load"):
            read_model(path)


# --- promises ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("golden", "state"),
    [(GOLDEN, golden_state), (GOLDEN_1, golden_state_1), (UNSEALED, golden_state_1)],
)
def test_the_golden_file_means_what_it_meant(golden, state):
    assert_same(dict(sorted(read_model(golden).items())), dict(sorted(state().items())))


def test_the_format_is_still_the_golden_one(path):
    write_model(path, golden_state())
    assert path.read_bytes() == GOLDEN.read_bytes()


def test_nothing_that_could_run_code_is_imported():
    names = set()
    for module in (atomic, container, model, strict_json, tables):
        for node in ast.walk(ast.parse(Path(module.__file__).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add(node.module.split(".")[0])
            elif isinstance(node, ast.Name):
                assert node.id not in {"eval", "exec", "compile", "__import__"}
    assert names - {"numpy"} <= sys.stdlib_module_names
    assert not names & {"pickle", "marshal", "shelve", "importlib", "ctypes", "numba"}
