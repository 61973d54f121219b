"""Same bits: models and answers do not depend on threads, processes, formats or global state."""

import os
import random
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

import hdsl
from hdsl import HDSL, SimilarityKNeighborsClassifier, search
from hdsl.cpu.workers import Workers
from hdsl.settings import nested_parameters
from reproduce import baselines


def rows_and_labels(seed=0, n=60, d=15):
    """Integers and halves, exact in float32; two rows are equal, one column is empty."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.integers(-2, 5, size=(n, d)) * (rng.random((n, d)) < 0.3) * 0.5
    X[np.arange(n), 4 * y + rng.integers(4, size=n)] += 2.0
    X[7] = X[1]
    X[:, -1] = 0.0
    return X, y


X, Y = rows_and_labels()
T = np.random.default_rng(1).permuted(np.tile(np.arange(60), (200, 1)), axis=1)[:, :3]

SETTINGS = {
    "defaults": {},
    "exact": {"oracle": "exact", "step": "pairwise", "prior": 1.0},
    "held out": {"oracle": "heuristic", "step": "blended", "prior": "auto"},
    "batches": {
        "batch_size": 50,
        "prior": 3.0,
        "init": "random",
        "loss": "logistic",
        "mining": "random",
        "step": "forward",
    },
}
all_settings = pytest.mark.parametrize(
    "setting", SETTINGS.values(), ids=SETTINGS.keys()
)


def small(**parameters):
    return HDSL(
        **nested_parameters(
            **{"max_iter": 8, "prior": 2.0, "random_state": 3, **parameters}
        )
    )


def saved(model, folder):
    """Return the bytes of the file of a model."""
    path = folder / "model.hdsl"
    model.save(path)
    return path.read_bytes()


# --- threads, runs and processes ------------------------------------------------------


@pytest.fixture
def large(monkeypatch):
    """Rows and labels, where two threads share even the smallest work."""
    rng = np.random.default_rng(0)
    n = 300
    d = 200
    per_row = 15
    columns = (
        rng.integers(d, size=(n, 1)) + np.arange(per_row) * rng.integers(1, 20, (n, 1))
    ) % d
    rows = np.repeat(np.arange(n), per_row)
    A = sp.csr_array((rng.random(n * per_row), (rows, columns.ravel())), shape=(n, d))
    split = Workers.split
    monkeypatch.setattr(
        Workers,
        "split",
        lambda self, n, *, grain=1, work=None: split(self, n, work=work),
    )
    return A, np.arange(n) % 5


@all_settings
def test_one_and_two_threads_write_the_same_file(setting, large, tmp_path, monkeypatch):
    shared = []
    run = Workers.run

    def watched(self, kernel, bounds, *args):
        shared.append(min(len(bounds) - 1, self.n_threads) > 1)
        return run(self, kernel, bounds, *args)

    monkeypatch.setattr(Workers, "run", watched)
    max_iter = 2 if setting.get("oracle") == "exact" else 6
    one = small(**setting, max_iter=max_iter, n_jobs=1).fit(*large, memory_limit=None)
    assert not any(shared)
    shared.clear()
    two = small(**setting, max_iter=max_iter, n_jobs=2).fit(*large)
    assert any(shared)  # two threads do share the work
    assert saved(one, tmp_path) == saved(two, tmp_path)


PROCESS = """
    import sys
    sys.path.insert(0, sys.argv[1])
    import test_same_bits as here
    for name, setting in here.SETTINGS.items():
        here.small(**setting, n_jobs=int(sys.argv[2])).fit(here.X, here.Y).save(
            f"{sys.argv[3]}/{name}.hdsl")
"""


def test_another_process_writes_the_same_file(tmp_path):
    subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(PROCESS),
            os.path.dirname(__file__),
            "2",
            str(tmp_path),
        ],
        env={**os.environ, "PYTHONHASHSEED": "4000000000", "OPENBLAS_NUM_THREADS": "2"},
        check=True,
    )
    for name, setting in SETTINGS.items():
        other = (tmp_path / f"{name}.hdsl").read_bytes()
        assert saved(small(**setting).fit(X, Y), tmp_path) == other, name


def test_the_file_holds_nothing_of_the_machine_or_the_clock(tmp_path):
    model = small().fit(X, Y)
    assert (np.diff(model.trace_["seconds"]) >= 0).all()
    first = saved(model, tmp_path)
    loaded = hdsl.load(tmp_path / "model.hdsl")
    assert np.isnan(loaded.trace_["seconds"]).all()
    assert saved(loaded, tmp_path) == first
    # A run that continues from a file counts its own seconds.
    more = loaded.set_params(warm_start=True).fit(X, Y)
    assert np.isfinite(more.trace_["seconds"][model.n_iter_ + 1 :]).all()
    changed = small(n_jobs=2, verbose=1).fit(X, Y, memory_limit=None)
    assert saved(changed, tmp_path) == first
    assert saved(small(tol=1e-4).fit(X, Y), tmp_path) != first


# --- input formats --------------------------------------------------------------------


def untidy(A):
    """Return A with unsorted indices, entries in two parts, and stored zeros."""
    coo = sp.coo_array(A)
    rows, columns = coo.coords
    order = np.random.default_rng(0).permutation(3 * coo.nnz)
    values = np.concatenate([0.25 * coo.data, 0.75 * coo.data, 0.0 * coo.data])[order]
    rows = np.concatenate([rows, rows, rows])[order]
    columns = np.concatenate([columns, columns, np.roll(columns, 1)])[order]
    by_row = np.argsort(rows, kind="stable")
    indptr = np.searchsorted(rows[by_row], np.arange(A.shape[0] + 1))
    made = sp.csr_array((values[by_row], columns[by_row], indptr), shape=A.shape)
    assert not made.has_canonical_format
    return made


def wide_indices(A):
    made = sp.csr_array(A)
    made.indices = made.indices.astype(np.int64)
    made.indptr = made.indptr.astype(np.int64)
    return made


def read_only_sparse(A):
    made = sp.csr_array(A)
    for part in (made.data, made.indices, made.indptr):
        part.setflags(write=False)
    return made


FORMATS = {
    "list": lambda A: A.tolist(),
    "Fortran": np.asfortranarray,
    "strided": lambda A: np.repeat(A, 2, axis=1)[:, ::2],
    "big-endian": lambda A: A.astype(">f8"),
    "float32": lambda A: A.astype(np.float32),
    "objects": lambda A: A.astype(object),
    "DataFrame": pd.DataFrame,
    "CSR matrix": sp.csr_matrix,
    "CSC matrix": sp.csc_matrix,
    "COO array": sp.coo_array,
    "LIL array": sp.lil_array,
    "float32 CSR": lambda A: sp.csr_array(A.astype(np.float32)),
    "64-bit indices": wide_indices,
    "read-only CSR": read_only_sparse,
    "untidy": untidy,
}


@pytest.fixture(scope="module")
def of_an_array(tmp_path_factory):
    """Return the bytes of models learned from an array, by the names of their settings."""
    fitted = {
        name: small(**SETTINGS[name]).fit(X, Y) for name in ("held out", "batches")
    }
    return {
        name: saved(model, tmp_path_factory.mktemp("a"))
        for name, model in fitted.items()
    }


@pytest.mark.parametrize("convert", FORMATS.values(), ids=FORMATS.keys())
def test_every_format_of_rows_gives_the_same_file(convert, of_an_array, tmp_path):
    given = convert(X)
    for name, expected in of_an_array.items():
        assert saved(small(**SETTINGS[name]).fit(given, Y), tmp_path) == expected
    if sp.issparse(given):  # the user's matrix is unchanged
        assert_array_equal(given.toarray(), convert(X).toarray())


def test_rows_mapped_from_a_file_and_labels_with_an_index_give_the_same_file(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    labels = pd.Series(Y, index=Y[::-1] + 5)
    assert saved(small().fit(mapped, labels), tmp_path) == saved(
        small().fit(X, Y), tmp_path
    )


def in_polars(values, **options):
    return pytest.importorskip("polars").DataFrame(values, **options)


@pytest.mark.parametrize(
    "convert",
    [np.uint16, np.asfortranarray, np.ndarray.tolist, in_polars, pd.DataFrame],
    ids=["uint16", "Fortran", "list", "polars", "pandas"],
)
def test_every_format_of_triplets_gives_the_same_file(convert, tmp_path):
    expected = saved(small().fit(X, triplets=T), tmp_path)
    assert saved(small().fit(X, triplets=convert(T)), tmp_path) == expected


def test_a_table_adds_nothing_but_column_names(tmp_path):
    names = [f"word {k}" for k in range(X.shape[1])]
    pandas = saved(small().fit(pd.DataFrame(X, columns=names), Y), tmp_path)
    polars = saved(small().fit(in_polars(X, schema=names), Y), tmp_path)
    assert pandas == polars != saved(small().fit(X, Y), tmp_path)


# --- answers --------------------------------------------------------------------------


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_one_and_two_threads_find_the_same_neighbors(convert, large):
    A = convert(large[0].toarray())
    for own in (False, True):
        one, two = (
            search.top_k(A, A, 9, exclude_self=own, n_jobs=n_jobs) for n_jobs in (1, 2)
        )
        for name in one._fields:
            assert getattr(one, name).tobytes() == getattr(two, name).tobytes(), name
    model = small(max_iter=5).fit(A, large[1])
    one, two = (
        SimilarityKNeighborsClassifier(
            5, weights="similarity", similarity=model, n_jobs=n_jobs
        )
        .fit(A, large[1])
        .predict_proba(A)
        for n_jobs in (1, 2)
    )
    assert one.tobytes() == two.tobytes()


# --- every random number comes from random_state --------------------------------------

GLOBAL = [
    name
    for name in dir(np.random)
    if getattr(getattr(np.random, name), "__self__", None) is np.random.mtrand._rand
    and name not in {"get_state", "set_state"}
]


@pytest.fixture
def only_seeded(monkeypatch):
    """Make every random number generator without a seed fail."""

    def fail(*args, **kwargs):
        raise AssertionError("a random number that random_state does not determine")

    assert "shuffle" in GLOBAL
    for name in GLOBAL:
        monkeypatch.setattr(np.random, name, fail)
    for name in (
        "random",
        "shuffle",
        "choice",
        "choices",
        "sample",
        "randint",
        "randrange",
        "getrandbits",
        "uniform",
        "gauss",
        "seed",
    ):
        monkeypatch.setattr(random, name, fail)
    # Seeds generators without a seed.
    monkeypatch.setattr(random.SystemRandom, "getrandbits", fail)
    make = np.random.default_rng

    def seeded(seed=None):
        assert seed is not None, "a generator without a seed"
        return make(seed)

    monkeypatch.setattr(np.random, "default_rng", seeded)
    before = np.random.mtrand._rand.get_state(legacy=True), random.getstate()
    yield
    after = np.random.mtrand._rand.get_state(legacy=True), random.getstate()
    assert before[0][1].tobytes() == after[0][1].tobytes()
    assert before[0][2:] == after[0][2:]
    assert before[1] == after[1]


@all_settings
@pytest.mark.usefixtures("only_seeded")
def test_a_fit_uses_only_seeded_numbers(setting):
    for given in ({"y": Y}, {"triplets": T}):
        one, two = (small(**setting).fit(X, **given) for _ in range(2))
        assert one.weights_.tobytes() == two.weights_.tobytes()
        one.transform(X)
        one.partial_fit(X, **given)


@pytest.mark.usefixtures("only_seeded")
def test_searches_and_baselines_use_only_seeded_numbers():
    SimilarityKNeighborsClassifier().fit(X, Y).predict(X)
    for model in (
        baselines.DiagonalSimilarity(random_state=0),
        baselines.OASIS(n_steps=200, random_state=0),
        baselines.COMET(tol=1.0, random_state=0),
    ):
        model.fit(X, Y)


@pytest.mark.usefixtures("only_seeded")
def test_numbers_without_a_seed_fail():
    with pytest.raises(AssertionError, match="random_state does not determine"):
        np.random.shuffle([1, 2])  # noqa: NPY002 - must fail
    with pytest.raises(AssertionError, match="without a seed"):
        np.random.default_rng()
