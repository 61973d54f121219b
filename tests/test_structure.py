"""The shape of the source: private names stay private, files and signatures stay small.

``python tests/test_structure.py`` prints the figures. Complexity is checked by ruff (C901).
"""

import ast
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hdsl"
MAX_LINES = 600
MAX_PARAMETERS = 8

#: Public in spite of their names: the methods of named tuples.
NOT_PRIVATE = {"_replace", "_asdict", "_fields", "_make"}
#: "path: name", each with the reason.
EXCEPTIONS = {
    "estimators/callbacks.py: _init_callback_context": "scikit-learn's own name for its estimators",
}

#: Documented keywords of public functions.
WIDE = {
    "datasets/synthetic.py: make_recovery",
    "plots/neighbors.py: NeighborsDisplay.from_estimator",
    "report/assembly.py: page",
    "estimators/model.py: SimilarityModel.report",
    "theory/generalization.py: deviation_bound",
    "theory/generalization.py: excess_risk_bound",
}

pytestmark = pytest.mark.skipif(
    not SOURCE.is_dir(), reason=f"{SOURCE} is not there: an installed library has other folders"
)


def parsed():
    """Return the path inside the package and the syntax tree of each module."""
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }


def count_lines(folder):
    """Return the number of lines of each Python file, by its path inside the folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8").count("\n")
        for path in sorted(folder.rglob("*.py"))
    }


def is_private(name):
    """Whether a name is for its own module or class only."""
    return name.startswith("_") and not name.endswith("__") and name not in NOT_PRIVATE


def own_names(class_node):
    """Return the private names that a class defines: methods, fields and attributes of self."""
    names = set()
    for node in ast.walk(class_node):
        match node:
            case ast.FunctionDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                names.add(name)
    return {name for name in names if is_private(name)}


def private_uses(tree):
    """Yield (line, name) where a private name is read that belongs to something else.

    The objects of a class may read each other.
    """
    left = [(tree, frozenset())]
    while left:
        node, allowed = left.pop()
        match node:
            case ast.ClassDef():
                allowed = allowed | own_names(node)
            case ast.ImportFrom(names=names):
                yield from ((node.lineno, one.name) for one in names if is_private(one.name))
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"))):
                pass
            case ast.Attribute(attr=name) if is_private(name) and name not in allowed:
                yield node.lineno, name
        left += [(child, allowed) for child in ast.iter_child_nodes(node)]


def functions(tree):
    """Yield every function with the class that it is a method of, or None."""
    for node in ast.walk(tree):
        owner = node if isinstance(node, ast.ClassDef) else None
        for child in ast.iter_child_nodes(node) if not isinstance(node, ast.expr) else ():
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield child, owner


def width(function, owner):
    """Return the number of parameters, without self."""
    a = function.args
    static = any(getattr(name, "id", "") == "staticmethod" for name in function.decorator_list)
    return len(a.posonlyargs + a.args + a.kwonlyargs) - (owner is not None and not static)


def estimators(modules):
    """Return the names of the classes that derive from scikit-learn's estimators."""
    bases = {
        node.name: {getattr(base, "attr", getattr(base, "id", "")) for base in node.bases}
        for tree in modules.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {"BaseEstimator"}
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return found


def signatures(modules):
    """Return (width, "path: name") of every signature that should be narrow, widest first."""
    wide_by_nature, found = estimators(modules), []
    for path, tree in modules.items():
        if path.startswith("cli/") or re.search(r"kernels\w*\.py$|/kernels/", path):
            continue
        for function, owner in functions(tree):
            is_estimator = owner is not None and owner.name in wide_by_nature
            if not (is_estimator and re.fullmatch(r"__init__|(partial_)?fit", function.name)):
                name = f"{owner.name}.{function.name}" if owner else function.name
                found.append((width(function, owner), f"{path}: {name}"))
    return sorted(found, reverse=True)


@pytest.fixture(scope="module")
def modules():
    return parsed()


def test_private_names_stay_inside_their_module_and_class(modules):
    found = [
        f"{path}: {name} (line {line})"
        for path, tree in modules.items()
        for line, name in private_uses(tree)
        if f"{path}: {name}" not in EXCEPTIONS
    ]
    assert not found, "\n".join(found)


def test_no_file_is_long():
    found = [f"{n} {path}" for path, n in count_lines(SOURCE).items() if n > MAX_LINES]
    assert not found, "\n".join(found)


def test_no_signature_is_wide(modules):
    found = [
        f"{n} {name}" for n, name in signatures(modules) if n > MAX_PARAMETERS and name not in WIDE
    ]
    assert not found, "\n".join(found)


def test_the_checks_see_what_they_should():
    source = """
from .other import _hidden, shown, __version__
class Owner:
    def __init__(self): self._kept = 0
    def __eq__(self, other): return other._kept == self._kept and other._replace()
    def read(self, model): return model._state
def outside(owner): return owner._kept + module._function()
"""
    found = {name for _, name in private_uses(ast.parse(source))}
    assert found == {"_hidden", "_state", "_kept", "_function"}
    tree = ast.parse("class E(BaseEstimator):\n def fit(self, a, *, b): 0\n def use(self, c): 0")
    assert signatures({"e.py": tree}) == [(1, "e.py: E.use")]


# --- figures --------------------------------------------------------------------------------------


def highest_complexity():
    """Return the most complex function and its number, as ruff counts."""
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--select",
        "C901",
        "--no-cache",
    ]
    options = ["--config", "lint.mccabe.max-complexity=0", "--output-format", "concise"]
    ended = subprocess.run(
        [*command, *options, SOURCE], capture_output=True, text=True, check=False
    )
    found = re.findall(r"(\S+?):\d+:\d+: C901 `(\w+)` .*\((\d+) > 0\)", ended.stdout)
    path, name, number = max(found, key=lambda one: int(one[2]))
    return f"{number} ({Path(path).name}: {name})"


def main():
    """Print the figures of the source."""
    modules, source = parsed(), count_lines(SOURCE)
    lengths = {
        f"{path}: {function.name}": function.end_lineno - function.lineno + 1
        for path, tree in modules.items()
        for function, _ in functions(tree)
    }
    longest, largest = max(lengths, key=lengths.get), max(source, key=source.get)
    n, widest = signatures(modules)[0]
    print(f"modules                {len(modules)}")
    print(f"lines of source        {sum(source.values())}")
    print(f"lines of tests         {sum(count_lines(ROOT / 'tests').values())}")
    print(f"median function        {statistics.median(lengths.values()):g} lines")
    print(f"longest function       {lengths[longest]} lines ({longest})")
    print(f"widest signature       {n} ({widest})")
    print(f"largest file           {source[largest]} lines ({largest})")
    print(f"highest complexity     {highest_complexity()}")


if __name__ == "__main__":
    main()
