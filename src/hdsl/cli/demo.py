"""``hdsl demo``: learn from real text that comes with every Python."""

from __future__ import annotations

import time
from argparse import Namespace
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from . import shared_options
from .output import announce, say, show, show_json
from .report import write_report
from .run import INTERRUPTED
from .search import show_hits
from .shared_options import OptionGroup, add_command

if TYPE_CHECKING:
    from .inputs import Data
    from .learn import Outcome

#: The cosine ranks a text about XML third; a learned pair of words ranks it first.
QUERY = "parse the dom of a document"

#: Chosen by cross-validation. Of eight vocabularies, the cosine makes the fewest errors
#: with this one. Stop words help where texts are as short as these.
WORDS: dict[str, Any] = {"tokens": "identifiers", "stop_words": "none", "min_df": 2}

#: Libraries that load encoders, and a small model of each.
ENCODERS = {
    "sentence_transformers": "all-MiniLM-L6-v2",
    "model2vec": "minishlab/potion-base-8M",
}

#: A module of fewer summaries is left out.
MIN_ROWS_PER_LABEL = 80


class Summaries(NamedTuple):
    """The first lines of docstrings, by module, and the objects that they are of."""

    data: Data
    names: list[str]

    def named_texts(self) -> list[str]:
        """Return the summaries as a reader sees them."""
        pairs = zip(self.names, self.data.texts, strict=True)  # type: ignore[arg-type]
        return [f"{name}: {text}" for name, text in pairs]


def add(commands: Any) -> None:
    """Add the command to the parser."""
    options = OptionGroup(add_command(commands, demo), "demo")
    options.add_path("-o --output", "HTML page to write.", Path("hdsl-demo.html"))
    options.add_path("--model", "Model file for the other commands.")
    shared_options.add_seed(options, "Random seed of the split, 0 or more.")
    about_scores = "Learn by the rows alone, without class scores."
    options.add_flag("--no-class-scores", about_scores)
    about_encoder = (
        "Folder or name of a model of sentences: learn from its embedding beside the "
        "words. A name may be downloaded."
    )
    shared_options.add_encoder(options, about_encoder)
    shared_options.add_quiet(options)
    shared_options.add_json(options)


def demo(arguments: Namespace) -> int | None:
    """See it work on Python's own docstrings, in under a minute.

    Learns which summaries of the standard library belong to the same module. A fifth of
    them is held out to measure the error. Nothing is downloaded, but an encoder where
    --encoder names one.

    For example:

      hdsl demo

      hdsl demo --model demo.hdsl && hdsl search demo.hdsl "parse a date"
    """
    _check_files(arguments.output, arguments.model)
    start = time.perf_counter()
    outcome = _learn(arguments)
    seconds = time.perf_counter() - start
    announce("writing the page", quiet=shared_options.is_quiet(arguments))
    _write(outcome, arguments)
    hits = outcome.collection.search(QUERY, 3, why=3)
    if arguments.as_json:
        _show_json(outcome, hits, seconds, arguments)
    else:
        _show_text(outcome, hits, seconds, arguments.output)
        hint = None
        if arguments.encoder is None:
            hint = embedding_hint()
        if hint is not None:
            show(hint)
    if not outcome.is_interrupted:
        return None
    say("interrupted: the figures are those of the model so far.")
    return INTERRUPTED


def _check_files(page: Path, model: Path | None) -> None:
    """Raise ValueError unless the page and the model can be written, and are two files."""
    from . import files

    if model is None:
        files.check_output(page)
    else:
        files.check_output(page, taken=[model])
        files.check_model_output(model)


def _learn(arguments: Namespace) -> Outcome:
    """Learn the modules of summaries; the documents of the outcome have names."""
    quiet = shared_options.is_quiet(arguments)
    announce("reading the docstrings of Python's standard library", quiet=quiet)
    import numpy as np

    from ..hdsl import HDSL
    from ..text import Collection, Words
    from .learn import learn

    summaries = _read_summaries()
    outcome = learn(
        summaries.data,
        HDSL(random_state=arguments.seed),
        words=Words(**WORDS),
        class_scores=not arguments.no_class_scores,
        encoder=arguments.encoder,
        seed=arguments.seed,
        quiet=quiet,
    )
    collection = outcome.collection
    texts = np.array(summaries.named_texts(), dtype=object)
    documents = replace(collection.documents, texts=texts)
    named = Collection(
        collection.model, collection.words, documents, encoder=collection.encoder
    )
    return replace(outcome, collection=named)


def _read_summaries() -> Summaries:
    """Return the summaries of the standard library."""
    import numpy as np

    from ..datasets import load_docstrings
    from .inputs import Data

    docstrings = load_docstrings(
        min_rows_per_label=MIN_ROWS_PER_LABEL, summaries=True, vectorize=False
    )
    texts = np.array(docstrings.texts, dtype=object)
    data = Data(Path("docstrings"), texts=texts, labels=docstrings.y)
    return Summaries(data, docstrings.names)


def _write(outcome: Outcome, arguments: Namespace) -> None:
    """Write the page, and the model file where one is asked for."""
    from ..saving import save

    title = "Docstrings of Python's standard library"
    write_report(outcome.collection, arguments.output, title, outcome.measured)
    if arguments.model is not None:
        save(outcome.collection, arguments.model)


def _show_json(
    outcome: Outcome, hits: list[dict[str, Any]], seconds: float, arguments: Namespace
) -> None:
    """Print the outcome, the neighbours of the query, and the files as JSON."""
    facts = outcome.facts()
    facts["seconds"] = round(seconds, 2)
    facts["strongest pairs"] = outcome.strongest_pairs()
    facts["query"] = QUERY
    facts["neighbours"] = hits
    facts["report"] = str(arguments.output)
    if arguments.model is not None:
        facts["model"] = str(arguments.model)
    show_json(facts)


def _show_text(
    outcome: Outcome, hits: list[dict[str, Any]], seconds: float, page: Path
) -> None:
    """Print the outcome, and the neighbours of the query."""
    from .learn import show_outcome

    show_outcome(outcome, n_pairs=6)
    show("", f'Most similar to "{QUERY}", and why')
    show_hits(hits)
    show(
        "",
        f"{page} shows all pairs and why documents match. {seconds:.0f} s in all.",
    )


def embedding_hint() -> str | None:
    """Return what learns from an embedding too, if a library of encoders is installed."""
    for library, encoder in ENCODERS.items():
        if find_spec(library) is None:
            continue
        name = library.replace("_", "-")
        return (
            f"{name} is installed: `hdsl demo --encoder {encoder}` shows the effect "
            "of an embedding beside the words, and `hdsl fit FILE --text COLUMN "
            f"--label COLUMN --encoder {encoder}` learns with it from your texts."
        )
    return None
