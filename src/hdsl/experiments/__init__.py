"""The paper's experiments and some beyond it, one module each.

``python -m hdsl.experiments NAME …`` (or ``hdsl reproduce``) runs them; see `runner` for what a
module offers.
"""

from __future__ import annotations

import argparse
import importlib
import sys
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
    "defaults",
    "cisi",
    "phase",
    "local",
    "classification",
)


def load(name: str) -> Experiment:
    """Return the module of an experiment."""
    return cast(Experiment, importlib.import_module(f"{__name__}.{name}"))


def reproduce(name: str, settings: Settings) -> Path:
    """Run an experiment and return the path of its page; finished cells are not computed again."""
    experiment = load(name)
    lines = runner.run(name, experiment, settings)
    return results.write(name, experiment.TITLE, experiment.publish(settings, lines), settings)


def main(arguments: list[str] | None = None) -> int:
    """Run experiments by name; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m hdsl.experiments",
        description="Run the paper's experiments; finished cells are not computed again.",
    )
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help=f"all, or one of {', '.join(NAMES)}"
    )
    parser.add_argument("--data", type=Path, help="folder of the real data sets")
    parser.add_argument("--out", type=Path, help="folder of the results (results, results/quick)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--quick", action="store_true", help="a smaller version, under a minute")
    options = parser.parse_args(arguments)
    names = NAMES if "all" in options.names else tuple(options.names)
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        parser.error(f"no experiment {unknown[0]!r}: choose from all, {', '.join(NAMES)}")
    if options.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {options.jobs}")
    out = options.out or Path("results/quick" if options.quick else "results")
    settings = Settings(out, options.data, options.jobs, options.quick)
    left_out = 0
    for name in names:
        try:
            page = reproduce(name, settings)
        except MissingDataError as error:
            print(f"{name} left out: {error}", file=sys.stderr)
            left_out += 1
        except runner.OtherSizeError as error:
            print(f"{name} not run: {error}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print(
                f"\n{name} interrupted: finished cells are in {out / name}.jsonl, and the same "
                "command continues from there.",
                file=sys.stderr,
            )
            return 130
        else:
            print(page.read_text(encoding="utf-8"), flush=True)
            print(f"written to {page}\n", file=sys.stderr)
    return 2 if left_out == len(names) else 0
