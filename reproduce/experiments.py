"""The experiments by name.

An experiment is a module with

- ``TITLE``, one line;
- ``cells(settings)``, the list of what to compute: small dicts of names and numbers;
- ``compute(settings, cell)``, the answer of one cell as a dict that JSON can hold;
- ``publish(settings, lines)``, the `results.Results` of all lines, each a cell and its
  answer.

Where a protocol chooses a parameter, every value is a cell of its own and ``publish``
chooses, by validation figures alone. So an interrupted run continues where it was.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol, cast

from .results import Results
from .settings import Cell, Line, Settings

#: In the order of the paper; those from "judgements" on go beyond it.
NAMES = (
    "recovery",
    "links",
    "knn",
    "svm",
    "features",
    "sparsity",
    "dimension",
    "complexity",
    "judgements",
    "quality",
    "rivals",
    "published",
    "defaults",
    "cisi",
    "memory",
    "embeddings",
    "adapters",
    "linking",
    "linking_sizes",
    "entities",
    "peers",
    "topics",
    "phase",
    "local",
    "classification",
)


class Experiment(Protocol):
    """What a module of an experiment offers."""

    TITLE: str

    def cells(self, settings: Settings) -> list[Cell]:
        """Return the cells to compute."""

    def compute(self, settings: Settings, cell: Cell) -> dict[str, Any]:
        """Return the answer of one cell."""

    def publish(self, settings: Settings, lines: list[Line]) -> Results:
        """Return tables and figures."""


def load(name: str) -> Experiment:
    """Return the module of an experiment."""
    return cast(Experiment, importlib.import_module(f"{__package__}.{name}"))
