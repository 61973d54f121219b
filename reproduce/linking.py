"""Linking records: F1 of pairs held out and recall of candidates, on six benchmarks.

Beyond the paper. One setting for all, chosen on pairs of ``valid.csv``: learn from the
pairs of ``train.csv``, or from those of ``valid.csv`` too, report on ``test.csv`` once.
The threshold is 0.5, and for comparison that of the largest F1 on ``valid.csv``. The
peers are the cosine of the
same rows, and what string_grouper does, the cosine of character 3-grams by
sparse_dot_topn. `HDSL` alone, with its default parameters, shows how often the right
record comes first.
"""

from __future__ import annotations

import csv
import gzip
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import precision_recall_curve

from hdsl import HDSL
from hdsl.evaluate import wilson_interval
from hdsl.linking import Linker
from hdsl.rows import unit_rows
from hdsl.search import top_k

from .results import Results, Table
from .sets import MissingDataError
from .settings import Cell, Line, Settings

TITLE = "Linking records: F1 on pairs held out, and matches among ten candidates"

TABLES = (
    "abt_buy",
    "amazon_google",
    "dirty_walmart_amazon",
    "itunes_amazon",
    "wdc_cameras_small",
    "wdc_cameras_medium",
)


class Published(NamedTuple):
    """F1 as published, 0 where it is not: of systems, and the highest with its system.

    Ditto is a fine-tuned transformer (PVLDB 2021), R-SupCon one that is trained by
    contrasts; word co-occurrence and DeepMatcher are the baselines of the WDC corpus.
    """

    ditto: float
    supcon: float
    co_occurrence: float
    deepmatcher: float
    best: float
    best_system: str


PUBLISHED = {
    "abt_buy": Published(89.3, 94.3, 0, 0, 95.2, "a fine-tuned 8-billion model"),
    "amazon_google": Published(75.6, 79.3, 0, 0, 81.7, "Jellyfish-7B"),
    "dirty_walmart_amazon": Published(85.7, 0, 0, 0, 85.7, "Ditto"),
    "itunes_amazon": Published(97.1, 0, 0, 0, 97.1, "Ditto"),
    "wdc_cameras_small": Published(80.9, 0, 61.8, 68.6, 80.9, "Ditto"),
    "wdc_cameras_medium": Published(88.1, 0, 70.3, 76.5, 88.1, "Ditto"),
}

#: Limits of the bins of probability that reliability is shown for.
EDGES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)

N_CANDIDATES = 10
N_DRAWS = 1000

#: Numbers of candidates in the table of recall, and nearest records that are not the
#: match.
RECALL_AT = (1, 2, 5, 10, 20)
N_OTHERS = 20

METHODS = {
    "learned": "Linker, train pairs",
    "validated": "Linker, train and valid pairs",
    "unlabelled": "Linker, no labels",
    "cosine": "cosine of words and n-grams",
    "string_grouper": "cosine of 3-grams (sparse_dot_topn)",
    "similarity": "HDSL alone, learned cosine",
}

#: Words, and character n-grams, as rows.
WORDS = {"sublinear_tf": True, "min_df": 2, "token_pattern": r"(?u)\b\w+\b"}
GRAMS = {
    "sublinear_tf": True,
    "min_df": 2,
    "analyzer": "char_wb",
    "ngram_range": (3, 4),
}


class LabeledPairs(NamedTuple):
    """Pairs of a left and a right record, and 1 for each that matches."""

    pairs: np.ndarray
    labels: np.ndarray

    @property
    def matches(self) -> np.ndarray:
        """The pairs that match."""
        return self.pairs[self.labels == 1]

    @property
    def non_matches(self) -> np.ndarray:
        """The pairs that do not match."""
        return self.pairs[self.labels == 0]


class Benchmark(NamedTuple):
    """Two tables as columns, and labelled pairs to learn, to choose and to report by."""

    left: dict[str, list[str]]
    right: dict[str, list[str]]
    train: LabeledPairs
    valid: LabeledPairs
    test: LabeledPairs

    def n_seen(self, *parts: LabeledPairs) -> int:
        """Return how many test pairs are in other parts too."""
        others = {tuple(pair) for part in parts for pair in part.pairs.tolist()}
        return sum(tuple(pair) in others for pair in self.test.pairs.tolist())

    def all_matches(self) -> set[tuple[int, int]]:
        """Return every pair that is known to match."""
        labeled = (self.train, self.valid, self.test)
        matches = np.concatenate([pairs.matches for pairs in labeled])
        return {(left, right) for left, right in matches.tolist()}


class Links(NamedTuple):
    """What a method finds.

    Attributes
    ----------
    score : callable
        Takes pairs and returns a score of each.
    candidates : ndarray of shape (n_candidates, 2)
        Pairs; those of a left record come best first.
    more : dict
        What else is known of the method.
    """

    score: Callable[[np.ndarray], np.ndarray]
    candidates: np.ndarray
    more: dict[str, Any]


def cells(settings: Settings) -> list[Cell]:
    """Return every method for every pair of tables."""
    folder_of(settings, TABLES)
    tables = settings.by_size(full=TABLES, quick=TABLES[:1])
    return [{"tables": name, "method": method} for method in METHODS for name in tables]


def folder_of(settings: Settings, names: Sequence[str]) -> Path:
    """Return the folder of the tables: the one of --data, or ``linking`` in it.

    Raises
    ------
    MissingDataError
        If the folder does not have them.
    """
    home = settings.data
    if home is not None and (home / "linking").is_dir():
        home = home / "linking"
    if home is None or not all((home / name).is_dir() for name in names):
        raise MissingDataError(
            f"it needs linking/{{{','.join(names)}}} in the folder of --data."
        )
    return home


def load(folder: Path) -> Benchmark:
    """Return the tables of a folder; the id of a record is its row number."""
    return Benchmark(
        left=_read_table(folder / "tableA.csv.gz"),
        right=_read_table(folder / "tableB.csv.gz"),
        train=_read_pairs(folder / "train.csv.gz"),
        valid=_read_pairs(folder / "valid.csv.gz"),
        test=_read_pairs(folder / "test.csv.gz"),
    )


def _read_table(path: Path) -> dict[str, list[str]]:
    """Return the columns of a table."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    return {column: [row[k] for row in rows] for k, column in enumerate(header)}


def _read_pairs(path: Path) -> LabeledPairs:
    """Return the pairs of a table of left, right, label."""
    left, right, labels = _read_table(path).values()
    pairs = np.array([left, right], dtype=np.int64).T
    return LabeledPairs(pairs, np.array(labels, dtype=np.int64))


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return F1, recall and seconds of one method on one pair of tables."""
    data = load(folder_of(settings, TABLES[:1]) / cell["tables"])
    start = time.perf_counter()
    cpu_start = time.process_time()
    try:
        links = WAYS[cell["method"]](data)
    except ImportError as error:
        return {"left_out": f"{error.name} is not installed"}
    seconds = time.perf_counter() - start
    cpu_seconds = time.process_time() - cpu_start
    threshold = 0.5
    if cell["method"] != "validated":  # which knows the pairs of valid
        scores_of_valid = links.score(data.valid.pairs)
        threshold = best_threshold(data.valid.labels, scores_of_valid)
    scores = links.score(data.test.pairs)
    labels = data.test.labels
    low, high = _interval(labels, scores >= 0.5)
    ranks = _ranks(data, links.candidates)
    return {
        "f1": f1(labels, scores >= threshold),
        "low": low,
        "high": high,
        "threshold": threshold,
        "f1_at_half": f1(labels, scores >= 0.5),
        "n_seen": data.n_seen(data.train),
        "f1_unseen": _f1_of_unseen(data, scores),
        "n_matches": len(ranks.rank),
        "n_first": int(np.sum(ranks.n_ahead == 0)),
        "found": {str(k): int(np.sum(ranks.rank <= k)) for k in RECALL_AT},
        "taken": seconds,
        "cpu": cpu_seconds,
        **links.more,
        **_reliability(scores, labels),
    }


def _f1_of_unseen(data: Benchmark, scores: np.ndarray) -> float:
    """Return the F1 at 0.5 of the test pairs that are not in train or valid."""
    others = {
        tuple(pair) for part in (data.train, data.valid) for pair in part.pairs.tolist()
    }
    is_new = np.array([tuple(pair) not in others for pair in data.test.pairs.tolist()])
    return f1(data.test.labels[is_new], scores[is_new] >= 0.5)


class MatchRanks(NamedTuple):
    """Per match of test its rank among the candidates of its left record.

    `n_ahead` is the number of records before it that do not match. Both are infinite
    where it is no candidate.
    """

    rank: np.ndarray
    n_ahead: np.ndarray


def _ranks(data: Benchmark, candidates: np.ndarray) -> MatchRanks:
    """Return the ranks of the matches of test."""
    matches = data.all_matches()
    rank: dict[tuple[int, int], int] = {}
    n_ahead: dict[tuple[int, int], int] = {}
    n_seen: Counter[int] = Counter()
    n_others: Counter[int] = Counter()
    for left, right in candidates.tolist():
        n_seen[left] += 1
        rank[left, right] = n_seen[left]
        n_ahead[left, right] = n_others[left]
        if (left, right) not in matches:
            n_others[left] += 1
    pairs = [(left, right) for left, right in data.test.matches.tolist()]
    return MatchRanks(
        rank=np.array([rank.get(pair, np.inf) for pair in pairs]),
        n_ahead=np.array([n_ahead.get(pair, np.inf) for pair in pairs]),
    )


def _reliability(scores: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Return, by bin of the probability, the pairs of test, their mean and matches."""
    bin_of_pair = probability_bins(scores)
    lines = []
    for number in np.unique(bin_of_pair).tolist():
        inside = bin_of_pair == number
        mean = float(scores[inside].mean())
        lines.append([number, int(inside.sum()), mean, int(labels[inside].sum())])
    return {"reliability": lines}


def probability_bins(probability: np.ndarray) -> np.ndarray:
    """Return the bin of each probability, by the number of its lower edge."""
    bins = np.searchsorted(EDGES, probability, side="right") - 1
    return np.clip(bins, 0, len(EDGES) - 2)


def f1(labels: np.ndarray, predicted: np.ndarray) -> float:
    """Return the F1 of pairs that are predicted to match."""
    n_right = (labels * predicted).sum()
    return float(2 * n_right / max(1, labels.sum() + predicted.sum()))


def best_threshold(labels: np.ndarray, scores: np.ndarray) -> float:
    """Return the threshold with the largest F1."""
    precision, recall, thresholds = precision_recall_curve(labels, scores)
    by_threshold = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    return float(thresholds[by_threshold[:-1].argmax()])


def _interval(labels: np.ndarray, predicted: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval of F1, by drawing pairs again."""
    rng = np.random.default_rng(0)
    values = []
    for _ in range(N_DRAWS):
        drawn = rng.integers(len(labels), size=len(labels))
        values.append(f1(labels[drawn], predicted[drawn]))
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


# --- methods --------------------------------------------------------------------------


def _learned(data: Benchmark) -> Links:
    """Return what a Linker finds that learns from matches and non-matches."""
    return _by_linker(_fit(data, data.train.matches, data.train.non_matches))


def _validated(data: Benchmark) -> Links:
    """Return what a Linker finds that learns from the pairs of train and of valid."""
    matches = np.concatenate([data.train.matches, data.valid.matches])
    non_matches = np.concatenate([data.train.non_matches, data.valid.non_matches])
    return _by_linker(_fit(data, matches, non_matches))


def _unlabelled(data: Benchmark) -> Links:
    """Return what a Linker finds without labels, and how many links are right.

    Of all candidates at once, not only of the pairs of test.
    """
    linker = _fit(data, (), ())
    links = linker.predict(0.0)
    matches = data.all_matches()
    pairs = zip(links.left.tolist(), links.right.tolist(), strict=True)
    is_match = np.array([pair in matches for pair in pairs])
    f1_of_first = 2 * is_match.cumsum() / (1 + np.arange(len(is_match)) + len(matches))
    is_link = links.probability >= 0.5
    n_links = int(is_link.sum())
    links_of_all = {
        "f1": float(f1_of_first[:n_links][-1:].sum()),
        "best_f1": float(f1_of_first.max(initial=0.0)),
        "matches": len(matches),
        "links": n_links,
        "expected": float(links.probability[is_link].sum()),
        "right": int(is_match[is_link].sum()),
    }
    found = _by_linker(linker)
    return found._replace(more={**found.more, "all": links_of_all})


def _fit(data: Benchmark, matches: Any, non_matches: Any) -> Linker:
    """Return a Linker that has learned from pairs, as the files have them."""
    with warnings.catch_warnings():
        # Pairs that are listed twice, or both ways, are a table of the page.
        warnings.filterwarnings("ignore", "Known pairs", UserWarning)
        linker = Linker(random_state=0)
        return linker.fit(data.left, data.right, matches, non_matches)


def _by_linker(linker: Linker) -> Links:
    """Return what a fitted Linker finds."""
    candidates = linker.candidates(RECALL_AT[-1])
    report = linker.label_report_._asdict()
    more: dict[str, Any] = {
        "prior": None,
        "statement": linker.statement_,
        "faults": {fault: len(pairs) for fault, pairs in report.items()},
    }
    if linker.model_ is not None:
        more["prior"] = linker.model_.prior_
    pairs = np.column_stack([candidates.left, candidates.right])
    return Links(linker.predict_proba, pairs, more)


class Rows(NamedTuple):
    """The records of both tables as rows of unit length."""

    left: sp.csr_array
    right: sp.csr_array


def _rows(data: Benchmark, *kinds: dict[str, Any]) -> Rows:
    """Return the records as TF-IDF of some kinds of terms."""
    left_texts = _texts(data.left)
    right_texts = _texts(data.right)
    left_blocks = []
    right_blocks = []
    for kind in kinds:
        vectorizer = TfidfVectorizer(**kind).fit(left_texts + right_texts)
        left_blocks.append(vectorizer.transform(left_texts))
        right_blocks.append(vectorizer.transform(right_texts))
    return Rows(
        left=unit_rows(sp.csr_array(sp.hstack(left_blocks))),
        right=unit_rows(sp.csr_array(sp.hstack(right_blocks))),
    )


def _texts(table: dict[str, list[str]]) -> list[str]:
    """Return each record as a text: its fields, without the id."""
    _, *columns = table.values()
    return [" ".join(filter(None, row)) for row in zip(*columns, strict=True)]


def _by_rows(rows: Rows, **more: Any) -> Links:
    """Return what inner products of rows find."""
    nearest = top_k(rows.left, rows.right, RECALL_AT[-1]).rows
    left = np.repeat(np.arange(len(nearest)), nearest.shape[1])
    candidates = np.column_stack([left, nearest.ravel()])

    def score(pairs: np.ndarray) -> np.ndarray:
        left, right = pairs.T
        products = rows.left[left].multiply(rows.right[right])
        return np.asarray(products.sum(axis=1)).ravel()

    return Links(score, candidates, more)


def _cosine(data: Benchmark) -> Links:
    """Return what the cosine of words and n-grams finds."""
    return _by_rows(_rows(data, WORDS, GRAMS))


def _string_grouper(data: Benchmark) -> Links:
    """Return what the cosine of 3-grams finds, by sparse_dot_topn."""
    from sparse_dot_topn import sp_matmul_topn

    rows = _rows(data, {"analyzer": "char", "ngram_range": (3, 3)})
    largest = sp_matmul_topn(
        sp.csr_matrix(rows.left),
        sp.csr_matrix(rows.right.T.tocsr()),
        top_n=RECALL_AT[-1],
        sort=True,
    )
    nearest = sp.csr_array(largest)
    left = np.repeat(np.arange(nearest.shape[0]), np.diff(nearest.indptr))
    candidates = np.column_stack([left, nearest.indices])
    return _by_rows(rows)._replace(candidates=candidates)


def _similarity(data: Benchmark) -> Links:
    """Learn from each match against the nearest other records, from both sides."""
    rows = _rows(data, WORDS, GRAMS)
    triplets = _match_triplets(rows, data.train.matches)
    start = time.perf_counter()
    both = sp.csr_array(sp.vstack([rows.left, rows.right]))
    model = HDSL(random_state=0).fit(both, triplets=triplets)
    seconds = time.perf_counter() - start
    learned = Rows(
        left=sp.csr_array(model.transform(rows.left, cosine=True)),
        right=sp.csr_array(model.transform(rows.right, cosine=True)),
    )
    return _by_rows(
        learned, prior=model.prior_, fit_seconds=seconds, n_triplets=len(triplets)
    )


def _match_triplets(rows: Rows, matches: np.ndarray) -> np.ndarray:
    """Return each match against the nearest other records, from both sides.

    Rows are numbered from the left table on, then those of the right one.
    """
    n_left = rows.left.shape[0]
    left, right = matches.T
    nearest_right = top_k(rows.left[left], rows.right, N_OTHERS).rows + n_left
    nearest_left = top_k(rows.right[right], rows.left, N_OTHERS).rows
    right = right + n_left
    known = set(zip(left.tolist(), right.tolist(), strict=True))
    known |= set(zip(right.tolist(), left.tolist(), strict=True))
    triplets = []
    for anchors, positives, nearest in (
        (left, right, nearest_right),
        (right, left, nearest_left),
    ):
        for anchor, positive, others in zip(
            anchors.tolist(), positives.tolist(), nearest.tolist(), strict=True
        ):
            triplets += [
                (anchor, positive, negative)
                for negative in others
                if (anchor, negative) not in known
            ]
    return np.array(triplets)


#: What each method finds.
WAYS: dict[str, Callable[[Benchmark], Links]] = {
    "learned": _learned,
    "validated": _validated,
    "unlabelled": _unlabelled,
    "cosine": _cosine,
    "string_grouper": _string_grouper,
    "similarity": _similarity,
}


#: The methods that are a Linker, whose scores are probabilities.
BY_LINKER = (_learned, _validated, _unlabelled)


# --- the page -------------------------------------------------------------------------


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return F1, recall by number of candidates, and reliability, with intervals."""
    lines = sorted(lines, key=_number_of_tables)
    complete = [line for line in lines if "left_out" not in line]
    by_linker = [line for line in complete if WAYS[line["cell"]["method"]] in BY_LINKER]
    reliability = [row for line in by_linker for row in _reliability_rows(line)]
    note = (
        "F1 of the pairs of test, at 0.5, which needs no other pair, and at the "
        "threshold of the largest F1 on valid. First: the share of the matches with no "
        "other record ahead that does not match. Intervals of 95 %: F1 at 0.5 by "
        "drawing the pairs of test again, shares by Wilson. Seconds (and seconds of "
        "processors) of the whole work, tables to candidates; run with --jobs 1 to "
        "time it. The prior is that of the "
        "learned similarity, where it is used; HDSL alone chooses it."
    )
    recall_note = (
        "Matches of test whose right record is among the first k candidates of the "
        "left one."
    )
    reliability_note = (
        "Pairs of test by the probability that the Linker gives them, and how many "
        "match."
    )
    head = [
        "tables",
        "method",
        "F1 at 0.5",
        "F1, threshold of valid",
        "threshold",
        "first",
        f"recall at {N_CANDIDATES}",
        "seconds (CPU)",
        "prior",
    ]
    published_note = (
        "As published, on the same splits. Ditto is a fine-tuned transformer (PVLDB "
        "2021), R-SupCon one trained by contrasts; word co-occurrence and DeepMatcher "
        "are baselines of the WDC corpus."
    )
    seen_note = (
        "Pairs of test that are in train too, of which the Linker knows the answer, "
        "and F1 at 0.5 without pairs of train and valid. Known pairs that are listed "
        "more than once, or both as match and non-match."
    )
    unlabelled_note = (
        "Without labels: all links from 0.5 on, how many the Linker expects to be right, "
        "and how many are matches of train, valid or test."
    )
    return Results(
        [
            Table("measures", head, [_measures_row(line) for line in lines], [note]),
            Table(
                "published",
                ["tables", METHODS["learned"], METHODS["validated"], *PUBLISHED_HEAD],
                [_published_row(name, by_linker) for name in TABLES],
                [published_note],
            ),
            Table(
                "labels",
                [
                    "tables",
                    "method",
                    "in train too",
                    "F1",
                    "F1 without them",
                    "listed twice",
                    "both",
                ],
                [_labels_row(line) for line in by_linker],
                [seen_note],
            ),
            Table(
                "unlabelled",
                [
                    "tables",
                    "F1 at 0.5",
                    "best F1",
                    "matches",
                    "links",
                    "expected right",
                    "right",
                ],
                [_unlabelled_row(line) for line in complete if "all" in line],
                [unlabelled_note],
            ),
            Table(
                "recall",
                ["tables", "method", *map(str, RECALL_AT)],
                [_recall_row(line) for line in complete],
                [recall_note],
            ),
            Table(
                "reliability",
                ["tables", "method", "probability", "pairs", "mean", "match"],
                reliability,
                [reliability_note],
            ),
        ]
    )


def _number_of_tables(line: Line) -> int:
    """Return where the tables of a line stand among all."""
    return TABLES.index(line["cell"]["tables"])


def _measures_row(line: Line) -> list[str]:
    """Return F1, recall and seconds of a method on a pair of tables."""
    tables = line["cell"]["tables"]
    method = METHODS[line["cell"]["method"]]
    if "left_out" in line:
        return [tables, method, f"left out: {line['left_out']}", *[""] * 6]
    n = line["n_matches"]
    prior = "–"
    if line.get("prior"):
        prior = f"{line['prior']:.2f}"
    return [
        tables,
        method,
        _f1_at_half(line),
        *_by_threshold(line),
        f"{line['n_first'] / n:.3f}",
        _with_interval(line["found"][str(N_CANDIDATES)], n),
        f"{line['taken']:.1f} ({line['cpu']:.1f})",
        prior,
    ]


#: The columns of the table of published figures.
PUBLISHED_HEAD = (
    "Ditto",
    "R-SupCon",
    "word co-occurrence",
    "DeepMatcher",
    "best published",
)


def _by_threshold(line: Line) -> tuple[str, str]:
    """Return the F1 at the threshold of valid, and the threshold.

    Where the pairs of valid are known, they have no threshold.
    """
    if _is_validated(line):
        return "–", "–"
    return f"{100 * line['f1']:.1f}", f"{line['threshold']:.2f}"


def _is_validated(line: Line) -> bool:
    """Return whether a line has learned from all pairs that published systems use."""
    return bool(line["cell"]["method"] == "validated")


def _published_row(tables: str, lines: list[Line]) -> list[str]:
    """Return the F1 of a Linker on two tables beside published ones."""
    of_linker = {"learned": "–", "validated": "–"}
    for line in lines:
        if line["cell"]["tables"] == tables and line["cell"]["method"] in of_linker:
            of_linker[line["cell"]["method"]] = _f1_at_half(line)
    published = PUBLISHED[tables]
    figures = [
        published.ditto,
        published.supcon,
        published.co_occurrence,
        published.deepmatcher,
    ]
    return [
        tables,
        *of_linker.values(),
        *(f"{figure:.1f}" if figure else "–" for figure in figures),
        f"{published.best:.1f}, {published.best_system}",
    ]


def _labels_row(line: Line) -> list[str]:
    """Return how many pairs of test were known, and faults of the known pairs."""
    faults = line["faults"]
    return [
        line["cell"]["tables"],
        METHODS[line["cell"]["method"]],
        str(line["n_seen"]),
        f"{100 * line['f1_at_half']:.1f}",
        f"{100 * line['f1_unseen']:.1f}",
        str(faults["repeated"]),
        str(faults["contradictory"]),
    ]


def _unlabelled_row(line: Line) -> list[str]:
    """Return how many links are expected to be right without labels, and are."""
    numbers = line["all"]
    return [
        line["cell"]["tables"],
        f"{100 * numbers['f1']:.1f}",
        f"{100 * numbers['best_f1']:.1f}",
        *(
            f"{numbers[name]:,.0f}"
            for name in ("matches", "links", "expected", "right")
        ),
    ]


def _f1_at_half(line: Line) -> str:
    """Return the F1 at 0.5 with its interval."""
    low = 100 * line["low"]
    high = 100 * line["high"]
    return f"{100 * line['f1_at_half']:.1f} ({low:.1f} to {high:.1f})"


def _recall_row(line: Line) -> list[str]:
    """Return the recall of a method by the number of candidates."""
    n = line["n_matches"]
    shares = [_with_interval(line["found"][str(k)], n) for k in RECALL_AT]
    return [line["cell"]["tables"], METHODS[line["cell"]["method"]], *shares]


def _reliability_rows(line: Line) -> list[list[str]]:
    """Return a row per bin of the probabilities of a Linker."""
    return [
        [
            line["cell"]["tables"],
            METHODS[line["cell"]["method"]],
            f"{EDGES[number]} to {EDGES[number + 1]}",
            str(size),
            f"{mean:.3f}",
            _with_interval(n_matches, size),
        ]
        for number, size, mean, n_matches in line["reliability"]
    ]


def _with_interval(count: int, n: int) -> str:
    """Return a share with its 95 % interval."""
    low, high = wilson_interval(count, n)
    return f"{count / n:.3f} ({low:.3f} to {high:.3f})"
