"""What a choice sees of a search among all rows, and how rows are ranked then."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from hdsl import HDSL, load
from hdsl.choose import candidates
from hdsl.choose.candidates import Candidate
from hdsl.choose.choice import PartRuns
from hdsl.choose.guard import SearchGuard
from hdsl.choose.rule import keeps_search
from hdsl.choose.searched import search_sentence
from hdsl.evaluate.intervals import mean_interval
from hdsl.model_arrays import NEW_COLUMNS
from hdsl.search_gain import SearchGain
from hdsl.similarity.cosine import COSINE, PRODUCT
from hdsl.supervision.judges import Score
from judged_queries import (
    N_DOCUMENTS,
    better_by_product,
    clicked,
    collection,
    judged,
)
from small_fits import labelled_counts

# --- the rule -------------------------------------------------------------------------


def test_a_loss_is_bounded_and_not_forgiven_within_the_noise():
    plain = np.full(100, 0.5)
    assert keeps_search(plain, plain, 0.01)
    assert keeps_search(plain + 0.1, plain, 0.01)
    assert not keeps_search(plain - 0.01, plain, 0.01)
    noise = np.resize([-0.2, 0.2], 100)
    assert not keeps_search(plain + noise, plain, 0.01)  # no loss, but none known
    assert keeps_search(plain + 0.1 + noise, plain, 0.01)
    few = slice(0, 4)
    assert not keeps_search((plain + 0.1 + noise)[few], plain[few], 0.01)


class FixedSearch:
    """A judge of two ways to rank rows."""

    is_of_judgements = True
    decides = False
    rankings = (COSINE, PRODUCT)
    max_harm = 0.01


class FixedRuns:
    """Runs of one part whose gains are known, by the way to rank rows."""

    search = FixedSearch()

    def __init__(self, cosine, product):
        plain = {COSINE: np.full(50, 0.5)}
        learned = {COSINE: np.full(50, cosine), PRODUCT: np.full(50, product)}
        self.known = {np.inf: plain, 8.0: learned}

    def gains(self, prior):
        return self.known[prior]


def candidate(prior=8.0):
    return Candidate(prior, 0, Score(np.ones(3), np.empty(0)))


@pytest.mark.parametrize(
    ("cosine", "product", "is_kept", "ranking"),
    [
        (0.6, 0.5, True, COSINE),
        (0.5, 0.6, True, PRODUCT),
        (0.4, 0.6, True, PRODUCT),
        (0.6, 0.4, True, COSINE),
        (0.6, 0.6, True, COSINE),
        (0.4, 0.45, False, COSINE),
    ],
)
def test_rows_are_ranked_in_the_way_that_finds_more(cosine, product, is_kept, ranking):
    guard = SearchGuard([FixedRuns(cosine, product)])
    assert guard.keeps_search(candidate()) == is_kept
    assert guard.ranking(8.0) == ranking
    assert guard.sees_harm(candidate()) == (not is_kept)


def test_without_a_search_every_candidate_is_kept():
    guard = SearchGuard([])
    assert guard.keeps_search(candidate())
    assert not guard.sees_harm(candidate())
    assert guard.ranking(8.0) == COSINE
    assert guard.columns([candidate()])["n_queries"].tolist() == [0]
    assert np.isnan(guard.mean(8.0))


class CountedSearch(FixedSearch):
    """A judge that decides, and counts the models that search."""

    decides = True

    def __init__(self):
        self.n_searches = 0

    def gains(self, similarity, rankings, n_threads):
        self.n_searches += 1
        return {ranking: np.full(4, 0.5) for ranking in rankings}


class FixedFits:
    """Fits that learn nothing."""

    unit = 1.0
    n_threads = 1

    def solve(self, prior, max_iter, earlier, callback):
        return SimpleNamespace(atoms=None, weights=None, n_iter=max_iter)

    def similarity(self, atoms, weights, prior):
        return None


def test_each_model_searches_once_whoever_looks_at_it():
    search = CountedSearch()
    run = PartRuns(FixedFits(), None, search, is_relative=True)
    guard = SearchGuard([run])
    assert run.score_of(np.inf).units.tolist() == [0.5] * 4
    run.next(8.0)
    assert guard.keeps_search(candidate())
    assert guard.ranking(8.0) == COSINE
    assert search.n_searches == 2


# --- fits -----------------------------------------------------------------------------


def fit(X, triplets, **parameters):
    return HDSL(random_state=0, **parameters).fit(X, triplets=triplets)


def test_what_a_search_gains_stands_in_the_table():
    X, topics = collection()
    model = fit(X, judged(X, topics))
    search = model.choice_["search"]
    assert 0 < search[0] < 1  # by the cosine
    assert np.isfinite(search[model.choice_["chosen"]]).all()
    lost = 1.0 - search[model.choice_["chosen"]] / search[0]
    assert lost.item() <= 0.01
    assert model.ranking_ in (COSINE, PRODUCT)


def test_judgements_that_only_push_down_the_first_results_teach_nothing(monkeypatch):
    X, topics = collection()
    triplets = judged(X, topics, harmful=True)
    worse = triplets[:, [0, 2, 1]]  # what the cosine finds is worse than the rest
    model = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit(X, worse)
    plain = X[N_DOCUMENTS:] @ X[:N_DOCUMENTS].T
    if model.n_iter_ == 0:
        assert any("cosine" in str(warning.message) for warning in caught)
        learned = model.similarity(X[N_DOCUMENTS:], X[:N_DOCUMENTS])
        np.testing.assert_allclose(learned, model.prior_ * plain.toarray())
        assert model.choice_["chosen"].tolist()[0]
    else:
        search = model.choice_["search"]
        assert search[model.choice_["chosen"]].item() >= 0.99 * search[0]


def test_nothing_is_learned_where_every_prior_may_harm(monkeypatch, capsys):
    X, topics = collection()
    monkeypatch.setattr("hdsl.choose.guard.keeps_search", lambda *gains: False)
    with pytest.warns(UserWarning, match="Nothing is learned"):
        model = fit(X, judged(X, topics), verbose=1)
    assert "nothing is learned" in capsys.readouterr().err
    assert (len(model.atoms_), model.n_iter_, model.ranking_) == (0, 0, COSINE)
    assert model.prior_ == pytest.approx(candidates.FIXED_PRIOR)
    tried = model.choice_["prior"]
    assert set(candidates.SAFE_PRIORS) <= set(tried.tolist())
    assert np.isinf(tried[model.choice_["chosen"]]).all()  # the cosine stays
    model.partial_fit(X, triplets=judged(X, topics))  # a path can go on from it
    assert model.n_iter_ > 0


def test_a_given_prior_is_taken_whatever_a_search_finds(monkeypatch):
    X, topics = collection()
    monkeypatch.setattr("hdsl.choose.guard.keeps_search", lambda *gains: False)
    assert len(fit(X, judged(X, topics), prior=4.0).atoms_)


def test_quadruplets_are_chosen_by_as_before():
    X, topics = collection()
    quadruplets = judged(X, topics)[:, [0, 1, 0, 2]]
    model = HDSL(random_state=0, max_iter=3).fit(X, quadruplets=quadruplets)
    assert np.isnan(model.choice_["search"]).all()


def test_many_labeled_rows_search_for_themselves(monkeypatch):
    monkeypatch.setattr("hdsl.choose.parts.MOST_TRAIN", 60)
    monkeypatch.setattr("hdsl.choose.parts.MOST_HELD_OUT", 30)
    X, y = labelled_counts(n=200)
    model = HDSL(random_state=0).fit(X, y)
    search = model.choice_["search"]
    assert np.isfinite(search[model.choice_["chosen"]]).all()
    assert 0 < search[0] <= 1


def test_labels_that_lose_rows_in_every_way_keep_what_loses_least(monkeypatch):
    monkeypatch.setattr("hdsl.choose.parts.MOST_TRAIN", 60)
    monkeypatch.setattr("hdsl.choose.parts.MOST_HELD_OUT", 30)
    monkeypatch.setattr("hdsl.choose.guard.keeps_search", lambda *gains: False)
    X, y = labelled_counts(n=200)
    model = HDSL(random_state=0).fit(X, y)
    table = model.choice_
    searched = table["search"][1:]
    assert table["search"][table["chosen"]].item() == np.nanmax(searched)


# --- what was decided on --------------------------------------------------------------


def test_a_table_says_what_queries_gained_as_the_model_ranks():
    guard = SearchGuard([FixedRuns(0.5, 0.6)])
    assert guard.keeps_search(candidate())
    columns = guard.columns([candidate(np.inf), candidate(), candidate(4.0)])
    assert columns["n_queries"].tolist() == [0, 50, 0]
    assert columns["n_better"].tolist() == [0, 50, 0]
    assert columns["n_worse"].tolist() == [0, 0, 0]
    assert columns["gain"][1] == pytest.approx(0.1)  # by S as it is
    assert columns["search"][:2] == pytest.approx([0.5, 0.6])
    assert np.isnan(columns["gain"][[0, 2]]).all()


def test_the_reason_counts_the_queries_that_find_more(capsys):
    X, topics = collection()
    model = fit(X, judged(X, topics), verbose=1)
    table = model.choice_
    line = np.flatnonzero(table["chosen"])[0]
    counted = f"{table['n_better'][line]} of {table['n_queries'][line]} queries better"
    assert counted in " ".join(capsys.readouterr().err.split())
    assert not table["by_clicks"].any()
    assert table["gain"][line] == pytest.approx(
        table["search"][line] - table["search"][0]
    )


def test_what_clicks_say_is_told_as_such(monkeypatch):
    X, triplets = clicked()
    with warnings.catch_warnings(action="ignore"):  # few clicks may teach nothing
        model = fit(X, triplets)
    assert model.choice_["by_clicks"].all()
    line = int(np.argmax(model.choice_["n_queries"] > 0))
    assert "clicked" in search_sentence(model.choice_, line)
    monkeypatch.setattr("hdsl.choose.guard.keeps_search", lambda *gains: False)
    with pytest.warns(UserWarning, match="clicks"):
        model = fit(X, triplets)
    assert model.n_iter_ == 0


def test_comparisons_that_are_chosen_against_the_cosine_measure_no_prior(capsys):
    X, topics = collection()
    triplets = judged(X, topics)
    scores = [
        (X[triplets[:, [0]].ravel()].multiply(X[triplets[:, side]])).sum(axis=1)
        for side in (1, 2)
    ]
    against = triplets[np.asarray(scores[0] < scores[1]).ravel()]
    with warnings.catch_warnings(action="ignore"):  # perhaps nothing is learned
        model = fit(X, against, verbose=1)
    assert model.prior_ >= candidates.FIXED_PRIOR * 0.999
    assert "chosen against it" in " ".join(capsys.readouterr().err.split())
    assert fit(X, triplets).choice_ is not None


def test_a_loss_that_may_be_none_is_no_certain_gain():
    nothing = np.zeros(4)
    gains = np.array([0.1, 0.2, -0.1, 0.0])
    gain = SearchGain.of(nothing, gains, mean_interval)
    assert (gain.n_better, gain.n_worse, gain.n_queries) == (2, 1, 4)
    assert gain.verdict == "no difference"
    assert "Nothing certain" in gain.sentence
    steady = np.array([0.2, 0.21, 0.19, 0.2])
    assert SearchGain.of(nothing, steady, mean_interval).verdict == "better"
    assert SearchGain.of(steady, nothing, mean_interval).verdict == "worse"


def test_the_table_stands_in_the_file_and_older_files_have_none(tmp_path):
    X, topics = collection()
    model = fit(X, judged(X, topics))
    arrays, header = model.to_arrays()
    same = HDSL.from_arrays(arrays, header).choice_
    assert repr(same) == repr(model.choice_)
    older = {
        name: array
        for name, array in arrays.items()
        if not any(name.endswith(column) for column in NEW_COLUMNS)
    }
    assert len(older) == len(arrays) - len(NEW_COLUMNS)
    read = HDSL.from_arrays(older, header).choice_
    assert [*read] == [*same]
    assert search_sentence(read, 1) == ""


# --- what is served is what was measured ----------------------------------------------


def test_the_ranking_stands_in_the_file(tmp_path):
    X, topics = collection()
    model = fit(X, judged(X, topics), prior=4.0, max_iter=2)
    assert model.ranking_ == COSINE
    model.ranking_ = PRODUCT
    model.save(tmp_path / "model.hdsl")
    assert load(tmp_path / "model.hdsl").ranking_ == PRODUCT
    arrays, header = model.to_arrays()
    assert HDSL.from_arrays(arrays, header | {"ranking": "cosine"}).ranking_ == COSINE
    del header["ranking"]  # as older versions wrote it
    assert HDSL.from_arrays(arrays, header).ranking_ == COSINE
    with pytest.raises(ValueError, match="ranking"):
        HDSL.from_arrays(arrays, header | {"ranking": "best"})


def test_a_path_goes_on_with_its_ranking():
    X, topics = collection()
    triplets = judged(X, topics)
    model = fit(X, triplets, prior=4.0, max_iter=2)
    model.ranking_ = PRODUCT
    assert model.partial_fit(X, triplets=triplets).ranking_ == PRODUCT
    assert model.at(1).ranking_ == PRODUCT


def test_a_resumed_run_ranks_as_was_chosen(tmp_path, write_each_iteration):
    X, triplets = better_by_product()
    checkpoint = tmp_path / "run.ckpt"
    parameters = {"max_iter": 6, "checkpoint": checkpoint}

    def fail(state):
        if state.n_iter == 5:
            raise RuntimeError("lights out")

    with pytest.raises(RuntimeError, match="lights out"):
        fit(X, triplets, callback=fail, **parameters)
    assert checkpoint.exists()
    resumed = fit(X, triplets, **parameters)
    assert resumed.ranking_ == PRODUCT
    assert resumed.choice_ is not None
    resumed.save(tmp_path / "model.hdsl")
    assert load(tmp_path / "model.hdsl").ranking_ == PRODUCT
