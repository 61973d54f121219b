"""Safety: threads, processes, interrupts, limits of memory and of 32-bit indices."""

import contextlib
import os
import subprocess
import sys
import textwrap
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import hdsl
from hdsl import HDSL, SimilarityKNeighborsClassifier, Solver, load, memory
from hdsl.input.matrices import as_problem_matrix
from hdsl.settings import nested_parameters
from hdsl.wide_matrices import drop_unused_columns
from small_fits import labelled_counts

PACKAGE = os.path.dirname(hdsl.__file__)


X, Y = labelled_counts(n=45, d=14)


def small(**parameters):
    return HDSL(
        **nested_parameters(
            **{
                "scale": 20.0,
                "prior": 0.1,
                "max_iter": 12,
                "random_state": 3,
                **parameters,
            }
        )
    )


def learned(model):
    """Return the learned model as bytes."""
    return (
        model.atoms_.tobytes(),
        model.weights_.tobytes(),
        model.n_iter_,
        model.n_features_in_,
    )


def in_a_process(code, *arguments, **environment):
    """Run a script in a new process and return its output; it must end within the time limit."""
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env={k: v for k, v in os.environ.items() if k != "NUMBA_NUM_THREADS"}
        | environment,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


# --- threads and processes ------------------------------------------------------------

PARAMETERS = [
    {"n_jobs": 1},
    {"n_jobs": 2, "oracle": "heuristic", "batch_size": 40, "init": "random"},
    {"n_jobs": 2, "oracle": "exact", "step": "blended"},
    {"n_jobs": None, "mining": "random"},
]


@pytest.fixture(scope="module")
def one_by_one():
    return [learned(small(**parameters).fit(X, Y)) for parameters in PARAMETERS]


def test_fits_in_several_threads_equal_fits_one_by_one(one_by_one):
    with ThreadPoolExecutor(4) as pool:
        models = pool.map(
            lambda parameters: small(**parameters).fit(X, Y), 2 * PARAMETERS
        )
        assert [learned(model) for model in models] == 2 * one_by_one


def test_a_model_used_by_several_threads_answers_as_by_one():
    model = small().fit(X, Y)
    knn = SimilarityKNeighborsClassifier(similarity=model, n_jobs=2).fit(X, Y)
    expected = model.transform(X), model.similarity(X), knn.predict_proba(X)

    def use(_):
        return model.transform(X), model.similarity(X), knn.predict_proba(X)

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(use, range(8)):
            for part, other in zip(found, expected, strict=True):
                assert_array_equal(part, other)


def test_fits_in_several_processes_equal_fits_one_by_one(one_by_one):
    jobs = (joblib.delayed(small(**parameters).fit)(X, Y) for parameters in PARAMETERS)
    models = joblib.Parallel(n_jobs=2, backend="loky")(jobs)
    assert [learned(model) for model in models] == one_by_one


def test_grid_search_on_two_processes_equals_one():
    pipeline = make_pipeline(small(n_jobs=2), SimilarityKNeighborsClassifier(n_jobs=2))
    grid = {
        "hdsl__scale": [1.0, 20.0],
        "similaritykneighborsclassifier__n_neighbors": [1, 3],
    }
    one, two = (GridSearchCV(pipeline, grid, cv=2, n_jobs=n).fit(X, Y) for n in (1, 2))
    assert_array_equal(
        one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"]
    )
    assert learned(one.best_estimator_[0]) == learned(two.best_estimator_[0])


FORKS = """
    import multiprocessing, os, sys
    sys.path.insert(0, sys.argv[1])
    import test_safety as here

    def inside(state):  # while the threads of the parent run
        if state.n_iter == 3:
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    again = here.learned(here.small(n_jobs=2).fit(here.X, here.Y))
                    code = 0 if again == expected else 2
                finally:
                    os._exit(code)
            assert os.waitpid(child, 0)[1] == 0

    expected = here.learned(here.small(n_jobs=2).fit(here.X, here.Y))
    here.small(n_jobs=2).fit(here.X, here.Y, callback=inside)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        fits = [pool.apply_async(here.small(n_jobs=n).fit, (here.X, here.Y)) for n in (1, 2)]
        assert all(here.learned(fit.get(200)) == expected for fit in fits)
    print("the same")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_fits_after_a_fork_are_the_same():
    # Python 3.12 and newer warn about a fork beside threads.
    output = in_a_process(
        FORKS, os.path.dirname(__file__), PYTHONWARNINGS="ignore::DeprecationWarning"
    )
    assert output == "the same\n"


GLOBAL_STATE = """
    import gc, locale, os, random, signal, sys, threading, warnings
    import joblib, numba, numpy as np, scipy.linalg, scipy.sparse, sklearn, threadpoolctl
    import sklearn.model_selection, sklearn.pipeline, sklearn.neighbors, sklearn.utils.validation
    import sklearn.feature_extraction.text

    def state():
        pools = sorted((pool["filepath"], pool["num_threads"])
                       for pool in threadpoolctl.threadpool_info())
        return {
            "np.random": str(np.random.get_state()), "random": random.getstate(),
            "filters": list(warnings.filters), "errors": np.geterr(),
            "print": np.get_printoptions(),
            "numba": numba.get_num_threads(), "environment": dict(os.environ), "pools": pools,
            "path": list(sys.path), "locale": locale.setlocale(locale.LC_ALL), "cwd": os.getcwd(),
            "signals": {s: signal.getsignal(s) for s in signal.valid_signals()},
            "threads": threading.active_count(), "hooks": (sys.excepthook, threading.excepthook),
            "gc": (gc.isenabled(), gc.get_threshold()), "recursion": sys.getrecursionlimit(),
            "switch": sys.getswitchinterval(), "sklearn": sklearn.get_config(),
            "trace": (sys.gettrace(), sys.getprofile()),
            "joblib": joblib.parallel.get_active_backend()[1],
        }

    def check(when):
        now = state()
        assert now == before, (when, [name for name in now if now[name] != before[name]])

    state()
    before = state()
    import hdsl, hdsl.plots
    check("import")
    assert "matplotlib" not in sys.modules
    sys.path.append(sys.argv[1])
    import test_safety as here
    sys.path.pop()
    before = state()
    for parameters in here.PARAMETERS:
        model = here.small(**parameters).fit(here.X, here.Y)
        check(parameters)
    model.transform(here.X), model.similarity(here.X), model.save(sys.argv[2])
    hdsl.load(sys.argv[2]).explain(here.X[0], here.X[1])
    check("use")
    hdsl.SimilarityKNeighborsClassifier(n_jobs=2).fit(here.X, here.Y).predict(here.X)
    check("neighbors")
    try:
        here.small(scale=-1).fit(here.X, here.Y)
    except ValueError:
        check("an error")
    print("unchanged")
"""


def test_global_state_is_unchanged(tmp_path):
    output = in_a_process(
        GLOBAL_STATE, os.path.dirname(__file__), tmp_path / "model.hdsl"
    )
    assert output == "unchanged\n"


# --- no more threads than cores -------------------------------------------------------


def test_processes_of_joblib_share_the_cores():
    def threads(
        n_jobs,
    ):  # inside: sent by value, so that it can be called in another process
        import threading

        seen = set()
        own = {thread.ident for thread in threading.enumerate()}
        model = HDSL(scale=1.0, prior=0.0, solver=Solver(max_iter=3), n_jobs=n_jobs)
        rng = np.random.default_rng(0)
        model.fit(
            rng.random((600, 40)) * (rng.random((600, 40)) < 0.3),
            np.arange(600) % 3,
            callback=lambda state: seen.update(
                thread.ident for thread in threading.enumerate()
            ),
        )
        return 1 + len(seen - own)

    share = max(1, joblib.cpu_count() // 2)
    given = (None, 7, -1)
    found = joblib.Parallel(2, backend="loky")(map(joblib.delayed(threads), given))
    for n_jobs, used in zip(given, found, strict=True):
        assert used <= (1 if n_jobs is None else share), n_jobs


# --- interrupts -----------------------------------------------------------------------


class Interruption:
    """Raise KeyboardInterrupt at the n-th executed line of the library, as Ctrl-C might."""

    def __init__(self, at=None):
        self.at = at
        self.lines = 0
        self.callers = []

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)

    def _call(self, frame, event, arg):
        return self._line if frame.f_code.co_filename.startswith(PACKAGE) else None

    def _line(self, frame, event, arg):
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                while frame is not None:
                    self.callers.append(frame.f_code.co_name)
                    frame = frame.f_back
                raise KeyboardInterrupt
        return self._line


def moments(fit, n, seed=0):
    """Return random numbers of lines that a fit executes, and some near its end."""
    fit()  # loads what is loaded at first use
    with Interruption() as counted:
        fit()
    chosen = np.random.default_rng(seed).integers(1, counted.lines, size=n)
    return sorted({*chosen.tolist(), *range(counted.lines - 40, counted.lines + 30, 7)})


def assert_whole(model, rows, tmp_path):
    """Check that the parts of a model agree with each other, and that it can be used and saved."""
    assert model.n_features_in_ == rows.shape[1]
    assert model.transform(rows).shape[0] == len(rows)
    assert (model.weights_ > 0).all()
    assert model.weights_.sum() <= 1 + 1e-12
    again = model.at(model.n_iter_)
    assert_array_equal(again.atoms_, model.atoms_)
    assert_allclose(again.weights_, model.weights_, rtol=0, atol=1e-12)
    model.save(tmp_path / "model.hdsl")
    assert learned(load(tmp_path / "model.hdsl")) == learned(model)


OTHER, OTHER_Y = labelled_counts(seed=1, n=30, d=17)


@pytest.mark.parametrize(
    "parameters",
    [{"prior": "auto", "max_iter": 3}, {"n_jobs": 2, "batch_size": 50}],
    ids=["early stopping and mining", "threads and batches"],
)
def test_an_interrupt_leaves_the_old_model_or_a_new_one(parameters, tmp_path):
    seen = set()
    before = small(**parameters).fit(OTHER, OTHER_Y)
    old = learned(before)
    for at in moments(lambda: small(**parameters).fit(X, Y), 10):
        model = deepcopy(before)
        came_out = False
        try:
            with Interruption(at) as interruption:
                model.fit(X, Y)
        except KeyboardInterrupt:
            came_out = True
        if came_out and learned(model) == old:
            assert_whole(model, OTHER, tmp_path)
            # An interrupt inside the loop does not lose the new model.
            assert "iterate" not in interruption.callers, interruption.callers
            assert "finish" not in interruption.callers, interruption.callers
            seen.add("old")
        else:
            assert_whole(model, X, tmp_path)
            if "iterate" in interruption.callers:
                assert model.status_ == "interrupted"
            seen.add(model.status_)
    assert {"old", "interrupted"} <= seen


def test_an_interrupt_leaves_the_old_index_or_a_new_one():
    knn = SimilarityKNeighborsClassifier(1)
    seen = set()
    for at in moments(lambda: knn.fit(X, Y), 10):
        knn.fit(OTHER, OTHER_Y)
        with contextlib.suppress(KeyboardInterrupt), Interruption(at):
            knn.fit(X, Y)
        rows, labels = (X, Y) if knn.n_features_in_ == X.shape[1] else (OTHER, OTHER_Y)
        assert knn.score(rows, labels) > 0.8
        seen.add(len(rows))
    assert seen == {len(X), len(OTHER)}


SIGNALS = """
    import signal, sys, threading, time
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    import pathlib
    import numpy as np
    from sklearn.base import clone
    sys.path.insert(0, sys.argv[1])
    import test_safety as here

    rng = np.random.default_rng(0)
    X = rng.random((100, 40)) * (rng.random((100, 40)) < 0.2)
    y = np.arange(100) % 3
    model = here.small(n_jobs=2, max_iter=30, tol=0.0)
    began = time.perf_counter()
    model.fit(X, y)
    took = time.perf_counter() - began
    began = time.perf_counter()
    model.fit(X, y)
    took = min(took, time.perf_counter() - began)
    main, ends = threading.main_thread().ident, []
    for _ in range(8):
        model = clone(model).set_params(n_jobs=int(rng.integers(1, 3)))
        model.fit(here.OTHER, here.OTHER_Y)
        old, end = here.learned(model), None
        wait = 1.1 * took * rng.random()
        timer = threading.Timer(wait, signal.pthread_kill, (main, signal.SIGINT))
        try:
            timer.start()
            model.fit(X, y)
            end = model.status_
            timer.cancel()
            timer.join()
        except KeyboardInterrupt:
            end = end or ("old" if here.learned(model) == old else "new")
        here.assert_whole(model, here.OTHER if end == "old" else X, pathlib.Path(sys.argv[2]))
        timer.join()
        for thread in threading.enumerate():  # an interrupt may come while they end
            if thread.ident != main:
                thread.join(10)
        assert threading.active_count() == 1
        ends.append(end)
    print(*sorted(ends))
"""


@pytest.mark.skipif(os.name == "nt", reason="SIGINT cannot be sent to a thread there")
def test_ctrl_c_at_random_times_leaves_a_whole_model(tmp_path):
    ends = in_a_process(SIGNALS, os.path.dirname(__file__), tmp_path).split()
    assert len(ends) == 8
    assert set(ends) <= {
        "old",
        "new",
        "interrupted",
        "max_iter",
        "stalled",
        "no_violation",
    }
    assert "interrupted" in ends


# --- memory ---------------------------------------------------------------------------


def test_too_little_memory_is_refused_before_the_fit_starts(monkeypatch):
    model = small(max_iter=5)
    for limit, free, words in (
        (1e-7, 2**40, "allowed by memory_limit"),
        ("auto", 100, "are free"),
    ):
        monkeypatch.setattr(memory, "available", lambda free=free: free)
        with pytest.raises(MemoryError, match=rf"HDSL needs about .* {words}"):
            model.fit(
                X,
                Y,
                memory_limit=limit,
                callback=lambda state: pytest.fail("the fit started"),
            )
        assert not hasattr(model, "atoms_")
    small().fit(X, Y, memory_limit=None)


# --- 32-bit indices -------------------------------------------------------------------


@pytest.fixture
def frugal():
    """Check that a test takes little memory, whatever the shapes."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20


def spread(A, n_columns):
    """Return A with its columns spread over `n_columns`, and where they are."""
    A = sp.csr_array(A)
    columns = np.sort(np.random.default_rng(5).integers(n_columns, size=A.shape[1] - 2))
    columns = np.array([0, *columns, n_columns - 1])
    shape = (A.shape[0], n_columns)
    return sp.csr_array(
        (A.data, columns[A.indices], A.indptr.astype(np.int64)), shape
    ), columns


@pytest.mark.parametrize("n_columns", [2**31, 2**62])
@pytest.mark.usefixtures("frugal")
def test_huge_shapes_give_the_same_as_small_ones(n_columns, tmp_path):
    wide, columns = spread(X, n_columns)
    narrow = sp.csr_array(X)
    for parameters in ({"prior": "auto", "max_iter": 3}, {"batch_size": 30}):
        one = small(**parameters).fit(narrow, Y)
        other = small(**parameters).fit(wide, Y)
        assert_array_equal(other.atoms_[:, :2], columns[one.atoms_[:, :2]])
        assert other.weights_.tobytes() == one.weights_.tobytes()
    other.save(tmp_path / "model.hdsl")
    other = load(tmp_path / "model.hdsl")
    assert_array_equal(other.similarity(wide), one.similarity(narrow))
    assert_array_equal(
        other.pair_score(wide, wide[::-1]), one.pair_score(narrow, narrow[::-1])
    )
    n_atoms = len(one.weights_)
    narrow_columns = sp.csc_array(one.transform(narrow))
    made = other.transform(wide)
    assert made.shape == (len(X), n_atoms + n_columns)
    (made, _), used = drop_unused_columns(sp.csr_array(made), sp.csr_array(made))
    for column, values in zip(used, made.toarray().T, strict=True):
        position = column
        if column >= n_atoms:
            position = n_atoms + np.searchsorted(columns, column - n_atoms)
        assert_array_equal(values, narrow_columns[:, [position]].toarray()[:, 0])
    one_knn = SimilarityKNeighborsClassifier(similarity=one.similarity_).fit(narrow, Y)
    other_knn = SimilarityKNeighborsClassifier(similarity=other.similarity_).fit(
        wide, Y
    )
    for part, found in zip(
        one_knn.kneighbors(narrow), other_knn.kneighbors(wide), strict=True
    ):
        assert_array_equal(found, part)
    expected = one_knn.kneighbors_graph(mode="distance").toarray()
    found = other_knn.kneighbors_graph(mode="distance").toarray()
    assert_allclose(found, expected, rtol=1e-12)  # the order of the sum differs


@pytest.mark.parametrize(
    ("shape", "nnz"), [((2**31 - 1, 4), 8), ((4, 4), 2**32 - 2), ((2**33, 4), 2**40)]
)
def test_too_many_rows_or_values_are_refused(shape, nnz):
    class Fake(sp.csr_array):
        """Claims to be large; nothing else is read."""

    Fake.nnz = property(lambda self, n=nnz: n)
    Fake.shape = property(lambda self, n=shape: n)
    with pytest.raises(
        ValueError, match=f"X has {shape[0]} rows and {nnz} stored values. At most"
    ):
        as_problem_matrix(object.__new__(Fake))
