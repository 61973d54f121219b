"""What the pages promise names what there is: files, tests, functions and public names."""

import importlib
import re
from functools import reduce

import pytest

import structure

ROOT = structure.ROOT
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


def test_the_api_page_lists_what_there_is_once():
    text = (ROOT / "docs/api.rst").read_text(encoding="utf-8")
    for section in text.split(".. currentmodule:: ")[1:]:
        module, *lines = section.split("\n")
        names = [line.strip() for line in lines if re.fullmatch(r"   [\w.]+", line)]
        assert len(names) == len(set(names)), module
        assert [name for name in names if not is_there(f"{module}.{name}")] == []
