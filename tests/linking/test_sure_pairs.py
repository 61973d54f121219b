"""Sure pairs stand for the candidates that nobody answered."""

import numpy as np

from hdsl.linking.sure_pairs import N_PAIRS, draw_sure_pairs


def test_sure_pairs_stand_for_all_of_their_kind():
    rng = np.random.default_rng(0)
    candidates = np.sort(rng.integers(0, 900, (30_000, 2)), axis=1)
    probability = rng.choice([0.0, 0.5, 1.0], 30_000, p=[0.7, 0.1, 0.2])
    sure = draw_sure_pairs(candidates, probability, np.array([[0, 1]]), seed=0)
    assert len(sure.pairs) == N_PAIRS
    for label in (0.0, 1.0):
        n_sure = np.sum(probability == label)
        of_label = sure.labels == label
        np.testing.assert_allclose(sure.stands_for[of_label].sum(), n_sure)
    drawn = {*map(tuple, sure.pairs.tolist())}
    assert drawn <= {*map(tuple, candidates[probability != 0.5].tolist())}


def test_nothing_is_drawn_where_nothing_is_sure():
    candidates = np.array([[0, 1], [0, 2]])
    sure = draw_sure_pairs(candidates, np.array([0.5, 0.9]), candidates[:1], seed=0)
    assert len(sure.pairs) == 0
