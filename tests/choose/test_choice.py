"""The prior and the number of iterations, chosen on held-out data."""

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from numpy.testing import assert_array_equal

from hdsl import HDSL, load
from hdsl.choose.candidates import FIXED_PRIOR, LARGE_PRIORS, PRIORS, STEPS
from hdsl.choose.rule import is_as_good, simplest
from hdsl.supervision.judges import Score, nearest
from hdsl.triplets import neighbor_triplets
from small_fits import interrupt_at, labelled_counts, without_interrupt

X, Y = labelled_counts(n=120)
X_VAL, Y_VAL = labelled_counts(seed=1, n=60)


def fitted(**parameters):
    return HDSL(random_state=0, **parameters).fit(X, Y)


def test_what_was_tried_is_a_table():
    pandas = pytest.importorskip("pandas")
    model = fitted()
    table = pandas.DataFrame(model.choice_)
    assert table["prior"][0] == np.inf  # the cosine
    assert set(table["prior"][1:]) <= {*LARGE_PRIORS, *PRIORS}
    assert (np.diff(table["prior"]) < 0).all()  # the simplest first
    assert table["score"].between(0, 1).all()
    assert table["mrr"].between(0, 1).all()
    assert (table["error"] > 0).all()
    assert table["chosen"].sum() == 1
    assert model.prior_ == pytest.approx(table["prior"][table["chosen"]].item())


def test_a_prior_nearer_the_cosine_is_tried_where_nothing_is_gained():
    noise = HDSL(random_state=0).fit(X, np.random.default_rng(0).permutation(Y))
    tried = dict(
        zip(*(noise.choice_[name].tolist() for name in ("prior", "score")), strict=True)
    )
    larger = sorted(tried.keys() & {*LARGE_PRIORS})
    assert larger == list(LARGE_PRIORS[: len(larger)])
    assert all(tried[prior] <= tried[np.inf] for prior in larger[:-1])
    assert tried[larger[-1]] > tried[np.inf] or larger[-1] == LARGE_PRIORS[-1]


@pytest.mark.filterwarnings("ignore::UserWarning")  # of a part
def test_a_part_without_comparisons_is_left_out():
    in_pairs = HDSL(random_state=0, validation_fraction=0.5, max_iter=2)
    # Both halves have one row of each.
    assert in_pairs.fit(X[:60], np.arange(60) // 2).prior_ > 0
    # A fold without rows 1 and 2 has equal rows.
    rows = X[np.repeat([0, 1, 2, 3], [30, 1, 1, 30])]
    assert HDSL(random_state=0, max_iter=2).fit(rows, np.repeat([0, 1], 31)).prior_ > 0


def test_labels_to_validate_with_are_like_those_to_learn_from():
    sets = [["a"], ["b", "c"]] * 60
    with pytest.raises(ValueError, match="both"):
        HDSL().fit(X, Y, X_val=X_VAL, y_val=sets[:60])
    with pytest.raises(ValueError, match="both"):
        HDSL().fit(X, sets, X_val=X_VAL, y_val=Y_VAL)
    with pytest.raises(ValueError, match="all strings or all numbers"):
        HDSL().fit(X, sets, X_val=X_VAL, y_val=[[1], [2]] * 30)


def test_a_given_prior_is_taken():
    model = fitted(prior=3.0)
    assert (model.prior_, model.choice_) == (3.0, None)


def test_the_number_of_iterations_can_be_chosen_too():
    model = fitted(max_iter="auto")
    tried = model.choice_["n_iter"][model.choice_["n_iter"] > 0]
    assert tried.tolist() == list(STEPS)
    assert model.choice_["n_iter"][model.choice_["chosen"]].item() >= model.n_iter_


def test_priors_are_relative_to_the_size_of_rows():
    plain = HDSL(norm=None, random_state=0)
    large = HDSL(norm=None, random_state=0)
    plain.fit(X, Y)
    large.fit(8 * X, Y)
    assert large.prior_ == pytest.approx(plain.prior_ / 64)


def test_judgements_are_chosen_by_too():
    T = neighbor_triplets(X, Y, 3, 3)
    for judged in ({"triplets": T}, {"quadruplets": T[:, [0, 1, 0, 2]]}):
        model = HDSL(random_state=0).fit(X, **judged)
        assert np.isnan(model.choice_["mrr"]).all()
        assert model.choice_["chosen"].sum() == 1


def test_validation_data_replace_the_split():
    model = HDSL(random_state=0).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    wrong = HDSL(random_state=0).fit(X, Y, X_val=X_VAL, y_val=1 - Y_VAL)
    assert wrong.choice_["score"][0] < 0.5 < model.choice_["score"][0]
    T = neighbor_triplets(X_VAL, Y_VAL, 2, 2)
    judged = HDSL(random_state=0).fit(X, Y, X_val=X_VAL, triplets_val=T)
    assert np.isnan(judged.choice_["mrr"]).all()


def test_too_few_rows_are_said_and_a_fixed_prior_is_taken(capsys):
    model = HDSL(random_state=0, verbose=1).fit(X[:20], Y[:20])
    assert (model.choice_, model.prior_) == (None, pytest.approx(FIXED_PRIOR))
    assert "too few" in capsys.readouterr().err


def test_where_there_is_nothing_to_learn_it_is_said(capsys):
    rows = sp.random_array(
        (150, 60), density=0.2, random_state=np.random.default_rng(0)
    ).tocsr()
    HDSL(random_state=0, verbose=1, max_iter=3).fit(rows, np.arange(150) % 2)
    assert "nothing to learn" in capsys.readouterr().err


def test_the_choice_depends_on_the_seed_alone():
    one = fitted(n_jobs=1)
    two = fitted(n_jobs=2)
    for name, column in one.choice_.items():
        assert_array_equal(column, two.choice_[name])
    assert_array_equal(one.weights_, two.weights_)


def test_the_choice_is_in_the_file(tmp_path):
    model = fitted(max_iter=3)
    model.save(tmp_path / "model.hdsl")
    for name, column in load(tmp_path / "model.hdsl").choice_.items():
        assert_array_equal(column, model.choice_[name])


def test_a_callback_sees_the_last_fit_only():
    seen = []
    without_interrupt(fitted, callback=lambda state: seen.append(state.n_iter))
    assert seen == list(range(len(seen)))
    model = without_interrupt(fitted, callback=interrupt_at(0))
    assert model.status_ == "interrupted"


# --- the rule -------------------------------------------------------------------------


def score(units, ranks=()):
    return Score(np.asarray(units, dtype=float), np.asarray(ranks, dtype=float))


def test_the_first_within_one_standard_error_of_the_best_is_taken():
    right = np.repeat([1.0, 0.0], [70, 30])
    near = np.where(np.arange(100) < 2, 0.0, right)
    near[-1] = 1.0  # two rows lost and one gained: within the error
    far = np.where(np.arange(100) < 30, 0.0, right)
    assert is_as_good(near, right)
    assert not is_as_good(far, right)
    assert simplest([score(far), score(near), score(right)], score(far)) == (2, 1)
    assert simplest([score(right), score(right)], score(far)) == (0, 0)


@given(
    st.integers(1, 200), st.integers(1, 12), st.integers(1, 30), st.integers(0, 2**32)
)
def test_the_nearest_are_the_first_of_a_stable_sort(n, k, n_values, seed):
    scores = (
        np.random.default_rng(seed).integers(-n_values, n_values, size=(4, n)) / 7.0
    )
    assert_array_equal(
        nearest(scores, k), np.argsort(-scores, axis=1, kind="stable")[:, :k]
    )


def test_what_harms_the_search_for_a_row_is_out():
    good = np.ones(100)
    bad = np.zeros(100)
    cosine = score(bad, np.ones(50))
    kept = np.full(50, 0.985)
    lost = np.full(50, 0.975)
    assert simplest([score(bad, kept), score(good, lost)], cosine) == (0, 0)
    assert simplest([score(bad, lost), score(good, lost)], cosine) == (0, 0)


def test_where_all_harm_the_search_the_one_that_harms_least_is_taken():
    scores = [score([0.6, 0.7], [0.5, 0.5]), score([0.8, 0.9], [0.7, 0.7])]
    assert simplest(scores, score([0.5, 0.5], [1.0, 1.0])) == (1, 1)


def test_an_interrupt_of_a_candidate_ends_the_fit(monkeypatch):
    from hdsl.solver import oracle

    class Interrupted(oracle.Ascent):
        def vertices(self, gradient, rng, n, active):
            raise KeyboardInterrupt

    monkeypatch.setitem(oracle.ORACLES, "ascent", Interrupted)
    model = HDSL(random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert not hasattr(model, "atoms_")
