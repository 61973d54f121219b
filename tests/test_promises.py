"""What the pages say of the code is true: names, files, tests, commands, rooms and figures.

``test_docs.py`` runs the examples of the pages.
"""

import ast
import csv
import importlib
import re
from functools import reduce

import pytest

import structure

ROOT = structure.ROOT
SOURCE = structure.SOURCE
DOCS = ROOT / "docs"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
PAGES = [
    ROOT / "SECURITY.md",
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]

pytestmark = pytest.mark.skipif(
    not PAGES[0].is_file(), reason="an installed library has no such pages"
)

#: Files of the repository.
PATH = re.compile(
    r"(?<![\w/.-])(?:tests|docs|src|reproduce|benchmarks|examples|requirements)/[\w./-]*\w"
)

#: A name of the package in backticks, with what it is called with.
NAME = re.compile(r"`(hdsl(?:\.\w+)+)[`(]")

#: A function of the package, or of its experiments, that reads data.
LOADER = re.compile(r"`(load_\w+)[`(]")


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_files_and_functions_of_a_page_are_there(page):
    text = page.read_text(encoding="utf-8")
    paths = {path for path in PATH.findall(text) if "*" not in path}
    assert sorted(path for path in paths if not (ROOT / path).exists()) == []
    assert sorted(name for name in NAME.findall(text) if not is_there(name)) == []
    loaders = {f"hdsl.datasets.{name}" for name in LOADER.findall(text)}
    if (
        page.name != "reproducing.md"
    ):  # the page of the experiments, which have their own
        assert sorted(name for name in loaders if not is_there(name)) == []


def is_there(name):
    """Whether a dotted name is a module of the package, or in one."""
    package, *parts = name.split(".")
    try:
        reduce(getattr_or_import, parts, importlib.import_module(package))
    except (AttributeError, ImportError):
        return False
    return True


def getattr_or_import(owner, name):
    """Return an attribute, or the module of that name."""
    try:
        return getattr(owner, name)
    except AttributeError:
        return importlib.import_module(f"{owner.__name__}.{name}")
    except ImportError as error:
        if "pip install" not in str(error):
            raise
        return None  # there, for a library that is not


# --- pages ----------------------------------------------------------------------------


def test_toctrees_name_every_page_and_no_other():
    named = set()
    for page in DOCS.glob("*.md"):
        for tree in re.findall(
            r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL
        ):
            named |= {
                line for line in tree.split("\n") if line and not line.startswith(":")
            }
    there = {page.stem for page in (*DOCS.glob("*.md"), *DOCS.glob("*.rst"))}
    assert named - {"gallery/index"} == there - {"index"}


def test_every_command_is_on_its_page():
    from hdsl.cli import COMMANDS

    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"generated/help-(\w+)\.txt", text)) - {"hdsl"}
    assert shown == set(COMMANDS)


# --- docs/api.rst ---------------------------------------------------------------------


def sections_of_the_api_page():
    """Yield the modules of docs/api.rst, and the names that each section lists."""
    text = (DOCS / "api.rst").read_text(encoding="utf-8")
    for text_of_section in text.split(".. currentmodule:: ")[1:]:
        module, *lines = text_of_section.split("\n")
        names = [line.strip() for line in lines if re.fullmatch(r"   [\w.]+", line)]
        yield module, names


#: Public names that another section or a docstring explains.
ELSEWHERE = {
    "hdsl": {"Linker", "learn"},
    "hdsl.neighbors": {"SimilarityKNeighborsClassifier"},
    "hdsl.search": {"add_products"},
}


@pytest.mark.parametrize(
    ("module", "listed"), [*sections_of_the_api_page()] if DOCS.is_dir() else []
)
def test_the_api_page_has_every_public_name_of_its_modules_once(module, listed):
    assert len(listed) == len(set(listed))
    loaded = importlib.import_module(module)
    for name in listed:
        assert getattr(loaded, name).__doc__, name
    own = getattr(loaded, "__all__", None) or [
        name
        for name, value in vars(loaded).items()
        if getattr(value, "__module__", None) == module
    ]
    public = {name for name in own if not name.startswith("_") and not name.isupper()}
    assert public - set(listed) == ELSEWHERE.get(module, set())
    assert [name for name in listed if name not in own] == []


# --- CONTRIBUTING and the Makefile ----------------------------------------------------


#: A path in backticks in CONTRIBUTING: it has a slash or the suffix of a source file.
LISTED = re.compile(r"`([\w./-]+(?:/|\.(?:py|cu|md|toml|in|txt|yml|yaml|cff)))`")


def section(title):
    """Return the text of one section of the page, up to the next of its level."""
    text = CONTRIBUTING.read_text(encoding="utf-8")
    level, _, _ = title.partition(" ")
    _, _, after = text.partition(f"\n{title}\n")
    assert after, f"CONTRIBUTING.md has no section {title!r}"
    return re.split(rf"\n{level} ", after)[0]


def exists(path):
    """Whether a path is there, in the package or in the repository."""
    return any((base / path).exists() for base in (SOURCE, ROOT))


def test_every_path_on_the_page_exists():
    paths = LISTED.findall(CONTRIBUTING.read_text(encoding="utf-8"))
    assert len(paths) > 40
    assert [path for path in paths if not exists(path)] == []


def test_the_five_files_to_read_are_in_the_package():
    listed = re.findall(r"^\d\. `([\w/.]+)`", section("## Layout"), flags=re.MULTILINE)
    assert len(listed) == 5
    assert [path for path in listed if not (SOURCE / path).is_file()] == []


def test_the_table_has_every_folder_and_module_once():
    _, _, table = section("## Layout").partition("| in `src/hdsl` |")
    table, _, _ = table.partition("\n\n")
    first_column = [line.split("|")[1] for line in table.splitlines()[1:]]
    listed = [path for cell in first_column for path in LISTED.findall(cell)]
    folders = [path.parent.name + "/" for path in SOURCE.glob("*/__init__.py")]
    modules = [path.name for path in SOURCE.glob("*.py")]
    assert sorted(listed) == sorted(folders + modules)


def test_each_hop_of_the_roads_is_a_function_of_its_file():
    hops = re.findall(
        r"^\| `(\S+)` \| `(\S+)` \|", section("### The roads"), re.MULTILINE
    )
    assert len(hops) > 30
    for path, name in hops:
        scope = ast.parse((SOURCE / path).read_text(encoding="utf-8"))
        for part in name.split("."):
            inside = {getattr(node, "name", None): node for node in scope.body}
            assert part in inside, f"{path} has no {name}"
            scope = inside[part]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("src/hdsl/solver/losses.py", "LOSSES"),
        ("src/hdsl/solver/steps.py", "RULES"),
        ("src/hdsl/solver/oracle.py", "ORACLES"),
        ("src/hdsl/cli/__init__.py", "COMMANDS"),
        ("tests/layouts.py", "LAYOUTS"),
        ("reproduce/experiments.py", "NAMES"),
        ("benchmarks/tasks.py", "MODULES"),
    ],
)
def test_a_new_kind_is_listed_where_the_page_says(path, name):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assigned = {
        ast.unparse(target)
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in getattr(node, "targets", [getattr(node, "target", None)])
    }
    assert name in assigned
    shown = path.removeprefix("src/hdsl/")
    assert f"`{shown}`" in section("### Where to make a change")


def test_the_makefile_names_only_files_that_exist():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = re.findall(r"(?<![\w.-])tests(?:/[\w.]+)*", text)
    assert "tests/cpu" in named
    assert [path for path in named if not (ROOT / path).exists()] == []
    assert "patsubst" not in text  # a name that is put together escapes this test


# --- figures --------------------------------------------------------------------------


#: Tables of embeddings by MiniLM: name on a page, and in the results.
BY_MINILM = {
    "words, by cosine": "words, by cosine",
    "words, `HDSL()`": "words, HDSL()",
    "words, LinearSVC": "words, LinearSVC",
    "embedding, by cosine": "embedding, by cosine",
    "both, `HDSL()`": "both, HDSL()",
    "both, `ClassScores(), HDSL()`": "both, ClassScores() and HDSL()",
    "both, LinearSVC": "both, LinearSVC",
}

#: Figures in sentences: page, pattern, file of results, line and column of each group.
BOTH = "ClassScores(), HDSL()"
OURS = "HDSL()"
FIGURES = [
    (
        "when.md",
        r"curve is (\S+) % with `HDSL\(\)` and (\S+) with",
        "published-auc",
        [(OURS, "bace_ecfp6"), (BOTH, "bace_ecfp6")],
    ),
    (
        "when.md",
        r"has (\S+) % errors, the cosine (\S+), LinearSVC (\S+),\s+and class scores with "
        r"`HDSL\(\)` (\S+)\.",
        "quality-error-3nn",
        [(name, "reuters_counts") for name in (OURS, "cosine", "LinearSVC", BOTH)],
    ),
    (
        "supervision.md",
        r"F1 of (\S+) by cosine, (\S+) as learned and (\S+) with",
        "topics-f1",
        [(name, "micro F1, 3 neighbours") for name in ("cosine", OURS, BOTH)],
    ),
    *(
        (
            "when.md",
            rf"\| `?{re.escape(name)}`?(?:, 3 neighbours)? \| (\S+) \| (\S+) \|",
            "published-accuracy",
            [(name, "r8"), (name, "r52")],
        )
        for name in ("cosine", OURS, BOTH, "LinearSVC")
    ),
    *(
        (
            page,
            rf"\| {re.escape(shown)} \| (\S+) \| (\S+) \|",
            "embeddings-errors",
            [(name, "docstrings, minilm"), (name, "movie_reviews, minilm")],
        )
        for shown, name in BY_MINILM.items()
        for page in ("when.md", "embeddings.md")
    ),
    (
        "embeddings.md",
        r"nDCG@10 is (\S+) by words as learned, (\S+) by MiniLM alone and (\S+)\s",
        "embeddings-search",
        [
            ("MiniLM, 384 columns", column)
            for column in ("words, learned", "embedding", "both, learned")
        ],
    ),
]


@pytest.mark.parametrize(("page", "pattern", "results", "cells"), FIGURES)
def test_figures_in_sentences_are_those_of_the_results(page, pattern, results, cells):
    with (DOCS / "results" / f"{results}.csv").open(encoding="utf-8") as file:
        head, *lines = csv.reader(file)
    table = {line[0]: dict(zip(head, line, strict=True)) for line in lines}
    words = (DOCS / page).read_text(encoding="utf-8").split()  # a line may end anywhere
    found = re.search(pattern, " ".join(words))
    assert found, f"{page} has no such sentence"
    assert list(found.groups()) == [
        table[row][column].split()[0] for row, column in cells
    ]
