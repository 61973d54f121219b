"""What an embedding costs: `python -m benchmarks.embedding`.

The same generated short texts are learned from with 384 columns of a generated
embedding and without, one after the other in one process. Seconds are of the wall.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from hdsl import HDSL, Rows
from hdsl.search import top_k
from hdsl.settings import nested_parameters

from .many_rows import short_texts
from .table import aligned

WIDTH = 384

#: Queries of the search.
N_QUERIES = 1000


def main() -> None:
    """Print one line per number of rows and of threads."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000])
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    headings = [
        "rows",
        "threads",
        "device",
        "fit, words",
        "fit, both",
        "ratio",
        "search, words",
        "search, both",
        "one product",
    ]
    table = []
    for n_rows in arguments.rows:
        for n_threads in arguments.threads:
            with threadpool_limits(n_threads):
                table.append(
                    measure(n_rows, n_threads, arguments.device, arguments.repeats)
                )
    print(aligned(table, headings, headings))


def embedding(y: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return rows near a centre for each label."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(y.max() + 1, WIDTH)).astype(np.float32)
    Z = rng.normal(size=(len(y), WIDTH)).astype(np.float32)
    return Z + 0.3 * centres[y]


def measure(n_rows: int, n_threads: int, device: str, n_repeats: int) -> list[str]:
    """Return the line of a number of rows and of threads."""
    X, y = short_texts(n_rows)
    Z = embedding(y)
    parameters: dict[str, Any] = {
        "random_state": 0,
        "n_jobs": n_threads,
        "device": device,
    }
    few = np.arange(400)
    for rows in (X[few], Rows(X, Z)[few]):
        HDSL(**nested_parameters(**parameters)).fit(rows, y[few])  # compiles
    words = fit_seconds(parameters, X, y, n_repeats)
    both = fit_seconds(parameters, Rows(X, Z), y, n_repeats)
    model = HDSL(**nested_parameters(**parameters, prior=16.0, max_iter=3)).fit(
        Rows(X, Z), y
    )
    queries = np.arange(min(N_QUERIES, n_rows))
    rewritten = model.rewrite(Rows(X, Z)[queries])
    indexed = model.index_rows(Rows(X, Z))
    of_words = seconds(
        lambda: top_k(rewritten.sparse, indexed.sparse, 10, n_jobs=n_threads), n_repeats
    )
    of_both = seconds(
        lambda: top_k(rewritten, indexed, 10, n_jobs=n_threads), n_repeats
    )
    of_product = seconds(lambda: rewritten.dense @ indexed.dense.T, n_repeats)
    return [
        f"{n_rows:,}",
        str(n_threads),
        device,
        f"{words:.2f} s",
        f"{both:.2f} s",
        f"{both / words:.2f}",
        f"{of_words:.2f} s",
        f"{of_both:.2f} s",
        f"{of_product:.2f} s",
    ]


def fit_seconds(
    parameters: dict[str, Any], X: Any, y: np.ndarray, n_repeats: int
) -> float:
    """Return the seconds of a fit."""
    return seconds(lambda: HDSL(**nested_parameters(**parameters)).fit(X, y), n_repeats)


def seconds(work: Any, n_repeats: int) -> float:
    """Return the least seconds that some work takes."""
    times = []
    for _ in range(n_repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    main()
