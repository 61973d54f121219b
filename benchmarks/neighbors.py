"""Nearest neighbours in a similarity, against forming all similarities with SciPy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import scipy.sparse as sp

from hdsl import HDSL, search

from .fits import fit, load
from .measure import record, reset_peak, time_calls, timed
from .problems import Problem, labelled_rows
from .tasks import NO_PROBLEM, Record, Task, benchmark

N_NEIGHBORS = 3


@benchmark(problems=("rcv1_2",), threads=(1, None), iterations=1000)
def neighbors(task: Task) -> Iterator[Record]:
    """3-NN of the validation rows: seconds, against SciPy's dense similarities."""
    problem = load(task)
    search.top_k(problem.X_valid[:20], problem.X[:20], N_NEIGHBORS)
    yield _against_scipy(task, problem, "dot", None)
    for variant, prior in (("prior_0", 0.0), ("prior_1", 1.0)):
        model = fit(problem, prior=prior, max_iter=task.iterations, n_jobs=task.threads)
        yield _against_scipy(task, problem, variant, model)


@benchmark(problems=("rows:1e6",), threads=(-1,))
def mining(task: Task) -> Iterator[Record]:
    """10 x 10 nearest rows of every row by label: seconds, and of 500 one by one."""
    _, _, number = task.problem.partition(":")
    n_rows = task.by_size(full=int(float(number)), toy=200)
    X, y = labelled_rows(n_rows, task.by_size(full=10**6, toy=1000), 75)
    chosen = np.linspace(0, X.shape[0] - 1, min(500, X.shape[0])).astype(np.int64)
    search.neighbors_by_label(X[:9], y[:9], 1, 1)
    (_, other), wall, cpu = timed(
        partial(search.neighbors_by_label, X, y, 10, 10, n_jobs=task.threads)
    )
    queries = (X[chosen], y[chosen])
    index = (X, y)
    (_, expected), single_wall, single_cpu = timed(
        partial(search.neighbors_between, queries, index, 11, 10, n_jobs=task.threads)
    )
    n_other = np.count_nonzero(other.rows[chosen] != expected.rows)
    yield record(
        task,
        NO_PROBLEM,
        seconds=wall,
        cpu_seconds=cpu,
        n_other=n_other,
        note=f"{len(chosen)} rows one by one {single_wall:.1f} s, "
        f"{single_cpu / len(chosen) * 1e3:.1f} CPU ms each; {n_other} other neighbours",
    )


@benchmark(threads=(None,))
def classes(task: Task) -> Iterator[Record]:
    """Mining of the same rows in 10 classes and in many of two rows: seconds."""
    n_rows = task.by_size(full=200_000, toy=400)
    X, _ = labelled_rows(n_rows, task.by_size(full=100_000, toy=500), 15)
    first = None
    for n_classes in (10, n_rows // 2):
        labels = np.arange(n_rows) % n_classes
        call = partial(search.neighbors_by_label, X, labels, 3, 5, n_jobs=task.threads)
        _, wall, cpu = timed(call)
        first = first or cpu
        yield record(
            task,
            NO_PROBLEM,
            f"{n_classes}",
            seconds=wall,
            cpu_seconds=cpu,
            note=f"{n_classes} classes, {cpu / first:.2f} times the CPU seconds of 10 "
            "classes",
        )


def _against_scipy(
    task: Task, problem: Problem, variant: str, model: HDSL | None
) -> Record:
    """Time both; ours starts from the rows as they are, SciPy from transformed ones."""
    queries = problem.X_valid
    index = problem.X
    transformed_queries = queries
    transformed_index = index
    if model is not None:
        transformed_queries = model.transform(queries)
        transformed_index = model.transform(index)

    def ours() -> search.Neighbors:
        rewritten = queries
        if model is not None:
            rewritten = model.rewrite(queries)
        return search.top_k(rewritten, index, N_NEIGHBORS, n_jobs=task.threads)

    reset_peak()
    wall, cpu, _ = time_calls(ours, budget=1.0)
    line = record(task, problem, variant, seconds=wall, cpu_seconds=cpu, model=model)
    start = time.perf_counter()
    S, nearest = _scipy(transformed_queries, transformed_index)
    scipy = time.perf_counter() - start
    # Ties may give other rows, but not other similarities.
    best = -np.sort(-np.take_along_axis(S, nearest, axis=1), axis=1)
    wrong = np.abs(ours().scores - best) > 1e-9 * np.abs(S).max()
    line["extra"].update(
        scipy_seconds=scipy,
        share=wall / scipy,
        n_wrong=int(wrong.any(axis=1).sum()),
        note=f"SciPy {scipy:.2f} s, {scipy / wall:.1f} times as long",
    )
    return line


def _scipy(queries: sp.csr_array, index: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    S = (queries @ index.T).toarray()
    return S, np.argpartition(S, -N_NEIGHBORS, axis=1)[:, -N_NEIGHBORS:]
