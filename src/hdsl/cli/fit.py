"""``hdsl fit``: learn a similarity, measure it, and save it."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import fit_options, shared_options
from .errors import INTERRUPTED
from .messages import announce, say
from .options import add_command
from .output import show, show_json

if TYPE_CHECKING:
    from ..text import Collection
    from .data import Data
    from .outcome import Outcome

#: What to do where a fit needs too much memory.
MORE_MEMORY = (
    "learn from fewer triplets (--n-targets, --n-impostors)",
    "set --batch-size",
    "pass --memory-limit none to go on anyway",
)


def add(commands: Any) -> None:
    """Add the command to the parser."""
    fit_options.add_options(add_command(commands, fit))


def fit(arguments: Namespace) -> int | None:
    """Learn a similarity, measure it on rows held out, save it.

    Ctrl-C ends the fit and saves the model so far.

    For example:

      hdsl fit reviews.csv --text body --label topic

      hdsl fit X.npz --labels y.npy -o model.hdsl

      hdsl fit reviews.csv --text body --label topic --encoder minilm/

      hdsl fit products.csv --text title --id sku --clicks clicks.csv

      hdsl fit articles.csv --text body --id id --judgements qrels.csv --queries queries.csv

      hdsl fit X.svm --step away --prior 0 --scale 1000 --max-iter 3000

      hdsl fit X.npz --labels y.npy --checkpoint run.ckpt

      hdsl fit reviews.csv --text body --label topic --forbid pairs.csv
    """
    from . import inputs

    fit_options.check_options(arguments)
    _check_files(arguments.output, arguments.checkpoint)
    parameters = fit_options.hdsl_parameters(arguments)
    edits = {
        name: inputs.read_pairs(vars(arguments)[name])
        for name in ("forbid", "force")
        if vars(arguments)[name] is not None
    }
    announce(f"reading {arguments.data}", quiet=shared_options.is_quiet(arguments))
    data = inputs.read_data(arguments.data, **vars(arguments))
    outcome = _learn(data, parameters, edits, arguments)
    _save(outcome, arguments)
    _show(outcome, arguments)
    if not outcome.is_interrupted:
        return None
    _show_interruption(outcome, arguments)
    return INTERRUPTED


def _check_files(output: Path, checkpoint: Path | None) -> None:
    """Raise ValueError unless the model and the checkpoint can be written, and are two files."""
    from . import files, models

    models.check_model_output(output)
    if checkpoint is None:
        return
    if checkpoint.resolve() == output.resolve():
        raise ValueError(
            f"{output} is both the model and the checkpoint: name two files."
        )
    if not checkpoint.exists():
        files.check_output(checkpoint, "the checkpoint")


def _learn(
    data: Data,
    parameters: dict[str, Any],
    edits: dict[str, list[str]],
    arguments: Namespace,
) -> Outcome:
    """Learn from the data, and measure on rows held out."""
    from . import learn

    learn.check_labels(data)
    words = None
    if data.texts is not None:
        words = fit_options.words_of(arguments)
    from .. import memory
    from ..hdsl import HDSL
    from ..settings import nested_parameters

    try:
        return learn.learn(
            data,
            HDSL(**nested_parameters(**parameters)),
            words=words,
            weights=arguments.weights,
            tfidf=arguments.tfidf,
            class_scores=not arguments.no_class_scores,
            encoder=arguments.encoder,
            test=arguments.test,
            seed=arguments.seed,
            quiet=shared_options.is_quiet(arguments),
            checkpoint=arguments.checkpoint,
            memory_limit=fit_options.memory_limit(arguments.memory_limit),
            **edits,
        )
    except memory.NotEnoughMemory as error:
        raise MemoryError(error.message("--memory-limit", MORE_MEMORY)) from None


def _save(outcome: Outcome, arguments: Namespace) -> None:
    """Write the model file, and delete the checkpoint of a run that is done."""
    from ..saving import save

    collection = outcome.collection
    if arguments.no_documents:
        collection = _without_documents(collection)
    save(collection, arguments.output)
    checkpoint = vars(outcome.model).pop("checkpoint_file_", None)
    if checkpoint is not None:  # an interrupted run keeps its file
        checkpoint.remove()


def _without_documents(collection: Collection) -> Collection:
    """Return the model with only what it needs to read other documents."""
    from ..text import Collection, Documents

    documents = collection.documents
    rest = Documents(
        idf=documents.idf,
        feature_names=documents.feature_names,
        facts=documents.facts,
    )
    return Collection(
        collection.model, collection.words, rest, encoder=collection.encoder
    )


# --- what is shown --------------------------------------------------------------------


def _show(outcome: Outcome, arguments: Namespace) -> None:
    """Print the outcome, and what to do with the model file."""
    from .outcome import show_outcome

    words = outcome.collection.words
    if arguments.as_json:
        facts = outcome.facts()
        facts["strongest pairs"] = outcome.strongest_pairs()
        facts["model"] = str(arguments.output)
        if words is not None:
            facts["texts read as"] = words.reading
        show_json(facts)
        return
    show_outcome(outcome)
    if words is not None:
        show("", f"Texts are read as {words.reading}. --tokens names another way.")
    if arguments.no_documents:
        show("", f"{_file_size(arguments.output)}.")
    else:
        show("", f"{_file_size(arguments.output)}, with the documents.")
        _show_next_commands(outcome, arguments.output)


def _file_size(path: Path) -> str:
    from ..memory import format_bytes

    return f"{path}: {format_bytes(path.stat().st_size)}"


def _show_next_commands(outcome: Outcome, output: Path) -> None:
    """Print what to do with the model file."""
    query = "--row 0" if outcome.collection.words is None else '"some words"'
    show(f"Next: hdsl search {output} {query}, or hdsl report {output}")


def _show_interruption(outcome: Outcome, arguments: Namespace) -> None:
    """Say on stderr, after what is on stdout, what an interrupted fit left."""
    if sys.stdout is not None:
        sys.stdout.flush()
    say(
        f"interrupted after {outcome.model.n_iter_} iterations: the model so far is in "
        f"{arguments.output}."
    )
    checkpoint = arguments.checkpoint
    if checkpoint is not None and checkpoint.exists():
        say("the same command continues from the checkpoint.")
