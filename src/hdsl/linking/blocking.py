"""Blocks of records: which of them can be candidates of each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .tables import Rule, Table, Tables
from .text import folded

#: What separates the values of several columns.
SEPARATOR = "\x1f"


def blocking_rules(block_on: Any) -> list[Rule]:
    """Return the columns of each rule; candidates agree in all columns of one of them.

    Examples
    --------
    >>> blocking_rules(["email", ("surname", "postcode")])
    [('email',), ('surname', 'postcode')]
    """
    if block_on is None:
        return []
    rules = block_on if isinstance(block_on, list) else [block_on]
    rules = [(rule,) if isinstance(rule, str) else rule for rule in rules]
    if not rules or not all(map(_is_rule, rules)):
        raise ValueError(
            "block_on must be a column, or a list of columns and of tuples of columns. "
            f"Got {block_on!r}."
        )
    return rules


def _is_rule(rule: Any) -> bool:
    is_tuple = isinstance(rule, tuple) and len(rule) > 0
    return is_tuple and all(isinstance(name, str) for name in rule)


class Group(NamedTuple):
    """Whole blocks: records to search for, records among which they are, and their keys."""

    queries: np.ndarray
    others: np.ndarray
    query_keys: np.ndarray
    other_keys: np.ndarray


class Blocks:
    """The keys of records by each rule: candidates have the same key by one of them.

    Parameters
    ----------
    keys : ndarray of int64 of shape (n_rules, n_records)
        0 where a value is missing: such a record has no candidate by the rule. Without
        any rule, all records can be candidates.
    """

    def __init__(self, keys: np.ndarray) -> None:
        self.keys = keys

    @classmethod
    def of_tables(cls, tables: Tables, rules: Sequence[Rule]) -> Blocks:
        """Return the keys of the records of tables."""
        keys = np.zeros((len(rules), tables.n_records), dtype=np.int64)
        for number, rule in enumerate(rules):
            keys[number] = np.concatenate(
                [_keys_of(table, rule) for table in tables.each]
            )
        return cls(keys)

    @property
    def has_rules(self) -> bool:
        """Whether only some records can be candidates of each other."""
        return len(self.keys) > 0

    def joined(self, later: Blocks, records: np.ndarray) -> Blocks:
        """Return some of these records and of later ones, numbered after these."""
        return Blocks(np.concatenate([self.keys, later.keys], axis=1)[:, records])

    def agree(
        self, records: np.ndarray, others: Blocks, numbers: np.ndarray
    ) -> np.ndarray:
        """Return whether records and others, by number, can be candidates of each other."""
        if not self.has_rules:
            return np.ones(len(records), dtype=bool)
        agree = np.zeros(len(records), dtype=bool)
        for keys, other_keys in zip(self.keys, others.keys, strict=True):
            key = keys[records]
            agree |= (key != 0) & (key == other_keys[numbers])
        return agree

    def groups(self, is_query: np.ndarray, n_left: int, size: int) -> Iterator[Group]:
        """Yield groups of blocks, of each rule and side, of about `size` records.

        A block that is larger is a group of its own. `is_query` says which records are
        searched for.
        """
        for keys in self.keys:
            order = np.argsort(keys, kind="stable")
            order = order[keys[order] != 0]
            bounds = np.flatnonzero(np.diff(keys[order], prepend=0, append=0))
            start = 0
            for first, end in pairwise(bounds.tolist()):
                if end - start > size and first > start:
                    records = np.sort(order[start:first])
                    yield from _groups_of(records, is_query, keys, n_left)
                    start = first
            yield from _groups_of(np.sort(order[start:]), is_query, keys, n_left)


def _groups_of(
    records: np.ndarray, is_query: np.ndarray, keys: np.ndarray, n_left: int
) -> Iterator[Group]:
    """Yield records of whole blocks, as those of each side search the other one."""
    if n_left == len(keys):
        sides = [(records, records)]
    else:
        left = records[records < n_left]
        right = records[records >= n_left]
        sides = [(left, right), (right, left)]
    for queries, others in sides:
        queries = queries[is_query[queries] & np.isin(keys[queries], keys[others])]
        if len(queries):
            _, codes = np.unique(
                np.concatenate([keys[queries], keys[others]]), return_inverse=True
            )
            yield Group(queries, others, codes[: len(queries)], codes[len(queries) :])


def _keys_of(table: Table, rule: Rule) -> np.ndarray:
    """Return the keys of the records of a table, 0 where a value is missing."""
    values = [list(map(folded, table.blocked[name])) for name in rule]
    texts = [
        SEPARATOR.join(parts) if all(parts) else ""
        for parts in zip(*values, strict=True)
    ]
    key_of = {text: _key(text) for text in {*texts}}
    return np.array([key_of[text] for text in texts], dtype=np.int64)


def _key(text: str) -> int:
    """Return a number that hardly another text has; 0 where it is empty."""
    if not text:
        return 0
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True) or 1
