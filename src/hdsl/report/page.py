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
from . import content
from .measured import Measured

#: Parts of the script in their order; they share one scope.
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
    rows = content.check_rows(model, X, y, texts)
    if X_test is not None or y_test is not None:
        measured = content.held_out_errors(model, rows, X_test, y_test)
    parts: dict[str, Any] = {
        "title": str(title) if title is not None else "What was learned",
        "version": version("hdsl"),
        "parameters": content.parameters(model),
        "errors": None if measured is None else measured.to_dict(),
        **content.model_parts(
            model, rows, feature_names, max_items, more or content.More()
        ),
    }
    folder = files(__package__)
    source = {
        name: (folder / f"page.{name}").read_text("utf-8") for name in ("html", "css")
    }
    parts_of_script = (
        (folder / "script" / f"{name}.js").read_text("utf-8") for name in SCRIPT
    )
    source["js"] = '"use strict";\n(() => {\n' + "\n".join(parts_of_script) + "})();\n"
    style, script = (
        base64.b64encode(hashlib.sha256(source[name].encode()).digest()).decode()
        for name in ("css", "js")
    )
    slots = {  # the policy allows styles and script by their hashes alone
        "policy": f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        "img-src data:; base-uri 'none'; form-action 'none'",
        "title": html.escape(parts["title"]),
        "css": source["css"],
        "data": _json(parts),
        "js": source["js"],
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: slots[match[1]], source["html"])


def _json(value: Any) -> str:
    """Return JSON that is safe inside a script element, whatever the strings are."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


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
