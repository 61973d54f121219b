"""Groups of records: no chains by a weak link, numbers that stay, changes that are told."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hdsl
from hdsl.linking import Entities, Linker, entity_changes
from hdsl.linking.entities import PairProbabilities, belonging, group_records


def known(pairs, probability):
    return PairProbabilities(np.reshape(pairs, (-1, 2)), np.array(probability))


def slow_groups(pairs, is_left, threshold):
    """Merge groups by their most probable pair, all means computed anew."""
    table = {
        tuple(pair): p
        for pair, p in zip(pairs.pairs.tolist(), pairs.probability, strict=True)
    }
    groups = [{record} for record in range(len(is_left))]

    def mean(one, other):
        values = [
            table.get((min(a, b), max(a, b)), 0.0)
            for a in one
            for b in other
            if is_left.all() or is_left[a] != is_left[b]
        ]
        return np.mean(values)

    for a, b in sorted(table, key=table.get, reverse=True):
        if table[a, b] < threshold:
            break
        one = next(group for group in groups if a in group)
        other = next(group for group in groups if b in group)
        is_alone = min(len(one), len(other)) == 1
        if one is not other and (is_alone or mean(one, other) >= threshold):
            groups.remove(other)
            one |= other
    return {frozenset(group) for group in groups}


def components_of(groups):
    return {tuple(np.flatnonzero(groups == group).tolist()) for group in groups}


@given(st.data())
def test_groups_are_those_of_the_slow_twin(data):
    n = data.draw(st.integers(2, 7))
    n_left = data.draw(st.sampled_from([n, n // 2]))
    is_left = np.arange(n) < n_left
    pairs = [
        (a, b)
        for a in range(n)
        for b in range(a + 1, n)
        if is_left.all() or is_left[a] != is_left[b]
    ]
    chosen = [pair for pair in pairs if data.draw(st.booleans())]
    # Different values: equal ones may be merged in another order.
    order = data.draw(st.permutations(range(1, len(chosen) + 1)))
    probability = [(place + place**0.5 / 10) / (len(chosen) + 2) for place in order]
    drawn = known(chosen, probability)
    groups = group_records(drawn, is_left, 0.5)
    sets = {frozenset(np.flatnonzero(groups == g).tolist()) for g in groups}
    assert sets == slow_groups(drawn, is_left, 0.5)


def test_a_record_joins_its_group_by_one_pair():
    drawn = known([(0, 1), (0, 2), (1, 2), (2, 3)], [0.9, 0.9, 0.9, 0.6])
    groups = group_records(drawn, np.ones(4, dtype=bool), 0.5)
    assert len({*groups.tolist()}) == 1


def test_a_weak_bridge_joins_no_two_entities():
    triangles = [(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5)]
    drawn = known([*triangles, (2, 3)], [0.9] * 6 + [0.7])
    groups = group_records(drawn, np.ones(6, dtype=bool), 0.5)
    assert components_of(groups) == {(0, 1, 2), (3, 4, 5)}
    assert belonging(drawn, groups, np.ones(6, dtype=bool)).tolist() == [0.9] * 6


def make_people(n=40, n_copies=3, seed=0):
    """People written several times with small differences, and who each record is."""
    rng = np.random.default_rng(seed)
    letters = [*"abcdefghijklmnopqrstuvwxyz"]
    names = ["".join(rng.choice(letters, 8)) for _ in range(3 * n)]
    texts = []
    for person in range(n):
        first, last, street = names[3 * person : 3 * person + 3]
        for copy in range(n_copies):
            typo = letters[rng.integers(26)]
            texts.append(f"{first} {last[:7]}{typo} {street} {10 + person} v{copy}")
    return texts, np.repeat(np.arange(n), n_copies)


@pytest.fixture(scope="module")
def people():
    texts, person = make_people()
    matches = [
        (first + a, first + b)
        for first in range(0, 45, 3)
        for a, b in [(0, 1), (0, 2), (1, 2)]
    ]
    linker = Linker(random_state=0).fit(texts[:90], None, matches)
    return linker, texts[90:], person


def test_entities_are_the_people_and_numbers_stay(people, tmp_path):
    linker, new, person = people
    before = linker.entities()
    share = np.mean(
        [
            len(np.unique(before.entity[person[:90] == k])) == 1
            for k in np.unique(person[:90])
        ]
    )
    assert share >= 0.8
    assert len(np.unique(before.entity)) >= 25  # of 30 people: strangers stay apart
    assert ((before.probability >= 0) & (before.probability <= 1)).all()
    linker.save(tmp_path / "people.hdsl")
    grown = hdsl.load(tmp_path / "people.hdsl")
    np.testing.assert_array_equal(grown.entities().entity, before.entity)
    grown.add(new)
    after = grown.entities()
    changes = entity_changes(before, after)
    renamed = before.entity != after.entity[:90]
    touched = {entity for group in changes.merged.values() for entity in group}
    touched |= changes.split.keys()
    assert {*before.entity[renamed].tolist()} <= touched
    of_new = {*after.entity[90:].tolist()}
    assert any(entity >= 90 for entity in of_new)
    grown.save(tmp_path / "grown.hdsl")
    again = hdsl.load(tmp_path / "grown.hdsl").entities()
    np.testing.assert_array_equal(again.entity, after.entity)


def test_merges_and_splits_are_told():
    def grouping(entity):
        n = len(entity)
        return Entities(
            np.repeat("left", n), np.arange(n), np.array(entity), np.ones(n)
        )

    before = grouping([0, 0, 2, 3, 3])
    after = grouping([0, 0, 0, 3, 4, 5])
    changes = entity_changes(before, after)
    assert changes.merged == {0: [0, 2]}
    assert changes.split == {3: [3, 4]}
    assert entity_changes(after, after) == ({}, {})


def test_one_to_one_entities_have_a_record_of_each_table():
    texts, _ = make_people(20, 3)
    left = texts[::3]
    right = [text for row, text in enumerate(texts) if row % 3]
    linker = Linker(random_state=0).fit(left, right, [(k, 2 * k) for k in range(10)])
    entities = linker.entities(0.2, one_to_one=True)
    for entity in np.unique(entities.entity):
        tables = entities.table[entities.entity == entity].tolist()
        assert len(tables) == len({*tables})
    several = linker.entities(0.2)
    assert np.bincount(several.entity).max() > 1
