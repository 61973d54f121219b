"""What ruff and import-linter cannot check of the source: private names, and how it reads."""

import ast

import pytest

import structure

pytestmark = pytest.mark.skipif(
    not structure.SOURCE.is_dir(), reason="an installed library has other folders"
)


def faults(check):
    """Return where a check of one syntax tree objects to something in the package."""
    return [
        f"{path}: {fault}"
        for path, tree in structure.parsed().items()
        for fault in check(tree)
    ]


def test_private_names_stay_inside_their_module_and_class():
    assert faults(structure.private_uses) == []


def test_no_conditional_expression_stands_inside_another():
    assert faults(structure.nested_conditionals) == []


def test_the_formatter_has_the_last_word():
    for folder in ("src", "tests", "reproduce", "benchmarks", "examples"):
        for path in (structure.ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            assert "# fmt: " + "skip" not in text, path
            assert "# fmt: " + "off" not in text, path


def test_the_checks_see_what_they_should():
    source = """
from .other import _hidden, shown, __version__
class Owner:
    def __init__(self): self._kept = 0
    def __eq__(self, other): return other._kept == self._kept and other._replace()
    def read(self, model): return model._state
def outside(owner): return owner._kept + module._function()
a = 1 if b else 2
c = 1 if a else (2 if b else 3)
"""
    tree = ast.parse(source)
    names = {name for _, name in structure.private_uses(tree)}
    assert names == {"_hidden", "_state", "_kept", "_function"}
    assert list(structure.nested_conditionals(tree)) == [9]
