"""One model of probability: no labels, few and many; and none of them harms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

import hdsl
from hdsl.linking import Linker
from hdsl.linking.probability import (
    DIFFERENT,
    EQUAL,
    EXCHANGED,
    MISSING,
    N_LEVELS,
    Column,
    Compared,
    Doubt,
    Mixture,
    doubt_of_tail,
    draw_pairs,
    fit_mixture,
    of_codes,
)
from people import make_people
from products import make_tables
from reference import log_odds_of_pair


def f1(links, matches):
    linked = {
        tuple(sorted(pair))
        for pair in zip(links.left.tolist(), links.right.tolist(), strict=True)
    }
    return 2 * len(linked & matches) / (len(linked) + len(matches))


@pytest.fixture(scope="module")
def people():
    table, matches = make_people(80)
    return Linker(id_column="id", random_state=0).fit(table), table, matches


def test_duplicates_of_people_need_no_labels(people):
    linker, _, matches = people
    assert f1(linker.predict(), matches) > 0.98
    assert not linker.is_learned_
    assert "links from a probability of 0.5" in linker.statement_


def test_equal_records_are_certain():
    table, _ = make_people(60, n_most=1)
    double = {name: [*values, *values] for name, values in table.items()}
    double["id"] = [str(k) for k in range(120)]
    links = Linker(id_column="id", random_state=0).fit(double).predict(1.0)
    assert len(links.left) >= 50  # of 60: a few have values missing


def test_columns_that_say_one_thing_do_not_count_twice():
    """Towns come with their postcodes: pairs of one town are no matches."""
    table, matches = make_people(300)
    towns = np.random.default_rng(0).integers(12, size=300)
    person = np.array([int(name.split("-")[0]) for name in table["id"]])
    table = {name: table[name] for name in ("id", "given", "surname")}
    table["town"] = [f"town of {'abcdefghijkl'[k]}" for k in towns[person]]
    table["postcode"] = [str(2000 + 37 * k) for k in towns[person]]
    table["county"] = [f"county {'abcdefghijkl'[k]}" for k in towns[person]]
    linker = Linker(id_column="id", random_state=0).fit(table)
    assert f1(linker.predict(), matches) > 0.85


def test_similar_products_are_unsure():
    left, right, matches = make_tables(80)
    links = Linker(random_state=0).fit(left, right).predict()
    found = {*zip(links.left.tolist(), links.right.tolist(), strict=True)}
    n_wrong = len(found - {*map(tuple, matches.tolist())})
    assert n_wrong <= 0.2 * len(found)


@pytest.mark.parametrize("n", [5, 20])
def test_matches_alone_do_no_harm(people, n):
    linker, table, matches = people
    known = sorted(matches)
    chosen = np.random.default_rng(n).permutation(len(known))[:n]
    learned = Linker(id_column="id", random_state=0)
    learned.fit(table, matches=[known[k] for k in chosen])
    assert f1(learned.predict(), matches) >= f1(linker.predict(), matches) - 0.01
    assert "Held out" in learned.statement_


def test_truthful_answers_do_no_harm(people, tmp_path):
    linker, table, matches = people
    before = f1(linker.predict(), matches)
    asked = linker.to_label(20)
    answers = {True: [], False: []}
    for pair in zip(asked.left.tolist(), asked.right.tolist(), strict=True):
        answers[tuple(sorted(pair)) in matches].append(pair)
    linker = Linker(id_column="id", random_state=0)
    linker.fit(table, None, answers[True], answers[False])
    assert f1(linker.predict(), matches) >= before - 0.01
    linker.save(tmp_path / "labelled.hdsl")
    loaded = hdsl.load(tmp_path / "labelled.hdsl")
    links = linker.predict(0.0)
    np.testing.assert_array_equal(loaded.predict_proba(links), links.probability)


def test_a_budget_keeps_the_share_of_wrong_links(people):
    linker, _, matches = people
    for budget in (0.01, 0.1):
        links = linker.predict(max_false=budget)
        pairs = {
            tuple(sorted(pair))
            for pair in zip(links.left.tolist(), links.right.tolist(), strict=True)
        }
        assert len(pairs - matches) <= budget * len(pairs)
    with pytest.raises(ValueError, match="max_false"):
        linker.predict(max_false=2)


def test_an_audit_bounds_the_share_of_wrong_links(people, tmp_path):
    _, table, matches = people
    linker = Linker(id_column="id", random_state=0).fit(table)
    links = linker.predict()
    drawn = linker.audit(30)
    answers = {True: [], False: []}
    for pair in zip(drawn.left.tolist(), drawn.right.tolist(), strict=True):
        answers[tuple(sorted(pair)) in matches].append(pair)
    audit = linker.audited(answers[True], answers[False])
    assert (audit.n_links, audit.n_audited) == (len(links.left), 30)
    assert audit.n_wrong == len(answers[False])
    assert audit.sentence() == linker.audit_.sentence()
    assert (linker.predict_proba(answers[True]) == 1.0).all()
    linker.save(tmp_path / "audited.hdsl")
    loaded = hdsl.load(tmp_path / "audited.hdsl")
    every = linker.predict(0.0)
    np.testing.assert_array_equal(loaded.predict_proba(every), every.probability)
    with pytest.raises(ValueError, match="draw"):
        linker.audited([(table["id"][0], table["id"][1])], threshold=1.0)
    with pytest.raises(ValueError, match="in matches and in non_matches"):
        linker.audited(answers[True], answers[True])


def test_a_second_audit_corrects_what_the_first_one_left(people, tmp_path):
    """An audit as expected after a bad one changes little, and does not take it back."""
    _, table, _ = people
    linker = Linker(id_column="id", random_state=0).fit(table)
    drawn = linker.audit(40)
    pairs = [*zip(drawn.left.tolist(), drawn.right.tolist(), strict=True)]
    row_of = {identifier: row for row, identifier in enumerate(table["id"])}
    rows = {
        side: [row_of[pair[number]] for pair in pairs]
        for number, side in enumerate(("left", "right"))
    }
    frame = {
        f"{name}_{side}": [values[row] for row in rows[side]]
        for name, values in table.items()
        for side in rows
    }
    before = linker.score_pairs(frame).mean()
    audit = linker.audited(pairs[20:], pairs[:20] * 2)  # twice is once
    assert (audit.n_audited, audit.n_wrong) == (40, 20)
    after_first = linker.score_pairs(frame).mean()
    assert after_first < before - 0.2
    links = linker.predict()
    pairs = [*zip(links.left.tolist(), links.right.tolist(), strict=True)]
    n_right = round(links.probability.sum())
    linker.audited(pairs[:n_right], pairs[n_right:])
    after_second = linker.score_pairs(frame)
    assert after_second.mean() == pytest.approx(after_first, abs=0.05)
    linker.save(tmp_path / "twice.hdsl")
    loaded = hdsl.load(tmp_path / "twice.hdsl")
    np.testing.assert_array_equal(loaded.score_pairs(frame), after_second)


# --- the model ------------------------------------------------------------------------


@st.composite
def mixtures(draw):
    """A mixture of up to four columns, and pairs."""
    n_columns = draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    ties = [(k, k + 1) for k in range(n_columns - 1) if rng.random() < 0.5]
    mixture = Mixture(
        rng.dirichlet(np.ones(N_LEVELS), n_columns),
        rng.dirichlet(np.ones(N_LEVELS), n_columns),
        0.01,
        np.array(ties, dtype=np.int64).reshape(-1, 2),
        rng.exponential(1.0, (len(ties), N_LEVELS, N_LEVELS)),
        Doubt(draw(st.floats(0.0, 1.0)), draw(st.floats(-5.0, 0.0))),
    )
    levels = rng.integers(-1, N_LEVELS, (6, n_columns)).astype(np.int8)
    rarity = np.where(levels == EQUAL, rng.normal(size=levels.shape), 0.0)
    return mixture, Compared(levels, rarity.astype(np.float32))


@given(mixtures())
def test_log_odds_are_those_of_the_definition(drawn):
    mixture, compared = drawn
    expected = [
        log_odds_of_pair(mixture, *pair) for pair in zip(*compared, strict=True)
    ]
    np.testing.assert_allclose(mixture.log_odds(compared), expected, atol=1e-9)
    of_columns = mixture.prior + mixture.evidence(compared).sum(axis=1)
    np.testing.assert_allclose(of_columns, expected, atol=1e-9)


def test_the_two_classes_are_those_that_pairs_were_drawn_from():
    rng = np.random.default_rng(0)
    is_match = rng.random(20_000) < 0.02
    alike = rng.choice(N_LEVELS, (20_000, 4), p=[0.8, 0.1, 0.05, 0.02, 0.01, 0.02, 0])
    other = rng.choice(N_LEVELS, (20_000, 4), p=[0.02, 0, 0.01, 0.02, 0.15, 0.8, 0])
    levels = np.where(is_match[:, None], alike, other).astype(np.int8)
    levels[rng.random(levels.shape) < 0.1] = MISSING
    compared = Compared(levels, np.zeros(levels.shape, dtype=np.float32))
    unknown = np.full(20_000, np.nan)
    mixture = fit_mixture(compared, np.ones(20_000), unknown, 400)
    probability = mixture.probability(compared)
    assert ((probability > 0.5) == is_match).mean() > 0.998
    assert mixture.rate == pytest.approx(is_match.mean(), rel=0.05)
    assert mixture.matches[0, EQUAL] == pytest.approx(0.8, abs=0.05)
    known = np.where(is_match, 1.0, 0.0)
    told = fit_mixture(compared, np.ones(20_000), known, 400)
    assert told.rate == pytest.approx(is_match.mean(), rel=0.05)


def scores(n_matches=2000, n_others=200_000, distance=5.0):
    """Log odds of pairs by one number, which is normal in either class; and matches."""
    rng = np.random.default_rng(0)
    is_match = np.arange(n_matches + n_others) < n_matches
    side = np.where(is_match, 1.0, -1.0)
    number = rng.normal(side * distance**2 / 2, distance)
    return np.log(n_matches / n_others) + number, number, is_match


def test_evidence_that_counts_once_is_believed():
    log_odds, _, _ = scores()
    nothing = np.full(len(log_odds), np.nan)
    doubt = doubt_of_tail(log_odds, np.ones(len(log_odds)), nothing)
    assert (doubt(log_odds) > 0.0).sum() > 0.9 * (log_odds > 0.0).sum()


@pytest.mark.parametrize("times", [2, 4])
def test_evidence_that_counts_several_times_is_doubted(times):
    log_odds, number, is_match = scores()
    log_odds += (times - 1) * number
    nothing = np.full(len(log_odds), np.nan)
    doubt = doubt_of_tail(log_odds, np.ones(len(log_odds)), nothing)
    is_link = doubt(log_odds) > 0.0
    n_wrong = (~is_match[is_link]).sum()
    before = expit(-log_odds[log_odds > 0.0]).sum()
    after = expit(-doubt(log_odds[is_link])).sum()
    n_wrong_before = (~is_match[log_odds > 0.0]).sum()
    assert before < 0.5 * n_wrong_before  # too sure without it
    assert 0.5 * n_wrong < after < 2.0 * n_wrong


@given(st.floats(0.0, 1.0), st.floats(-9.0, 0.0), st.lists(st.floats(-40, 40)))
def test_doubt_makes_no_pair_surer_and_keeps_the_order(slope, intercept, values):
    log_odds = np.sort(np.array(values))
    doubted = Doubt(slope, intercept)(log_odds)
    assert (doubted <= log_odds).all()
    assert (np.diff(doubted) >= 0.0).all()


def test_random_pairs_stand_for_all_pairs():
    candidates = np.array([[0, 1], [3, 7]])
    for n_right in (None, 900):
        sample = draw_pairs(candidates, 1000, n_right, 0)
        n_pairs = 1000 * 999 / 2 if n_right is None else 900_000
        assert sample.weights.sum() == pytest.approx(n_pairs)
        assert (sample.pairs[:, 0] < sample.pairs[:, 1]).all()


def test_rare_values_say_more():
    column = Column.of_values("name", ["smith"] * 9 + ["zachary", "", "ada"], "letters")
    common, rare = column.rarity(np.array(["smith", "zachary"], dtype=object)).tolist()
    assert common < 0.0 < rare


def test_edits_of_short_codes_make_another_code():
    first = np.array(["12", "2600", "19800101"], dtype=object)
    second = np.array(["13", "2601", "19801010"], dtype=object)
    assert of_codes(first, second, 1).tolist() == [DIFFERENT, 1, 2]


def test_names_that_are_exchanged_count_once():
    table, _ = make_people(60)
    n = len(table["id"])
    table["given"] += ["zaphod", "beeble"]
    table["surname"] += ["beeble", "zaphod"]
    for name in ("street", "suburb", "postcode", "birth"):
        table[name] += ["", ""]
    table["id"] += ["x", "y"]
    linker = Linker(id_column="id", random_state=0).fit(table)
    linked = linker._linked
    compared = linked.learned.agreement.compare(
        linked.searched, np.array([[n, n + 1]]), 1
    )
    assert {*compared.levels[0].tolist()} == {EXCHANGED, MISSING}
