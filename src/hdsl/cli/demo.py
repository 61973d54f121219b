"""``hdsl demo``: the main job on real text that every Python has with it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.feature_extraction.text import CountVectorizer

from ..datasets import load_docstrings
from ..estimators.hdsl import HDSL
from ..evaluate import knn_error
from ..text import TEST, Collection, make_vectorizer, save
from . import inputs, shell
from .fit import pairs, show_outcome
from .learn import Outcome, learn
from .options import Json, app, option
from .shell import say, show, show_json
from .use import find, row_of, show_hits, write_report

QUERY = "wait until a connection is closed"

#: Chosen by cross-validation; the words are those by which the cosine made the fewest errors of
#: eight ways that were tried. Stop words help where texts are as short as these.
WORDS: dict[str, Any] = {"tokens": "identifiers", "stop_words": "none", "min_df": 2}
LEARNING: dict[str, Any] = {"n_targets": 10, "n_impostors": 10, "max_iter": 600}


@app.command()
def demo(
    output: Annotated[Path, option("HTML page to write.", "-o", "--output")] = Path(
        "hdsl-demo.html"
    ),
    model: Annotated[Path | None, option("Model file to write too, to go on with.")] = None,
    seed: Annotated[int, option("Of the split of the rows.")] = 0,
    as_json: Json = False,
) -> None:
    """See it work on Python's own docstrings, in under a minute.

    Learns which summaries of the standard library belong together, from the modules that they are
    of. A fifth of them is held out and measures the error. Nothing is downloaded.

    **Examples**

      hdsl demo

      hdsl demo --model demo.hdsl && hdsl search demo.hdsl "parse a date"
    """
    inputs.check_output(output, (".html", ".htm"))
    if model is not None:
        inputs.check_model_output(model)
    outcome, seconds = run(seed, quiet=as_json)
    docs = outcome.collection
    write_report(outcome.model, docs, output, "Docstrings of Python's standard library")
    if model is not None:
        save(model, outcome.model, docs)
    hits = find(outcome.model, docs, row_of(docs, QUERY, "the query"), 3, 3)
    if as_json:
        facts = {**outcome.facts(), "seconds": round(seconds, 2), "strongest pairs": pairs(outcome)}
        facts |= {"query": QUERY, "neighbours": hits, "report": str(output)}
        show_json(facts | ({} if model is None else {"model": str(model)}))
    else:
        show_outcome(outcome, n_pairs=6)
        show("", f'Most similar to "{QUERY}", and why')
        show_hits(hits)
        show("", f"{output} shows all pairs and why documents match. {seconds:.0f} s in all.")
    if outcome.model.status_ == "interrupted":
        say("interrupted: the figures are those of the model so far.")
        raise typer.Exit(shell.INTERRUPTED)


def run(seed: int, *, quiet: bool) -> tuple[Outcome, float]:
    """Learn from summaries which module they are of; return what came of it and the seconds."""
    start = time.perf_counter()
    with shell.working("reading the docstrings of Python's standard library", quiet=quiet):
        docs = load_docstrings(min_rows_per_label=80, summaries=True, vectorize=False)
    outcome = learn(
        inputs.Data(Path("docstrings"), texts=np.array(docs.texts, dtype=object), labels=docs.y),
        HDSL(random_state=seed, **LEARNING),
        vectorizer=make_vectorizer(**WORDS),
        seed=seed,
        quiet=quiet,
    )
    errors = {
        "dot product of word counts": _error_of_counts(outcome.collection),
        "cosine of TF-IDF": outcome.errors["cosine"],
        "learned": outcome.errors["learned"],
    }
    named = [f"{name}: {text}" for name, text in zip(docs.names, docs.texts, strict=True)]
    collection = replace(outcome.collection, texts=np.array(named, dtype=object))
    return replace(outcome, errors=errors, collection=collection), time.perf_counter() - start


def _error_of_counts(docs: Collection) -> float:
    known, words = docs.part != TEST, docs.vectorizer
    counts = CountVectorizer(analyzer=words.build_analyzer(), vocabulary=words.vocabulary_)
    X, y = counts.transform(docs.texts).astype(np.float64), docs.labels
    return knn_error(None, X[known], y[known], X[~known], y[~known])
