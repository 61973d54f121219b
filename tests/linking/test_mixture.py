"""Probabilities without labels: as good as labels where columns say enough."""

import warnings

import numpy as np
import pytest
from scipy.special import expit

import hdsl
from hdsl.linking import Linker
from hdsl.linking.mixture import Mixture, agreement_levels, fit_mixture, pooled
from people import make_people
from products import make_tables


def f1(links, matches):
    linked = {
        tuple(sorted(pair))
        for pair in zip(links.left.tolist(), links.right.tolist(), strict=True)
    }
    return 2 * len(linked & matches) / (len(linked) + len(matches))


@pytest.fixture(scope="module")
def people():
    table, matches = make_people()
    return Linker(id_column="id", random_state=0).fit(table), table, matches


def test_duplicates_of_people_need_no_labels(people):
    linker, _, matches = people
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # its probabilities mean something
        assert f1(linker.predict(), matches) > 0.98
    assert "without labels" in linker.statement_
    assert not linker.is_learned_


def test_one_record_has_many_others(people):
    _, table, _ = people
    is_first = np.char.endswith(table["id"], "-0")
    left = {name: np.array(table[name])[is_first].tolist() for name in table}
    right = {name: np.array(table[name])[~is_first].tolist() for name in table}
    matches = {(f"{name.split('-')[0]}-0", name) for name in right["id"]}
    linker = Linker(id_column="id", random_state=0).fit(left, right)
    assert f1(linker.predict(), matches) > 0.98


def test_a_table_without_duplicates_has_no_mixture():
    table, matches = make_people(300, n_most=1)
    assert not matches
    linker = Linker(id_column="id", random_state=0).fit(table)
    assert "only their order" in linker.statement_


def test_similar_products_are_no_matches():
    left, right, _ = make_tables(80)
    linker = Linker(random_state=0).fit(left, right)
    assert "only their order" in linker.statement_


def test_a_file_keeps_the_mixture(people, tmp_path):
    linker, _, _ = people
    linker.save(tmp_path / "people.hdsl")
    loaded = hdsl.load(tmp_path / "people.hdsl")
    links = linker.predict(0.0)
    np.testing.assert_allclose(
        loaded.predict_proba(links), links.probability, atol=1e-12
    )


def test_levels_are_those_of_the_edges():
    cosines = np.array([[0.0, 0.2, 0.79, 0.8, 0.95, np.nan]])
    assert agreement_levels(cosines).tolist() == [[0, 1, 3, 4, 5, 6]]


def test_evidence_of_measures_adds_up():
    evidence = np.zeros((2, 7))
    evidence[:, 5] = [2.0, 1.0]
    evidence[:, 0] = -1.0
    mixture = Mixture(evidence, -1.0)
    probability = mixture.probability(np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]]))
    np.testing.assert_allclose(
        np.log(probability / (1.0 - probability)), [2.0, 0.0, -3.0]
    )


def test_the_two_classes_are_those_that_pairs_were_drawn_from():
    """Four measures, independent in either class, of which one in ten are matches."""
    rng = np.random.default_rng(0)
    is_match = rng.random(4000) < 0.1
    alike = rng.beta(9.0, 1.0, (4000, 4))
    other = rng.beta(1.0, 6.0, (4000, 4))
    cosines = np.where(is_match[:, None], alike, other)
    cosines[rng.random(cosines.shape) < 0.1] = np.nan
    mixture = fit_mixture(cosines, 4, np.nanmean(cosines, axis=1) ** 2)
    probability = mixture.probability(cosines)
    assert ((probability > 0.5) == is_match).mean() > 0.999
    np.testing.assert_allclose(probability.mean(), is_match.mean(), atol=0.002)


def test_few_columns_have_no_mixture():
    cosines = np.random.default_rng(0).random((50, 2))
    assert fit_mixture(cosines, 2, np.full(50, 0.5)) is None
    assert fit_mixture(np.empty((0, 4)), 4, np.empty(0)) is None


def test_few_true_matches_do_no_harm(people):
    """Unanswered pairs of their records are no non-matches."""
    linker, table, matches = people
    known = sorted(matches)
    rng = np.random.default_rng(0)
    before = f1(linker.predict(), matches)
    chosen = [known[k] for k in rng.permutation(len(known))[:50]]
    learned = Linker(id_column="id", random_state=0).fit(table, matches=chosen)
    assert f1(learned.predict(), matches) >= before - 0.005
    assert "Held out" in learned.statement_


def test_truthful_answers_in_rounds_do_no_harm(people, tmp_path):
    linker, table, matches = people
    before = f1(linker.predict(), matches)
    answers = {True: [], False: []}
    for _ in range(2):
        asked = linker.to_label(20)
        for pair in zip(asked.left.tolist(), asked.right.tolist(), strict=True):
            answers[tuple(sorted(pair)) in matches].append(pair)
        linker = Linker(id_column="id", random_state=0)
        linker.fit(table, None, answers[True], answers[False])
        assert f1(linker.predict(), matches) >= before - 0.005
    assert not {*answers[True]} & {*answers[False]}
    linker.save(tmp_path / "labelled.hdsl")
    loaded = hdsl.load(tmp_path / "labelled.hdsl")
    links = linker.predict(0.0)
    np.testing.assert_allclose(
        loaded.predict_proba(links), links.probability, atol=1e-9
    )


def test_what_is_pooled_lies_between_both():
    learned = np.array([0.9, 0.1, 0.5])
    log_odds = np.array([-1.0, 3.0, 500.0])
    np.testing.assert_allclose(pooled(learned, log_odds, 1.0), learned)
    of_mixture = pooled(learned, log_odds, 0.0)
    np.testing.assert_allclose(of_mixture[:2], expit(log_odds[:2]))
    assert 0.999 < of_mixture[2] < 1.0
    between = pooled(learned, log_odds, 0.5)
    low = np.minimum(learned, of_mixture)
    high = np.maximum(learned, of_mixture)
    assert ((low < between) & (between < high)).all()
