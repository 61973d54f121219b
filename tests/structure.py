"""The syntax trees of the package for all tests that read its source, and its figures.

Ruff, import-linter and numpydoc check the most. What they cannot is in
``test_structure.py``. ``python tests/structure.py`` prints lines of code, without blanks,
comments and docstrings, and the road from fit to kernel; no test limits them.
"""

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hdsl"

#: Public in spite of their names: the methods of named tuples.
NOT_PRIVATE = {"_replace", "_asdict", "_fields", "_make"}

DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parsed():
    """Return the path inside the package and the syntax tree of each module."""
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }


# --- private names --------------------------------------------------------------------


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
            case ast.Attribute(
                value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()
            ):
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
                for alias in names:
                    if is_private(alias.name):
                        yield node.lineno, alias.name
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"))):
                pass
            case ast.Attribute(attr=name) if is_private(name) and name not in allowed:
                yield node.lineno, name
        left += [(child, allowed) for child in ast.iter_child_nodes(node)]


def nested_conditionals(tree):
    """Yield the line of each ``a if b else c`` that stands inside another."""
    for node in ast.walk(tree):
        if isinstance(node, ast.IfExp):
            for inner in ast.walk(node):
                if isinstance(inner, ast.IfExp) and inner is not node:
                    yield inner.lineno


# --- figures --------------------------------------------------------------------------


def count_code(path):
    """Return the number of lines of code of a Python file."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    empty = {k for k, line in enumerate(lines, start=1) if not line.strip()}
    inside = set()
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, DOCUMENTED)
            and ast.get_docstring(node, clean=False) is not None
        ):
            empty |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
        # A # in a long string is no comment.
        elif isinstance(node, ast.Constant | ast.JoinedStr):
            inside |= set(range(node.lineno + 1, node.end_lineno + 1))
    comments = {
        k for k, line in enumerate(lines, start=1) if line.lstrip().startswith("#")
    }
    return len(lines) - len(empty | comments - inside)


def sizes(folder):
    """Return lines of code by Python file of a folder of the repository."""
    return {
        path.relative_to(ROOT / folder).as_posix(): count_code(path)
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


ROAD = """
import json, os, sys
import numpy as np
import hdsl
from hdsl import HDSL, Solver
home = os.path.dirname(hdsl.__file__) + os.sep
rng = np.random.default_rng(0)
X, T = rng.random((40, 30)) * (rng.random((40, 30)) < 0.3), rng.integers(40, size=(60, 3))
T = T[T[:, 1] != T[:, 2]]
files, road = set(), []
def watch(frame, event, argument):
    path = frame.f_code.co_filename
    if event != "call" or road or not path.startswith(home) or frame.f_code.co_name == "<module>":
        return
    files.add(path[len(home):])
    stack = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(home):
            stack.append(frame.f_code.co_filename[len(home):] + ": " + frame.f_code.co_name)
        frame = frame.f_back
    is_kernel = path.startswith(os.path.join(home, "cpu", "kernels"))
    if is_kernel and any("frank_wolfe" in name for name in stack):
        road.extend(reversed(stack))
model = HDSL(prior=1.0, scale=1.0, solver=Solver(max_iter=1), random_state=0)
sys.setprofile(watch)
model.fit(X, triplets=T)
sys.setprofile(None)
print(json.dumps([road, sorted(files)]))
"""


def road_to_kernel():
    """Return the frames from ``HDSL().fit`` to the first kernel of the solver, and the files used.

    Kernels run as plain Python here, so that their frames can be seen.
    """
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(SOURCE.parent), *sys.path])
    command = [sys.executable, "-W", "ignore", "-c", ROAD]
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(ended.stdout.splitlines()[-1])


def main():
    """Print the figures of the source."""
    for title in ("src/hdsl", "tests", "reproduce"):
        counts = sizes(title)
        folders = Counter()
        for path, n in counts.items():
            folder, slash, _ = path.partition("/")
            folders[folder if slash else "(top)"] += n
        print(f"{title}: {sum(counts.values()):,} lines of code in {len(counts)} files")
        for folder, n in folders.items():
            print(f"  {folder:<16}{n:>7,}")
    frames, files = road_to_kernel()
    print(f"frames to a kernel     {len(frames)} in {len(files)} files")
    for frame in frames:
        print(f"  {frame}")


if __name__ == "__main__":
    main()
