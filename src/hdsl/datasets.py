"""Data to learn from: the docstrings of Python's standard library, as labelled texts."""

from __future__ import annotations

import ast
import gc
import sysconfig
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch

from .input.matrices import canonical
from .input.parameters import check_number

__all__ = ["load_docstrings"]

#: Modules whose docstrings are left out: tests, demonstrations, tables, bundled
#: packages.
NOT_LIBRARY = frozenset(
    (
        "test",
        "tests",
        "idlelib",
        "lib2to3",
        "turtledemo",
        "ensurepip",
        "encodings",
        "pydoc_data",
    )
)

#: Fewest words of a docstring.
FEWEST_WORDS = 8


class Docstring(NamedTuple):
    """The qualified name of an object, and its docstring."""

    name: str
    text: str

    @property
    def label(self) -> str:
        """The top-level module or package."""
        return self.name.partition(".")[0]

    def summary(self) -> Docstring:
        """Return the first paragraph."""
        return self._replace(text=self.text.partition("\n\n")[0])


def load_docstrings(
    *, min_rows_per_label: int = 20, summaries: bool = False, vectorize: bool = True
) -> Bunch:
    """Load the docstrings of Python's standard library: text, labelled by module.

    There is one document per public function, class or method whose docstring has 8
    words or more. Its label is the top-level module or package. The source files are
    parsed and not imported. Duplicate texts count once, and not at all if their labels
    differ. The name of the object is not part of the text, but a text may mention its
    module. The set depends on the version of Python only.

    Parameters
    ----------
    min_rows_per_label : int, default=20
        Labels with fewer documents are left out.
    summaries : bool, default=False
        Whether to take only the first paragraph of each docstring: short texts that
        share few words.
    vectorize : bool, default=True
        Whether to add TF-IDF rows.

    Returns
    -------
    Bunch
        ``texts`` (list of str), ``y`` (labels, array of str), ``names`` (qualified
        names, array of str), ``DESCR``; with `vectorize` ``X``, a csr_array of rows of
        length 1 (words of two or more letters in at least two documents, logarithmic
        counts), and ``feature_names``.

    Examples
    --------
    >>> docs = load_docstrings(min_rows_per_label=100, vectorize=False)
    >>> "asyncio" in docs.y, len(docs.texts) == len(docs.y) == len(docs.names)
    (True, True)
    """
    owner = "load_docstrings"
    check_number(owner, "min_rows_per_label", min_rows_per_label, low=1, integer=True)
    library = Path(sysconfig.get_path("stdlib"))
    docstrings = _all_docstrings(library)
    if summaries:
        docstrings = [docstring.summary() for docstring in docstrings]
    chosen = _of_frequent_labels(_distinct(docstrings), min_rows_per_label)
    if not chosen:
        raise ValueError(
            f"No module in {library} has {min_rows_per_label} docstrings: lower "
            "min_rows_per_label, or run a Python that has its standard library as "
            "source files."
        )
    texts = [docstring.text for docstring in chosen]
    labels = [docstring.label for docstring in chosen]
    docs = Bunch(
        texts=texts,
        y=np.array(labels),
        names=np.array([docstring.name for docstring in chosen]),
        DESCR=(
            f"{len(texts)} docstrings of public functions, classes and methods in "
            f"{len(set(labels))} modules of Python {sysconfig.get_python_version()}'s "
            "standard library; the label is the top-level module."
        ),
    )
    if vectorize:
        from sklearn.feature_extraction.text import TfidfVectorizer

        words = TfidfVectorizer(
            token_pattern="[A-Za-z][A-Za-z_]+", min_df=2, sublinear_tf=True
        )
        docs.X = canonical(words.fit_transform(texts))
        docs.feature_names = words.get_feature_names_out()
    return docs


def _distinct(docstrings: list[Docstring]) -> list[Docstring]:
    """Return one docstring per text, none of a text that has several labels."""
    by_words: dict[str, list[Docstring]] = {}
    for docstring in docstrings:
        words = " ".join(docstring.text.split())
        by_words.setdefault(words, []).append(docstring)
    return [
        same[0]
        for same in by_words.values()
        if len({docstring.label for docstring in same}) == 1
    ]


def _of_frequent_labels(docstrings: list[Docstring], n_rows: int) -> list[Docstring]:
    """Return the docstrings whose label has so many of them or more."""
    count = Counter(docstring.label for docstring in docstrings)
    return [docstring for docstring in docstrings if count[docstring.label] >= n_rows]


# --- source files ---------------------------------------------------------------------


@lru_cache(maxsize=1)
def _all_docstrings(library: Path) -> list[Docstring]:
    """Return the docstrings of public objects; read once per process."""
    # Syntax trees have many objects and no cycles: to look for cycles would double the
    # time.
    collects = gc.isenabled()
    gc.disable()
    try:
        return [
            docstring
            for path in _source_files(library)
            for docstring in _docstrings(path, library)
        ]
    finally:
        if collects:
            gc.enable()


def _source_files(folder: Path) -> Iterator[Path]:
    """Yield the source files of public modules, in the order of their names."""
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        public = path.stem.isidentifier() and not path.stem.startswith("_")
        if path.is_dir():
            if public and path.name not in NOT_LIBRARY:
                yield from _source_files(path)
        elif path.suffix == ".py" and (public or path.stem == "__init__"):
            yield path


def _docstrings(path: Path, library: Path) -> Iterator[Docstring]:
    """Yield the docstrings of public objects in a source file."""
    source = path.read_bytes()
    if b'"""' not in source and b"'''" not in source:
        return
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # a template, or meant for another version
        return
    modules = path.relative_to(library).with_suffix("").parts
    yield from _described(tree, [name for name in modules if name != "__init__"])


def _described(node: Any, name: list[str]) -> Iterator[Docstring]:
    """Yield the docstrings of public objects inside a node of a syntax tree."""
    for child in node.body:
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if child.name.startswith("_"):
            continue
        text = ast.get_docstring(child) or ""
        if len(text.split()) >= FEWEST_WORDS:
            yield Docstring(".".join([*name, child.name]), text)
        if isinstance(child, ast.ClassDef):
            yield from _described(child, [*name, child.name])
