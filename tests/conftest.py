"""Settings and fixtures: one BLAS thread per process, and the profiles of hypothesis.

HYPOTHESIS_PROFILE chooses one: `default`, `thorough` (many examples, new ones on every
run), or `quick` (few examples, and a failure is reported as found).
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
import scipy.linalg  # noqa: F401  loads its BLAS, which is limited below
import scipy.sparse as sp
from hypothesis import HealthCheck, Phase, settings
from threadpoolctl import threadpool_limits

# The tests set the number of threads themselves.
os.environ.pop("NUMBA_NUM_THREADS", None)

# Two test processes on two cores: more threads than cores wait for each other.
os.environ["OMP_NUM_THREADS"] = "1"  # of what is loaded later, and of other processes
threadpool_limits(1, user_api="blas")

settings.register_profile(
    "default",
    max_examples=30,
    deadline=None,  # the first call of a kernel may compile it
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough",
    settings.get_profile("default"),
    max_examples=2000,
    derandomize=False,
    print_blob=True,
)
settings.register_profile(
    "quick",
    settings.get_profile("default"),
    max_examples=10,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

if "MUTANT_UNDER_TEST" in os.environ:
    # mutmut 3.8 reads a name that pytest 9.2 no longer has.
    pytest.Item._nodeid = property(lambda item: item.nodeid)


@pytest.fixture(autouse=True)
def no_stage_lines(monkeypatch):
    """Commands name no stages on stderr, however long they take on a busy machine."""
    monkeypatch.setattr("hdsl.progress.LOG_INTERVAL", 1e6)


@pytest.fixture
def write_each_iteration(monkeypatch):
    """Let checkpoints be written at every iteration."""
    monkeypatch.setattr("hdsl.files.checkpoint.INTERVAL", 0.0)
    monkeypatch.setattr("hdsl.files.checkpoint.TIME_SHARE", float("inf"))


@pytest.fixture
def lockable():
    """Yield a folder, and a function that makes it read-only."""
    if os.name != "posix":
        pytest.skip("needs POSIX permissions")
    folder = Path(tempfile.mkdtemp())
    user = os.geteuid()

    def lock():
        folder.chmod(0o555)
        if user == 0:  # root may write everywhere
            os.seteuid(65534)

    folder.chmod(0o777)
    yield folder, lock
    os.seteuid(user)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Return a folder with texts and a model of them, for the command line."""
    from commands import LABELLED, good, texts, write_csv

    folder = tmp_path_factory.mktemp("cli")
    write_csv(folder / "texts.csv", texts())
    good(
        "fit",
        folder / "texts.csv",
        *LABELLED,
        "-o",
        folder / "model.hdsl",
        "--id",
        "id",
        "--max-iter",
        20,
        "--stop-words",
        "english",
    )
    return folder


@pytest.fixture
def rows_file(tmp_path):
    """Return a file of rows without labels, for the command line."""
    from commands import rows_and_labels

    sp.save_npz(tmp_path / "rows.npz", rows_and_labels()[0])
    return tmp_path / "rows.npz"


@pytest.fixture
def threads():
    """Yield a client of two workers that are threads of this process: quick, no processes."""
    import clusters

    client = clusters.threads()
    with client.as_current():
        yield client


@pytest.fixture(scope="module")
def chromium():
    """Yield a browser; per module, since Playwright keeps an event loop in this thread."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed"
    )
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("no chromium or google-chrome on this machine")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def show(chromium, tmp_path):
    """Write a report, open it, and hold against it all that it says or asks for in the end."""
    contexts = []
    messages = []

    def show(model, X=None, y=None, *, window=(), **parts):
        path = tmp_path / f"{len(contexts)}.html"
        model.report(path, X, y, **parts)
        desk = {"viewport": {"width": 1200, "height": 900}}
        context = chromium.new_context(**desk | dict(window))
        context.set_default_timeout(120_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on(
            "dialog", lambda dialog: (messages.append(dialog.message), dialog.dismiss())
        )
        page.on(
            "request",
            lambda request: (
                request.url == path.as_uri() or messages.append(request.url)
            ),
        )
        page.goto(path.as_uri())
        return page

    yield show
    for context in contexts:
        context.close()
    assert messages == []
