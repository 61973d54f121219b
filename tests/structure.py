"""The shape of the source: sizes, imports, private names, and the road from fit to kernel.

``python tests/structure.py`` prints the figures. ``test_structure.py`` tests circles,
private names and signatures, which a reader feels; lines and files are only reported.
Lines of code leave out blanks, comments and docstrings.
"""

import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hdsl"

#: Public in spite of their names: the methods of named tuples.
NOT_PRIVATE = {"_replace", "_asdict", "_fields", "_make"}

#: Modules of other libraries that are not for their users.
NOT_OURS = re.compile(r"^(numba\.core|.*\._)")

DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


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


def by_folder(counts):
    """Return the lines of each folder, and of the modules outside of them."""
    folders = Counter()
    for path, n in counts.items():
        folder, slash, _ = path.partition("/")
        if not slash:
            folder = "(top)"
        folders[folder] += n
    return dict(folders)


def cuda_lines():
    """Return the raw lines of the CUDA sources."""
    return sum(path.read_text().count("\n") for path in SOURCE.rglob("*.cu"))


def parsed():
    """Return the path inside the package and the syntax tree of each module."""
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }


# --- imports --------------------------------------------------------------------------


def imports(modules):
    """Return for each module the modules of the package that it imports, inside functions too."""
    names = {_name(path): path for path in modules}
    imported = {}
    for path, tree in modules.items():
        package = _package(path)
        typing = _typing_lines(tree)
        targets = set()
        for node in ast.walk(tree):
            is_relative = isinstance(node, ast.ImportFrom) and node.level
            if not is_relative or node.lineno in typing:
                continue
            base = package[: len(package) - node.level + 1]
            if node.module:
                base += node.module.split(".")
            for alias in node.names:
                # A name is a module, or something in the module it comes from.
                for parts in ([*base, alias.name], base):
                    target = names.get(".".join(parts))
                    if target is not None:
                        targets.add(target)
                        break
        imported[path] = targets - {path}
    return imported


def _name(path):
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _package(path):
    """Return the names of the package that a module is in; a package is in itself."""
    *folders, _ = path.split("/")
    return folders


def _typing_lines(tree):
    """Return the lines for type checkers only."""
    return {
        line
        for block in ast.walk(tree)
        if isinstance(block, ast.If)
        and getattr(block.test, "id", "") == "TYPE_CHECKING"
        for line in range(block.lineno, block.end_lineno + 1)
    }


def circles(graph):
    """Return sets of modules that import each other, directly or through others."""
    reached = {}
    for start in graph:
        seen = set()
        left = list(graph[start])
        while left:
            path = left.pop()
            if path not in seen:
                seen.add(path)
                left += graph[path]
        reached[start] = seen
    return sorted(
        {
            tuple(sorted(b for b in graph if b in reached[a] and a in reached[b]))
            for a in graph
            if a in reached[a]
        }
    )


def imports_from(tree, library):
    """Whether a module imports a library, or a module of it."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                names |= {alias.name for alias in aliases}
            case ast.ImportFrom(module=name, level=0):
                names.add(name)
    return any(name.split(".")[0] == library for name in names)


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
            case ast.ImportFrom() | ast.Import():
                for name in private_imports(node):
                    yield node.lineno, name
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"))):
                pass
            case ast.Attribute(attr=name) if is_private(name) and name not in allowed:
                yield node.lineno, name
        left += [(child, allowed) for child in ast.iter_child_nodes(node)]


def private_imports(node):
    """Yield the private names and modules that an import statement names."""
    names = [alias.name for alias in node.names]
    if isinstance(node, ast.Import):
        yield from filter(NOT_OURS.match, names)
        return
    yield from filter(is_private, names)
    if not node.level and NOT_OURS.match(node.module):
        yield node.module


def all_private_uses(modules):
    """Return "path: name (line)" of every private name that is read outside of its home."""
    return [
        f"{path}: {name} (line {line})"
        for path, tree in modules.items()
        for line, name in private_uses(tree)
    ]


# --- signatures -----------------------------------------------------------------------


def functions(tree):
    """Yield every function with the class that it is a method of, or None."""
    for node in ast.walk(tree):
        owner = None
        if isinstance(node, ast.ClassDef):
            owner = node
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield child, owner


def width(function, owner):
    """Return the number of parameters, without self."""
    arguments = function.args
    names = arguments.posonlyargs + arguments.args + arguments.kwonlyargs
    decorators = {getattr(name, "id", "") for name in function.decorator_list}
    if owner is not None and "staticmethod" not in decorators:
        return len(names) - 1
    return len(names)


def signatures(modules):
    """Return {"path: name": width}, kernels apart from the others."""
    kernels = {}
    others = {}
    for path, tree in modules.items():
        for function, owner in functions(tree):
            name = function.name
            if owner is not None:
                name = f"{owner.name}.{name}"
            widths = others
            if "/kernels/" in path:
                widths = kernels
            widths[f"{path}: {name}"] = width(function, owner)
    return kernels, others


# --- the road from fit to kernel ------------------------------------------------------

ROAD = """
import json, os, sys
import numpy as np
import hdsl
from hdsl import HDSL
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
model = HDSL(prior=1.0, scale=1.0, max_iter=1, random_state=0)
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


def hdsl_parameters(modules):
    """Return the number of parameters of HDSL."""
    tree = modules["hdsl.py"]
    return next(
        width(function, owner)
        for function, owner in functions(tree)
        if owner is not None and (owner.name, function.name) == ("HDSL", "__init__")
    )


def main():
    """Print the figures of the source."""
    modules = parsed()
    source = sizes("src/hdsl")
    tests = sizes("tests")
    kernels, others = signatures(modules)
    frames, files = road_to_kernel()
    for title, counts in (
        ("src/hdsl", source),
        ("tests", tests),
        ("reproduce", sizes("reproduce")),
    ):
        print(f"{title}: {sum(counts.values()):,} lines of code in {len(counts)} files")
        for folder, n in by_folder(counts).items():
            print(f"  {folder:<16}{n:>7,}")
    print(f"CUDA sources           {cuda_lines():,} raw lines")
    print(f"import circles         {circles(imports(modules)) or 'none'}")
    print(f"private names          {all_private_uses(modules) or 'none'}")
    print(f"parameters of HDSL     {hdsl_parameters(modules)}")
    for title, widths in (("signature", others), ("kernel", kernels)):
        widest = max(widths, key=widths.get)
        print(f"widest {title:<16}{widths[widest]} ({widest})")
    print(f"frames to a kernel     {len(frames)} in {len(files)} files")
    for frame in frames:
        print(f"  {frame}")


if __name__ == "__main__":
    main()
