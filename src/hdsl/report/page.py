"""The page of a model, from its template, styles, script and content, and its file."""

import base64
import hashlib
import html
import json
import re
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from ..files.atomic import atomic_write, check_can_write
from ..input.parameters import check_number
from ..input.paths import FilePath
from ..input.printable import TURNS, unturned
from . import content
from .measured import Measured, measure_test_rows
from .rows import check_rows

#: The files of the script in their order; they share one scope.
SCRIPT = ("data", "elements", "result", "charts", "pairs", "neighbors", "main")

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
        measured = measure_test_rows(model, rows, X_test, y_test)
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
