"""Errors, their uncertainty, known-item search and recovery AUC against slow, dense versions."""

from collections import Counter
from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from scipy import stats
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import reference
import strategies
from hdsl import HDSL, Solver
from hdsl.evaluate import (
    ErrorComparison,
    McNemar,
    compare_errors,
    compare_triplets,
    knn_error,
    known_item,
    known_items,
    mcnemar,
    triplet_accuracy,
    wilson_interval,
)
from hdsl.similarity import FixedPart, Similarity

# --- against labels and comparisons ---------------------------------------------------


@st.composite
def similarities(draw, d):
    """None, or similarities without rounding on integers, so that equal scores are ties."""
    if draw(st.booleans()):
        return None
    atoms, _ = draw(strategies.models(d))
    weights = 4.0 ** -np.arange(1, len(atoms) + 1)  # the roots are exact
    prior = draw(st.sampled_from([0.0, 1.0, 2.5]))
    return Similarity(atoms, weights, 16.0, (FixedPart("prior", prior),), d)


def slow_scores(similarity, X, Y):
    if similarity is None:
        return X @ Y.T
    return X @ reference.similarity_matrix(similarity) @ Y.T


def slow_vote(scores, labels, k):
    """The label of most of the k nearest; of equals, that of the nearest."""
    near = [
        labels[i] for i in sorted(range(len(labels)), key=lambda i: (-scores[i], i))[:k]
    ]
    count = Counter(near)
    return max(near, key=lambda label: (count[label], -near.index(label)))


@given(strategies.matrices(elements=strategies.INTEGERS), st.data())
def test_knn_error_counts_wrong_votes(X, data):
    similarity = data.draw(similarities(X.shape[1]))
    split = data.draw(st.integers(1, len(X) - 1))
    labels = np.array(
        data.draw(st.lists(st.sampled_from("abc"), min_size=len(X), max_size=len(X)))
    )
    k = data.draw(st.integers(1, split))
    scores = slow_scores(similarity, X[split:], X[:split])
    wrong = [
        slow_vote(row, labels[:split], k) != truth
        for row, truth in zip(scores, labels[split:], strict=True)
    ]
    as_given = data.draw(st.sampled_from([np.asarray, sp.csr_array, sp.csc_matrix]))
    error = knn_error(
        similarity,
        as_given(X[:split]),
        labels[:split],
        as_given(X[split:]),
        labels[split:],
        n_neighbors=k,
    )
    assert error == pytest.approx(np.mean(wrong), abs=1e-12)


@pytest.mark.parametrize("kind", [strategies.triplets, strategies.quadruplets])
@given(X=strategies.matrices(elements=strategies.INTEGERS), data=st.data())
def test_triplet_accuracy_counts_ties_by_half(kind, X, data):
    similarity = data.draw(similarities(X.shape[1]))
    triplets = data.draw(kind(len(X)))
    weights = data.draw(strategies.triplet_weights(len(triplets)))
    scores = slow_scores(similarity, X, X)
    pairs = triplets if triplets.shape[1] == 4 else triplets[:, [0, 1, 0, 2]]
    points = [0.5 * (1 + np.sign(scores[a, b] - scores[c, d])) for a, b, c, d in pairs]
    as_given = data.draw(st.sampled_from([np.asarray, sp.csr_array, sp.csc_matrix]))
    found = triplet_accuracy(
        similarity, as_given(X), triplets, sample_weight=weights, cosine=False
    )
    assert found == pytest.approx(np.average(points, weights=weights), abs=1e-12)


X, TRIPLETS = strategies.random_arrays(0, n=24, d=10, T=60)
Y = np.arange(24) % 3


@pytest.fixture(scope="module")
def model():
    return HDSL(scale=5.0, prior=0.5, solver=Solver(max_iter=20), random_state=0).fit(
        X, triplets=TRIPLETS
    )


def test_any_object_with_rewrite_is_a_model():
    opposite = SimpleNamespace(rewrite=lambda X: -X)
    right = triplet_accuracy(None, X, TRIPLETS)
    assert triplet_accuracy(opposite, X, TRIPLETS) == pytest.approx(
        1 - right, abs=1e-12
    )
    assert knn_error(opposite, X, Y, X, Y, n_neighbors=1) > 0
    assert knn_error(None, X, Y, X, Y, n_neighbors=1) == 0


def test_column_names_are_checked():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(X, columns=list("abcdefghij"))
    model = HDSL(scale=5.0, prior=0.5, solver=Solver(max_iter=5), random_state=0).fit(
        table, triplets=TRIPLETS
    )
    assert triplet_accuracy(model, table, TRIPLETS) > 0.5
    assert 0 <= knn_error(model, table, Y, table, Y) <= 1
    with pytest.raises(ValueError, match="feature names"):
        triplet_accuracy(model, table[list("jihgfedcba")], TRIPLETS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_test": Y[:5]}, "y_test"),
        ({"n_neighbors": 25}, "24"),
        ({"model": "cosine"}, "cosine"),
        ({"X_test": X[:, 1:]}, "9 features"),
    ],
)
def test_knn_error_says_what_is_wrong(change, message):
    given = {"model": None, "X": X, "y": Y, "X_test": X, "y_test": Y, **change}
    with pytest.raises((ValueError, TypeError), match=message):
        knn_error(**given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"triplets": [[0, 1, 24]]}, "row 24"),
        ({"triplets": [[0, 1, 1, 0]]}, "itself"),
        ({"sample_weight": [1.0]}, "sample_weight"),
        ({"X": X[:, 1:]}, "9 features"),
        ({"X": np.vstack([X[:-1], np.full(10, np.nan)])}, r"X\[23, 0\] is NaN"),
    ],
)
def test_triplet_accuracy_says_what_is_wrong(model, change, message):
    for one in (model, model.similarity_):
        given = {"model": one, "X": X, "triplets": TRIPLETS, **change}
        with pytest.raises(ValueError, match=message):
            triplet_accuracy(**given)


def test_a_model_must_be_fitted(model):
    with pytest.raises(NotFittedError):
        triplet_accuracy(clone(model), X, TRIPLETS)
    for measure in (knn_error, compare_errors):
        with pytest.raises(NotFittedError):
            measure(clone(model), X, Y, X, Y)
    with pytest.raises(NotFittedError):
        known_item(clone(model), X)


# --- uncertainty ----------------------------------------------------------------------


@given(st.integers(1, 500), st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_wilson_interval_holds_the_shares_that_are_not_too_far(n, share, confidence):
    """Its ends p solve |share - p| = z sqrt(p (1 - p) / n)."""
    n_wrong = round(share * n)
    low, high = wilson_interval(n_wrong, n, confidence)
    assert 0 <= low <= n_wrong / n <= high <= 1
    z = stats.norm.isf((1 - confidence) / 2)
    for p in (low, high):
        far = abs(n_wrong / n - p)
        assert far == pytest.approx(z * np.sqrt(p * (1 - p) / n), abs=1e-9)
    known = stats.binomtest(n_wrong, n).proportion_ci(confidence, method="wilson")
    np.testing.assert_allclose((low, high), known, atol=1e-12)


@given(st.integers(1, 60), st.data())
def test_mcnemar_is_the_binomial_test_of_trials_that_differ(n, data):
    values = (
        st.sampled_from([0.0, 0.5, 1.0]) if data.draw(st.booleans()) else st.booleans()
    )
    a, b = (data.draw(st.lists(values, min_size=n, max_size=n)) for _ in range(2))
    found = mcnemar(a, b)
    only_a = sum(x > y for x, y in zip(a, b, strict=True))
    only_b = sum(x < y for x, y in zip(a, b, strict=True))
    assert (found.only_a, found.only_b) == (only_a, only_b)
    if only_a + only_b:
        known = stats.binomtest(only_a, only_a + only_b, alternative="two-sided").pvalue
        assert found.p_value == pytest.approx(known, rel=1e-12)
    else:
        assert found.p_value == 1.0
    assert mcnemar(b, a).p_value == pytest.approx(found.p_value, rel=1e-9)


def trials(n_both, only_a, only_b):
    """Errors of A and B, trial by trial."""
    a = [1] * n_both + [1] * only_a + [0] * only_b
    return a, [1] * n_both + [0] * only_a + [1] * only_b


def test_mcnemar_in_words():
    said = str(mcnemar(*trials(5, 31, 12)))
    assert all(word in said for word in ("12", "31", "p = 0.0054"))
    assert "not more than chance" in mcnemar(*trials(5, 0, 1)).sentence("old", "new")
    assert "same errors" in str(mcnemar(*trials(3, 0, 0)))
    assert ", 1 error more in all" in str(McNemar(2, 3, 1.0, gain=-1.0))
    assert ", 1.5 errors fewer in all" in str(McNemar(3, 2, 1.0, gain=1.5))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: mcnemar([1, 0], [1]), "same trials"),
        (lambda: mcnemar([np.nan], [1]), "must be finite"),
        (lambda: wilson_interval(3, 2), "n_wrong must be at most n. Got 3 of 2"),
        (lambda: wilson_interval(0, 0), "'n' parameter"),
        (lambda: wilson_interval(0, 2, 1.0), "'confidence' parameter"),
        (lambda: compare_errors(None, X, Y, X), "go together"),
        (lambda: compare_errors(None, X, Y, X, Y[:3]), "3 labels"),
    ],
)
def test_uncertainty_says_what_is_wrong(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong()


def unit(X):
    lengths = np.sqrt((X**2).sum(axis=1, keepdims=True))
    return X / np.where(lengths > 0, lengths, 1.0)


@pytest.mark.parametrize("cosine", [False, True])
def test_compare_errors_starts_from_the_cosine(model, cosine):
    rows = X[:16] * np.arange(1, 17)[:, None], Y[:16], X[16:], Y[16:]  # of many lengths
    found = compare_errors(model, *rows, cosine=cosine)
    lengths_1 = unit(rows[0]), Y[:16], unit(X[16:]), Y[16:]
    assert found.before.share == knn_error(None, *lengths_1)
    assert found.after.share == knn_error(model, *rows, cosine=cosine)
    assert found.after.interval == wilson_interval(found.after.n_wrong, 8)
    facts = found.to_dict()
    assert facts["after"]["error"] == found.after.share
    assert facts["sentence"] == found.sentence
    assert str(found).endswith(found.sentence)
    n_gained = found.before.n_wrong - found.after.n_wrong
    assert facts["n_only_before_wrong"] - facts["n_only_after_wrong"] == n_gained


def test_the_verdict_never_contradicts_the_shares():
    """Ties count one half, rows of large weight more, comparisons of one anchor together."""
    before = np.repeat([0.5, 0.0], [300, 200])
    after = np.repeat([0.0, 1.0], [300, 200])
    ties = ErrorComparison.from_trials(before, after)
    assert ties.verdict == "worse"
    assert "50 errors more" in ties.sentence
    weights = np.repeat([1.0, 9.0], [300, 200])
    right = ErrorComparison.from_trials(before > 0, after > 0, sample_weight=weights)
    assert (right.verdict, right.test.only_a) == ("worse", 300)
    assert right.after.share == pytest.approx(1800 / 2100)
    anchors = np.repeat([0, 1], [300, 200])
    together = ErrorComparison.from_trials(before > 0, after > 0, groups=anchors)
    assert together.verdict == "no difference"
    (low, high) = together.after.interval
    (narrow, wide) = ties.after.interval
    assert low < narrow < wide < high


def test_the_verdict_says_what_to_do():
    """A learned similarity that is right, wrong or no better than the cosine."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    first = np.c_[y, 1 - y, 9 * rng.random((60, 3))]
    labels = SimpleNamespace(rewrite=lambda X: X * [1.0, 1, 0, 0, 0])
    opposite = SimpleNamespace(rewrite=lambda X: X * [-1.0, -1, 0, 0, 0])
    same = SimpleNamespace(
        rewrite=lambda X: X * np.sqrt((X**2).sum(axis=1, keepdims=True))
    )
    rows = unit(first[:30]), y[:30], unit(first[30:]), y[30:]
    better, worse, equal = (compare_errors(m, *rows) for m in (labels, opposite, same))
    assert (better.verdict, worse.verdict, equal.verdict) == (
        "better",
        "worse",
        "no difference",
    )
    assert "gained" not in better.sentence
    assert all("use the cosine" in one.sentence for one in (worse, equal))


@pytest.mark.parametrize("weights", [None, np.arange(60) % 3 + 0.0])
def test_compare_triplets(model, weights):
    found = compare_triplets(model, X, TRIPLETS, sample_weight=weights)
    before = triplet_accuracy(None, unit(X), TRIPLETS, sample_weight=weights)
    after = triplet_accuracy(model, X, TRIPLETS, sample_weight=weights)
    assert found.before.share == pytest.approx(1 - before, abs=1e-12)
    assert found.after.share == pytest.approx(1 - after, abs=1e-12)
    assert found.before.n == 60
    assert "judgements" in compare_triplets(model.similarity_, X, TRIPLETS[:2]).sentence


# --- known-item search ----------------------------------------------------------------


def slow_ranks(scores, own):
    """Middle ranks among scores that are equal but for rounding."""
    ranks = []
    for row, item in zip(scores, own, strict=True):
        equal = np.isclose(row, row[item], rtol=0, atol=1e-10 * np.abs(row).max())
        ranks.append(1 + np.sum((row > row[item]) & ~equal) + (equal.sum() - 1) / 2)
    return ranks


def seen_queries(X, **options):
    """Return the queries that known_item makes."""
    seen = []
    known_item(lambda rows: seen.append(rows) or rows, X, **options)
    return seen[0].toarray()


@given(strategies.matrices(elements=strategies.INTEGERS), st.data())
def test_ranks_are_those_of_all_similarities(X, data):
    assume((np.count_nonzero(X, axis=1) >= 2).any())
    similarity = data.draw(similarities(X.shape[1]))
    cosine = data.draw(st.booleans())
    seed = data.draw(st.integers(0, 99))
    options = {"share": data.draw(st.floats(0.05, 0.95)), "random_state": seed}
    as_given = data.draw(st.sampled_from([np.asarray, sp.csr_array, sp.csc_matrix]))
    found = known_item(similarity, as_given(X), cosine=cosine, **options)
    assert (
        found.rows.tolist() == np.flatnonzero(np.count_nonzero(X, axis=1) >= 2).tolist()
    )
    assert found.n_skipped == len(X) - len(found.rows)
    queries = seen_queries(X, **options)
    scores = slow_scores(similarity, queries, X)
    if cosine:
        for one, axis in ((queries, 0), (X, 1)):
            own = np.array(
                [slow_scores(similarity, x[None], x[None])[0, 0] for x in one]
            )
            scores /= np.expand_dims(np.sqrt(np.where(own > 0, own, 1.0)), 1 - axis)
    ranks = slow_ranks(scores, found.rows)
    np.testing.assert_allclose(found.ranks, ranks)
    assert found.mrr == pytest.approx(np.mean(1 / np.array(ranks)))
    low, high = found.interval
    assert 0 <= low <= found.mrr <= high <= 1


def test_ranks_by_blocks_are_the_same(model, monkeypatch):
    whole = known_item(model, X, random_state=3)
    monkeypatch.setattr(known_items, "BLOCK", 50)
    assert (
        known_item(model, sp.csr_array(X), random_state=3).ranks.tolist()
        == whole.ranks.tolist()
    )


def test_queries_from_some_rows(model):
    found = known_item(model, X, rows=[3, 5, 8, 13], random_state=0)
    assert found.rows.tolist() == [3, 5, 8, 13]
    assert found.n_rows == 24
    sample = known_item(model, X, n_queries=7, random_state=0)
    assert len(sample.ranks) == 7
    assert (
        sample.to_dict() == known_item(model, X, n_queries=7, random_state=0).to_dict()
    )
    other = known_item(model, X, n_queries=7, random_state=1)
    assert sample.rows.tolist() != other.rows.tolist()


def test_pipelines_and_functions_rank_by_the_cosine_of_what_they_return(model):
    learned = known_item(model, X, random_state=0)
    for other in (
        model.transform,
        make_pipeline(MaxAbsScaler().fit(np.eye(10)), model),
    ):
        ranks = known_item(other, X, random_state=0).ranks
        np.testing.assert_allclose(ranks, learned.ranks)
    svd = TruncatedSVD(2, random_state=0).fit(X)
    assert (
        known_item(svd, X, random_state=0).mrr < known_item(None, X, random_state=0).mrr
    )
    constant = known_item(lambda X: np.ones((X.shape[0], 1)), X, random_state=0)
    assert (constant.ranks == 12.5).all()  # all 24 rows tie
    assert constant.recall(10) == 0.0
    assert constant.to_dict()["recall_at_10_interval"] == list(wilson_interval(0, 24))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.eye(3)}, "2 features"),
        ({"share": 1.0}, "share"),
        ({"rows": [24]}, "23"),
        ({"rows": [0.5]}, "float64"),
        ({"model": "cosine"}, "cosine"),
        ({"model": lambda X: X[:2]}, "one row per row"),
        ({"model": lambda X: X * np.nan}, "transform of X"),
    ],
)
def test_known_item_says_what_is_wrong(change, message):
    with pytest.raises(ValueError, match=message):
        known_item(**{"model": None, "X": X, **change})


def test_proportional_rows_are_a_tie():
    """Their cosines are equal up to rounding."""
    rng = np.random.default_rng(0)
    X = rng.integers(1, 9, size=(60, 7)).astype(float)
    X[40:] = 3.0 * X[20:40]
    T = np.column_stack([np.arange(20), np.arange(20, 40), np.arange(40, 60)])
    model = HDSL(5.0, prior=1.0, solver=Solver(max_iter=3)).fit(X, np.arange(60) % 2)
    assert triplet_accuracy(model, X, T) == 0.5


def test_labels_of_test_rows_may_be_a_column():
    X = np.eye(3)
    y = np.array(["a", "b", "b"])
    for form in (y, y[:, None], y.tolist()):
        assert knn_error(None, X, y, X, form, n_neighbors=1) == 0.0
