"""Pairs to learn from: which of those that nobody answered count as non-matches."""

import numpy as np
import pytest

from hdsl.linking import Linker
from hdsl.linking.known import ENOUGH_NON_MATCHES, NEAR_SHARE, TrainingPairs


def pairs_with(n_matches, n_non_matches, n_near):
    sizes = (n_matches, n_non_matches, n_near)
    n_pairs = sum(sizes)
    return TrainingPairs(
        pairs=np.column_stack([np.arange(n_pairs), n_pairs + np.arange(n_pairs)]),
        labels=np.repeat([1.0, 0.0, 0.0], sizes),
        fold=np.arange(n_pairs) % 4,
        is_known=np.repeat([True, True, False], sizes),
        stands_for=np.ones(n_pairs),
    )


@pytest.mark.parametrize(
    ("n_non_matches", "share"),
    [(0, 1.0), (10, NEAR_SHARE), (ENOUGH_NON_MATCHES, 0.0)],
)
def test_the_more_non_matches_the_fewer_others_count(n_non_matches, share):
    known = pairs_with(20, n_non_matches, 1000)
    assert known.near_share == share
    training = known.for_classifier(0, draws=True)
    assert training.is_match.sum() == 20
    n_near = (~training.is_known).sum()
    assert n_near == pytest.approx(1000 * share, abs=60)


def test_others_join_a_fold_as_non_matches():
    known = pairs_with(4, 0, 4)
    more = known.with_others(np.array([[0, 20], [1, 21]]), 2, is_known=False)
    assert more.pairs[-2:].tolist() == [[0, 20], [1, 21]]
    assert more.labels[-2:].tolist() == [0.0, 0.0]
    assert more.fold[-2:].tolist() == [2, 2]
    assert not more.is_known[-2:].any()
    np.testing.assert_array_equal(more.take(slice(8)).pairs, known.pairs)


def test_what_is_near_as_learned_is_no_match():
    """The cosine finds no translation: its near pairs are not those that compete."""
    rng = np.random.default_rng(0)
    words = [[f"left{c}{k}" for k in range(8)] for c in range(3)]
    noise = [f"noise{k}" for k in range(6)]
    codes = rng.permutation(np.array(np.meshgrid(*[range(8)] * 3)).reshape(3, -1).T)
    left = []
    right = []
    for code in codes[:200]:
        texts = [words[c][k] for c, k in enumerate(code)]
        left.append(" ".join([*texts, *rng.choice(noise, 2)]))
        other = [text.replace("left", "qux") for text in texts]
        right.append(" ".join([*other, *rng.choice(noise, 2)]))
    matches = np.column_stack([np.arange(200)] * 2)
    linker = Linker(random_state=0).fit(left, right, matches[:100])
    links = linker.predict()
    is_right = links.left == links.right
    assert (is_right & (links.left >= 100)).sum() > 60
    assert (~is_right).sum() < 30
