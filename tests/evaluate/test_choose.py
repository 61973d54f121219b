"""What is left open is chosen by the measure of the goal, and by nothing else."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from hdsl import HDSL, Solver
from hdsl.evaluate import compare_clicks, knn_error, known_item, triplet_accuracy
from hdsl.evaluate.comparisons import ClickedPairs, pairs_of_lines, position_power
from hdsl.evaluate.gains import Gains, expected_gains, honest_gain, inflation_of_turns
from hdsl.evaluate.parts import orders_of_their_own
from hdsl.similarity.similarity import unlearned
from hdsl.triplets import Judgements, ShownRows, choice_triplets, relevance_triplets

N_TOPICS = 4
N_WORDS = 8


def rows_of(topics, seed=0):
    """Return rows with words of their topics, and words of any."""
    rng = np.random.default_rng(seed)
    X = rng.random((len(topics), N_TOPICS * N_WORDS))
    X *= rng.random(X.shape) < 0.2
    for row, topic in enumerate(topics):
        words = topic * N_WORDS + rng.integers(N_WORDS, size=2)
        X[row, words] += 0.5 + rng.random(2)
    return X


TOPICS = np.random.default_rng(1).integers(N_TOPICS, size=160)
X = rows_of(TOPICS)


def fitted(*data, **options):
    return HDSL(random_state=0, solver=Solver(max_iter=3)).fit(*data, **options)


@pytest.fixture(scope="module")
def model():
    return fitted(X, TOPICS)


# --- invariance -----------------------------------------------------------------------


def test_the_names_of_labels_change_nothing(model):
    names = np.array(["z", "b", "y", "a"])
    renamed = fitted(X, names[TOPICS])
    for column, values in model.choice_.items():
        assert_array_equal(renamed.choice_[column], values)
    assert_array_equal(renamed.atoms_, model.atoms_)


def test_the_order_of_rows_and_columns_changes_no_score(model):
    rng = np.random.default_rng(2)
    rows = rng.permutation(len(X))
    columns = rng.permutation(X.shape[1])
    other = fitted(X[rows][:, columns], TOPICS[rows])
    assert_allclose(other.choice_["score"], model.choice_["score"], rtol=1e-9)
    assert other.prior_ == pytest.approx(model.prior_)


@given(st.integers(0, 99))
def test_rows_and_columns_have_an_order_of_their_own(seed):
    rng = np.random.default_rng(seed)
    A = sp.csr_array(rng.integers(1, 9, (7, 5)) * (rng.random((7, 5)) < 0.5) / 3.0)
    rows = rng.permutation(7)
    columns = rng.permutation(5)
    B = sp.csr_array(A[rows][:, columns])
    order_A = orders_of_their_own(A)
    order_B = orders_of_their_own(B)
    assert_array_equal(order_A[2][rows], order_B[2])
    sorted_A = A.toarray()[order_A[0]][:, order_A[1]]
    sorted_B = B.toarray()[order_B[0]][:, order_B[1]]
    assert_array_equal(np.sort(sorted_A, axis=None), np.sort(sorted_B, axis=None))
    assert_array_equal(sorted_A.sum(axis=1), sorted_B.sum(axis=1))


def test_rows_of_a_group_are_held_out_together():
    """Copies of a row with noise are easy to find again, and a group hides them."""
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=40)
    words = np.repeat(rng.random((40, 30)) * (rng.random((40, 30)) < 0.3), 3, axis=0)
    copies = words + 0.05 * rng.random(words.shape)
    y = np.repeat(labels, 3)
    groups = np.repeat(np.arange(40), 3)
    with warnings.catch_warnings(action="ignore"):
        apart = fitted(copies, y)
        hidden = HDSL(random_state=0, solver=Solver(max_iter=3)).fit(
            copies, y, groups=groups
        )
    assert apart.choice_["score"][0] > hidden.choice_["score"][0] + 0.1


@pytest.mark.parametrize("prior", ["auto", 2.0])
def test_one_validation_row_says_nothing_of_chance_and_chooses_nothing(prior):
    model = HDSL(prior=prior, random_state=0, solver=Solver(max_iter="auto"))
    model.fit(X, TOPICS, X_val=X[:1], y_val=TOPICS[:1])
    assert model.choice_ is None
    assert np.isfinite(model.similarity(X)).all()


def test_many_validation_rows_of_one_class_judge_as_others_do():
    first = np.repeat(X[TOPICS == 0], 60, axis=0)
    labels = np.zeros(len(first), dtype=int)
    model = fitted(X, TOPICS, X_val=first, y_val=labels)
    assert model.choice_["n_units"][0] == min(len(first), 1500)


def test_a_goal_that_validation_data_cannot_measure_is_refused():
    Z = np.random.default_rng(0).normal(size=(160, 40))
    with pytest.raises(ValueError, match="take another goal"):
        HDSL(goal="search").fit(Z, TOPICS, X_val=Z, y_val=TOPICS)


def test_comparisons_of_weight_0_are_absent_from_a_choice_on_validation_data():
    """Also where there are more anchors than learn in a choice."""
    rng = np.random.default_rng(3)
    rows = np.vstack([X, rng.random((3200, X.shape[1])) < 0.1])
    absent = rng.integers(len(X), size=(3200, 3))
    absent[:, 0] = len(X) + np.arange(3200)
    absent[:, 2] = (absent[:, 1] + 1) % len(X)
    T = drawn_triplets()
    both = np.vstack([T, absent])
    weights = np.repeat([1.0, 0.0], [len(T), len(absent)])
    validation = {"X_val": X, "triplets_val": drawn_triplets(seed=1)}
    plain = fitted(rows, triplets=T, **validation)
    weighted = fitted(rows, triplets=both, sample_weight=weights, **validation)
    assert_allclose(weighted.choice_["score"], plain.choice_["score"])


# --- goals ----------------------------------------------------------------------------


def drawn_triplets(n=400, seed=0):
    rng = np.random.default_rng(seed)
    T = rng.integers(len(X), size=(20 * n, 3))
    is_right = (TOPICS[T[:, 1]] == TOPICS[T[:, 0]]) & (
        TOPICS[T[:, 2]] != TOPICS[T[:, 0]]
    )
    return T[is_right & (T[:, 0] != T[:, 1])][:n]


@pytest.mark.filterwarnings("ignore:Nothing is learned")
def test_the_goal_follows_the_supervision():
    assert "known_rows" in fitted(X, TOPICS).choice_
    assert "neighbors" in HDSL(goal="search", random_state=0).fit(X, TOPICS).choice_
    T = drawn_triplets()
    by_comparisons = fitted(X, triplets=T).choice_
    assert {"search", "known_rows"} <= {*by_comparisons}
    by_search = HDSL(goal="search", random_state=0, solver=Solver(max_iter=3)).fit(
        X, triplets=T
    )
    assert {"comparisons", "known_rows"} <= {*by_search.choice_}


@pytest.mark.parametrize(
    ("goal", "data", "message"),
    [
        ("neighbors", {"triplets": drawn_triplets()}, "is measured by labels"),
        ("comparisons", {"y": TOPICS}, "is measured by comparisons"),
        ("ranking", {"y": TOPICS}, "The 'goal' parameter of HDSL must be one of"),
    ],
)
def test_a_goal_that_the_data_cannot_measure_is_refused(goal, data, message):
    with pytest.raises(ValueError, match=message):
        HDSL(goal=goal).fit(X, **data)


def test_a_loss_that_is_within_chance_is_said_to_be(capfd):
    rng = np.random.default_rng(1)
    X = (rng.random((80, 20)) < 0.3).astype(float)
    y = rng.integers(0, 2, 80)
    model = HDSL(random_state=0, n_jobs=1, verbose=1).fit(X, y)
    chosen = int(np.flatnonzero(model.choice_["chosen"])[-1])
    assert np.isfinite(model.choice_["prior"][chosen])
    assert model.choice_["gain"][chosen] < 0.0 <= model.choice_["gain_high"][chosen]
    assert "the loss is within chance" in capfd.readouterr().err


def test_the_score_is_the_share_of_held_out_comparisons():
    T = drawn_triplets()
    model = fitted(X, triplets=T)
    chosen = model.choice_["chosen"]
    start = triplet_accuracy(None, X, T)
    assert model.choice_["score"][0] == pytest.approx(start, abs=0.02)
    assert model.choice_["score"][chosen][0] > start


def test_nothing_is_learned_where_there_is_nothing():
    rng = np.random.default_rng(3)
    T = drawn_triplets(600)
    turned = rng.random(len(T)) < 0.5
    T[turned] = T[turned][:, [0, 2, 1]]
    with warnings.catch_warnings(action="ignore"):
        model = HDSL(random_state=0).fit(X, triplets=T)
    (chosen,) = np.flatnonzero(model.choice_["chosen"])
    assert model.choice_["gain_low"][chosen] <= 0.0


def test_judged_queries_are_judged_by_what_they_find():
    rng = np.random.default_rng(4)
    queries = rng.choice(160, 60, replace=False)
    Q = rows_of(TOPICS[queries], seed=5)
    lines = []
    for query, topic in enumerate(TOPICS[queries]):
        relevant = rng.choice(np.flatnonzero(topic == TOPICS), 5, replace=False)
        lines += [(query, row) for row in relevant]
    table = dict(zip(("query", "document"), np.array(lines).T, strict=True))
    judged = relevance_triplets(Q, X, table, grade=None, random_state=0)
    model = fitted(judged)
    assert model.choice_["n_units"].max() == 60
    assert {"comparisons", "known_rows"} <= {*model.choice_}
    assert model.choice_["score"].max() < 0.6


# --- the rule -------------------------------------------------------------------------


@given(st.integers(1, 6), st.integers(0, 99), st.sampled_from([0.0, 1.0]))
def test_expected_gains_are_those_of_a_random_walk(n, seed, first_step):
    """A slow twin: the mean of the joint normal, for each size of a step."""
    rng = np.random.default_rng(seed)
    gains = Gains(rng.normal(0.05, 0.5, (40, n)), np.ones(40), 1.2, first_step)
    sums = np.tril(np.ones((n, n)))
    total = np.zeros(n)
    evidence = 0.0
    for size in 2.0 ** -np.arange(2, 11):
        before = sums @ sums.T * size**2
        noise = gains.covariance + 1e-12 * np.eye(n)
        inverse = np.linalg.inv(before + noise)
        rest = gains.means - first_step * size
        density = np.exp(-0.5 * rest @ inverse @ rest)
        density /= np.sqrt(np.linalg.det(2 * np.pi * (before + noise)))
        total += density * (first_step * size + before @ inverse @ rest)
        evidence += density
    assert_allclose(expected_gains(gains), total / evidence, rtol=1e-6, atol=1e-12)


def test_a_choice_among_noise_is_no_gain():
    """The largest of several means is too large; units that had no say do not say so."""
    rng = np.random.default_rng(0)
    n_claimed = 0
    chosen = []
    for _ in range(100):
        of_units = rng.normal(0.0, 0.3, (300, 6))
        gain = honest_gain(
            [Gains(of_units, np.ones(300), inflation_of_turns(3, 1 / 3))]
        )
        n_claimed += gain.low > 0
        chosen.append(gain.mean)
    assert n_claimed <= 5
    assert abs(np.mean(chosen)) < 0.01


# --- clicks ---------------------------------------------------------------------------


def log_of(power, n_events=2000, seed=0):
    """Return a log of three rows in any order, looked at r^-power, with relevances of their own."""
    rng = np.random.default_rng(seed)
    rows = np.argsort(rng.random((n_events, 3)), axis=1)
    relevance = np.array([0.6, 0.3, 0.3])
    chances = relevance[rows] * np.arange(1.0, 4.0) ** -power
    return ShownRows(
        events=np.repeat(np.arange(n_events), 3),
        queries=np.full(3 * n_events, 9),
        rows=rows.ravel(),
        positions=np.tile([1.0, 2.0, 3.0], n_events),
        are_clicked=(rng.random(rows.shape) < chances).ravel(),
    )


@pytest.mark.parametrize("power", [0.0, 0.7, 1.5])
def test_the_decay_of_attention_is_estimated_where_rows_move(power):
    assert position_power(log_of(power, 8000)) == pytest.approx(power, abs=0.15)


def test_the_decay_is_one_over_the_rank_where_no_row_moves():
    shown = log_of(0.0, 1)
    assert position_power(shown) == pytest.approx(1.0)


@given(st.integers(0, 99))
def test_clicked_rows_are_compared_with_those_beside_them(seed):
    rng = np.random.default_rng(seed)
    shown = log_of(1.0, 4, seed)
    rows = rng.random((10, 5))
    pairs = [*zip(*pairs_of_lines(shown), strict=True)]
    slow = [
        (a, b)
        for a in range(12)
        for b in range(12)
        if shown.events[a] == shown.events[b]
        and shown.are_clicked[a]
        and not shown.are_clicked[b]
    ]
    assert sorted(pairs) == slow
    if not slow:
        return
    clicked = ClickedPairs(sp.csr_array(rows), shown, 1.0)
    scores = rows[shown.queries] * rows[shown.rows]
    scores = scores.sum(axis=1)
    lines = sorted({a for a, _ in slow})
    expected = [
        np.mean([scores[a] > scores[b] for c, b in slow if c == a]) for a in lines
    ]
    found = clicked.shares(unlearned(sp.csr_array(rows)), ("product",))["product"]
    assert_allclose(found, expected)
    assert_array_equal(clicked.weights, shown.positions[lines])


def test_a_log_is_learned_from_whichever_engine_showed_it():
    rng = np.random.default_rng(6)
    queries = rng.integers(N_TOPICS, size=80)
    Q = rows_of(queries, seed=7)
    log = []
    for query, topic in enumerate(queries):
        shown = rng.choice(len(X), 8, replace=False)
        liked = shown[(TOPICS[shown] == topic) & (rng.random(8) < 0.8)]
        if len(liked):
            log.append((query, shown.tolist(), liked.tolist()))
    clicks = choice_triplets(log, ids=[*range(len(X))], queries=[*range(80)])
    both = np.vstack([X, Q])
    model = fitted(both, triplets=clicks)
    errors = compare_clicks(model, both, clicks)
    assert errors.after.share < errors.before.share
    assert {"comparisons", "known_rows"} <= {*model.choice_}
    with pytest.raises(ValueError, match="lack the rows that were shown"):
        compare_clicks(model, both, Judgements(clicks.triplets))


# --- one default ----------------------------------------------------------------------


@pytest.mark.parametrize("ranking", ["cosine", "product"])
def test_measures_rank_as_the_model_does(model, ranking):
    model = HDSL(prior=2.0, random_state=0, solver=Solver(max_iter=3)).fit(X, TOPICS)
    model.ranking_ = ranking
    is_cosine = ranking == "cosine"
    T = drawn_triplets()
    for measure in (
        lambda **kw: knn_error(model, X[::2], TOPICS[::2], X[1::2], TOPICS[1::2], **kw),
        lambda **kw: triplet_accuracy(model, X, T, **kw),
        lambda **kw: known_item(model, X, random_state=0, **kw).mrr,
    ):
        assert measure() == measure(cosine=is_cosine)
