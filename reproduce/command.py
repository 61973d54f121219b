"""The command that runs experiments by name and prints their pages."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from . import experiments, results, runner
from .sets import MissingDataError
from .settings import Settings


def reproduce(name: str, settings: Settings) -> Path:
    """Run an experiment and return the path of its page.

    Finished cells are not computed again.
    """
    experiment = experiments.load(name)
    lines = runner.run(name, experiment, settings)
    published = experiment.publish(settings, lines)
    return results.write(name, experiment.TITLE, published, settings)


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
    wanted = tuple(names)
    if "all" in names:
        wanted = experiments.NAMES
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


def say_aside(message: str) -> None:
    """Print a message for the user beside the pages."""
    print(message, file=sys.stderr)


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m reproduce",
        description="Run the paper's experiments and some beyond it. Each writes a "
        "page with its tables (also as CSV) and figures; finished cells are stored and "
        "not computed again.",
    )
    parser.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        help=f"all, or any of {', '.join(experiments.NAMES)}",
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
        "--model",
        type=Path,
        metavar="FOLDER",
        help="folder of a sentence model, for adapters and embeddings",
    )
    parser.add_argument(
        "--sets",
        nargs="+",
        default=(),
        metavar="SET",
        help="sets of adapters to run (all)",
    )
    parser.add_argument(
        "--jobs", type=int, default=2, metavar="N", help="processes (2)"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="few rows and few values: checks that all runs",
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run experiments by name; return the exit code."""
    parser = command_line()
    options = parser.parse_args(arguments)
    unknown = [
        name for name in options.names if name not in (*experiments.NAMES, "all")
    ]
    if unknown:
        parser.error(
            f"There is no experiment {unknown[0]!r}: choose from all, "
            f"{', '.join(experiments.NAMES)}."
        )
    if options.jobs < 1:
        parser.error(f"--jobs must be 1 or more. Got {options.jobs}.")
    out = options.out
    if out is None:
        out = Path("results/quick") if options.quick else Path("results")
    settings = Settings(
        out,
        options.data,
        options.jobs,
        options.quick,
        model=options.model,
        sets=tuple(options.sets),
    )
    return reproduce_all(options.names, settings, say_aside)
