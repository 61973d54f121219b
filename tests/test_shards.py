"""A problem made of shards takes the path of the whole."""

from functools import partial

import numpy as np
import pytest

from hdsl.cpu.shards import ShardedLayout
from hdsl.solver.oracle import ORACLES
from hdsl.solver.steps import RULES
from layouts import LAYOUTS, ONE, PATH_LOSSES
from pairwise import pairwise
from runs import assert_same_path, assert_same_run, run_in_parts
from strategies import make_twin, random_arrays


@pytest.mark.parametrize(
    ("n_shards", "oracle", "rule", "loss", "batch_size", "weighted", "prior", "width"),
    pairwise(
        [1, 3], sorted(ORACLES), sorted(RULES), PATH_LOSSES, [None, 12], [False, True],
        [0.0, 0.3], [3, 4],
    ),
)  # fmt: skip
def test_shards_take_the_path_of_the_whole(
    n_shards, oracle, rule, loss, batch_size, weighted, prior, width
):
    """Also when the run goes on from a snapshot, then to the last bit."""
    max_iter = {"pairwise": 20, "corrective": 6}.get(rule, 25)
    run = partial(
        run_in_parts, oracle=oracle, rule=rule, loss=loss, batch_size=batch_size,
        weighted=weighted, prior=prior, width=width, max_iter=max_iter,
    )  # fmt: skip
    sharded, taken = LAYOUTS[f"{n_shards} shards"], []
    many = run(sharded, save=lambda take: taken.append(take()))
    assert_same_path(run(LAYOUTS["cpu"]), many)
    assert_same_run(run(sharded, latest=taken[min(9, len(taken) - 1) // 2]), many)


def test_there_are_no_more_shards_than_anchors():
    X, T = random_arrays(0)
    T[:, 0] %= 2
    for n_shards in (2, 5, 50):
        twin = make_twin(X, T, layout=partial(ShardedLayout, workers=ONE, n_shards=n_shards))
        sizes = [shard.n_comparisons for shard in twin.ours.shards]
        assert sizes == np.bincount(T[:, 0]).tolist()
