"""Linking records: tables in, matches learned, honest probabilities out."""

import warnings

import numpy as np
import pytest

import hdsl
from hdsl.linking import Linker, Links, learning
from hdsl.solver import oracle
from products import TEXTS, make_tables


@pytest.fixture(scope="module")
def fitted():
    left, right, matches = make_tables(45)
    linker = Linker(random_state=0, n_jobs=1, columns=["title", "price"])
    return linker.fit(left, right, matches[:30]), matches


def pairs_of(links):
    return {*zip(links.left.tolist(), links.right.tolist(), strict=True)}


def test_held_out_matches_are_found(fitted):
    linker, matches = fitted
    found = pairs_of(linker.predict())
    new = {*map(tuple, matches[30:].tolist())}
    assert len(found & new) >= 11  # of 15
    assert len(found - {*map(tuple, matches.tolist())}) <= 6


def test_known_pairs_have_what_is_known(fitted):
    linker, matches = fitted
    assert (linker.predict_proba(matches[:30]) == 1.0).all()
    assert {*map(tuple, matches[:30].tolist())} <= pairs_of(linker.predict(1.0))
    found = linker.predict_proba(matches[30:])
    assert ((found >= 0) & (found <= 1)).all()


def test_candidates_are_the_most_likely(fitted):
    linker, matches = fitted
    found = linker.candidates(3)
    assert np.bincount(found.left).max() == 3
    assert (np.diff(found.left) >= 0).all()
    assert {*map(tuple, matches.tolist())} <= pairs_of(linker.candidates(10))
    same = linker.predict_proba(np.column_stack([found.left, found.right]))
    np.testing.assert_allclose(found.probability, same, atol=1e-12)


def test_one_to_one_uses_a_record_once(fitted):
    linker, _ = fitted
    links = linker.predict(0.01, one_to_one=True)
    assert (
        len({*links.left.tolist()}) == len({*links.right.tolist()}) == len(links.left)
    )
    every = linker.predict(0.01)
    assert pairs_of(links) <= pairs_of(every)
    assert (np.diff(links.probability) <= 0).all()


def test_pairs_to_label_are_new_and_spread(fitted):
    linker, matches = fitted
    asked = linker.to_label(8)
    assert 1 <= len(asked.left) <= 8
    assert (
        len({*asked.left.tolist()}) == len({*asked.right.tolist()}) == len(asked.left)
    )
    assert not pairs_of(asked) & {*map(tuple, matches[:30].tolist())}


def test_reasons_add_up(fitted):
    linker, matches = fitted
    a, b = matches[0].tolist()
    explanation = linker.explain(a, b)
    reasons = linker.reasons(a, b, n=10**6)
    assert np.isclose(sum(value for _, value in reasons), explanation.total)
    assert any(name.startswith(("x", "y", "z")) for name, _ in linker.reasons(a, b))


def test_ten_matches_are_enough_to_begin():
    left, right, matches = make_tables(60, seed=3)
    linker = Linker(["title"], random_state=0).fit(left, right, matches[:10])
    found = linker.candidates(1)
    hits = len(pairs_of(found) & {*map(tuple, matches[10:].tolist())})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = Linker(["title"], random_state=0).fit(left, right).candidates(1)
    before = len(pairs_of(plain) & {*map(tuple, matches[10:].tolist())})
    assert hits >= before - 2


def test_duplicates_in_one_table():
    left, right, matches = make_tables(30, seed=1)
    texts = left["title"] + right["title"]
    pairs = matches + np.array([0, 30])
    linker = Linker(random_state=0).fit(texts, matches=pairs[:20, ::-1])
    links = linker.predict(0.3)
    assert (links.left < links.right).all()
    assert len(pairs_of(links) & {*map(tuple, pairs[20:].tolist())}) >= 6  # of 10
    once = linker.predict(0.0, one_to_one=True)
    rows = np.concatenate([once.left, once.right])
    assert len(np.unique(rows)) == len(rows)
    there, back = linker.predict_proba([tuple(pairs[25]), tuple(pairs[25][::-1])])
    assert there == back


def test_same_answer_again():
    left, right, matches = make_tables(30)
    first, second = (
        Linker(["title"], random_state=7, n_jobs=jobs)
        .fit(left, right, matches[:20])
        .predict(0.0)
        for jobs in (1, 2)
    )
    np.testing.assert_array_equal(first.left, second.left)
    np.testing.assert_array_equal(first.probability, second.probability)


def test_links_are_pairs_and_records_have_the_texts_of_their_sides():
    linker = Linker().fit(TEXTS)
    for record in linker.records(linker.candidates(1)):
        assert record["left_text"] == TEXTS[record["left"]]
        assert record["right_text"] == TEXTS[record["right"]]
    two = Links(np.array([0, 1]), np.array([3, 2]), np.ones(2))
    same = linker.predict_proba([(0, 3), (1, 2)])
    assert linker.predict_proba(two).tolist() == same.tolist()


@pytest.mark.filterwarnings("ignore")  # one match is few
def test_one_to_one_keeps_what_is_known():
    right = ["alpha beta gamma x1", "alpha beta x1"]
    linker = Linker().fit(["x1 alpha beta", "alpha beta gamma"], right, [(0, 0)])
    assert (0, 0) in pairs_of(linker.predict(0.0, one_to_one=True))


def test_a_fit_that_fails_changes_nothing():
    linker = Linker().fit(TEXTS, TEXTS[::-1])
    before = linker.candidates(1)
    with pytest.raises(ValueError, match="9"):
        linker.fit(TEXTS[:2], TEXTS[:2], [(0, 9)])
    assert pairs_of(linker.candidates(1)) == pairs_of(before)
    assert [record["left_text"] for record in linker.records(before)] == TEXTS


def test_an_interrupt_ends_the_fit(monkeypatch):
    class Interrupted(oracle.Ascent):
        def vertices(self, gradient, rng, n, active):
            raise KeyboardInterrupt

    monkeypatch.setitem(oracle.ORACLES, "ascent", Interrupted)
    monkeypatch.setattr(learning, "NOTHING_TO_GAIN", -1.0)
    left, right, matches = make_tables(30)
    linker = Linker(["title"], random_state=0)
    with pytest.raises(KeyboardInterrupt):
        linker.fit(left, right, matches[:20])
    assert not hasattr(linker, "statement_")


def test_save_and_load(tmp_path):
    left, right, matches = make_tables(30)
    linker = Linker(["title"], random_state=0).fit(left, right, matches[:20])
    path = tmp_path / "linker.hdsl"
    linker.save(path)
    loaded = hdsl.load(path)
    np.testing.assert_allclose(
        loaded.predict_proba(matches), linker.predict_proba(matches), atol=1e-12
    )
    assert pairs_of(loaded.predict()) == pairs_of(linker.predict())
    assert loaded.statement_ == linker.statement_


def test_columns_keep_their_order_in_a_file(tmp_path):
    *tables, matches = make_tables(120)
    for table in tables:
        table["model"] = [text.split()[1] for text in table["title"]]
    linker = Linker(["title", "price", "model"], random_state=0).fit(
        *tables, matches[:100]
    )
    linker.save(tmp_path / "linker.hdsl")
    found = linker.candidates()
    loaded = hdsl.load(tmp_path / "linker.hdsl").candidates()
    np.testing.assert_allclose(
        loaded.probability, found.probability, rtol=0, atol=1e-14
    )


def test_no_pair_has_no_probability(fitted):
    linker, _ = fitted
    assert linker.predict_proba([]).tolist() == []


def test_columns_that_only_one_table_has_are_named():
    left, right, _ = make_tables(30)
    names = list(left)
    other = {f"{name} there": values for name, values in right.items()}
    assert "the same name" not in Linker(random_state=0).fit(left, right).statement_
    said = Linker(random_state=0).fit(left, other).statement_
    assert f"left table alone: {', '.join(names)};" in said
    assert "Give those that mean the same the same name" in said
