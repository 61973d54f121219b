"""How the source reads: what a reader stumbles over, counted per 1,000 lines of code.

``python tests/sentences.py [PATH ...]`` prints the counts of the package, or of some of
its files and folders with the lines that they stand on. ``test_sentences.py`` lets them
only fall.
"""

import ast
import sys
from collections import Counter
from pathlib import Path

import structure

#: Words that name nothing: what was found, and where is here?
VAGUE = frozenset(
    [
        "found",
        "given",
        "told",
        "said",
        "asked",
        "held",
        "some",
        "one",
        "at",
        "part",
        "place",
        "made",
        "here",
        "there",
        "near",
        "room",
        "most",
        "of",
        "own",
    ]
)

FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def packed_assignments(tree):
    """Yield the line of each ``a, b = x, y``; a swap is none."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
            continue
        for target in node.targets:
            if isinstance(target, ast.Tuple) and not is_swap(target, node.value):
                yield node.lineno


def is_swap(target, value):
    """Whether the same names stand on both sides."""
    left = sorted(ast.unparse(name) for name in target.elts)
    right = sorted(ast.unparse(name) for name in value.elts)
    return left == right


def unpacked_generators(tree):
    """Yield the line of each ``a, b = (f(x) for x in ...)``."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign):
            continue
        is_comprehension = isinstance(node.value, ast.GeneratorExp | ast.ListComp)
        if is_comprehension and isinstance(node.targets[0], ast.Tuple):
            yield node.lineno


def starred_bundles(tree):
    """Yield the line of each ``name = a, b, c`` that is made to be called as ``*name``."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        starred = starred_names(function)
        for node in own_statements(function):
            is_bundle = isinstance(node, ast.Assign) and isinstance(
                node.value, ast.Tuple
            )
            if not is_bundle:
                continue
            names = {getattr(target, "id", None) for target in node.targets}
            if names & starred:
                yield node.lineno


def starred_names(function):
    """Return the names that a function passes on as ``*name``."""
    names = set()
    for node in ast.walk(function):
        if not isinstance(node, ast.Call):
            continue
        for argument in node.args:
            match argument:
                case ast.Starred(value=ast.Name(id=name)):
                    names.add(name)
    return names


def own_statements(function):
    """Yield the nodes of a function without those of the functions inside it."""
    left = list(ast.iter_child_nodes(function))
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, FUNCTION):
            left.extend(ast.iter_child_nodes(node))


def conditional_expressions(tree):
    """Yield the line of each ``a if b else c``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.IfExp):
            yield node.lineno


def vague_names(tree):
    """Yield the line of each variable or parameter with a name that says nothing."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                if name in VAGUE:
                    yield node.lineno


def wide_signatures(tree):
    """Yield the line of each function of more than six positional parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [name.arg for name in node.args.posonlyargs + node.args.args]
            if len([name for name in names if name not in ("self", "cls")]) > 6:
                yield node.lineno


COUNTED = {
    "packed assignments": packed_assignments,
    "unpacked generators": unpacked_generators,
    "starred bundles": starred_bundles,
    "conditional expressions": conditional_expressions,
    "vague names": vague_names,
    "wide signatures": wide_signatures,
}


def count(paths):
    """Return how often each sentence stands in some files, and their lines of code."""
    counts = Counter(dict.fromkeys(COUNTED, 0))
    n_lines = 0
    for path in paths:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        n_lines += structure.count_code(path)
        for name, lines in COUNTED.items():
            counts[name] += len(list(lines(tree)))
    return counts, n_lines


def files_of(path):
    """Return the Python files of a folder, or the file itself."""
    if path.is_dir():
        return sorted(path.rglob("*.py"))
    return [path]


def main():
    """Print the counts."""
    paths = [Path(name) for name in sys.argv[1:]]
    files = [file for path in paths or [structure.SOURCE] for file in files_of(path)]
    counts, n_lines = count(files)
    print(f"{n_lines:,} lines of code in {len(files)} files; per 1,000 lines:")
    for name, n in counts.items():
        print(f"  {name:<24}{n:>6} {1000 * n / max(n_lines, 1):>7.1f}")
    if paths:
        for file in files:
            tree = ast.parse(file.read_text(encoding="utf-8"))
            for name, lines in COUNTED.items():
                for line in sorted(lines(tree)):
                    print(f"{file}:{line}: {name}")


if __name__ == "__main__":
    main()
