"""Nearest rows on one GPU: mining, search in a learned similarity, whole fits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import NamedTuple
from unittest import mock

import numpy as np

from hdsl import HDSL, Solver, search
from hdsl.cuda import runtime
from hdsl.settings import nested_parameters

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

        def timed_launch(kernel, n_blocks, /, **arguments):
            start = time.perf_counter()
            launch(kernel, n_blocks, **arguments)
            self.device.wait()
            self.seconds[kernel] += time.perf_counter() - start

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


class Agreement(NamedTuple):
    """In how many lists rows differ, and how far scores are apart at most."""

    n_other: int
    score_distance: float

    @classmethod
    def between(
        cls, lists: list[search.Neighbors], expected: list[search.Neighbors]
    ) -> Agreement:
        """Return how well lists agree."""
        n_other = 0
        score_distance = 0.0
        for ours, theirs in zip(lists, expected, strict=True):
            n_other += int((ours.rows != theirs.rows).any(axis=1).sum())
            known = np.isfinite(theirs.scores)
            scale = np.maximum(np.abs(theirs.scores[known]), 1e-300)
            distances = np.abs(ours.scores - theirs.scores)[known] / scale
            score_distance = max(score_distance, float(distances.max(initial=0)))
        return cls(n_other, score_distance)

    @property
    def note(self) -> str:
        """The same in words."""
        return (
            f"other rows in {self.n_other} lists, scores to {self.score_distance:.0e}"
        )


def of_queries(lists: search.Neighbors, chosen: np.ndarray) -> search.Neighbors:
    """Return the lists of some queries."""
    return search.Neighbors(
        lists.scores[chosen], lists.rows[chosen], lists.size[chosen]
    )


def without(lists: search.Neighbors, itself: np.ndarray) -> search.Neighbors:
    """Return lists that are one shorter: without the query's own row, or the last."""
    k = lists.rows.shape[1] - 1
    is_itself = lists.rows == itself[:, None]
    columns = np.argsort(is_itself, axis=1, kind="stable")[:, :k]
    columns.sort(axis=1)
    return search.Neighbors(
        np.take_along_axis(lists.scores, columns, axis=1),
        np.take_along_axis(lists.rows, columns, axis=1),
        np.minimum(lists.size, k),
    )


@benchmark(threads=(None,))
def gpu_mining(task: Task) -> Iterator[Record]:
    """3 x 5 nearest of a million rows, by label: one GPU; a part of them on the CPU."""
    X, labels = _rows(task, 0)
    with Watched() as card:
        search.neighbors_by_label(X[:60], labels[:60], 3, 5, device="cuda")  # compiles
        card.seconds.clear()
        lists, wall, _ = timed(
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
    ours = [of_queries(of_one_kind, chosen) for of_one_kind in lists]
    same, other = expected
    agreement = Agreement.between(ours, [without(same, chosen), other])
    yield record(
        task,
        NO_PROBLEM,
        seconds=wall,
        n_other=agreement.n_other,
        score_distance=agreement.score_distance,
        cpu_seconds_of_part=cpu_wall,
        device=card.device.name,
        note=f"{note}; {len(chosen)} rows on the CPU {cpu_wall:.1f} s, "
        f"{agreement.note}",
    )


def _rows(task: Task, n_more: int):
    """Return a million text-like rows, and some more, with their labels."""
    if task.toy:
        return problems.labelled_rows(200 + n_more, 1000, 15)
    return problems.labelled_rows(1_000_000 + n_more, 1_000_000, 75)


@benchmark(threads=(None,), iterations=300)
def gpu_search(task: Task) -> Iterator[Record]:
    """3-NN of 100,000 new rows over a million, learned: one GPU; a part on the CPU."""
    m = task.by_size(full=100_000, toy=20)
    X, labels = _rows(task, m)
    n = X.shape[0] - m
    index = X[:n]
    new = X[n:]
    few = slice(0, min(n, LEARN_FROM))
    model = HDSL(
        solver=Solver(max_iter=task.iterations), random_state=0, n_jobs=task.threads
    )
    model.fit(index[few], labels[few])
    with Watched() as card:
        queries, rewriting, _ = timed(lambda: model.similarity_.rewrite(new))
        on_card = search.Index(index)
        lists, wall, _ = timed(
            lambda: on_card.top_k(queries, N_NEIGHBORS, device="cuda")
        )
        note = card.note
        first = queries[: min(m, N_PART)]
        _, again, _ = timed(lambda: on_card.top_k(first, N_NEIGHBORS, device="cuda"))
        _, anew, _ = timed(
            lambda: search.top_k(first, index, N_NEIGHBORS, device="cuda")
        )
    chosen = np.linspace(0, m - 1, min(m, N_COMPARED)).astype(np.int64)
    expected, cpu_wall, _ = timed(
        lambda: search.top_k(queries[chosen], index, N_NEIGHBORS, n_jobs=task.threads)
    )
    agreement = Agreement.between([of_queries(lists, chosen)], [expected])
    yield record(
        task,
        NO_PROBLEM,
        seconds=rewriting + wall,
        rewriting=rewriting,
        n_other=agreement.n_other,
        score_distance=agreement.score_distance,
        cpu_seconds_of_part=cpu_wall,
        device=card.device.name,
        seconds_again=again,
        seconds_anew=anew,
        note=f"{queries.nnz / m:.0f} features per rewritten query, rewriting "
        f"{rewriting:.1f} s; {note}; {first.shape[0]} queries {again:.3f} s by an "
        f"index that is on the card, {anew:.3f} s by a new one; {len(chosen)} queries "
        f"on the CPU {cpu_wall:.1f} s, {agreement.note}",
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
        HDSL(**nested_parameters(**{**parameters, "max_iter": 3})).fit(
            problem.X, problem.y
        )  # compiles
        fit = partial(HDSL(**nested_parameters(**parameters)).fit, problem.X, problem.y)
        model, wall, cpu = timed(fit)
        objective = model.trace_["objective"][-1]
        variant = device
        if step != "away":
            variant = f"{device} {step}"
        yield record(
            task,
            problem,
            variant,
            seconds=wall,
            cpu_seconds=cpu,
            note=f"{len(model.trace_) - 1} iterations, objective {objective:.6f}",
        )
