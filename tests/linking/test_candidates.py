"""The nearest records of each are those of all products; blocks leave the others out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hdsl
from hdsl.linking import Linker, candidates
from hdsl.linking.candidates import NEAREST, Blocks, SearchedRecords
from hdsl.linking.tables import read_tables
from hdsl.progress import Progress
from products import KINDS, make_tables


def searched(n, *, single, rules=()):
    left, right, _ = make_tables(n)
    if single:
        left = {name: left[name] + right[name] for name in left}
        right = None
    tables = read_tables(left, right, ["title"], "sku", rules)
    return SearchedRecords.of_tables(tables, rules, 2, Progress(0))


def expected_lists(found, allowed):
    """The first records of each by all products, of equal ones the first."""
    X = found.records.matrix().toarray()
    products = np.where(allowed, X @ X.T, 0.0)
    order = np.argsort(-products, axis=1, kind="stable")[:, :NEAREST]
    scores = np.take_along_axis(products, order, axis=1)
    return np.where(scores > 0.0, order, -1), np.where(scores > 0.0, scores, -np.inf)


def check(found, allowed):
    neighbors, scores = expected_lists(found, allowed)
    near = found.near[0]
    width = neighbors.shape[1]
    assert (near.neighbors[:, width:] == -1).all()
    np.testing.assert_allclose(near.scores[:, :width], scores, atol=1e-12)
    same = near.neighbors[:, :width] == neighbors
    assert same.mean() > 0.98  # but for ties that rounding decides


def is_other_side(found):
    n_left = found.tables.n_left
    is_left = np.arange(found.n_records) < n_left
    if found.tables.is_single:
        return ~np.eye(found.n_records, dtype=bool)
    return is_left[:, None] != is_left


@pytest.mark.parametrize("single", [False, True])
def test_near_records_are_those_of_all_products(single):
    found = searched(70, single=single)
    check(found, is_other_side(found))


@pytest.mark.parametrize("group_size", [1, 2**12])
@pytest.mark.parametrize("single", [False, True])
def test_blocks_leave_out_records_that_do_not_agree(monkeypatch, group_size, single):
    monkeypatch.setattr(candidates, "GROUP_SIZE", group_size)
    rules = [("price",), ("sku", "price")]
    found = searched(70, single=single, rules=rules)
    keys = found.blocks.keys
    agree = ((keys[:, :, None] == keys[:, None]) & (keys[:, :, None] != 0)).any(axis=0)
    assert 0 < agree.sum() < agree.size
    check(found, agree & is_other_side(found))


KEYS = st.lists(st.integers(0, 3), min_size=2, max_size=12)


@given(KEYS, st.integers(1, 12), st.integers(1, 20))
def test_groups_are_whole_blocks(keys, n_left, size):
    keys = np.array([keys])
    n_left = min(n_left, keys.shape[1])
    found = set()
    is_query = np.ones(keys.shape[1], dtype=bool)
    for group in Blocks(keys).groups(is_query, n_left, size):
        for row, query in enumerate(group.queries):
            for column, other in enumerate(group.others):
                if group.query_keys[row] == group.other_keys[column]:
                    assert (query, other) not in found
                    found.add((int(query), int(other)))
    records = range(keys.shape[1])
    assert found == {
        (a, b)
        for a in records
        for b in records
        if keys[0, a] == keys[0, b] != 0
        and (n_left == len(records) or (a < n_left) != (b < n_left))
    }


def test_other_similarities_order_the_records_that_are_near():
    found = searched(70, single=False)
    spelling, cosine = found.nearest
    pairs = np.column_stack(
        [np.repeat(np.arange(found.n_records), 20), spelling.neighbors.ravel()]
    )
    by_pairs = found.similarities(pairs, 2)
    np.testing.assert_array_equal(by_pairs[0], spelling.scores.ravel())
    pairs[:, 1] = cosine.neighbors.ravel()
    np.testing.assert_array_equal(
        found.similarities(pairs, 1)[1], cosine.scores.ravel()
    )
    assert (np.diff(spelling.scores, axis=1) <= 0).all()


@pytest.mark.filterwarnings("ignore:Nothing was learned")
def test_records_with_nothing_in_common_are_no_candidates():
    linker = Linker().fit(["red apple", "blue"], ["apple pie", "qqq"])
    links = linker.predict(0.0)
    assert (links.left.tolist(), links.right.tolist()) == ([0], [0])


def kind_of(title):
    return next(word for word in title.split() if word in KINDS)


@pytest.mark.parametrize(
    ("block_on", "agree"),
    [
        ("kind", lambda a, b: a[0] == b[0]),
        (["kind", "price"], lambda a, b: a[0] == b[0] or a[1] == b[1]),
        (("kind", "price"), lambda a, b: a == b),
        ([("kind", "price")], lambda a, b: a == b),
    ],
)
@pytest.mark.filterwarnings("ignore:Nothing was learned")
def test_candidates_agree_in_what_is_blocked_on(block_on, agree, tmp_path):
    *tables, matches = make_tables(30)
    for table in tables:
        table["kind"] = [kind_of(title) for title in table["title"]]
        table["kind"][0] = None
    linker = Linker(["title"], block_on=block_on).fit(*tables, matches[:2])
    known = {*map(tuple, matches[:2].tolist())}
    values = [[*zip(t["kind"], map(str, t["price"]), strict=True)] for t in tables]
    linker.save(tmp_path / "linker.hdsl")
    for each in (linker, hdsl.load(tmp_path / "linker.hdsl")):
        links = each.predict(0.0)
        pairs = {*zip(links.left.tolist(), links.right.tolist(), strict=True)}
        assert known <= pairs
        for left, right in pairs - known:
            a, b = values[0][left], values[1][right]
            assert agree(a, b)
            assert a[0] or (block_on == ["kind", "price"] and a[1] == b[1])
        assert len(pairs) > len(known)


@pytest.mark.parametrize("block_on", [3, [], [()], [("kind", 3)], [3]])
def test_what_no_rule_is_is_refused(block_on):
    with pytest.raises(ValueError, match="block_on must be"):
        Linker(block_on=block_on).fit(["a b", "a b"])


def test_a_column_to_block_on_must_be_there():
    with pytest.raises(ValueError, match="no column 'kind' to block on"):
        Linker(block_on="kind").fit(["a b", "a b"])
