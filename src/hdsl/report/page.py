"""The page of a model, from its template, styles, script and content, and its file."""

import base64
import hashlib
import html
import json
import re
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import scipy.sparse as sp

from ..evaluate.measured import Measured, measure_labels
from ..files.atomic import atomic_write, check_can_write
from ..input.embeddings import check_rows as check_features
from ..input.labels import check_one_label_per_row
from ..input.parameters import FilePath, check_number
from ..printable import TURNS, unturned
from ..rows import Rows
from . import content
from .content import PageRows, check_labels, check_rows

#: The files of the script in their order; they share one scope.
SCRIPT = (
    "data",
    "elements",
    "words",
    "result",
    "charts",
    "pairs",
    "neighbors",
    "main",
)

#: What error messages call the file.
WHAT = "the report"


def page(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    X_test: Any = None,
    y_test: Any = None,
    texts: Any = None,
    feature_names: Any = None,
    title: str | None = None,
    max_items: int = 200,
    measured: Measured | None = None,
    more: content.More | None = None,
) -> str:
    """Return the page of a fitted model as HTML; the parameters are those of ``HDSL.report``.

    `measured` is shown if there are no test rows. `more` is what else a caller knows.

    Examples
    --------
    >>> from hdsl import HDSL
    >>> model = HDSL(scale=1.0, prior=0.0).fit([[1, 0], [0, 1]], triplets=[[0, 0, 1]])
    >>> page(model, title="Cats & dogs").partition("<title>")[2][:15]
    'Cats &amp; dogs'
    """
    check_number("report", "max_items", max_items, low=0, integer=True)
    rows = check_rows(model, X, y, texts)
    if X_test is not None or y_test is not None:
        measured = _measure_test_rows(model, rows, X_test, y_test)
    errors = None
    if measured is not None:
        errors = measured.to_dict()
    if title is None:
        title = "What was learned"
    data = {
        "title": str(title),
        "version": version("hdsl"),
        "parameters": content.parameters(model),
        "errors": errors,
        **content.model_content(
            model, rows, feature_names, max_items, more or content.More()
        ),
    }
    return _filled_template(str(title), data)


def _measure_test_rows(
    model: Any, rows: PageRows, X_test: Any, y_test: Any
) -> Measured:
    """Return what test rows show of a model, by their neighbours among other rows."""
    X = rows.X
    y = rows.y
    if X is None or y is None or X_test is None or y_test is None:
        arguments = {"X": X, "y": y, "X_test": X_test, "y_test": y_test}
        missing = [name for name, value in arguments.items() if value is None]
        raise ValueError(
            "The error is that of test rows whose neighbours are rows of X: X, y, "
            f"X_test and y_test go together. Missing: {', '.join(missing)}."
        )
    X_test = check_features(model, X_test, reset=False, name="X_test")
    if not isinstance(X_test, Rows):
        X_test = sp.csr_array(X_test)
    y_test = check_labels(y_test)
    check_one_label_per_row(y_test, X_test.shape[0], "_test")
    return measure_labels(model.similarity_, X, y, X_test, y_test, n_jobs=model.n_jobs)


def _filled_template(title: str, data: dict[str, Any]) -> str:
    """Return the page with its styles, its script and its data."""
    folder = files(__package__)
    template = (folder / "page.html").read_text("utf-8")
    css = (folder / "page.css").read_text("utf-8")
    modules = [(folder / "script" / f"{name}.js").read_text("utf-8") for name in SCRIPT]
    script = '"use strict";\n(() => {\n' + "\n".join(modules) + "})();\n"
    slots = {
        "policy": policy(css, script),
        "title": html.escape(unturned(title)),
        "css": css,
        "data": _json(data),
        "js": script,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: slots[match[1]], template)


def policy(css: str, script: str) -> str:
    """Return the policy of a page: its styles and script by their hashes, and nothing else."""
    return (
        f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    """Return the hash by which a policy names a script or styles."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _json(value: Any) -> str:
    """Return JSON that is safe inside a script element, whatever the strings are.

    Marks that turn the direction of a text are shown as escape sequences.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    # The script reads the two characters of an escaped backslash as one.
    return text.translate({code: f"\\{escape}" for code, escape in TURNS.items()})


def check_path(path: FilePath) -> None:
    """Raise OSError if no page can be written to `path`: to be called before the page is made."""
    check_can_write(path, WHAT)


def write(path: FilePath, text: str) -> None:
    """Write a page to a file, completely or not at all: an error leaves the old file unchanged.

    Parameters
    ----------
    path : str or path-like
    text : str
        As `page` returns it.
    """
    with atomic_write(path, WHAT) as file:
        file.write(text.encode("utf-8", "replace"))  # half a surrogate pair becomes "?"
