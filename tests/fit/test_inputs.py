"""What a fit takes: rows in any form, labels, triplets, weights; the automatic scale and prior."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.preprocessing import normalize

from hdsl import HDSL, Solver
from hdsl.input.errors import NoTripletError
from hdsl.settings import nested_parameters
from hdsl.triplets import neighbor_triplets
from small_fits import (
    FORMS,
    N,
    T,
    X,
    Y,
    as_quadruplets,
    assert_same_model,
    assert_whole,
    dense,
    frame,
    small,
)

# --- inputs ---------------------------------------------------------------------------


def unsorted(A):
    """Return a read-only CSR matrix whose column numbers fall along each row."""
    A = sp.csr_matrix(A)
    for row in range(A.shape[0]):
        span = slice(A.indptr[row], A.indptr[row + 1])
        A.indices[span], A.data[span] = (
            A.indices[span][::-1].copy(),
            A.data[span][::-1].copy(),
        )
    A.has_sorted_indices = False
    for part in (A.data, A.indices, A.indptr):
        part.flags.writeable = False
    return A


def in_halves(A):
    """Return a CSR array that stores each value in two halves, which is exact."""
    A = sp.csr_array(A)
    parts = np.repeat(A.data / 2, 2), np.repeat(A.indices, 2), 2 * A.indptr
    return sp.csr_array(parts, shape=A.shape)


INPUTS = {
    **FORMS,
    "BSR": sp.bsr_array,
    "DIA": sp.dia_matrix,
    "DOK": sp.dok_array,
    "LIL": sp.lil_matrix,
    "unsorted": unsorted,
    "duplicates": in_halves,
    "pandas": frame,
    "pandas sparse": lambda A: pytest.importorskip(
        "pandas"
    ).DataFrame.sparse.from_spmatrix(sp.csr_matrix(A)),
    "polars": lambda A: pytest.importorskip("polars").DataFrame(A),
}


def content(A):
    """Return what must not change: the stored arrays of a sparse matrix, or all values."""
    if not sp.issparse(A):
        return [np.array(A)]
    if A.format == "dok":
        return [A.toarray()]
    names = ("data", "indices", "indptr", "rows", "offsets")
    return [np.array(getattr(A, name)) for name in names if hasattr(A, name)]


@pytest.mark.parametrize("make", INPUTS.values(), ids=INPUTS.keys())
def test_every_input_gives_the_same_model_and_is_unchanged(make):
    given = make(X)
    before = content(given)
    expected = small(prior=0.1, max_iter=10).fit(X, Y)
    model = small(prior=0.1, max_iter=10).fit(given, Y)
    assert_same_model(model, expected)
    assert model.objective_ == expected.objective_
    for method in ("transform", "rewrite", "similarity"):
        answer = getattr(model, method)(given)
        close = 1e-5 if answer.dtype == np.float32 else 1e-13
        assert_allclose(
            dense(answer), dense(getattr(expected, method)(X)), close, close
        )
    for now, then in zip(content(given), before, strict=True):
        assert_array_equal(now, then)
        assert now.dtype == then.dtype


def test_integers_are_numbers():
    whole = (8 * X).astype(np.int64)
    model = small(scale=0.01).fit(whole, triplets=T)
    assert_same_model(model, small(scale=0.01).fit(8 * X, triplets=T))
    assert model.transform(whole).dtype == np.float64


def test_read_only_triplets_and_weights_are_unchanged():
    given = T.copy()
    weights = np.ones(len(T))
    given.flags.writeable = weights.flags.writeable = False
    small().fit(X, triplets=given, sample_weight=weights)
    assert_array_equal(given, T)


def test_labels_of_any_kind():
    labels = np.arange(N) % 3
    by_number = small().fit(X, labels)
    names = np.array(["ant", "bee", "cat"])
    for given in (
        names[labels],
        names[labels].tolist(),
        labels.astype(float),
        5 * labels,
    ):
        assert_same_model(small().fit(X, given), by_number)
    assert_same_model(small().fit(X, Y == 0), small().fit(X, np.where(Y == 0, 5, 2)))


def test_labels_and_judgements_at_once_are_an_error():
    with pytest.raises(ValueError, match=r"y and triplets: leave out y"):
        small().fit(X, Y, triplets=T)
    with pytest.raises(ValueError, match=r"y and quadruplets"):
        small().fit(X, Y, quadruplets=T[:, [0, 1, 0, 2]])


def test_triplets_to_choose_by_say_which_rows_they_number():
    with pytest.raises(ValueError, match=r"pass X_val=X"):
        small().fit(X, triplets=T, triplets_val=T[:2])


def test_mining_by_neighbors_random_or_callable():
    made = neighbor_triplets(X, Y, 2, 3)
    by_name = small(n_impostors=3).fit(X, Y)
    assert by_name.n_triplets_ == len(made) == 6 * N
    assert_same_model(by_name, small().fit(X, triplets=made))
    seen = []

    def mine(rows, labels, rng):
        seen.append((rows.shape, np.asarray(labels).tolist(), type(rng)))
        return made

    assert_same_model(small(mining=mine).fit(X, Y), by_name)
    assert seen == [(X.shape, Y.tolist(), np.random.Generator)]
    assert small(mining="random", n_impostors=3).fit(X, Y).n_triplets_ == 6 * N


@pytest.mark.parametrize(
    "parameters",
    [
        {"oracle": "heuristic"},
        {"batch_size": 9},
        {"init": "random"},
        {"mining": "random"},
    ],
    ids=lambda p: next(iter(p)),
)
def test_seeds(parameters):
    def fit(seed):
        return small(**parameters, max_iter=8).set_params(random_state=seed).fit(X, Y)

    assert_same_model(fit(5), fit(5))
    assert_same_model(fit(5), fit(np.random.RandomState(5)))
    assert len({fit(seed).objective_ for seed in range(4)}) > 1


# --- weights --------------------------------------------------------------------------


def assert_same_similarity(one, other):
    """Equal but for rounding, which adds up over the run."""
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-9)
    assert_allclose(one.similarity(X), other.similarity(X), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", ["rows", "triplets", "quadruplets"])
@pytest.mark.parametrize("automatic", [{"scale": "auto"}, {"step": "corrective"}])
def test_weight_0_is_absence_and_whole_weights_are_repetition(kind, automatic):
    model = small(oracle="exact", max_iter=10, **automatic)

    def fit(chosen, weights=None):
        """Fit to some rows or judgements, which may be repeated."""
        given = {"sample_weight": weights}
        if kind == "rows":
            return clone(model).fit(X[chosen], Y[chosen], **given)
        judged = T if kind == "triplets" else as_quadruplets(T)
        return clone(model).fit(X, **{kind: judged[chosen]}, **given)

    n = N if kind == "rows" else len(T)
    everything = np.arange(n)
    weights = np.arange(n) % 4
    weighted = fit(everything, weights.astype(float))
    assert_same_similarity(weighted, fit(np.repeat(everything, weights)))
    # Only ratios matter.
    assert_same_similarity(weighted, fit(everything, 1e-3 * weights))
    assert abs(weighted.objective_ - fit(everything).objective_) > 1e-6


@pytest.mark.parametrize(
    "params", [{"max_anchors": 25}, {"min_rows": 4}, {"mining": "random"}]
)
def test_rows_of_weight_0_are_not_there_for_samples_and_rare_features(params):
    """Nor do columns that they alone have count in the length of new rows."""
    present = np.arange(N) % 3 > 0
    rows = np.column_stack([X, ~present])
    weighted = small(norm="l2", **params).fit(
        rows, Y, sample_weight=present.astype(float)
    )
    alone = small(norm="l2", **params).fit(rows[present], Y[present])
    assert weighted.n_triplets_ == alone.n_triplets_
    assert_allclose(
        weighted.similarity(rows), alone.similarity(rows), rtol=1e-7, atol=1e-9
    )


MACHINES = {
    "default": {},
    "heuristic": {"oracle": "heuristic"},
    "exact": {"oracle": "exact"},
    "pairwise": {"step": "pairwise"},
    "forward": {"step": "forward"},
}


def rows_of_few_features(n=40, d=24, seed=3):
    """Return sparse rows, many columns of which are equally full, and labels."""
    rng = np.random.default_rng(seed)
    values = rng.random((n, d)) * (rng.random((n, d)) < 0.25)
    values[np.arange(n), np.arange(n) % d] += 1.0
    return values, np.arange(n) % 3


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES.keys())
@pytest.mark.parametrize("norm", [None, "l2"])
def test_a_weight_of_2_is_the_row_twice(machine, norm):
    rows, labels = rows_of_few_features()
    times = np.random.default_rng(0).integers(1, 4, size=len(rows))
    model = HDSL(
        **nested_parameters(
            prior=1.0, min_rows=2, norm=norm, max_iter=15, random_state=0, **machine
        )
    )
    weighted = clone(model).fit(rows, labels, sample_weight=times)
    repeated = clone(model).fit(
        np.repeat(rows, times, axis=0), np.repeat(labels, times)
    )
    expected = repeated.similarity(rows)
    assert_allclose(weighted.similarity(rows), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("machine", ["default", "heuristic", "exact", "forward"])
def test_the_order_of_the_columns_does_not_count(machine):
    rows, labels = rows_of_few_features()
    order = np.random.default_rng(1).permutation(rows.shape[1])
    model = HDSL(**nested_parameters(random_state=0, max_iter=15, **MACHINES[machine]))
    first = clone(model).fit(rows, labels)
    second = clone(model).fit(rows[:, order], labels)
    assert first.prior_ == second.prior_
    expected = first.similarity(rows)
    found = second.similarity(rows[:, order])
    assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def test_weights_that_leave_one_class_are_named():
    for mining in ("neighbors", "random"):
        with pytest.raises(ValueError, match="sample_weight"):
            small(mining=mining).fit(X, Y, sample_weight=(Y[0] == Y).astype(float))


def test_weights_of_rows_are_those_of_their_anchors():
    weights = np.random.default_rng(0).random(N)
    mined = small(mining=lambda rows, labels, rng: T).fit(X, Y, sample_weight=weights)
    of_anchors = weights[T[:, 0]]
    assert_same_model(mined, small().fit(X, triplets=T, sample_weight=of_anchors))
    assert_whole(mined, weights=of_anchors)  # the objective is the weighted mean


def test_a_row_may_be_its_own_positive():
    own = np.column_stack([T[:, 0], T[:, 0], T[:, 2]])
    own = own[own[:, 1] != own[:, 2]]
    model = small().fit(X, triplets=own)
    assert_whole(model, triplets=own)
    assert model.objective_ < model.trace_["objective"][0]


def slow_scale(rows, triplets, weights):
    """Return 9 √n max(1, s/80) / m; s counts values that are alike."""
    counted = np.array(triplets)[np.array(weights) > 0]
    a, p, q = (rows[np.array(triplets)[:, k]] for k in range(3))
    m = np.average(np.abs((a * (p - q)).sum(axis=1)), weights=weights)
    s = np.average((a**2).sum(axis=1) ** 2 / (a**4).sum(axis=1), weights=weights)
    return 9 * np.sqrt(len(np.unique(counted[:, 0]))) * max(1, s / 80) / m


def test_the_automatic_scale_is_that_of_the_slow_formula():
    few = np.array([[2.0, 0, 1], [1, 0, 2], [0, 2, 1], [0, 1, 2]])
    many = np.random.default_rng(0).random((4, 1000)) * (np.arange(1000) % 2)
    triplets = [[0, 1, 2], [2, 3, 0], [2, 3, 1], [1, 0, 3]]
    for rows in (few, many, -3 * many):
        for weights in ([1.0, 1, 1, 1], [2.0, 1, 3, 0]):
            for norm, compared in ((None, rows), ("l2", normalize(rows))):
                model = HDSL(norm=norm, solver=Solver(max_iter=1))
                model.fit(rows, triplets=triplets, sample_weight=weights)
                assert_allclose(
                    model.scale_, slow_scale(compared, triplets, weights), rtol=1e-10
                )


def test_features_of_few_rows_are_not_paired_but_count_in_the_prior():
    count = (X != 0).sum(axis=0)
    least = int(np.sort(count)[-4])
    model = small(min_rows=least, prior=0.3, oracle="exact").fit(X, triplets=T)
    used = np.unique(model.atoms_[:, :2])
    assert (count[used] >= least).all()
    assert len(used) < len(np.unique(small(prior=0.3).fit(X, triplets=T).atoms_[:, :2]))
    assert_whole(model)  # the margins are those of all features
    # The path keeps its features.
    model.set_params(min_rows=N).partial_fit(X, triplets=T)
    assert_whole(model)


def test_rows_of_positive_weight_without_a_value_make_no_triplet():
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    y = [0, 1, 0, 1]
    with (
        pytest.warns(UserWarning, match="only a negative"),
        pytest.raises(NoTripletError),
    ):
        HDSL().fit(rows, y, sample_weight=[0, 0, 1, 1], X_val=rows, y_val=y)
