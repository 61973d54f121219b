"""Files of judgements of rows, as triplets or quadruplets of row numbers."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import readers, triplets
from ..input.comparisons import check_comparisons
from ..readers import tables
from .data import Data
from .messages import say

#: Random rows that count as unlike a row, per link, where no links say which are.
N_RANDOM = 10

#: Rows per judgement.
WIDTHS = {"triplets": 3, "quadruplets": 4}


def read_judgements_of(
    kind: str, path: Path, data: Data, source: Namespace
) -> triplets.Judgements:
    """Return the triplets or quadruplets of a file of judgements of a kind."""
    if path.suffix == ".npy" and kind in WIDTHS:
        judgements = triplets.Judgements(readers.read_array(path))
    else:
        judgements = _read_judgements(kind, path, data, source)
    name = "quadruplets" if kind == "quadruplets" else "triplets"
    try:
        checked = check_comparisons(
            judgements.triplets, data.n_rows, name, WIDTHS[name]
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return replace(judgements, triplets=checked)


def _read_judgements(
    kind: str, path: Path, data: Data, source: Namespace
) -> triplets.Judgements:
    """Return the triplets or quadruplets that a table of judgements says, by its kind."""
    if kind == "triplets":
        return triplets.judgement_triplets(path, ids=data.ids, group=source.group)
    if kind == "quadruplets":
        return triplets.judgement_quadruplets(path, ids=data.ids, group=source.group)
    if kind == "grades":
        return triplets.graded_triplets(path, ids=data.ids, random_state=0)
    if kind == "clicks":
        return read_clicks(path, ids=data.ids, max_unknown=source.max_unknown)
    links, signs = _read_links(path, data)
    return triplets.Judgements(triplets.link_triplets(links, signs, random_state=0))


def read_clicks(path: Path, **options: Any) -> triplets.Judgements:
    """Return judgements by clicks, with weights where the table has positions.

    Without a column of events, a query is an event.
    """
    names = tables.column_names(path)
    if "event" not in names:
        options["event"] = "anchor" if "anchor" in names else "query"
    if "position" in names:
        options["position"] = "position"
    return triplets.choice_triplets(path, **options)


def _read_links(path: Path, data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of rows and their signs; random pairs are unlike where no pair is said to be."""
    names = ["left", "right"]
    has_signs = "same" in tables.column_names(path)
    if has_signs:
        names.append("same")
    table = tables.read_table(path, dict(zip(names, names, strict=True)))
    index = table.row_index(data.ids)
    left = table.row_numbers("left", index)
    right = table.row_numbers("right", index)
    links = np.column_stack([left, right])
    if has_signs:
        return links, 2 * table.flags("same") - 1
    say(
        f"{path} has no column 'same': its rows are alike, and unlike {N_RANDOM} "
        "random rows each."
    )
    return _with_random_pairs(links, data.n_rows)


def _with_random_pairs(links: np.ndarray, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return links and random pairs of their left rows, and the signs of both."""
    known = {*map(tuple, links.tolist()), *map(tuple, links[:, ::-1].tolist())}
    others = np.random.default_rng(0).integers(n_rows, size=(len(links), N_RANDOM))
    drawn = np.column_stack([np.repeat(links[:, 0], N_RANDOM), others.ravel()])
    unlike = [(a, b) for a, b in drawn.tolist() if a != b and (a, b) not in known]
    pairs = np.array([*links.tolist(), *unlike])
    return pairs, np.repeat([1, -1], [len(links), len(unlike)])
