"""What an embedding costs: `python -m benchmarks.embedding`.

The same generated short texts are learned from with 384 columns of a generated
embedding and without, and from the embedding alone, one after the other in one process.
Seconds of a fit are of the wall, and of all processors in parentheses.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from hdsl import HDSL, Rows
from hdsl.search import top_k

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
    parser.add_argument("--prior", type=float, help="given, not chosen")
    parser.add_argument("--embedding-scale", type=float, help="given, not chosen")
    arguments = parser.parse_args()
    given = {"prior": arguments.prior, "embedding_scale": arguments.embedding_scale}
    given = {name: value for name, value in given.items() if value is not None}
    if given:
        given["embedding_weight"] = 1.0
    headings = [
        "rows",
        "threads",
        "device",
        "fit, words",
        "fit, both",
        "ratio",
        "inside",
        "fit, vectors",
        "search, words",
        "search, both",
        "one product",
    ]
    table = []
    for n_rows in arguments.rows:
        for n_threads in arguments.threads:
            with threadpool_limits(n_threads):
                parameters = {
                    "random_state": 0,
                    "n_jobs": n_threads,
                    "device": arguments.device,
                    **given,
                }
                table.append(measure(n_rows, parameters, arguments.repeats))
    print(aligned(table, headings, headings))


def embedding(y: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return rows near a centre for each label."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(y.max() + 1, WIDTH)).astype(np.float32)
    Z = rng.normal(size=(len(y), WIDTH)).astype(np.float32)
    return Z + 0.3 * centres[y]


def measure(n_rows: int, parameters: dict[str, Any], n_repeats: int) -> list[str]:
    """Return the line of a number of rows and of threads."""
    X, y = short_texts(n_rows)
    Z = embedding(y)
    n_threads = parameters["n_jobs"]
    few = np.arange(400)
    for rows in (X[few], Rows(X, Z)[few]):
        HDSL(**parameters).fit(rows, y[few])  # compiles
    words, _ = fit_times(parameters, X, y, n_repeats)
    both, model = fit_times(parameters, Rows(X, Z), y, n_repeats)
    vectors, _ = fit_times(parameters, Z, y, n_repeats)
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
        parameters["device"],
        str(words),
        str(both),
        f"{both.wall / words.wall:.2f} ({both.cpu / words.cpu:.2f})",
        f"{model.embedding_scale_:g}",
        str(vectors),
        f"{of_words:.2f} s",
        f"{of_both:.2f} s",
        f"{of_product:.2f} s",
    ]


class Times(NamedTuple):
    """Seconds of the wall and of all processors."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:.2f} s ({self.cpu:.2f})"


def fit_times(
    parameters: dict[str, Any], X: Any, y: np.ndarray, n_repeats: int
) -> tuple[Times, HDSL]:
    """Return the least times of a fit, and the model."""
    times = []
    for _ in range(n_repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        model = HDSL(**parameters).fit(X, y)
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return Times(*np.min(times, axis=0).tolist()), model


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
