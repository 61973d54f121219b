"""Makers of triplets and quadruplets against slow twins, and bad supervision."""

import itertools
import json
import subprocess
import sys
from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

import strategies
from hdsl import HDSL
from hdsl.triplets import (
    Judgements,
    PointKFold,
    choice_triplets,
    deduplicate,
    distinct_rows,
    graded_triplets,
    judgement_quadruplets,
    judgement_triplets,
    link_triplets,
    neighbor_triplets,
    random_triplets,
    restrict,
)
from hdsl.triplets.sampling import sample_ranges

ignore_small_classes = pytest.mark.filterwarnings("ignore:There is one row only:UserWarning")


@st.composite
def labelled(draw, elements=strategies.INTEGERS):
    """Rows, and labels of at least two classes, one of them with two rows."""
    X = draw(strategies.matrices(elements=elements))
    if len(X) < 3:
        X = np.vstack([X, X[:1]])
    rest = draw(arrays(np.int64, len(X) - 3, elements=st.integers(0, 3)))
    return X, draw(st.permutations([0, 0, 1, *rest.tolist()]))


def nearest(similarity, candidates, n):
    """Return the n most similar candidates; ties go to the smaller row number."""
    return sorted(candidates, key=lambda row: (-similarity[row], row))[:n]


def slow_neighbor_triplets(X, y, n_targets, n_impostors):
    similarity, rows = X @ X.T, range(len(X))
    return [
        [a, p, q]
        for a in rows
        for p in nearest(similarity[a], [r for r in rows if y[r] == y[a] and r != a], n_targets)
        for q in nearest(similarity[a], [r for r in rows if y[r] != y[a]], n_impostors)
    ]


# --- neighbours ----------------------------------------------------------------------------------


@ignore_small_classes
@given(labelled(), st.integers(1, 4), st.integers(1, 4), st.sampled_from([None, 2]))
def test_neighbor_triplets_are_those_of_the_slow_twin(data, n_targets, n_impostors, n_jobs):
    X, y = data
    made = neighbor_triplets(X, y, n_targets, n_impostors, n_jobs=n_jobs)
    assert made.dtype == np.int64
    assert made.tolist() == slow_neighbor_triplets(X, y, n_targets, n_impostors)


@ignore_small_classes
@given(labelled(elements=strategies.FLOATS), st.integers(1, 4), st.integers(1, 4))
def test_neighbors_by_floats_are_the_nearest(data, n_targets, n_impostors):
    X, y = data
    similarity = X @ X.T
    made = neighbor_triplets(X, y, n_targets, n_impostors)
    slow = np.array(slow_neighbor_triplets(X, y, n_targets, n_impostors))
    # Rounding may break ties, so similarities are compared.
    assert_array_equal(made[:, 0], slow[:, 0])
    for column in (1, 2):
        assert_allclose(
            similarity[made[:, 0], made[:, column]],
            similarity[slow[:, 0], slow[:, column]],
            rtol=1e-12,
            atol=1e-12,
        )


def test_ties_go_to_the_smaller_row_number():
    X = np.ones((7, 2))
    made = neighbor_triplets(X, [0, 1, 0, 1, 0, 1, 0], n_targets=2, n_impostors=1)
    assert made[made[:, 0] == 4].tolist() == [[4, 0, 1], [4, 2, 1]]


@pytest.mark.parametrize("form", [sp.csc_matrix, sp.coo_array, list])
def test_neighbor_triplets_take_any_matrix(form):
    X = np.random.default_rng(0).integers(0, 4, size=(12, 5)).astype(float)
    y = np.arange(12) % 3
    assert_array_equal(neighbor_triplets(form(X), y, 2, 2), neighbor_triplets(X, y, 2, 2))


def test_a_class_of_one_row_has_no_anchor_but_an_impostor():
    X = np.random.default_rng(0).random((6, 3))
    with pytest.warns(UserWarning, match=r"There is one row only of class 'lone'"):
        made = neighbor_triplets(X, ["a"] * 3 + ["b"] * 2 + ["lone"], 1, 3)
    assert 5 not in made[:, :2]
    assert 5 in made[:, 2]


def test_rows_take_as_many_impostors_as_there_are():
    X = np.random.default_rng(0).random((6, 3))
    made = neighbor_triplets(X, [0, 0, 0, 0, 1, 1], 1, 4)
    assert_array_equal(np.bincount(made[:, 0]), [2, 2, 2, 2, 4, 4])


@ignore_small_classes
@pytest.mark.parametrize("make", [lambda y: neighbor_triplets(np.eye(4), y), random_triplets])
def test_classes_of_one_row_each_make_no_triplet(make):
    with pytest.raises(ValueError, match=r"No triplet can be built.*one row.*triplets="):
        make([0, 1, 2, 3])


def test_nan_is_refused_with_its_place():
    X = np.ones((4, 3))
    X[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"X\[2, 1\] is NaN"):
        neighbor_triplets(X, [0, 0, 1, 1], 1, 1)


@ignore_small_classes
@given(labelled(), st.data())
def test_neighbors_under_a_similarity_are_those_of_the_transformed_rows(data, more):
    X, y = data
    columns = more.draw(arrays(np.float64, (X.shape[1], 3), elements=strategies.INTEGERS))

    class Linear:
        def transform(self, X):
            return X @ columns

    made = neighbor_triplets(X, y, 2, 2, similarity=Linear())
    assert made.tolist() == slow_neighbor_triplets(X @ columns, y, 2, 2)


def fitted(X, y):
    return HDSL(scale=1.0, prior=0.5, n_targets=2, n_impostors=2, max_iter=5).fit(X, y)


@pytest.mark.parametrize("form", [sp.csr_array, lambda X: X.astype(int)])
def test_neighbors_under_a_fitted_model_are_the_most_similar(form):
    X = np.random.default_rng(0).integers(0, 4, size=(30, 6)).astype(float)
    y = np.arange(30) % 3
    model = fitted(X, y)
    S = model.similarity(X)
    for similarity in (model, model.similarity_):
        made = neighbor_triplets(form(X), y, 1, 1, similarity=similarity)
        best = [S[a][(y == y[a]) & (np.arange(30) != a)].max() for a in range(30)]
        assert_allclose(S[made[:, 0], made[:, 1]], best)
        assert_allclose(S[made[:, 0], made[:, 2]], [S[a][y != y[a]].max() for a in range(30)])


def test_a_model_fitted_on_named_columns_gets_them():
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).integers(0, 4, size=(30, 6)).astype(float)
    y = np.arange(30) % 3
    frame = pandas.DataFrame(X).add_prefix("f")
    made = neighbor_triplets(frame, y, similarity=fitted(frame, y))
    assert_array_equal(made, neighbor_triplets(X, y, similarity=fitted(X, y)))


def test_a_similarity_without_transform_is_refused():
    with pytest.raises(TypeError, match=r"similarity must have a transform\(X\).*Got 'cosine'"):
        neighbor_triplets(np.eye(4), [0, 0, 1, 1], similarity="cosine")


# --- random --------------------------------------------------------------------------------------


@ignore_small_classes
@given(labelled(), st.integers(1, 5), st.integers(0, 2**31 - 1))
def test_random_triplets_follow_the_labels(data, n_per_row, seed):
    y = np.array(data[1])
    made = random_triplets(y, n_per_row, random_state=seed)
    anchor, positive, negative = made.T
    assert (y[anchor] == y[positive]).all()
    assert (y[anchor] != y[negative]).all()
    assert (anchor != positive).all()
    not_alone = np.bincount(y)[y] > 1
    assert_array_equal(np.bincount(anchor, minlength=len(y)), n_per_row * not_alone)


@ignore_small_classes
def test_random_triplets_reach_every_legal_row():
    y = np.array([0, 1, 0, 2, 1, 0])
    made = random_triplets(y, 200, random_state=0)
    for a in np.flatnonzero(y != 2):
        of_a = made[made[:, 0] == a]
        assert set(of_a[:, 1]) == set(np.flatnonzero(y == y[a])) - {a}
        assert set(of_a[:, 2]) == set(np.flatnonzero(y != y[a]))


# --- links ---------------------------------------------------------------------------------------


@st.composite
def signed_links(draw):
    """Links among a few rows: repeated, reversed, from a row to itself, of both signs."""
    row = st.integers(0, 5)
    link = st.tuples(row, row, st.sampled_from([-1, 1]))
    drawn = np.array(draw(st.lists(link, min_size=1, max_size=25)))
    return drawn[:, :2], drawn[:, 2]


def completions(links, signs, directed):
    """Return, for each link, all triplets that another link completes it to."""
    known = {(a, b, s) for (a, b), s in zip(links.tolist(), signs.tolist(), strict=True)}
    if not directed:
        known |= {(b, a, s) for a, b, s in known}
    made = {}
    for a, b, s in known:
        link = (a, b, s) if directed else (min(a, b), max(a, b), s)
        for c in (c for a2, c, s2 in known if a2 == a and s2 == -s and c != b):
            made.setdefault(link, set()).add((a, b, c) if s == 1 else (a, c, b))
    return made


@given(signed_links(), st.booleans())
def test_all_link_triplets_are_those_of_the_slow_twin(links, directed):
    slow = set().union(*completions(*links, directed).values())
    if not slow:
        with pytest.raises(ValueError, match=r"No triplet can be built: no row has both"):
            link_triplets(*links, n_per_link=None, directed=directed)
        return
    made = link_triplets(*links, n_per_link=None, directed=directed)
    assert made.dtype == np.int64
    assert sorted(map(tuple, made.tolist())) == sorted(slow)


@given(signed_links(), st.booleans(), st.integers(1, 4), st.integers(0, 100))
def test_link_triplets_are_drawn_link_by_link_without_replacement(links, directed, n, seed):
    slow = completions(*links, directed)
    ends = links[0] if directed else np.sort(links[0], axis=1)
    signs_of = {}
    for pair, sign in zip(ends.tolist(), links[1].tolist(), strict=True):
        signs_of.setdefault(tuple(pair), set()).add(sign)
    if not slow or any(len(signs) > 1 for signs in signs_of.values()):
        return  # a link of both signs may be drawn to complete itself, and is then dropped
    made = link_triplets(*links, n_per_link=n, directed=directed, random_state=seed)
    counts = Counter(map(tuple, made.tolist()))
    assert len(made) == sum(min(n, len(found)) for found in slow.values())
    for triplet, count in counts.items():
        assert count <= sum(triplet in found for found in slow.values())


def test_links_of_a_matrix_are_links_of_a_list():
    rng = np.random.default_rng(0)
    links, signs = rng.integers(20, size=(60, 2)), rng.choice([-1, 1], size=60)
    links, first = np.unique(np.sort(links, axis=1), axis=0, return_index=True)
    signs = signs[first]
    upper = sp.coo_array((signs * 2.5, links.T), shape=(20, 20))
    expected = link_triplets(links, signs, random_state=0)
    for matrix in (upper, upper.tocsc(), sp.csr_matrix(upper + sp.triu(upper, 1).T)):
        assert_array_equal(link_triplets(matrix, random_state=0), expected)
    assert_array_equal(link_triplets(links.tolist(), signs > 0, random_state=0), expected)
    assert_array_equal(link_triplets(links[::-1, ::-1], signs[::-1], random_state=0), expected)


def test_random_and_link_triplets_follow_the_seed():
    rng = np.random.default_rng(0)
    links, signs, y = rng.integers(20, size=(200, 2)), rng.choice([-1, 1], 200), np.arange(40) % 4
    for make in (
        lambda seed: random_triplets(y, random_state=seed),
        lambda seed: link_triplets(links, signs, n_per_link=2, random_state=seed),
    ):
        assert_array_equal(make(0), make(0))
        assert make(0).tolist() != make(1).tolist()


@pytest.mark.parametrize(
    ("links", "signs", "message"),
    [
        ([[0, 1, 2]], [1], r"links must be integers of shape \(n_links, 2\).*Got shape \(1, 3\)"),
        ([[0.0, 1.0]], [1], r"links must be integers.*dtype float64"),
        ([[0, 1], [2, -3]], [1, 1], r"links\[1\] is \[2, -3\]: rows are numbered from 0"),
        ([[0, 1]], None, r"signs must be given with a list of links"),
        ([[0, 1]], [1, -1], r"signs must have shape \(1,\), one per link. Got shape \(2,\)"),
        ([[0, 1], [0, 2]], [1, 0], r"signs\[1\] is 0: pass signs == 1"),
        (sp.eye_array(3), [1, 1, 1], r"signs must be None if links is an adjacency matrix"),
        (sp.eye_array(3, 4), None, r"shape \(n_rows, n_rows\). links has shape \(3, 4\)"),
        (sp.csr_array([[0, np.nan], [0, 0]]), None, r"links\[0, 1\] is NaN"),
        (sp.csr_array((3, 3)), None, r"No triplet can be built: no row has both"),
        (np.empty((0, 2), dtype=int), [], r"No triplet can be built: no row has both"),
    ],
)
def test_bad_links_are_refused(links, signs, message):
    with pytest.raises(ValueError, match=message):
        link_triplets(links, signs)


def test_n_per_link_and_n_per_anchor_must_be_positive():
    with pytest.raises(ValueError, match=r"'n_per_link' parameter of link_triplets .*Got 0"):
        link_triplets([[0, 1]], [1], n_per_link=0)
    with pytest.raises(ValueError, match=r"'n_per_anchor' parameter of graded_triplets .*Got -1"):
        graded_triplets({"anchor": [0, 0], "item": [1, 2], "grade": [0, 1]}, n_per_anchor=-1)


# --- draws ---------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 30), max_size=8), st.integers(1, 8), st.integers(0, 100))
def test_a_sample_has_distinct_numbers_of_each_range(sizes, n, seed):
    size = np.array(sizes, dtype=np.int64)
    drawn = sample_ranges(size, n, np.random.default_rng(seed))
    stops = np.cumsum(size)
    assert (np.diff(drawn) > 0).all()
    per_range = [((drawn >= b - s) & (drawn < b)).sum() for s, b in zip(size, stops, strict=True)]
    assert per_range == np.minimum(size, n).tolist()


@pytest.mark.parametrize("size", [4, 5], ids=["shuffled", "drawn"])
def test_all_subsets_are_equally_likely(size):
    n_ranges = 5_000
    drawn = sample_ranges(np.full(n_ranges, size), 2, np.random.default_rng(0))
    pairs = Counter(map(tuple, (drawn % size).reshape(-1, 2).tolist()))
    subsets = list(itertools.combinations(range(size), 2))
    expected = n_ranges / len(subsets)
    assert set(pairs) == set(subsets)
    # five standard deviations of a binomial count
    assert max(abs(count - expected) for count in pairs.values()) < 5 * expected**0.5


# --- grades --------------------------------------------------------------------------------------


@st.composite
def graded_lines(draw):
    """Lines (event, anchor, item, grade): few values, so that all kinds of ties occur."""
    few = st.integers(0, 3)
    grade = st.sampled_from([0.0, 1.0, 2.5, -1.0])
    return draw(st.lists(st.tuples(few, few, few, grade), min_size=1, max_size=20))


def slow_graded(lines, by_event):
    """Return, for each anchor (and event), its triplets with the difference of grades."""
    made = {}
    for (e, a, i, g), (e2, a2, j, h) in itertools.product(lines, lines):
        if a == a2 and (e == e2 or not by_event) and g > h and i != j:
            made.setdefault((e if by_event else 0, a), []).append((a, i, j, g - h))
    return made


def as_columns(lines):
    return dict(zip(("event", "anchor", "item", "grade"), zip(*lines, strict=True), strict=True))


def listed(judgements):
    return sorted((*t, w) for t, w in zip(judgements[0].tolist(), judgements[1], strict=True))


@given(graded_lines(), st.sampled_from([None, "event"]))
def test_graded_triplets_are_those_of_the_slow_twin(lines, event):
    slow = sorted(itertools.chain(*slow_graded(lines, event is not None).values()))
    if not slow:
        with pytest.raises(ValueError, match=r"No triplet can be built: no anchor has two items"):
            graded_triplets(as_columns(lines), event=event)
        return
    made = graded_triplets(as_columns(lines), event=event)
    assert isinstance(made, Judgements)
    assert made.triplets.dtype == np.int64
    assert listed(made) == slow


@given(graded_lines(), st.integers(1, 4), st.integers(0, 100))
def test_n_per_anchor_limits_the_triplets_of_each_anchor(lines, n, seed):
    lines = list({line[:3]: line for line in lines}.values())  # an item has one grade in an event
    slow = slow_graded(lines, by_event=True)
    if not slow:
        return
    made = graded_triplets(as_columns(lines), event="event", n_per_anchor=n, random_state=seed)
    assert not Counter(listed(made)) - Counter(itertools.chain(*slow.values()))
    assert len(made.triplets) == sum(min(n, len(found)) for found in slow.values())


def test_too_many_triplets_are_refused_before_memory_is_allocated():
    n = 70_000
    table = {"anchor": np.zeros(n, dtype=int), "item": np.arange(n), "grade": np.arange(n)}
    with pytest.raises(ValueError, match=r"2449965000 triplets would be made.*set n_per_anchor"):
        graded_triplets(table)
    assert len(graded_triplets(table, n_per_anchor=100, random_state=0).triplets) == 100


# --- choices -------------------------------------------------------------------------------------


@given(st.data())
def test_choice_triplets_are_query_times_chosen_times_the_others(data):
    row = st.integers(0, 6)
    events = []
    for _ in range(data.draw(st.integers(1, 5))):
        shown = data.draw(st.lists(row, min_size=1, max_size=5, unique=True))
        chosen = data.draw(st.sampled_from(shown) | st.lists(st.sampled_from(shown), unique=True))
        events.append((data.draw(row), shown, chosen))
    slow = [
        [query, p, n]
        for query, shown, chosen in events
        for p in (chosen if isinstance(chosen, list) else [chosen])
        for n in shown
        if n not in np.atleast_1d(chosen)
    ]
    if not slow:
        with pytest.raises(ValueError, match=r"No triplet can be built: no event has both"):
            choice_triplets(events)
        return
    made = choice_triplets(events)
    assert made.dtype == np.int64
    assert sorted(made.tolist()) == sorted(slow)


def test_choices_of_a_table_with_ids(tmp_path):
    events = [("q", ["a", "b", "c"], ["b"]), ("a", ["q", "b"], "q"), ("q", ["a", "b"], [])]
    ids = ["a", "b", "c", "q"]
    expected = [[3, 1, 0], [3, 1, 2], [0, 3, 1]]
    assert choice_triplets(events, ids=ids).tolist() == expected
    path = tmp_path / "clicks.csv"
    path.write_text(
        "session,anchor,item,clicked\n"
        "s1,q,a,0\ns1,q,b,True\ns2,a,q,1\ns1,q,c,false\ns2,a,b,FALSE\ns3,q,a,0\ns3,q,b,0\n"
    )
    assert choice_triplets(path, event="session", ids=ids).tolist() == expected


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([(0, [1, 2])], r"events\[0\] must be \(query, shown, chosen\). Got \(0, \[1, 2\]\)"),
        (
            [(0, [1, 2], 1), (0, [1, 2], [3])],
            r"events\[1\]: 3 was chosen but is not among",
        ),
        (
            {"event": [1, 1], "anchor": [0, 0], "item": [1, 2], "clicked": [0, 2]},
            r"table, row 1 has 2 in column 'clicked': true or false, or 1 or 0",
        ),
        ([], r"table has no rows"),
    ],
)
def test_bad_choices_are_refused(events, message):
    with pytest.raises(ValueError, match=message):
        choice_triplets(events)


# --- judgements in tables ------------------------------------------------------------------------

NAMES = ("anchor", "positive", "negative", "weight")
IDS = ["ant", "bee", "cat", "dog", "élan"]


@pytest.fixture(scope="module")
def judgements():
    """Columns of ids and weights, and what they must become."""
    rng = np.random.default_rng(0)
    rows = np.array([rng.permutation(5)[:3] for _ in range(20)])
    weights = rng.integers(0, 4, size=20) / 2
    named = [[IDS[row] for row in column] for column in rows.T]
    columns = dict(zip(NAMES, [*named, weights.tolist()], strict=True))
    return columns, Judgements(rows, weights)


def write_text(path, columns, separator):
    lines = [
        separator.join(columns),
        *(separator.join(map(str, t)) for t in zip(*columns.values(), strict=True)),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_jsonl(path, columns):
    records = (
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    )
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def write_parquet(path, columns):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table(columns), path)


WRITERS = {
    ".csv": lambda path, columns: write_text(path, columns, ","),
    ".tsv": lambda path, columns: write_text(path, columns, "\t"),
    ".jsonl": write_jsonl,
    ".parquet": write_parquet,
}

FRAMES = {
    "dict": dict,
    "pandas": lambda c: pytest.importorskip("pandas").DataFrame(c),
    "pandas nullable": lambda c: pytest.importorskip("pandas").DataFrame(c).convert_dtypes(),
    "pandas categories": lambda c: (
        pytest.importorskip("pandas").DataFrame(c).astype(dict.fromkeys(NAMES[:3], "category"))
    ),
    "polars": lambda c: pytest.importorskip("polars").DataFrame(c),
    "pyarrow": lambda c: pytest.importorskip("pyarrow").table(c),
}


def assert_same(made, expected):
    assert made.triplets.dtype == np.int64
    assert made.weights.dtype == np.float64
    assert_array_equal(made.triplets, expected.triplets)
    assert_array_equal(made.weights, expected.weights)


@pytest.mark.parametrize("form", FRAMES.values(), ids=FRAMES.keys())
def test_judgements_of_any_table(form, judgements):
    columns, expected = judgements
    assert_same(judgement_triplets(form(columns), weight="weight", ids=IDS), expected)
    assert judgement_triplets(form(columns), ids=IDS).weights is None
    columns = dict(zip(NAMES, [*expected.triplets.T.tolist(), expected.weights], strict=True))
    if form is FRAMES["pandas categories"]:
        columns = {name: list(map(str, columns[name])) for name in NAMES[:3]}
        with pytest.raises(ValueError, match=r"'anchor' of table must hold row numbers.*pass ids="):
            judgement_triplets(form(columns))
    else:
        assert_same(judgement_triplets(form(columns), weight="weight"), expected)


@pytest.mark.parametrize("suffix", WRITERS)
def test_judgements_of_any_file(suffix, judgements, tmp_path):
    columns, expected = judgements
    path = tmp_path / f"judged{suffix}"
    WRITERS[suffix](path, columns)
    assert_same(judgement_triplets(str(path), weight="weight", ids=IDS), expected)
    for ids, rows in ((None, expected.triplets), (np.arange(10, 15), expected.triplets + 10)):
        columns = [*rows.T.tolist(), expected.weights.tolist()]
        WRITERS[suffix](path, dict(zip(NAMES, columns, strict=True)))
        assert_same(judgement_triplets(path, weight="weight", ids=ids), expected)


QUADRUPLET_NAMES = ("positive_a", "positive_b", "negative_a", "negative_b")


@pytest.mark.parametrize("suffix", [None, ".csv", ".jsonl"])
def test_quadruplets_of_tables_and_files(suffix, tmp_path):
    rows = np.array([[0, 1, 2, 3], [4, 0, 4, 1], [2, 2, 0, 1]])
    columns = {name: [IDS[row] for row in rows[:, k]] for k, name in enumerate(QUADRUPLET_NAMES)}
    table = {**columns, "weight": [1.0, 0.5, 2.0]}
    if suffix is not None:
        WRITERS[suffix](tmp_path / f"judged{suffix}", table)
        table = tmp_path / f"judged{suffix}"
    made = judgement_quadruplets(table, weight="weight", ids=IDS)
    assert_same(made, Judgements(rows, np.array([1.0, 0.5, 2.0])))
    assert judgement_quadruplets(table, ids=IDS).weights is None


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        (
            {"negative_a": ["b", "c"], "negative_b": ["a", "d"]},
            {},
            r"row 0 .*'b'\) with itself",
        ),
        ({"negative_b": ["d", "x"]}, {}, r"1 id in column 'negative_b' .*matches no row: 'x'"),
        ({}, {"positive_b": "second"}, r"no column 'second'.*with positive_b="),
        ({"w": [1.0, -1.0]}, {"weight": "w"}, r"row 1 has -1.0 in column 'w'.*>= 0"),
    ],
    ids=["same pair", "unknown id", "column", "weight"],
)
def test_bad_quadruplets_of_tables_are_refused(changes, options, message):
    columns = zip(QUADRUPLET_NAMES, [["a", "a"], ["b", "c"], ["c", "b"], ["d", "d"]], strict=True)
    with pytest.raises(ValueError, match=message):
        judgement_quadruplets({**dict(columns), **changes}, ids=list("abcd"), **options)


@given(st.data())
def test_ids_stand_for_their_rows(data):
    ids = data.draw(st.lists(st.text(max_size=3), min_size=3, max_size=8, unique=True))
    rows = data.draw(strategies.triplets(len(ids)))
    table = {name: [ids[row] for row in rows[:, k]] for k, name in enumerate(NAMES[:3])}
    assert_array_equal(judgement_triplets(table, ids=ids).triplets, rows)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_ids_may_be_a_column_too(library, judgements):
    columns, expected = judgements
    module = pytest.importorskip(library)
    ids = {"pandas": "Index", "polars": "Series", "pyarrow": "array"}[library]
    made = judgement_triplets(columns, weight="weight", ids=getattr(module, ids)(IDS))
    assert_same(made, expected)


def test_columns_may_have_other_names():
    table = {"q": [0], "good": [1], "bad": [2], "more": ["text"]}
    made = judgement_triplets(table, anchor="q", positive="good", negative="bad")
    assert made.triplets.tolist() == [[0, 1, 2]]


def test_csv_may_have_quotes_blank_lines_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "judged.csv"
    text = 'anchor,positive,negative,why\n"a,1",b,c,"two\nlines"\n\nb,"a,1",c,\n'
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    made = judgement_triplets(path, ids=["a,1", "b", "c"])
    assert made.triplets.tolist() == [[0, 1, 2], [1, 0, 2]]


def table_of(**changes):
    return {"anchor": [0, 1], "positive": [1, 2], "negative": [2, 0], **changes}


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (
            {"anchor": [0], "good": [1]},
            {},
            r"table has no column 'positive', 'negative'\. Its columns are 'anchor', 'good': say "
            r"which is meant with positive=, negative=",
        ),
        (table_of(), {"weight": "w"}, r"no column 'w'.*with weight="),
        (table_of(anchor=[], positive=[], negative=[]), {}, r"table has no rows"),
        (table_of(anchor=[0]), {}, r"same length. Got {'anchor': 1, 'positive': 2,"),
        (table_of(anchor=[[0, 1], [1]]), {}, r"'anchor' of table must hold one value in each"),
        (table_of(positive=[1, None]), {}, r"row 1 has no value in column 'positive': drop it"),
        (table_of(positive=["b", None]), {"ids": "abc"}, r"row 1 has no value in column 'posit"),
        (
            table_of(anchor=[0.0, 1.0]),
            {},
            r"'anchor' of table must hold row numbers.*float64.*ids=",
        ),
        (
            table_of(anchor=[0, -2]),
            {},
            r"table, row 1 has -2 in column 'anchor': rows are numbered",
        ),
        (table_of(positive=[1, 0]), {}, r"row 1 has 0 as both positive and negative \(1 such"),
        (table_of(w=[1.0, -2.0]), {"weight": "w"}, r"row 1 has -2.0 in column 'w': weights must"),
        (table_of(w=[1.0, np.inf]), {"weight": "w"}, r"row 1 has inf in column 'w'.*finite"),
        (table_of(w=["1", "2"]), {"weight": "w"}, r"'w' of table must hold numbers. Got dtype obj"),
        (
            table_of(anchor=[7, 9]),
            {"ids": [0, 1, 2]},
            r"2 ids in column 'anchor' of table match no row: 7, 9\.$",
        ),
        (
            table_of(anchor=list("abcdefgg"), positive=[1] * 8, negative=[2] * 8),
            {"ids": [0, 1, 2]},
            r"7 ids.*match no row: 'a', 'b', 'c', 'd', 'e', …\. The column holds str, ids hold "
            r"int: convert one",
        ),
        (table_of(), {"ids": [0, 1, 2, 2, 1, 5]}, r"ids must be different, but 2 .*once: 1, 2"),
        (table_of(), {"ids": [[0, 1, 2]]}, r"ids must have shape \(n_rows,\).*Got shape \(1, 3\)"),
    ],
)
def test_bad_tables_are_refused(table, options, message):
    ids = options.get("ids")
    with pytest.raises(ValueError, match=message):
        judgement_triplets(table, **{**options, "ids": list(ids) if ids else None})


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_missing_values_of_frames_are_refused(library):
    module = pytest.importorskip(library)
    make = module.table if library == "pyarrow" else module.DataFrame
    frames = [make(table_of(positive=["b", None])), make(table_of(positive=[1, None]))]
    if library == "pandas":
        frames += [frames[1].convert_dtypes(), frames[1].astype({"positive": object})]
    for frame in frames:
        with pytest.raises(ValueError, match="row 1 has no value in column 'positive': drop it"):
            judgement_triplets(frame)


def test_a_column_that_occurs_twice_is_refused():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[0, 1, 2, 3]], columns=["anchor", "positive", "negative", "anchor"])
    with pytest.raises(ValueError, match=r"anchor"):
        judgement_triplets(frame)


def test_anything_but_a_table_is_refused():
    polars = pytest.importorskip("polars")
    for what in (np.zeros((4, 3)), 7, [[0, 1, 2]], polars.LazyFrame(table_of())):
        with pytest.raises(
            TypeError, match=r"table must be a DataFrame .*in memory, a mapping.*Got"
        ):
            judgement_triplets(what)


HEADER = "anchor,positive,negative,w\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "", r"t.csv has no column 'anchor', .*columns are none"),
        ("t.csv", HEADER, r"t.csv has no rows"),
        ("t.csv", "anchor,positive,negative,w,anchor\n", r"column 'anchor' more than once"),
        ("t.csv", HEADER + "0,1,2,1\n\n0,1\n", r"t.csv, line 4 has 2 fields.*header has 4"),
        ("t.csv", HEADER + '0,1,2,1\n0,"1"x,2,1\n', r"t.csv, line 3 cannot be read"),
        ("t.csv", HEADER + '0,1,2,"1\n', r"t.csv, line 2 cannot be read: unexpected end"),
        ("t.csv", HEADER + "0,1,2,1\n0,,2,1\n", r"t.csv, line 3 has no value in column 'positive'"),
        ("t.csv", HEADER + "0,1,2,1\n0,x,2,1\n", r"line 3 has 'x' .*not a row number: pass ids="),
        ("t.csv", HEADER + "0,1,2,1\n0,1,2,y\n", r"line 3 has 'y' in column 'w', which is not a n"),
        ("t.csv", HEADER + "0,1,2,nan\n", r"line 2 has nan in column 'w'.*finite"),
        ("t.csv", HEADER + "0,1,2,1\n\n0,2,2,1\n", r"line 4 has '2' as both positive and negative"),
        ("t.csv", HEADER.encode() + b"\xff,1,2,1\n", r"t.csv, line 2 is not UTF-8 text"),
        ("t.jsonl", '{"anchor": 0}\n', r"t.jsonl has no column 'positive'.*columns are 'anchor'"),
        ("t.jsonl", "\n[1]\n", r"t.jsonl, line 2 must be an object"),
        ("t.jsonl", '{"anchor": \n', r"t.jsonl, line 1 cannot be read: Expecting value"),
        (
            "t.jsonl",
            '{"anchor":0,"positive":1,"negative":2,"w":1}\n\n{"anchor":0,"positive":1,"w":1}\n',
            r"t.jsonl, line 3 has no value in column 'negative'",
        ),
        ("t.xlsx", "", r"t.xlsx must end in .csv, .tsv, .jsonl or .parquet"),
    ],
)
def test_bad_files_are_refused_with_the_line(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message):
        judgement_triplets(path, weight="w")


def test_csv_needs_no_table_library(tmp_path):
    path = tmp_path / "judged.csv"
    path.write_text("anchor,positive,negative\n0,1,2\n")
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['pandas', 'polars', 'pyarrow']))  # cannot be found\n"
        "from hdsl.triplets import judgement_triplets\n"
        f"print(judgement_triplets({str(path)!r}).triplets, 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[[0 1 2]] False\n"


# --- restrict ------------------------------------------------------------------------------------


@st.composite
def comparisons(draw, n):
    """Triplets or quadruplets of n rows that the checks accept."""
    if draw(st.booleans()):
        return draw(strategies.triplets(n))
    row = st.integers(0, n - 1)
    quadruplet = st.tuples(row, row, row, row).filter(lambda q: sorted(q[:2]) != sorted(q[2:]))
    return np.array(draw(st.lists(quadruplet, min_size=1, max_size=20)))


@given(st.data())
def test_restrict_keeps_and_renumbers_comparisons_inside(data):
    n = data.draw(st.integers(2, 10))
    given = data.draw(comparisons(n))
    rows = data.draw(st.permutations(range(n)))[: data.draw(st.integers(0, n))]
    inside = [t for t, named in enumerate(given.tolist()) if set(named) <= set(rows)]
    slow = [[rows.index(r) for r in given[t]] for t in inside]
    rows = np.array(rows, dtype=np.int64)
    kept = restrict(given, rows, n)
    assert kept.shape == (len(slow), given.shape[1])
    assert kept.tolist() == slow
    kept, weights = restrict(given, rows, n, np.arange(len(given)))
    assert kept.tolist() == slow
    assert weights.tolist() == inside


# --- deduplicate ---------------------------------------------------------------------------------


def same_form(comparison):
    """Return one form for all comparisons that say the same."""
    if len(comparison) == 3:
        return tuple(comparison)
    return (*sorted(comparison[:2]), *sorted(comparison[2:]))


def opposite(comparison):
    a, *rest = comparison
    return (a, *rest[::-1]) if len(comparison) == 3 else (*comparison[2:], *comparison[:2])


@given(st.data(), st.sampled_from([1, 2**29]), st.booleans())
def test_equal_comparisons_become_one_with_the_summed_weight(data, spread, net):
    given = data.draw(comparisons(4)) * spread  # large numbers do not fit in one key
    values = st.lists(st.sampled_from([1.0, 2.0, 0.5]), min_size=len(given), max_size=len(given))
    weights = data.draw(st.none() | values)
    slow: dict = {}
    for t, comparison in enumerate(given.tolist()):
        key, weight = same_form(comparison), 1.0 if weights is None else weights[t]
        if net and opposite(key) < key:
            key, weight = opposite(key), -weight
        slow[key] = slow.get(key, 0.0) + weight
    if net:
        slow = {c if w > 0 else opposite(c): abs(w) for c, w in slow.items() if w}
    made = deduplicate(given, weights, net=net)
    assert made.triplets.shape == (len(slow), given.shape[1])
    assert list(map(tuple, made.triplets.tolist())) == list(slow)
    assert made.weights.tolist() == list(slow.values())


def test_deduplicate_checks_triplets_quadruplets_and_weights():
    with pytest.raises(ValueError, match=r"triplets must have shape \(n_triplets, 3\)"):
        deduplicate([[0, 1], [0, 1]])
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(2,\)"):
        deduplicate([[0, 1, 2], [0, 1, 2]], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"quadruplets\[0\] compares .* with itself"):
        deduplicate([[0, 1, 1, 0]])


# --- splits of points ----------------------------------------------------------------------------


@given(st.data(), st.integers(2, 4), st.booleans(), st.integers(0, 100))
def test_sides_share_no_row_and_have_the_comparisons_inside(data, n_splits, shuffle, seed):
    n = data.draw(st.integers(3 * n_splits, 14))
    rng = np.random.default_rng(seed)
    triplets = np.array(list(itertools.permutations(range(n), 3)))
    if data.draw(st.booleans()):
        triplets = triplets[:, [0, 1, 1, 2]]  # quadruplets
    triplets = rng.permutation(triplets)[:1500]
    weights = rng.random(len(triplets)) if data.draw(st.booleans()) else None
    folds = PointKFold(n_splits, shuffle=shuffle, random_state=seed if shuffle else None)
    tested = []
    for train, test in folds.split_triplets(triplets, n, weights=weights):
        assert sorted([*train.rows, *test.rows]) == list(range(n))
        tested += test.rows.tolist()
        for side in (train, test):
            inside = np.flatnonzero(np.isin(triplets, side.rows).all(axis=1))
            assert_array_equal(side.rows[side.triplets], triplets[inside])
            if weights is None:
                assert side.weights is None
            else:
                assert_array_equal(side.weights, weights[inside])
    assert sorted(tested) == list(range(n))


def test_sides_are_stratified_by_labels():
    y = np.repeat([0, 1], [40, 10])
    for train, test in PointKFold(5, random_state=0).split(np.empty((50, 2)), y):
        assert_array_equal(np.bincount(y[test]), [8, 2])
        assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(50))
    triplets = random_triplets(y, 20, random_state=0)
    for _, test in PointKFold(5, random_state=0).split_triplets(triplets, 50, y=y):
        assert_array_equal(np.bincount(y[test.rows]), [8, 2])


def test_the_splitter_works_in_scikit_learn():
    from sklearn.model_selection import cross_val_score
    from sklearn.neighbors import KNeighborsClassifier

    X = np.random.default_rng(0).random((30, 3))
    folds = PointKFold(3, random_state=0)
    assert folds.get_n_splits() == 3
    assert repr(folds) == "PointKFold(n_splits=3, shuffle=True, random_state=0)"
    scores = cross_val_score(KNeighborsClassifier(), X, X[:, 0] > 0.5, cv=folds)
    assert scores.shape == (3,)
    assert len(list(folds.split(X.tolist()))) == 3


def test_a_side_without_triplets_is_refused_before_the_first_split():
    triplets = [[0, 1, 2], [2, 1, 0]]
    folds = PointKFold(2, shuffle=False)
    message = r"Split 0 of n_splits=2 has no triplet inside its 3 train rows.*Use more splits"
    with pytest.raises(ValueError, match=message):
        next(folds.split_triplets(triplets, 6))
    message = r"Split 0 of n_splits=3 has no triplet inside its 3 test rows.*Use fewer splits"
    with pytest.raises(ValueError, match=message):
        next(PointKFold(3, shuffle=False).split_triplets([[3, 4, 5]], 9))
    with pytest.raises(ValueError, match=r"no quadruplet inside its 3 train rows.*Use more splits"):
        next(folds.split_triplets([[0, 1, 1, 2]], 6))


# --- distinct rows -------------------------------------------------------------------------------


@given(st.data())
def test_distinct_rows_are_the_first_of_equals_with_their_number(data):
    X = data.draw(strategies.matrices(elements=strategies.INTEGERS, max_features=3))
    labels = data.draw(arrays(np.int64, len(X), elements=st.integers(0, 1)))
    weights = data.draw(
        st.none() | arrays(np.float64, len(X), elements=st.sampled_from([0.0, 1.0, 2.5]))
    )
    if weights is not None:
        weights[0] = 1.0  # validation refuses weights that are all zero
    slow: dict = {}
    for row, (x, label) in enumerate(zip(X, labels, strict=True)):
        weight = 1.0 if weights is None else weights[row]
        if weight > 0:
            first = slow.setdefault((*x, label), [row, 0.0])
            first[1] += weight
    kept, total = distinct_rows(sp.csr_array(X), labels, weights)
    assert [[row, weight] for row, weight in zip(kept, total, strict=True)] == list(slow.values())
