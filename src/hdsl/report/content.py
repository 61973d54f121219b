"""The content of a page: the numbers and texts of a model, packed for its script."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import column_or_1d

from ..class_scores.scores import word_name
from ..explain.ranking import count_occurrences
from ..explain.tables import CLASS, as_names
from ..input import embeddings
from ..input.matrices import canonical
from ..labels import LabelSets, label_sets
from ..rows import Rows, blocks_of, sparse_block
from ..settings import flat_parameters
from ..similarity import FixedPart
from ..similarity.cosine import ranking_of
from ..similarity.fixed import EMBEDDING
from ..similarity.products import check_result
from ..similarity.query_memory import QueryMemory
from ..solver.atoms import ZERO, are_directions
from ..solver.trace import NO_ATOM
from ..wide_matrices import take_columns

#: Characters of the name of a feature, a class, or a row.
MAX_NAME = 100

#: Values of items on a page: at most 0.8 MB with their columns. Of longer rows fewer
#: fit.
MAX_VALUES = 50_000

#: Characters of a text.
MAX_TEXT = 1500

#: Characters of the value of a parameter.
MAX_PARAMETER = 80

#: Most known queries that a page compares with what is typed.
MAX_QUERIES = 500

#: Classes that have a colour of their own.
N_CLASSES = 10

#: Columns of the trace that are drawn.
CURVES = ("objective", "gap", "n_atoms", "n_features")


class More(NamedTuple):
    """What a caller knows beyond the model and its rows.

    Parameters
    ----------
    row_numbers : ndarray of shape (n_rows,)
        Numbers of the rows of X in the user's data; None is from 0.
    scores : ClassScores
        What made the last features, the scores of classes; None is no scores. The plain
        cosine leaves them out.
    query_weights : ndarray of shape (n_features - n_scores,)
        Weight of a feature in a typed query; None is 1.
    ids : ndarray of shape (n_rows,)
        Names of the rows of X in the user's data; None is their numbers.
    reader : dict
        How texts are read, and typed queries, as ``Words.reader`` has it; None is words.
    """

    row_numbers: np.ndarray | None = None
    scores: Any = None
    query_weights: np.ndarray | None = None
    ids: np.ndarray | None = None
    reader: dict[str, Any] | None = None

    @property
    def n_scores(self) -> int:
        """The number of last features that are scores of classes."""
        if self.scores is None:
            return 0
        return len(self.scores.classes_)


def model_content(
    model: Any, rows: PageRows, feature_names: Any, max_items: int, more: More
) -> dict[str, Any]:
    """Return the model, its path, its features and the rows to compare."""
    name_of = feature_namer(model, feature_names)
    path = path_of(model)
    compared = None
    if rows.X is not None:
        compared = model.similarity_.index_rows(rows.X)
        rows = rows._replace(X=canonical(sparse_block(compared)))
    page_rows = np.empty(0, dtype=np.int64)
    row_features = np.empty(0, dtype=np.int64)
    page_X = None
    if rows.X is not None and max_items > 0:
        page_rows = choose_rows(compared, max_items, len(path.directions))
        page_X = _with_all_columns(compared, page_rows)
        row_features = page_X.indices
    memory = _memory_to_show(model, rows, page_rows)
    if memory is not None:
        row_features = np.concatenate([row_features, memory.queries.indices])
    features = PageFeatures(path.atoms, row_features, name_of)
    return {
        "model": _model(model, more),
        "classes": _classes(rows, features),
        "choice": _choice(model),
        "has_names": feature_names is not None or hasattr(model, "feature_names_in_"),
        "query_weights": _query_weights(more, features),
        "reader": more.reader or {"unit": "words", "stop_words": [], "spaceless": ""},
        "names": features.names,
        "is_score": _are_scores(features, model.similarity_.n_paired, more.n_scores),
        "columns": pack(features.numbers),
        "atoms": {
            "i": pack(features.ends[:, 0]),
            "j": pack(features.ends[:, 1]),
            "sign": pack(path.atoms[:, 2]),
        },
        "inside": _inside(model, path, compared, page_rows),
        "steps": pack_all(path.steps),
        "corrections": pack_all(path.corrections),
        "trace": {name: pack(model.trace_[name]) for name in CURVES},
        "counts": _counts(rows, features),
        "items": _items(rows, page_rows, page_X, features, more, name_of),
        "memory": _memory(memory, page_rows, features),
    }


def _memory_to_show(
    model: Any, rows: PageRows, page_rows: np.ndarray
) -> QueryMemory | None:
    """Return what a model remembers of judged queries; None where a page cannot compare them.

    Typed words have no embedding, and a page is for some hundred queries.
    """
    memory = getattr(model, "memory_", None)
    if memory is None or memory.weight == 0.0 or rows.X is None or not len(page_rows):
        return None
    is_of_rows = rows.X is not None and memory.n_documents == rows.X.shape[0]
    is_small = 0 < memory.n_queries <= MAX_QUERIES
    if not is_of_rows or not is_small or not sp.issparse(memory.queries):
        return None
    return memory


def _memory(
    memory: QueryMemory | None, page_rows: np.ndarray, features: PageFeatures
) -> dict[str, Any] | None:
    """Return known queries with all their values, and the judgements of the page's rows."""
    if memory is None:
        return None
    relevance = memory.relevance
    is_shown = np.isin(relevance.documents, page_rows)
    queries = memory.queries
    return {
        "weight": memory.weight,
        "power": memory.power,
        "density": memory.density,
        "names": [cut(name, MAX_NAME) for name in memory.names],
        "start": pack(queries.indptr),
        "feature": pack(features.positions(queries.indices)),
        "value": pack(queries.data),
        "query": pack(relevance.queries[is_shown]),
        "item": pack(np.searchsorted(page_rows, relevance.documents[is_shown])),
        "share": pack(memory.unit_grades[is_shown]),
    }


def _with_all_columns(X: Any, chosen: np.ndarray) -> sp.csr_array:
    """Return some rows with the columns of their embedding, as one sparse matrix."""
    chosen_rows = X[chosen]
    if isinstance(chosen_rows, Rows):
        chosen_rows = chosen_rows.to_sparse()
    return canonical(sp.csr_array(chosen_rows))


# --- the model ------------------------------------------------------------------------


def _model(model: Any, more: More) -> dict[str, Any]:
    """Return what was learned and how, as plain values."""
    n_features = int(model.n_features_in_)
    return {
        "scale": float(model.scale_),
        "fixed": [
            _fixed_part(fixed_part, n_features)
            for fixed_part in model.similarity_.fixed
        ],
        "n_iter": int(model.n_iter_),
        "n_triplets": int(model.n_triplets_),
        "n_features": n_features,
        "status": str(model.status_),
        "gap_is_exact": bool(model.gap_is_exact_),
        "n_scores": more.n_scores,
        "ranking": ranking_of(model),
    }


def _fixed_part(fixed_part: FixedPart, n_features: int) -> dict[str, Any]:
    """Return a fixed part of the similarity: its weight, and its columns from start to stop."""
    return {
        "name": fixed_part.name,
        "weight": float(fixed_part.weight),
        "start": fixed_part.start,
        "stop": fixed_part.stop_in(n_features),
        "by_feature": fixed_part.by_feature,
    }


def _choice(model: Any) -> dict[str, Any] | None:
    """Return what was tried on held-out data, None where nothing was."""
    choice = getattr(model, "choice_", None)
    if not choice:
        return None
    return {name: pack(column.astype(np.float64)) for name, column in choice.items()}


def parameters(model: Any) -> list[list[Any]]:
    """Return name, value as text, and whether it is the default; changed parameters come first."""
    defaults = flat_parameters(type(model)())
    changed = []
    unchanged = []
    for name, value in flat_parameters(model).items():
        text = _value_as_text(value)
        if text == _value_as_text(defaults[name]):
            unchanged.append([name, text, True])
        else:
            changed.append([name, text, False])
    return changed + unchanged


def _value_as_text(value: Any) -> str:
    """Return the value of a parameter as text, a function by its name."""
    text = getattr(value, "__name__", None) or repr(value)
    return cut(text, MAX_PARAMETER)


def _inside(
    model: Any, path: Path, compared: Any, page_rows: np.ndarray
) -> dict[str, Any] | None:
    """Return what is learned inside an embedding: a bound, and rows along directions."""
    if not len(path.directions):
        return None
    along = np.zeros((0, len(path.directions)))
    if isinstance(compared, Rows):
        vectors = model.path_directions_[path.directions]
        along = compared.dense[page_rows] @ vectors.T
    return {
        "scale": float(model.embedding_scale_),
        "n": len(path.directions),
        "along": pack(along.astype(np.float32).ravel()),
    }


# --- its path -------------------------------------------------------------------------


class Path(NamedTuple):
    """The steps of a path, which name atoms by their numbers.

    Directions of an embedding follow the atoms of pairs. The zero atom has the number
    n_atoms + n_directions, and -1 is none.

    Attributes
    ----------
    atoms : ndarray of shape (n_atoms, 3)
        Of pairs, all different.
    directions : ndarray of shape (n_directions,)
        Numbers of directions, all different.
    steps : dict of str to ndarray of shape (n_iterations,)
        toward, away, size, drop.
    corrections : dict of str to ndarray of shape (n_corrections,)
        n_iter, atom, weight.
    """

    atoms: np.ndarray
    directions: np.ndarray
    steps: dict[str, np.ndarray]
    corrections: dict[str, np.ndarray]


def path_of(model: Any) -> Path:
    """Return the path of a fitted model."""
    trace = model.trace_
    corrections = model.corrections_
    size = trace["step_size"].copy()
    size[0] = 1.0
    size[corrections["n_iter"]] = 0.0  # corrections say it all
    toward = _atoms_in(trace, ("i", "j", "sign"))
    away = _atoms_in(trace, ("away_i", "away_j", "away_sign"))
    # A step of size 0 names atoms that it does not change.
    is_move = size > 0
    toward[~is_move] = NO_ATOM
    away[~is_move] = NO_ATOM
    corrected = _atoms_in(corrections, ("i", "j", "sign"))
    named = np.concatenate([toward, away, corrected])
    atoms, directions, numbers = _numbered(named)
    n = len(trace)
    return Path(
        atoms=atoms,
        directions=directions,
        steps={
            "toward": numbers[:n],
            "away": numbers[n : 2 * n],
            "size": size,
            "drop": trace["drop"].astype(np.int64),
        },
        corrections={
            "n_iter": corrections["n_iter"],
            "atom": numbers[2 * n :],
            "weight": corrections["weight"],
        },
    )


def _atoms_in(table: np.ndarray, columns: tuple[str, str, str]) -> np.ndarray:
    """Return the atoms in three columns of a table, shape (n_rows, 3)."""
    return np.column_stack([table[name] for name in columns]).astype(np.int64)


def _numbered(atoms: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct atoms and directions, and the number of each, as `Path` has them."""
    is_pair = atoms[:, 0] >= 0
    is_direction = are_directions(atoms)
    distinct, pair_numbers = np.unique(atoms[is_pair], axis=0, return_inverse=True)
    directions, ranks = np.unique(atoms[is_direction, 1], return_inverse=True)
    is_zero = (atoms == ZERO).all(axis=1)
    numbers = np.where(is_zero, len(distinct) + len(directions), -1)
    numbers[is_pair] = pair_numbers.ravel()
    numbers[is_direction] = len(distinct) + ranks
    return distinct, directions, numbers


# --- the features ---------------------------------------------------------------------


class PageFeatures:
    """The features of a page: those of atoms in rising order, then those of its rows alone.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, 3)
    row_features : ndarray of shape (n_values,)
        The features of all values of the rows of the page.
    name_of : callable
        The name of a feature by its number.

    Attributes
    ----------
    paired : ndarray of shape (n_paired,)
        Numbers of the features of atoms.
    ends : ndarray of shape (n_atoms, 2)
        The positions of the features of each atom.
    numbers : ndarray of shape (n_features,)
    names : list of str
    """

    def __init__(
        self,
        atoms: np.ndarray,
        row_features: np.ndarray,
        name_of: Callable[[int], str],
    ) -> None:
        self.paired = np.unique(atoms[:, :2])
        self.ends = np.searchsorted(self.paired, atoms[:, :2])
        others = np.setdiff1d(row_features, self.paired)
        self.numbers = np.concatenate([self.paired, others])
        self.names = [name_of(feature) for feature in self.numbers.tolist()]
        self._order = np.argsort(self.numbers)

    def positions(self, features: np.ndarray) -> np.ndarray:
        """Return the position of each feature on the page, -1 where it is not there."""
        if not len(self.numbers):
            return np.full(len(features), -1)
        ranks = np.searchsorted(self.numbers, features, sorter=self._order)
        positions = self._order[ranks.clip(max=len(self.numbers) - 1)]
        return np.where(self.numbers[positions] == features, positions, -1)


def feature_namer(model: Any, feature_names: Any) -> Callable[[int], str]:
    """Return a function from the number of a feature to its name."""
    if feature_names is None:
        feature_names = getattr(model, "feature_names_in_", None)
    n_features = model.n_features_in_
    n_paired = n_features - getattr(model, "embedding_width_", 0)
    names = as_names(feature_names, n_features, n_paired)

    def name_of(feature: int) -> str:
        """Return the name of a feature; the columns of an embedding share one."""
        if feature >= n_paired:
            return EMBEDDING
        return cut(names[feature], MAX_NAME)

    return name_of


def _query_weights(more: More, features: PageFeatures) -> dict[str, str] | None:
    """Return the weights of the page's features in a query; a class score has none."""
    if more.query_weights is None:
        return None
    weights = np.asarray(more.query_weights, dtype=np.float64)
    numbers = features.numbers
    known = weights[numbers.clip(max=len(weights) - 1)]
    return pack(np.where(numbers < len(weights), known, 0.0))


def _are_scores(features: PageFeatures, n_paired: int, n_scores: int) -> list[bool]:
    """Return whether each feature is the score of a class: the last before an embedding."""
    return [
        n_paired - n_scores <= number < n_paired or name.startswith(CLASS)
        for number, name in zip(features.numbers.tolist(), features.names, strict=True)
    ]


def _counts(rows: PageRows, features: PageFeatures) -> dict[str, Any] | None:
    """Return how often the paired features and the pairs occur, and the sizes of pairs.

    The size of a pair times its entry in M is its effect.
    """
    if rows.X is None:
        return None
    occurrences = count_occurrences(rows.X, features.paired, features.ends)
    size = check_result(occurrences.size_of_pair, "The effect of a feature pair")
    return {
        "n_rows": rows.X.shape[0],
        "feature": pack(occurrences.n_rows),
        "both": pack(occurrences.n_rows_both),
        "size": pack(size),
    }


def _classes(rows: PageRows, features: PageFeatures) -> dict[str, Any] | None:
    """Return the most frequent classes, and of each feature the one with its largest mean value.

    A feature of no class, or of a rare one, has -1. There are none where all rows
    differ.
    """
    y = rows.labels
    if rows.X is None or y is None:
        return None
    labels, codes, sizes = np.unique(y, return_inverse=True, return_counts=True)
    if not 2 <= len(labels) <= len(y) / 2:
        return None
    frequent = np.sort(np.argsort(-sizes, kind="stable")[:N_CLASSES])
    number = np.full(len(labels), -1)
    number[frequent] = np.arange(len(frequent))
    main = _main_classes(rows.X, codes, sizes, features)
    return {
        "names": [cut(labels[k], MAX_NAME) for k in frequent],
        "of": pack(np.where(main >= 0, number[main], -1)),
    }


def _main_classes(
    X: sp.csr_array, codes: np.ndarray, sizes: np.ndarray, features: PageFeatures
) -> np.ndarray:
    """Return the class with the largest mean value of each feature, -1 without values."""
    position = features.positions(X.indices)
    is_named = position >= 0
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    code = codes[row[is_named]]
    values = np.abs(X.data[is_named]) / sizes[code]
    shape = (len(sizes), len(features.numbers))
    means = sp.csc_array((values, (code, position[is_named])), shape=shape)
    has_values = np.diff(means.indptr) > 0
    return np.where(has_values, np.ravel(means.argmax(axis=0)), -1)


# --- the rows -------------------------------------------------------------------------


class PageRows(NamedTuple):
    """Rows of X with their labels and texts, None where not given."""

    X: sp.csr_array | Rows | None
    y: np.ndarray | LabelSets | None
    texts: list[Any] | None

    @property
    def labels(self) -> np.ndarray | None:
        """The label of each row as it is shown; several with commas between them."""
        if not isinstance(self.y, LabelSets):
            return self.y
        indicator = self.y.indicator
        labels_of_rows = np.split(
            self.y.classes[indicator.indices], indicator.indptr[1:-1]
        )
        shown = [", ".join(map(str, labels)) for labels in labels_of_rows]
        return np.array(shown, dtype=object)


def check_rows(model: Any, X: Any, y: Any, texts: Any) -> PageRows:
    """Return X as a CSR array, labels as an array and texts as a list."""
    for name, value in (("y", y), ("texts", texts)):
        if X is None and value is not None:
            raise ValueError(
                f"{name} goes with the rows of X, but X is None: pass X too."
            )
    if X is None:
        return PageRows(None, None, None)
    X = embeddings.check_rows(model, X, reset=False)
    if not isinstance(X, Rows):
        X = sp.csr_array(X)
    y = check_labels(y)
    if isinstance(texts, str):
        raise ValueError(
            "texts must be a sequence of strings, one per row of X. Got one string."
        )
    if texts is not None:
        texts = list(texts)
    for name, value in (("y", y), ("texts", texts)):
        if value is not None and len(value) != X.shape[0]:
            raise ValueError(
                f"{name} has {len(value)} entries, but X has {X.shape[0]} rows: one "
                "per row is expected."
            )
    return PageRows(X, y, texts)


def check_labels(y: Any) -> Any:
    """Return one label per row as an array, and several as sets; None stays None."""
    sets = label_sets(y)
    if sets is not None or y is None:
        return sets
    return column_or_1d(y, warn=True)


def choose_rows(X: Any, max_items: int, n_directions: int = 0) -> np.ndarray:
    """Return numbers of rows spread evenly over X, so that sorted rows give all classes.

    A row has a value more per direction that is learned inside its embedding.
    """
    n = X.shape[0]
    n_values = n * n_directions + sum(
        block.nnz if sp.issparse(block) else block.size for block in blocks_of(X)
    )
    n_that_fit = max(2, int(MAX_VALUES * n / max(n_values, 1)))
    numbers = np.linspace(0, n - 1, min(n, max_items, n_that_fit))
    return np.unique(numbers.round().astype(np.int64))


def _items(
    rows: PageRows,
    page_rows: np.ndarray,
    X: sp.csr_array | None,
    features: PageFeatures,
    more: More,
    name_of: Callable[[int], str],
) -> dict[str, Any] | None:
    """Return the rows of the page with all their values, X; None where it shows no rows."""
    if X is None or not len(page_rows):
        return None
    numbers = page_rows
    if more.row_numbers is not None:
        numbers = np.asarray(more.row_numbers)[page_rows]
    items = {
        "labels": _texts(rows.labels, page_rows, MAX_NAME),
        "texts": _texts(rows.texts, page_rows, MAX_TEXT),
        "start": pack(X.indptr),
        "feature": pack(features.positions(X.indices)),
        "value": pack(X.data),
        "rows": pack(numbers),
    }
    if more.ids is not None:
        items["ids"] = _texts(more.ids, page_rows, MAX_NAME)
    if more.scores is not None:
        items["words"] = _words(more.scores, X, name_of)
    return items


def _texts(values: Any, rows: np.ndarray, length: int) -> list[str] | None:
    """Return the values of some rows as short texts, None where there are no values."""
    if values is None:
        return None
    return [cut(values[row], length) for row in rows]


def _words(
    scores: Any, X: sp.csr_array, name_of: Callable[[int], str]
) -> list[Any] | None:
    """Return the words behind the scores of each row, by class; None for a nonlinear classifier."""
    n_features = scores.n_features_in_
    rows = take_columns(X, np.arange(n_features))
    width = scores.embedding_width_
    if width:
        embedding = take_columns(X, np.arange(X.shape[1] - width, X.shape[1]))
        rows = Rows(rows, embedding.toarray())
    try:
        words_of_rows = scores.words(rows)
    except ValueError:
        return None
    return [
        {
            str(n_features + label): [word_name(word, name_of) for word in words]
            for label, words in row_words.items()
        }
        for row_words in words_of_rows
    ]


# --- numbers and texts as a script reads them -----------------------------------------


def pack(array: np.ndarray) -> dict[str, str]:
    """Return the bytes of an array as base64, and their type: the smallest that is exact.

    Examples
    --------
    >>> pack(np.array([1, 2, 255]))
    {'type': 'u1', 'bytes': 'AQL/'}
    """
    if array.dtype.kind == "f":
        array = _smallest_floats(array)
    else:
        array = _smallest_integers(array)
    code = f"{array.dtype.kind}{array.dtype.itemsize}"
    return {"type": code, "bytes": base64.b64encode(array.tobytes()).decode()}


def _smallest_floats(array: np.ndarray) -> np.ndarray:
    """Return floats in float32 where these are equal, else in float64."""
    small = array.astype("<f4")
    if np.array_equal(small, array, equal_nan=True):
        return small
    return array.astype("<f8")


def _smallest_integers(array: np.ndarray) -> np.ndarray:
    """Return integers in the smallest type that holds them all."""
    if not array.size:
        return array.astype(np.uint8)
    smallest = np.min_scalar_type(int(array.min()))
    largest = np.min_scalar_type(int(array.max()))
    dtype = np.result_type(smallest, largest)
    if dtype.itemsize == 8:
        # Scripts have no 64-bit integers; a float is exact up to 2**53.
        return array.astype("<f8")
    return array.astype(dtype.newbyteorder("<"))


def pack_all(columns: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return each array packed."""
    return {name: pack(column) for name, column in columns.items()}


def cut(value: Any, length: int) -> str:
    """Return a value as text of at most so many characters.

    Examples
    --------
    >>> cut("neighbours", 6)
    'neigh…'
    """
    text = str(value)
    if len(text) <= length:
        return text
    return text[: length - 1] + "…"
