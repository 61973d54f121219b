"""What CONTRIBUTING and the Makefile say of the repository is true."""

import ast
import re

import pytest

import structure

ROOT = structure.ROOT
CONTRIBUTING = ROOT / "CONTRIBUTING.md"

pytestmark = pytest.mark.skipif(
    not CONTRIBUTING.is_file(), reason="an installed library has no such pages"
)

#: Folders that paths on the page may start from.
BASES = (structure.SOURCE, ROOT)

#: A path in backticks: it has a slash or the suffix of a source file.
PATH = re.compile(r"`([\w./-]+(?:/|\.(?:py|cu|md|toml|in|txt|yml|yaml|cff)))`")


def section(title):
    """Return the text of one section of the page, up to the next of its level."""
    text = CONTRIBUTING.read_text(encoding="utf-8")
    level, _, _ = title.partition(" ")
    _, _, after = text.partition(f"\n{title}\n")
    assert after, f"CONTRIBUTING.md has no section {title!r}"
    return re.split(rf"\n{level} ", after)[0]


def exists(path):
    """Whether a path is there, in the package or in the repository."""
    return any((base / path).exists() for base in BASES)


def test_every_path_on_the_page_exists():
    paths = PATH.findall(CONTRIBUTING.read_text(encoding="utf-8"))
    assert len(paths) > 40
    assert [path for path in paths if not exists(path)] == []


def test_the_five_files_to_read_are_in_the_package():
    listed = re.findall(r"^\d\. `([\w/.]+)`", section("## Layout"), flags=re.MULTILINE)
    assert len(listed) == 5
    assert [path for path in listed if not (structure.SOURCE / path).is_file()] == []


def test_the_table_has_every_folder_and_module_once():
    _, _, table = section("## Layout").partition("| in `src/hdsl` |")
    table, _, _ = table.partition("\n\n")
    first_column = [line.split("|")[1] for line in table.splitlines()[1:]]
    listed = [path for cell in first_column for path in PATH.findall(cell)]
    folders = [
        path.parent.name + "/" for path in structure.SOURCE.glob("*/__init__.py")
    ]
    modules = [path.name for path in structure.SOURCE.glob("*.py")]
    assert sorted(listed) == sorted(folders + modules)


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
