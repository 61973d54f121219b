"""The command line: parse, call, print. ``hdsl --help`` lists the commands."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import joblib
import numpy as np
import scipy.sparse as sp
import typer

from . import _memory, _validation

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def main() -> None:
    """Learn a similarity for sparse, very high-dimensional data."""


@app.command()
def info(
    data: Annotated[
        Path | None, typer.Argument(help="A sparse matrix saved by scipy.sparse.save_npz.")
    ] = None,
    triplets: Annotated[
        Path | None, typer.Option(help="Triplets saved by numpy.save, shape (n_triplets, 3).")
    ] = None,
    per_row: Annotated[int, typer.Option(help="Triplets a row to plan for, without a file.")] = 15,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print versions, the machine, and what a fit of a data set would take in memory.

    Example: hdsl info X.npz --triplets T.npy
    """
    free = _memory.available()
    facts: dict[str, object] = {
        "hdsl": version("hdsl"),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn", "numba")},
        "cores": joblib.cpu_count(),
        "free memory": _memory.format_bytes(free) if free is not None else "unknown",
    }
    if data is not None:
        X = _read_matrix(data)
        judged = _read_triplets(triplets, X.shape[0], per_row)
        need = _memory.estimate(X, judged)
        facts |= {
            "rows": X.shape[0],
            "features": X.shape[1],
            "values": X.nnz,
            "triplets": len(judged),
            "a fit takes": str(need),
            "fits": free is None or need.total <= free,
        }
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        typer.echo(f"{name:<{width}}  {value}")


def _read_matrix(path: Path) -> sp.csr_array:
    try:
        return _validation.canonical(sp.load_npz(path))
    except FileNotFoundError:
        raise _bad(f"{path}: no such file.") from None
    except Exception as error:
        raise _bad(
            f"{path}: not a sparse matrix saved by scipy.sparse.save_npz ({error})."
        ) from None


def _read_triplets(path: Path | None, n_rows: int, per_row: int) -> np.ndarray:
    if path is None:  # a stand-in: each row against its neighbours in the file
        anchor = np.repeat(np.arange(n_rows), per_row)
        shift = np.tile(np.arange(per_row), n_rows)
        return np.column_stack(
            [anchor, (anchor + 1 + shift // 5) % n_rows, (anchor + 4 + shift % 5) % n_rows]
        )
    try:
        return _validation.check_triplets(np.load(path, allow_pickle=False), n_rows)
    except FileNotFoundError:
        raise _bad(f"{path}: no such file.") from None
    except (ValueError, OSError) as error:
        raise _bad(f"{path}: {error}") from None


def _bad(message: str) -> typer.Exit:
    """Say in one line what is wrong with the user's input, and end with code 2."""
    typer.echo(f"hdsl: {message}", err=True)
    return typer.Exit(2)
