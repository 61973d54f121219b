"""Entities: how records are grouped by probabilities of pairs, on tables with known groups.

Beyond the paper. People of FEBRL 3 by four columns that say little, with a hundred of
them known, and offers of cameras with the pairs of ``train.csv``. What `Linker.entities`
does is beside connected components and beside mean linkage, of the same probabilities.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from hdsl.linking import Linker
from hdsl.linking.entities import components, pairs_within

from . import linking, peers
from .results import Results, Table
from .sets import MissingDataError
from .settings import Cell, Line, Settings

TITLE = "Entities: records grouped by probabilities of pairs"

SETS = {"people": "FEBRL3 by four columns", "cameras": "wdc_cameras_medium, one table"}

#: Columns of people: names alone tell few from one another.
COLUMNS = ("given_name", "surname", "suburb", "state")

N_KNOWN_PEOPLE = 100
N_KNOWN_PEOPLE_QUICK = 20

THRESHOLDS = (0.1, 0.3, 0.5, 0.7, 0.9)

METHODS = {
    "entities": "Linker.entities",
    "components": "connected components",
    "mean": "mean linkage",
}


class Records(NamedTuple):
    """One table, pairs to learn from, and pairs to judge groups by.

    `entity` has the true number of each record, None where it is not known.
    """

    table: dict[str, list[str]]
    matches: np.ndarray
    non_matches: np.ndarray
    judged_matches: np.ndarray
    judged_others: np.ndarray
    entity: np.ndarray | None


def cells(settings: Settings) -> list[Cell]:
    """Return the sets that are there."""
    available = []
    reasons = []
    for name in settings.by_size(full=tuple(SETS), quick=("cameras",)):
        try:
            if name == "people":
                peers.cells(settings)
            else:
                linking.folder_of(settings, ("wdc_cameras_medium",))
        except MissingDataError as error:
            reasons.append(str(error))
        else:
            available.append({"set": name})
    if not available:
        raise MissingDataError(" ".join(reasons))
    return available


def load(settings: Settings, name: str) -> Records:
    """Return the records of a set."""
    if name == "people":
        return _people(settings)
    folder = linking.folder_of(settings, ("wdc_cameras_medium",))
    return _cameras(linking.load(folder / "wdc_cameras_medium"))


def _people(settings: Settings) -> Records:
    """Return the people of FEBRL 3, of whom some have all their matches known."""
    people = peers.load("3")
    persons = people.left["rec_id"].str.split("-").str[1]
    _, entity = np.unique(persons, return_inverse=True)
    row = {rec_id: number for number, rec_id in enumerate(people.left["rec_id"])}
    pairs = np.array(sorted(sorted((row[a], row[b])) for a, b in people.matches))
    rng = np.random.default_rng(0)
    n_known = settings.by_size(full=N_KNOWN_PEOPLE, quick=N_KNOWN_PEOPLE_QUICK)
    known_people = rng.choice(np.unique(entity[pairs]), n_known, replace=False)
    is_known = np.isin(entity[pairs[:, 0]], known_people)
    return Records(
        table={name: people.left[name].fillna("").tolist() for name in COLUMNS},
        matches=pairs[is_known],
        non_matches=np.empty((0, 2), dtype=int),
        judged_matches=pairs,
        judged_others=np.empty((0, 2), dtype=int),
        entity=entity,
    )


def _cameras(data: linking.Benchmark) -> Records:
    """Return the offers of both tables in one; their groups are known in part."""
    first_rows = np.array([0, len(data.left["id"])])
    table = {
        name: [*data.left[name], *data.right[name]]
        for name in data.left
        if name != "id"
    }
    judged = np.concatenate([data.valid.pairs, data.test.pairs]) + first_rows
    labels = np.concatenate([data.valid.labels, data.test.labels])
    return Records(
        table=table,
        matches=data.train.matches + first_rows,
        non_matches=data.train.non_matches + first_rows,
        judged_matches=judged[labels == 1],
        judged_others=judged[labels == 0],
        entity=None,
    )


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return F1 of each method at each threshold, and the largest group."""
    records = load(settings, cell["set"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of pairs that are listed twice
        linker = Linker(random_state=0)
        linker.fit(records.table, None, records.matches, records.non_matches)
        links = linker.predict(0.0)
    pairs = np.column_stack([links.left, links.right])
    entities = []
    for threshold in THRESHOLDS:
        is_link = links.probability >= threshold
        groups = {
            "entities": linker.entities(threshold).entity,
            "components": components(pairs[is_link], _n_records(records)),
        }
        groups["mean"] = _mean_linkage(
            linker, pairs, links.probability, groups["components"], threshold
        )
        for method, numbers in groups.items():
            score = {"method": method, "threshold": threshold}
            entities.append(score | _scores(records, numbers))
    return {"entities": entities, "statement": linker.statement_}


def _n_records(records: Records) -> int:
    return len(next(iter(records.table.values())))


def _mean_linkage(
    linker: Linker,
    candidates: np.ndarray,
    probability: np.ndarray,
    groups: np.ndarray,
    threshold: float,
) -> np.ndarray:
    """Return components cut where the mean probability between two parts is too low.

    Pairs that are no candidates are different in large components, as for the linker.
    """
    compared = pairs_within(groups, np.ones(len(groups), dtype=bool))
    pairs = np.concatenate([candidates, compared])
    distance = 1.0 - np.append(probability, linker.predict_proba(compared))
    pairs, first = np.unique(pairs, axis=0, return_index=True)
    group_of_pair = groups[pairs[:, 0]]
    inside = np.flatnonzero(group_of_pair == groups[pairs[:, 1]])
    inside = inside[np.argsort(group_of_pair[inside], kind="stable")]
    members_of = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)
    ends = np.cumsum(sizes)
    pair_ends = np.cumsum(np.bincount(group_of_pair[inside], minlength=len(sizes)))
    numbers = np.arange(len(groups))
    for group in np.flatnonzero(sizes > 1):
        members = members_of[ends[group] - sizes[group] : ends[group]]
        start = pair_ends[group - 1] if group > 0 else 0
        rows = inside[start : pair_ends[group]]
        apart = np.ones((len(members), len(members)))
        np.fill_diagonal(apart, 0.0)
        ends_of_pairs = np.searchsorted(members, pairs[rows])
        apart[ends_of_pairs[:, 0], ends_of_pairs[:, 1]] = distance[first[rows]]
        apart = np.minimum(apart, apart.T)
        tree = linkage(squareform(apart, checks=False), "average")
        cut = fcluster(tree, 1.0 - threshold, "distance")
        numbers[members] = members[np.unique(cut, return_index=True)[1][cut - 1]]
    return numbers


def _scores(records: Records, groups: np.ndarray) -> dict[str, Any]:
    """Return F1 of pairs, the share of true groups that are right, the largest group."""
    judged = records.judged_matches
    n_right = int((groups[judged[:, 0]] == groups[judged[:, 1]]).sum())
    others = records.judged_others
    n_wrong = int((groups[others[:, 0]] == groups[others[:, 1]]).sum())
    sizes = np.unique(groups, return_counts=True)[1]
    scores: dict[str, Any] = {"largest": int(sizes.max()), "f1_groups": None}
    if records.entity is not None:
        n_wrong = int((sizes * (sizes - 1) // 2).sum()) - n_right
        scores["f1_groups"] = _f1_of_groups(groups, records.entity)
    n_missed = len(judged) - n_right
    scores["f1_pairs"] = 2 * n_right / (2 * n_right + n_wrong + n_missed)
    return scores


def _f1_of_groups(groups: np.ndarray, entity: np.ndarray) -> float:
    """Return the F1 of groups that have exactly the records of an entity."""
    both = np.unique(np.column_stack([groups, entity]), axis=0, return_counts=True)
    (pairs, n_both) = both
    n_in_group = np.bincount(groups)[pairs[:, 0]]
    n_in_entity = np.bincount(entity)[pairs[:, 1]]
    n_right = ((n_both == n_in_group) & (n_both == n_in_entity)).sum()
    return float(2 * n_right / (len(np.unique(groups)) + len(np.unique(entity))))


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return F1 by method and threshold."""
    note = (
        "F1 in percent of pairs of records that are one entity, then, where all entities "
        "are known, of groups that have exactly the records of one, and the number of "
        "records of the largest group. The known pairs are learned from, and judged with "
        "the others where all entities are known; of cameras only pairs of valid and "
        "test are judged."
    )
    rows = [
        [SETS[line["cell"]["set"]], name, *_row(line, method)]
        for line in lines
        for method, name in METHODS.items()
    ]
    head = ["records", "method", *map(str, THRESHOLDS)]
    return Results([Table("f1", head, rows, [note])])


def _row(line: Line, method: str) -> list[str]:
    """Return the figures of a method, by threshold."""
    figures = []
    for score in line["entities"]:
        if score["method"] == method:
            figure = f"{100 * score['f1_pairs']:.1f}"
            if score["f1_groups"] is not None:
                figure += f" / {100 * score['f1_groups']:.1f}"
            figures.append(f"{figure}, {score['largest']}")
    return figures
