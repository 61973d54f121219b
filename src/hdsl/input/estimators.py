"""What all estimators have in common with those of scikit-learn: tags, links, attributes, names."""

import sys
from functools import cache
from importlib import metadata
from typing import Any

import numpy as np

from .. import memory

#: The label of the documentation's address among those of the package.
ADDRESS = "Documentation"


#: Memory that the name of a column takes, as a Python string in an array.
BYTES_PER_NAME = 64


def replace_fitted(estimator: Any, learned: Any) -> None:
    """Replace all fitted attributes of an estimator by those of another.

    One assignment does it, so that an interrupt never leaves a half-fitted estimator.
    """
    fitted = {
        name: value for name, value in vars(learned).items() if name.endswith("_")
    }
    others = {
        name: value for name, value in vars(estimator).items() if not name.endswith("_")
    }
    estimator.__dict__ = others | fitted


def numbered_names(n_features: int, why: str) -> np.ndarray:
    """Return x0, x1, …; raise ValueError where so many names do not fit in memory.

    `why` says what needs them, as the start of the message.
    """
    needed = BYTES_PER_NAME * n_features
    free = memory.available()
    if free is not None and needed > free:
        raise ValueError(
            f"{why}: the names of {n_features} columns need about "
            f"{memory.format_bytes(needed)}, but only {memory.format_bytes(free)} are "
            "free."
        )
    return np.array([f"x{i}" for i in range(n_features)], dtype=object)


@cache
def documentation() -> str:
    """Return the address of the documentation that the package names, or nothing."""
    try:
        addresses = metadata.metadata("hdsl").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:  # a source tree that was never installed
        return ""
    for address in addresses:
        label, _, url = address.partition(", ")
        if label == ADDRESS:
            return url.rstrip("/")
    return ""


def public_name(estimator: type) -> str:
    """Return the name that users import a class by: that of the outermost package with it."""
    packages = estimator.__module__.split(".")
    for depth in range(1, len(packages) + 1):
        package = ".".join(packages[:depth])
        module = sys.modules.get(package)
        if getattr(module, estimator.__name__, None) is estimator:
            return f"{package}.{estimator.__name__}"
    return f"{estimator.__module__}.{estimator.__name__}"


class LinkedToPages:
    """An estimator whose diagram in a notebook links to its page of the documentation."""

    _doc_link_module = "hdsl"

    @property
    def _doc_link_template(self) -> str:
        """The address of the page of a name; nothing where the package names no pages."""
        address = documentation()
        if not address:
            return ""
        return address + "/generated/api/{name}.html"

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        """Return what the address is completed with."""
        return {"name": public_name(type(self))}


class TakesSparse(LinkedToPages):
    """What scikit-learn asks of an estimator of sparse rows; a transformer keeps their dtype."""

    needs_y = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        tags.target_tags.required = self.needs_y
        if tags.transformer_tags is not None:
            tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
