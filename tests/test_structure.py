"""Modules stay apart, and signatures stay narrow."""

import ast

import pytest

import structure

pytestmark = pytest.mark.skipif(
    not structure.SOURCE.is_dir(), reason="an installed library has other folders"
)


@pytest.fixture(scope="module")
def modules():
    return structure.parsed()


def test_no_two_modules_import_each_other(modules):
    assert structure.circles(structure.imports(modules)) == []


def test_private_names_stay_inside_their_module_and_class(modules):
    found = structure.all_private_uses(modules)
    assert not found, "\n".join(found)


def test_compiled_loops_are_kernels(modules):
    """All but one: the solver, which imports no machine, has a loop over atoms."""
    compiled = {
        path for path in modules if structure.imports_from(modules[path], "numba")
    }
    others = {path for path in compiled if not path.startswith("cpu/kernels/")}
    assert others == {"solver/quadratic.py"}


def test_the_solver_imports_nothing_of_the_package_but_itself(modules):
    graph = structure.imports(modules)
    imported = {
        target
        for path, targets in graph.items()
        if path.startswith("solver/")
        for target in targets
    }
    assert imported
    assert all(path.startswith("solver/") for path in imported)


def test_signatures_are_narrow(modules):
    kernels, others = structure.signatures(modules)
    assert structure.hdsl_parameters(modules) <= 28
    assert max(others.values()) <= 29
    assert max(kernels.values()) <= 16


def test_the_checks_see_what_they_should():
    source = """
from .other import _hidden, shown, __version__
from numba.core import config
class Owner:
    def __init__(self): self._kept = 0
    def __eq__(self, other): return other._kept == self._kept and other._replace()
    def read(self, model): return model._state
def outside(owner): return owner._kept + module._function()
"""
    found = {name for _, name in structure.private_uses(ast.parse(source))}
    assert found == {"_hidden", "_state", "_kept", "_function", "numba.core"}
    graph = {
        "a.py": ast.parse("from . import b"),
        "b.py": ast.parse("def f():\n    from .c import x"),
        "c.py": ast.parse("from .a import y"),
        "d.py": ast.parse("from .a import y"),
    }
    assert structure.circles(structure.imports(graph)) == [("a.py", "b.py", "c.py")]
