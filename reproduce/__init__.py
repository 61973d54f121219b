"""The paper's experiments and some beyond it, one module each.

``python -m reproduce NAME …`` runs them; see `runner` for what a module offers.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from . import results, runner
from .runner import Experiment, Settings
from .sets import MissingDataError

#: In the order of the paper; those from "judgements" on go beyond it.
NAMES = (
    "recovery",
    "links",
    "knn",
    "svm",
    "features",
    "sparsity",
    "dimension",
    "complexity",
    "judgements",
    "quality",
    "rivals",
    "published",
    "defaults",
    "cisi",
    "linking",
    "topics",
    "phase",
    "local",
    "classification",
)

LISTED = ", ".join(NAMES)


def load(name: str) -> Experiment:
    """Return the module of an experiment."""
    return cast(Experiment, importlib.import_module(f"{__name__}.{name}"))


def reproduce(name: str, settings: Settings) -> Path:
    """Run an experiment and return the path of its page; finished cells are not computed again."""
    experiment = load(name)
    lines = runner.run(name, experiment, settings)
    return results.write(
        name, experiment.TITLE, experiment.publish(settings, lines), settings
    )


def reproduce_all(
    names: Sequence[str], settings: Settings, say: Callable[[str], None]
) -> int:
    """Run experiments by name and print their pages; return the exit code.

    Parameters
    ----------
    names : sequence of str
        "all" is all of them.
    settings : Settings
    say : callable
        Takes a message for the user.
    """
    wanted = NAMES if "all" in names else tuple(names)
    n_left_out = 0
    for name in wanted:
        try:
            page = reproduce(name, settings)
        except MissingDataError as error:
            say(f"{name} is left out: {error}")
            n_left_out += 1
        except runner.OtherSizeError as error:
            say(f"{name} is not run: {error}")
            return 2
        except KeyboardInterrupt:
            say(
                f"{name} was interrupted: finished cells are in "
                f"{settings.out / name}.jsonl, and the same command continues from "
                "there."
            )
            return 130
        else:
            print(page.read_text(encoding="utf-8"), flush=True)
            say(f"written to {page}")
    return 2 if n_left_out == len(wanted) else 0


def main(arguments: list[str] | None = None) -> int:
    """Run experiments by name; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m reproduce",
        description="Run the paper's experiments and some beyond it. Each writes a page with its "
        "tables (also as CSV) and figures; finished cells are stored and not "
        "computed again.",
    )
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help=f"all, or any of {LISTED}"
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="folder of the real data sets; experiments that lack theirs are left out",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="folder of the results (results, results/quick)",
    )
    parser.add_argument(
        "--jobs", type=int, default=2, metavar="N", help="processes (2)"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="few rows and few values: checks that all runs",
    )
    given = parser.parse_args(arguments)
    out = given.out or Path("results/quick" if given.quick else "results")
    unknown = [name for name in given.names if name not in (*NAMES, "all")]
    if unknown:
        parser.error(
            f"There is no experiment {unknown[0]!r}: choose from all, {LISTED}."
        )
    if given.jobs < 1:
        parser.error(f"--jobs must be 1 or more. Got {given.jobs}.")
    settings = Settings(out, given.data, given.jobs, given.quick)
    return reproduce_all(
        given.names, settings, lambda said: print(said, file=sys.stderr)
    )
