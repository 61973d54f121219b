"""``hdsl demo``: learn from real text that comes with every Python."""

from __future__ import annotations

import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .fit import show_outcome
from .shell import (
    INTERRUPTED,
    Section,
    add_command,
    add_json,
    begin,
    say,
    seed,
    show,
    show_json,
)
from .use import show_hits, write_report

if TYPE_CHECKING:
    from .learn import Outcome

#: The cosine ranks a text about XML third; a learned pair of words ranks it first.
QUERY = "parse the dom of a document"

#: Chosen by cross-validation. Of eight vocabularies, the cosine makes the fewest errors
#: with this one. Stop words help where texts are as short as these.
WORDS: dict[str, Any] = {"tokens": "identifiers", "stop_words": "none", "min_df": 2}


def add(commands: Any) -> None:
    """Add the command to the parser."""
    options = Section(add_command(commands, demo), "demo")
    options.add("-o --output", "HTML page to write.", Path("hdsl-demo.html"))
    options.add("--model", "Model file for the other commands.", Path)
    options.add("--seed", "Random seed of the split, 0 or more.", 0, type=seed)
    options.flag("--no-class-scores", "Learn by the rows alone, without class scores.")
    add_json(options)


def demo(given: Namespace) -> int | None:
    """See it work on Python's own docstrings, in under a minute.

    Learns which summaries of the standard library belong to the same module. A fifth of
    them is held out to measure the error. Nothing is downloaded.

    For example:

      hdsl demo

      hdsl demo --model demo.hdsl && hdsl search demo.hdsl "parse a date"
    """
    from . import inputs

    output = given.output
    model = given.model
    as_json = given.as_json
    inputs.check_output(output, taken=[] if model is None else [model])
    if model is not None:
        inputs.check_model_output(model)
    outcome, seconds = run(
        given.seed, quiet=as_json, class_scores=not given.no_class_scores
    )
    found = outcome.collection
    begin("writing the page", quiet=as_json)
    write_report(
        found, output, "Docstrings of Python's standard library", outcome.measured
    )
    if model is not None:
        from ..saving import save

        save(found, model)
    hits = found.search(QUERY, 3, why=3)
    if as_json:
        facts = outcome.facts() | {"seconds": round(seconds, 2)}
        facts |= {"strongest pairs": outcome.strongest_pairs(), "query": QUERY}
        facts |= {"neighbours": hits, "report": str(output)}
        show_json(facts | ({} if model is None else {"model": str(model)}))
    else:
        show_outcome(outcome, n_pairs=6)
        show("", f'Most similar to "{QUERY}", and why')
        show_hits(hits)
        show(
            "",
            f"{output} shows all pairs and why documents match. {seconds:.0f} s in "
            "all.",
        )
    if outcome.model.status_ != "interrupted":
        return None
    say("interrupted: the figures are those of the model so far.")
    return INTERRUPTED


def run(seed: int, *, quiet: bool, class_scores: bool = True) -> tuple[Outcome, float]:
    """Learn the modules of summaries; return the outcome and the seconds."""
    start = time.perf_counter()
    begin("reading the docstrings of Python's standard library", quiet=quiet)
    from dataclasses import replace

    import numpy as np

    from ..datasets import load_docstrings
    from ..hdsl import HDSL
    from ..text import Collection, Words
    from .inputs import Data
    from .learn import learn

    docs = load_docstrings(min_rows_per_label=80, summaries=True, vectorize=False)
    outcome = learn(
        Data(
            Path("docstrings"), texts=np.array(docs.texts, dtype=object), labels=docs.y
        ),
        HDSL(random_state=seed),
        words=Words(**WORDS),
        class_scores=class_scores,
        seed=seed,
        quiet=quiet,
    )
    found = outcome.collection
    named = [
        f"{name}: {text}" for name, text in zip(docs.names, docs.texts, strict=True)
    ]
    documents = replace(found.documents, texts=np.array(named, dtype=object))
    collection = Collection(found.model, found.words, documents)
    return replace(outcome, collection=collection), time.perf_counter() - start
