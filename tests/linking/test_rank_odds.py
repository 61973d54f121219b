"""Few matches: the cosine counts beside what they teach, and hidden matches teach nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hdsl
from hdsl.linking import Linker, linker_files
from hdsl.linking.known import TrainingPairs
from hdsl.linking.rank_odds import N_ENOUGH, PAYS_FROM, RankOdds, learned_share
from products import make_tables


def test_more_matches_count_more_until_the_cosine_does_not():
    shares = [learned_share(n) for n in range(5, N_ENOUGH + 1)]
    assert shares == sorted(shares)
    assert 0.0 < shares[0] < 0.5
    assert shares[-1] == 1.0


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=2))
def test_log_odds_never_fall_with_the_score(known):
    labels = np.array([label for _, label in known], dtype=float)
    labels[:2] = (0.0, 1.0)
    odds = RankOdds.of_pairs(np.array([score for score, _ in known]), labels)
    log_odds = odds.log_odds(np.linspace(0.0, 1.0, 9))
    assert np.isfinite(log_odds).all()
    assert (np.diff(log_odds) >= 0.0).all()


def test_a_match_is_first_if_no_unanswered_pair_of_one_of_its_records_is_nearer():
    known = TrainingPairs(
        pairs=np.array([[0, 10], [0, 11], [1, 12], [2, 12], [1, 13], [3, 14], [3, 15]]),
        labels=np.array([1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0]),
        fold=np.zeros(7),
        is_known=np.array([True, False, True, False, False, True, True]),
        stands_for=np.ones(7),
    )
    # Record 0 has a nearer one, but 10 has none; 1 and 12 both have; that of 3 is known.
    score = np.array([0.5, 0.6, 0.5, 0.6, 0.7, 0.1, 0.9])
    assert known.share_first(score) == pytest.approx(2 / 3)


@pytest.fixture(scope="module")
def few():
    left, right, matches = make_tables(60, seed=3)
    linker = Linker(["title"], similarity="cosine", random_state=0)
    return linker.fit(left, right, matches[:8]), matches


def test_few_matches_are_no_worse_than_none(few):
    linker, matches = few
    new = {*map(tuple, matches[8:].tolist())}
    left, right, _ = make_tables(60, seed=3)
    unlearned = Linker(["title"], random_state=0).fit(left, right)
    hits = []
    for fitted in (linker, unlearned):
        best = fitted.candidates(1)
        pairs = zip(best.left.tolist(), best.right.tolist(), strict=True)
        hits.append(len(new & {*pairs}))
    assert linker.is_learned_
    assert hits[0] >= hits[1]
    assert "are few" in linker.statement_
    assert f"Fewer than {PAYS_FROM}" in linker.statement_


def test_a_file_and_an_explanation_have_the_part_of_the_cosine(few, tmp_path):
    linker, matches = few
    linker.save(tmp_path / "few.hdsl")
    again = hdsl.load(tmp_path / "few.hdsl")
    np.testing.assert_array_equal(
        again.predict_proba(matches), linker.predict_proba(matches)
    )
    assert again.reliability_ == linker.reliability_
    why = linker.explain_probability(*matches[20].tolist())
    parts = {part["name"]: part["log_odds"] for part in why.parts}
    assert why.probability == pytest.approx(linker.predict_proba(matches[20:21])[0])
    assert "cosine, without what is learned" in parts


def test_matches_alone_teach_nothing_where_most_have_nearer_records():
    # Every thing has two texts, twice each: one pair of different texts is known.
    texts = []
    for n in range(40):
        texts += [f"model{n} brand{n % 7} colour{n % 5} size{n % 3}"] * 2
        texts += [f"model{n} other{n} words{n} only{n}"] * 2
    matches = [(4 * n, 4 * n + 2) for n in range(20)]
    linker = Linker(random_state=0).fit(texts, None, matches)
    assert not linker.is_learned_
    assert "nearer" in linker.statement_
    complete = Linker(random_state=0).fit(texts, None, matches, complete=True)
    assert "nearer" not in complete.statement_


def test_a_file_of_an_earlier_version_is_read(few, tmp_path, monkeypatch):
    linker, matches = few
    dumps = linker_files.dumps

    def dumps_before(state):
        added = ("rank_odds", "reliability_")
        return dumps({name: state[name] for name in state if name not in added})

    monkeypatch.setattr(linker_files, "dumps", dumps_before)
    linker.save(tmp_path / "before.hdsl")
    again = hdsl.load(tmp_path / "before.hdsl")
    assert len(again.reliability_) > 0
    assert again.predict_proba(matches[:8]).tolist() == [1.0] * 8
