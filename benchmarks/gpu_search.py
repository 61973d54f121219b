"""Nearest rows on one GPU: mining, search in a learned similarity, whole fits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from itertools import product
from unittest import mock

import numpy as np

from hdsl import HDSL, search
from hdsl.cuda import runtime

from . import one_gpu, problems
from .fits import load
from .measure import record, timed
from .tasks import NO_PROBLEM, Record, Task, benchmark

#: Queries whose neighbors are searched for on the CPU too.
N_COMPARED = 200

#: Queries of the search whose rows are on the card already.
N_PART = 100

N_TARGETS = 3
N_IMPOSTORS = 5
N_NEIGHBORS = 3

#: Rows that the similarity of `gpu_search` is learned from.
LEARN_FROM = 20_000


class Watched:
    """The card, and the seconds of each kernel while it is searched on."""

    def __init__(self) -> None:
        self.device = one_gpu.make_device()
        self.seconds = Counter()

    def __enter__(self) -> Watched:
        launch = self.device.launch

        def timed_launch(kernel, *args):
            began = time.perf_counter()
            launch(kernel, *args)
            self.device.wait()
            self.seconds[kernel] += time.perf_counter() - began

        self._patches = [
            mock.patch.object(runtime, "get_device", return_value=self.device),
            mock.patch.object(self.device, "launch", timed_launch),
        ]
        for patch in self._patches:
            patch.start()
        return self

    def __exit__(self, *_) -> None:
        for patch in self._patches:
            patch.stop()

    @property
    def note(self) -> str:
        """The kernels that take longest."""
        return ", ".join(f"{name} {x:.2f} s" for name, x in self.seconds.most_common(3))


def agreement(
    found: list[search.Neighbors], expected: list[search.Neighbors]
) -> tuple[int, float]:
    """Return in how many lists rows differ, and how far scores are apart at most."""
    n_other = 0
    far = 0.0
    for ours, theirs in zip(found, expected, strict=True):
        n_other += int((ours.rows != theirs.rows).any(axis=1).sum())
        known = np.isfinite(theirs.scores)
        scale = np.maximum(np.abs(theirs.scores[known]), 1e-300)
        far = max(
            far,
            float((np.abs(ours.scores - theirs.scores)[known] / scale).max(initial=0)),
        )
    return n_other, far


def of_queries(found: search.Neighbors, chosen: np.ndarray) -> search.Neighbors:
    """Return the lists of some queries."""
    return search.Neighbors(*(part[chosen] for part in found))


def without(found: search.Neighbors, itself: np.ndarray) -> search.Neighbors:
    """Return lists that are one shorter: without the query's own row, or the last."""
    k = found.rows.shape[1] - 1
    place = np.argsort(found.rows == itself[:, None], axis=1, kind="stable")[:, :k]
    place.sort(axis=1)
    scores, rows = (np.take_along_axis(part, place, axis=1) for part in found[:2])
    return search.Neighbors(scores, rows, np.minimum(found.size, k))


@benchmark(threads=(None,))
def gpu_mining(task: Task) -> Iterator[Record]:
    """3 x 5 nearest of a million rows, by label: one GPU; a part of them on the CPU."""
    X, labels = _rows(task, 0)
    with Watched() as card:
        search.neighbors_by_label(X[:60], labels[:60], 3, 5, device="cuda")  # compiles
        card.seconds.clear()
        found, wall, _ = timed(
            lambda: search.neighbors_by_label(
                X, labels, N_TARGETS, N_IMPOSTORS, device="cuda"
            )
        )
        note = card.note
    chosen = np.linspace(0, X.shape[0] - 1, N_COMPARED).astype(np.int64)
    expected, cpu_wall, _ = timed(
        lambda: search.neighbors_between(
            (X[chosen], labels[chosen]),
            (X, labels),
            N_TARGETS + 1,
            N_IMPOSTORS,
            n_jobs=task.threads,
        )
    )
    ours = [of_queries(part, chosen) for part in found]
    n_other, far = agreement(ours, [without(expected[0], chosen), expected[1]])
    yield record(
        task,
        NO_PROBLEM,
        seconds=wall,
        n_other=n_other,
        score_distance=far,
        cpu_seconds_of_part=cpu_wall,
        device=card.device.name,
        note=f"{note}; {len(chosen)} rows on the CPU {cpu_wall:.1f} s, other rows in {n_other} "
        f"lists, scores to {far:.0e}",
    )


def _rows(task: Task, n_more: int):
    """Return a million text-like rows, and some more, with their labels."""
    if task.toy:
        return problems.labelled_rows(200 + n_more, 1000, 15)
    return problems.labelled_rows(1_000_000 + n_more, 1_000_000, 75)


@benchmark(threads=(None,), iterations=300)
def gpu_search(task: Task) -> Iterator[Record]:
    """3-NN of 100,000 new rows over a million, learned similarity: one GPU; a part on the CPU."""
    m = 20 if task.toy else 100_000
    X, labels = _rows(task, m)
    n = X.shape[0] - m
    index = X[:n]
    new = X[n:]
    few = slice(0, min(n, LEARN_FROM))
    model = HDSL(max_iter=task.iterations, random_state=0, n_jobs=task.threads)
    model.fit(index[few], labels[few])
    with Watched() as card:
        queries, rewriting, _ = timed(lambda: model.similarity_.rewrite(new))
        kept = search.Index(index)
        found, wall, _ = timed(lambda: kept.top_k(queries, N_NEIGHBORS, device="cuda"))
        note = card.note
        part = queries[: min(m, N_PART)]
        _, again, _ = timed(lambda: kept.top_k(part, N_NEIGHBORS, device="cuda"))
        _, anew, _ = timed(
            lambda: search.top_k(part, index, N_NEIGHBORS, device="cuda")
        )
    chosen = np.linspace(0, m - 1, min(m, N_COMPARED)).astype(np.int64)
    expected, cpu_wall, _ = timed(
        lambda: search.top_k(queries[chosen], index, N_NEIGHBORS, n_jobs=task.threads)
    )
    n_other, far = agreement([of_queries(found, chosen)], [expected])
    yield record(
        task,
        NO_PROBLEM,
        seconds=rewriting + wall,
        rewriting=rewriting,
        n_other=n_other,
        score_distance=far,
        cpu_seconds_of_part=cpu_wall,
        device=card.device.name,
        seconds_again=again,
        seconds_anew=anew,
        note=f"{queries.nnz / m:.0f} features per rewritten query, rewriting {rewriting:.1f} s; "
        f"{note}; {part.shape[0]} queries {again:.3f} s by an index that is on the "
        f"card, {anew:.3f} s by a new one; {len(chosen)} queries on the CPU "
        f"{cpu_wall:.1f} s, other rows in {n_other} lists, scores to {far:.0e}",
    )


@benchmark(
    problems=("rcv1_2", "reuters_r52"),
    threads=(None,),
    iterations=1000,
    steps=("away",),
)
def gpu_fit(task: Task) -> Iterator[Record]:
    """A whole fit with the defaults, mining included: CPU and one GPU."""
    problem = load(task)
    for step, device in product(task.steps, ("cpu", "cuda")):
        parameters = {
            "max_iter": task.iterations,
            "step": step,
            "random_state": 0,
            "n_jobs": task.threads,
            "device": device,
        }
        HDSL(**{**parameters, "max_iter": 3}).fit(problem.X, problem.y)  # compiles
        model, wall, cpu = timed(
            lambda given=parameters: HDSL(**given).fit(problem.X, problem.y)
        )
        objective = model.trace_["objective"][-1]
        yield record(
            task,
            problem,
            device if step == "away" else f"{device} {step}",
            seconds=wall,
            cpu_seconds=cpu,
            note=f"{len(model.trace_) - 1} iterations, objective {objective:.6f}",
        )
