"""Linked records as the arrays of a file, and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from ..files.container import (
    Arrays,
    OtherVersionError,
    dumps,
    get_array,
    get_value,
    nested,
    part_of,
)
from ..hdsl import HDSL
from .candidates import SearchedRecords, check_numbers
from .classifiers import PairClassifier, TrainingRows, WordModel
from .entities import PairProbabilities
from .known import KnownPairs
from .learning import MAX_STRETCH, Correction, Learned
from .linked import LinkedRecords
from .probability import Agreement, Mixture
from .tables import Table, Tables, make_table, text_of


def to_arrays(linked: LinkedRecords, settings: dict[str, Any]) -> Arrays:
    """Return the tables, the known pairs, the model, and the classifiers.

    Parameters
    ----------
    linked : LinkedRecords
    settings : dict
        More that the file holds, as JSON can.
    """
    searched = linked.searched
    learned = linked.learned
    model_arrays: Arrays = {}
    model_header = None
    if learned.model is not None:
        model_arrays, model_header = learned.model.to_arrays()
    training: Arrays = {}
    word_arrays: Arrays = {}
    if learned.classifier is not None:
        training = learned.classifier.training._asdict()
        word_arrays = learned.classifier.words.to_arrays()
    state = settings | {
        "seed": learned.seed,
        "share": learned.share,
        "corrections": learned.corrections,
        "telling": learned.telling,
        "held_out": learned.held_out,
        "agreement": learned.agreement.to_json(),
        "tables": [
            [[*table.columns.items()], _plain_ids(table.ids), table.blocked]
            for table in searched.tables.each
        ],
        "known": [
            _plain_pairs(searched.tables, linked.known.matches),
            _plain_pairs(searched.tables, linked.known.non_matches),
        ],
        "model": model_header,
        "vocabulary": searched.records.vocabulary.names,
        "column_kinds": searched.records.strings.column_kinds,
        "rules": searched.rules,
    }
    text = dumps(state).encode("utf-8", "surrogatepass")
    arrays: Arrays = {"state": np.frombuffer(text, dtype=np.uint8)}
    arrays["arrival"] = linked.arrival
    arrays["behind"] = linked.behind
    return arrays | nested(
        training=training,
        words=word_arrays,
        model=model_arrays,
        mixture=learned.mixture.to_arrays(),
        searched=searched.to_arrays(),
        candidates=linked.candidates._asdict(),
    )


def from_arrays(arrays: Arrays) -> tuple[LinkedRecords, dict[str, Any]]:
    """Return what `to_arrays` was called with."""
    state = _state_of_file(arrays)
    tables = Tables(*(_table_of_file(*table) for table in state["tables"][:2]))
    for name in {name for rule in state["rules"] for name in rule}:
        if not all(name in table.blocked for table in tables.each):
            raise ValueError(f"no table has {name!r} to block on")
    learned = _learned_of_file(arrays, state)
    searched = SearchedRecords.from_arrays(
        part_of(arrays, "searched"),
        tables,
        state["vocabulary"],
        state["column_kinds"],
        [tuple(rule) for rule in state["rules"]],
        learned.model,
    )
    if part_of(arrays, "training"):
        learned.classifier = _classifier_of_file(arrays, searched, learned.seed)
    matches, non_matches = state["known"]
    arrival = get_array(arrays, "arrival", "iu", (tables.n_records,))
    behind = get_array(arrays, "behind", "iu", (None, 2))
    candidates = part_of(arrays, "candidates")
    pairs = get_array(candidates, "pairs", "iu", (None, 2))
    linked = LinkedRecords(
        searched,
        learned,
        KnownPairs(tables, matches, non_matches),
        PairProbabilities(
            check_numbers(pairs, tables.n_records, "candidates"),
            check_shares(get_array(candidates, "probability", "f", (len(pairs),))),
        ),
        check_numbers(arrival, tables.n_records, "arrival"),
        check_numbers(behind, tables.n_records, "pairs behind links"),
    )
    return linked, state


def _state_of_file(arrays: Arrays) -> dict[str, Any]:
    """Return the values that are no arrays, of their types; raise ValueError if they are not."""
    text = get_array(arrays, "state", "u", (None,)).tobytes()
    state = json.loads(text.decode("utf-8", "surrogatepass"))
    if not {"rules", "corrections", "similarity"} <= state.keys():
        raise OtherVersionError("the linker is of an earlier version: fit it again")
    get_value(state, "held_out", str)
    get_value(state, "seed", int)
    for name, is_valid in STATE_CHECKS.items():
        if name in state and not is_valid(state[name]):
            raise ValueError(f"{name} has values that no linker has")
    return state


def _is_number(value: Any) -> bool:
    """Return whether a value is a finite number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) < 1e300


def _is_id(value: Any) -> bool:
    """Return whether a value can be an id."""
    return isinstance(value, str) or _is_number(value) or isinstance(value, bool)


def _are_texts(values: Any) -> bool:
    """Return whether a value is a list of texts."""
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _are_corrections(corrections: Any) -> bool:
    """Return whether a value is a list of corrections by audits."""
    return isinstance(corrections, list) and all(
        all(map(_is_number, (shift, stretch, pivot)))
        and shift <= 0.0
        and 1.0 <= stretch <= MAX_STRETCH
        for shift, stretch, pivot in corrections
    )


def _is_audit(values: Any) -> bool:
    """Return whether a value is an audit, or None."""
    if values is None:
        return True
    n_links, n_audited, n_wrong, _ = values
    are_counts = all(isinstance(each, int) for each in (n_links, n_audited, n_wrong))
    return are_counts and 0 <= n_wrong <= n_audited <= n_links


def _are_tables(tables: Any) -> bool:
    """Return whether a value is one table or two."""
    return (
        isinstance(tables, list)
        and len(tables) in (1, 2)
        and all(map(_is_table, tables))
    )


def _are_known(known: Any) -> bool:
    """Return whether a value is two lists of pairs of ids."""
    matches, non_matches = known
    return all(
        len(pair) == 2 and all(map(_is_id, pair)) for pair in [*matches, *non_matches]
    )


def _is_id_column(names: Any) -> bool:
    """Return whether a value is a column of ids, one per table, or None."""
    if isinstance(names, list):
        return len(names) in (1, 2) and _are_texts(names)
    return names is None or isinstance(names, str)


def _is_table(table: Any) -> bool:
    """Return whether a value is a table: columns by their names, and ids."""
    columns, ids, blocked = table
    every = [*columns, *blocked.items()]
    are_columns = all(isinstance(name, str) and _are_texts(of) for name, of in every)
    return are_columns and all(map(_is_id, ids))


def _are_rules(rules: Any) -> bool:
    """Return whether a value is a list of columns to block on, several in each rule."""
    return isinstance(rules, list) and all(map(_are_texts, rules)) and all(rules)


#: What the values that are no arrays must be, by their names.
STATE_CHECKS: dict[str, Callable[[Any], bool]] = {
    "columns": lambda names: names is None or _are_texts(names),
    "id_column": _is_id_column,
    "seed": lambda seed: 0 <= seed < 2**31,
    "share": lambda share: _is_number(share) and 0.0 <= share <= 1.0,
    "corrections": _are_corrections,
    "audit": _is_audit,
    "telling": _are_texts,
    "tables": _are_tables,
    "rules": _are_rules,
    "known": _are_known,
    "vocabulary": lambda names: _are_texts(names) and len({*names}) == len(names),
    "column_kinds": lambda kinds: _are_texts([*kinds.values()]),
}


def _learned_of_file(arrays: Arrays, state: dict[str, Any]) -> Learned:
    """Return what was learned but for the classifiers."""
    agreement = Agreement.from_json(state["agreement"])
    n_columns = len(agreement.columns)
    mixture = Mixture.from_arrays(part_of(arrays, "mixture"), n_columns)
    learned = Learned(state["seed"], agreement, mixture)
    learned.share = state["share"]
    learned.corrections = tuple(
        Correction(*map(float, values)) for values in state["corrections"]
    )
    learned.telling = state["telling"]
    learned.held_out = state["held_out"]
    if state["model"] is not None:
        learned.model = HDSL.from_arrays(part_of(arrays, "model"), state["model"])
    return learned


def _classifier_of_file(
    arrays: Arrays, searched: SearchedRecords, seed: int
) -> PairClassifier:
    """Return classifiers that learn again what they learned from the same rows."""
    training = part_of(arrays, "training")
    pairs = get_array(training, "pairs", "iu", (None, 2))
    rows = TrainingRows(
        pairs=check_numbers(pairs, searched.tables.n_records, "training pairs"),
        X=get_array(training, "X", "f", (len(pairs), None)),
        labels=get_array(training, "labels", "f", (len(pairs),)),
        fold=get_array(training, "fold", "iu", (len(pairs),)),
        weight=get_array(training, "weight", "f", (len(pairs),)),
    )
    words = WordModel.from_arrays(part_of(arrays, "words"))
    return PairClassifier(words, rows, seed)


def check_shares(values: np.ndarray) -> np.ndarray:
    """Return probabilities; raise ValueError if one is not from 0 to 1."""
    if values.size and not 0.0 <= values.min() <= values.max() <= 1.0:
        raise ValueError("probabilities must be from 0 to 1")
    return values


def _plain_pairs(tables: Tables, pairs: np.ndarray) -> list[tuple[Any, Any]]:
    """Return the ids of pairs as a file holds them."""
    left, right = tables.ids(pairs)
    return [*zip(_plain_ids(left), _plain_ids(right), strict=True)]


def _plain_ids(ids: np.ndarray) -> list[Any]:
    """Return ids as a file holds them: dates and the like as text."""
    return [
        value if isinstance(value, str | int | float) else text_of(value)
        for value in ids.tolist()
    ]


def _table_of_file(
    columns: list[tuple[str, list[str]]], ids: list[Any], blocked: dict[str, list[str]]
) -> Table:
    """Return a table as `to_arrays` stores it."""
    return make_table(dict(columns), ids, blocked)
