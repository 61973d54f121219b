"""``hdsl fit``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import memory
from .options import (
    Id,
    Json,
    LabelColumn,
    Labels,
    MatlabNames,
    Quadruplets,
    TextColumn,
    Triplets,
    ZeroBased,
    app,
    option,
)
from .shell import INTERRUPTED, one_line, say, show, show_json, show_measured, show_table

if TYPE_CHECKING:
    from .learn import Outcome

#: What to do where a fit needs too much memory.
MORE_MEMORY = (
    "learn from fewer triplets (--n-targets, --n-impostors)",
    "set --batch-size (no products are stored then)",
    "pass --memory-limit none to go on anyway",
)

WORDS, LEARNING, SPLIT = "Words", "Learning", "Rows held out"


@app.command()
def fit(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="Texts: .csv, .tsv, .jsonl or .parquet, with --text. Rows: .npz, .mtx, .mat, "
            ".data (NIPS 2003), or svmlight under any other name.",
        ),
    ],
    output: Annotated[Path, option("Model file.", "-o", "--output")] = Path("model.hdsl"),
    no_documents: Annotated[
        bool,
        option(
            "Leave texts, labels and rows out of the model file; it cannot be searched then.",
            "--no-documents",
        ),
    ] = False,
    checkpoint: Annotated[
        Path | None,
        option(
            "File to save the run to on the way: after a crash the same command continues from it. "
            "It is deleted when the model is written."
        ),
    ] = None,
    seed: Annotated[int, option("Random seed.")] = 0,
    device: Annotated[
        str, option("Where the solver runs: cpu, cuda, or cuda:1 and so on for another GPU.")
    ] = "cpu",
    jobs: Annotated[int | None, option("Threads; -1 is all cores.")] = None,
    memory_limit: Annotated[
        str,
        option("Most GiB for the fit; auto is the free memory, none is no limit."),
    ] = "auto",
    as_json: Json = False,
    text: TextColumn = None,
    label: LabelColumn = None,
    labels: Labels = None,
    triplets: Triplets = None,
    quadruplets: Quadruplets = None,
    ids: Id = None,
    zero_based: ZeroBased = False,
    matlab_names: MatlabNames = "fea,gnd",
    tokens: Annotated[
        str,
        option("words, or identifiers: camelCase and snake_case are two words each.", panel=WORDS),
    ] = "words",
    ngrams: Annotated[int, option("2 adds pairs of consecutive words.", panel=WORDS)] = 1,
    min_df: Annotated[
        float,
        option("Fewest documents with a word; below 1, a share of them.", panel=WORDS),
    ] = 2,
    max_df: Annotated[
        float,
        option("Most documents with a word; up to 1, a share of them.", panel=WORDS),
    ] = 1.0,
    stop_words: Annotated[
        str, option("Words to leave out: english or none.", panel=WORDS)
    ] = "english",
    scale: Annotated[str, option("Size of the learned part, or auto.", panel=LEARNING)] = "auto",
    prior: Annotated[
        str, option("Weight of the plain dot product, or auto.", panel=LEARNING)
    ] = "auto",
    regions: Annotated[
        int,
        option(
            "Regions, found by k-means, that each learn a part of their own; 0 is none. There are "
            "--max-iter iterations then.",
            panel=LEARNING,
        ),
    ] = 0,
    objective: Annotated[
        str,
        option(
            "triplets of rows, or classification: each row against the means of the labels.",
            panel=LEARNING,
        ),
    ] = "triplets",
    no_class_scores: Annotated[
        bool,
        option(
            "Learn from labels by the rows alone, without the scores that a linear classifier "
            "gives each label.",
            "--no-class-scores",
            panel=LEARNING,
        ),
    ] = False,
    max_iter: Annotated[int, option("Most iterations; each adds a pair.", panel=LEARNING)] = 1000,
    n_targets: Annotated[
        int, option("Nearest rows of the same label, per row.", panel=LEARNING)
    ] = 10,
    n_impostors: Annotated[
        int, option("Nearest rows of other labels, per row.", panel=LEARNING)
    ] = 10,
    mine_every: Annotated[
        int | None,
        option("Iterations after which they are searched again, as learned.", panel=LEARNING),
    ] = None,
    mining: Annotated[str, option("neighbors, or random rows.", panel=LEARNING)] = "neighbors",
    loss: Annotated[
        str,
        option("smoothed_hinge, squared_hinge, logistic or exponential.", panel=LEARNING),
    ] = "smoothed_hinge",
    oracle: Annotated[
        str,
        option(
            "How the next pair is found: ascent, heuristic (the paper's) or exact.", panel=LEARNING
        ),
    ] = "ascent",
    step: Annotated[
        str, option("away (the paper's), forward, pairwise or blended.", panel=LEARNING)
    ] = "away",
    tol: Annotated[float, option("Stop at this duality gap.", panel=LEARNING)] = 1e-3,
    batch_size: Annotated[
        int | None, option("Triplets per iteration; default: all.", panel=LEARNING)
    ] = None,
    test: Annotated[float, option("Share of the rows to measure the error on.", panel=SPLIT)] = 0.2,
    validation: Annotated[
        float,
        option(
            "Share of the rows that chooses the number of iterations, and is learned from "
            "afterwards. 0: --max-iter iterations.",
            panel=SPLIT,
        ),
    ] = 0.2,
    patience: Annotated[
        int, option("Iterations without a better score before the choice ends.", panel=SPLIT)
    ] = 300,
) -> None:
    """Learn a similarity, measure it on rows held out, save it.

    Rows are split in three parts: the first is learned from; the second chooses the number of
    iterations and is then learned from too; the third only measures the error. Ctrl-C ends the fit
    and saves the model so far.

    **Examples**

      hdsl fit reviews.csv --text body --label topic -o model.hdsl

      hdsl fit X.npz --labels y.npy --max-iter 3000

      hdsl fit X.svm --prior 0 --scale 1000

      hdsl fit X.npz --triplets judgements.csv

      hdsl fit X.npz --quadruplets pairs.npy

      hdsl fit X.npz --labels y.npy --max-iter 20000 --checkpoint run.ckpt

      hdsl fit reviews.csv --text body --label topic --regions 4
    """
    from ..estimators import HDSL
    from ..estimators.saving import save
    from ..text import Collection, make_vectorizer
    from . import inputs
    from .learn import checkpoint_of_choice, learn

    inputs.check_model_output(output)
    checkpoints = [path for path in (checkpoint, checkpoint_of_choice(checkpoint)) if path]
    if any(path.resolve() == output.resolve() for path in checkpoints):
        raise ValueError(f"{output} is both the model and the checkpoint: name two files.")
    shared: dict[str, Any] = {
        "scale": _number(scale, "--scale"), "prior": _number(prior, "--prior"), "loss": loss,
        "oracle": oracle, "step": step, "mining": mining, "n_targets": n_targets,
        "n_impostors": n_impostors, "max_iter": max_iter, "tol": tol, "random_state": seed,
        "n_jobs": jobs,
        "memory_limit": None if memory_limit == "none" else _number(memory_limit, "--memory-limit"),
    }  # fmt: skip
    given = {"--quadruplets": quadruplets, "--batch-size": batch_size, "--mine-every": mine_every,
             "--checkpoint": checkpoint,
             "--objective": None if objective == "triplets" else objective,
             "--device": None if device == "cpu" else device}  # fmt: skip
    own: dict[str, Any] = {
        "objective": objective,
        "batch_size": batch_size,
        "mine_every": mine_every,
        "n_iter_no_change": patience,
        "device": device,
    }
    model = _local_model(regions, shared, given) if regions else HDSL(**own, **shared)
    vectorizer = None
    if inputs.is_table(data):
        vectorizer = make_vectorizer(
            tokens, ngrams=ngrams, stop_words=stop_words,
            min_df=_count_or_share(min_df), max_df=_count_or_share(max_df, share=1.0),
        )  # fmt: skip
    source = inputs.Source(
        text, label, labels, triplets, quadruplets, ids, zero_based, matlab_names
    )
    try:
        outcome = learn(
            inputs.read_data(data, source), model, vectorizer=vectorizer,
            class_scores=not no_class_scores, test=test, validation=validation, seed=seed,
            quiet=as_json, checkpoint=checkpoint,
        )  # fmt: skip
    except memory.NotEnoughMemory as error:
        raise MemoryError(error.message("--memory-limit", MORE_MEMORY)) from None
    collection = outcome.collection
    if no_documents:
        collection = Collection(vectorizer=vectorizer, columns=collection.columns)
    save(outcome.learned.to_save(), output, collection.to_extra())
    is_interrupted = model.status_ == "interrupted"
    if not is_interrupted:
        for file in outcome.checkpoints:
            file.remove()
    if as_json:
        pairs = {"strongest pairs": outcome.strongest_pairs(), "model": str(output)}
        show_json(outcome.facts() | pairs)
    else:
        show_outcome(outcome)
        size = memory.format_bytes(output.stat().st_size)
        show("", f"{output}: {size}{'' if no_documents else ', with the documents'}.")
        if not no_documents:
            query = "--row 0" if vectorizer is None else '"some words"'
            show(f"Next: hdsl search {output} {query}, or hdsl report {output}")
    if is_interrupted:
        if sys.stdout is not None:
            sys.stdout.flush()
        say(f"interrupted after {model.n_iter_} iterations: the model so far is in {output}.")
        if any(path.exists() for path in checkpoints):
            say("the same command continues from the checkpoint.")
        raise typer.Exit(INTERRUPTED)


def _local_model(regions: int, shared: dict[str, Any], given: dict[str, Any]) -> Any:
    """Return the model with regions; raise ValueError for an option that it does not have."""
    from ..estimators import LocalHDSL

    others = [name for name, value in given.items() if value is not None]
    if others:
        raise ValueError(f"--regions does not go with {others[0]}: leave one of them out.")
    return LocalHDSL(regions, **shared)


def _number(text: str, name: str) -> float | str:
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise ValueError(f"{name} must be a number or auto. Got {text!r}.") from None


def _count_or_share(number: float, share: float = 0.0) -> float | int:
    """Return 2.0 as a count of documents, and 0.5 or `share` as a share of them."""
    if number < 0 or (number > 1 and number != int(number)):
        raise ValueError(
            "--min-df and --max-df must be whole numbers of documents, or shares up to 1. Got "
            f"{number:g}."
        )
    return int(number) if number >= 1 and number != share else number


def _of_regions(facts: dict[str, Any]) -> str:
    """Return what the regions learned, if there are any."""
    if "regions" not in facts:
        return ""
    return f" and {facts['pairs of regions']} of {facts['regions']} regions"


def show_outcome(outcome: Outcome, *, n_pairs: int = 10) -> None:
    """Print the data, the model, its errors and its strongest pairs."""
    facts, model = outcome.facts(), outcome.model
    kind = "rows" if outcome.collection.texts is None else "documents"
    by = f"{facts['labels']} labels" if outcome.by == "labels" else "judgements"
    scores = f" and {facts['class scores']} class scores" if facts["class scores"] else ""
    show(
        f"{facts['rows']:,} {kind} with {by}, {facts['features']:,} features{scores}; "
        f"{facts['rows held out']:,} held out.",
        f"{facts['pairs']} pairs{_of_regions(facts)} from {facts['triplets']:,} triplets in "
        f"{facts['iterations']} iterations{' (chosen)' if outcome.is_chosen else ''}, "
        f"{outcome.seconds:.1f} s; scale {model.scale_:.4g}, prior {model.prior_:.4g}.",
    )
    if outcome.measured:
        of = f"{outcome.measured.n:,} {kind if outcome.by == 'labels' else 'judgements'}"
        show("")
        show_measured(f"{outcome.measured.measure}, {of} held out", outcome.measured)
    show("", f"Strongest pairs: + raises, - lowers the similarity of two {kind}")
    heads = [("  pair", "effect", "weight", f"{kind} with each")]
    rows = [
        (
            f"  {one_line(p['name'], 60)}",
            f"{p['effect']:+.2g}",
            f"{p['weight']:+.3g}",
            f"{p['n_rows_i']:,}, {p['n_rows_j']:,}",
        )
        for p in outcome.strongest_pairs(n_pairs)
    ]
    show_table(heads + rows, right=(1, 2, 3))
