"""``hdsl fit``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import memory
from .options import (
    INPUT,
    LEARNING,
    Encoding,
    Id,
    Json,
    LabelColumn,
    Labels,
    MatlabNames,
    NoClassScores,
    Quadruplets,
    Sep,
    SkipMissing,
    TextColumn,
    Triplets,
    ZeroBased,
    command,
    option,
)
from .shell import INTERRUPTED, counted, one_line, say, show, show_json, show_measured, show_table

if TYPE_CHECKING:
    from .learn import Outcome

#: What to do where a fit needs too much memory.
MORE_MEMORY = (
    "learn from fewer triplets (--n-targets, --n-impostors)",
    "set --batch-size (no products are stored then)",
    "pass --memory-limit none to go on anyway",
)

WORDS, SPLIT = "Words", "Rows held out"


@command()
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
    storage: Annotated[
        str, option("Values of X in the solver: float64, or float32 to save memory on a GPU.")
    ] = "float64",
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
    sep: Sep = None,
    encoding: Encoding = "utf-8",
    skip_missing: SkipMissing = False,
    zero_based: ZeroBased = False,
    matlab_names: MatlabNames = "fea,gnd",
    tfidf: Annotated[
        bool | None,
        typer.Option(
            "--tfidf/--no-tfidf",
            help="Weigh the counts of a matrix by TF-IDF. Default: if all values are whole "
            "numbers, and not only 0 and 1. Texts always are.",
            show_default=False,
            rich_help_panel=INPUT,
        ),
    ] = None,
    norm: Annotated[
        str, option("l2: compare rows at unit length; none: as they are.", panel=INPUT)
    ] = "l2",
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
            "Regions, found by k-means, that each learn a part of their own; 0 is none.",
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
    no_class_scores: NoClassScores = False,
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

    For example:

      hdsl fit reviews.csv --text body --label topic -o model.hdsl

      hdsl fit X.npz --labels y.npy --max-iter 3000

      hdsl fit X.svm --prior 0 --scale 1000

      hdsl fit X.npz --triplets judgements.csv

      hdsl fit X.npz --quadruplets pairs.npy

      hdsl fit X.npz --labels y.npy --max-iter 20000 --checkpoint run.ckpt

      hdsl fit reviews.csv --text body --label topic --regions 4
    """
    from ..hdsl import HDSL
    from ..saving import save
    from ..text import Collection, make_vectorizer
    from . import inputs
    from .learn import learn

    inputs.check_model_output(output)
    _check_options(data, jobs, norm, tfidf, no_class_scores or bool(triplets or quadruplets))
    checkpoints = _check_checkpoints(checkpoint, output)
    shared: dict[str, Any] = {
        "scale": _number(scale, "--scale"), "prior": _number(prior, "--prior"), "loss": loss,
        "oracle": oracle, "step": step, "mining": mining, "n_targets": n_targets,
        "n_impostors": n_impostors, "max_iter": max_iter, "tol": tol, "random_state": seed,
        "n_iter_no_change": patience, "n_jobs": jobs,
        "norm": None if norm == "none" else norm,
        "memory_limit": None if memory_limit == "none" else _number(memory_limit, "--memory-limit"),
    }  # fmt: skip
    given = {"--quadruplets": quadruplets, "--batch-size": batch_size, "--mine-every": mine_every,
             "--objective": None if objective == "triplets" else objective,
             "--device": None if device == "cpu" else device,
             "--storage": None if storage == "float64" else storage}  # fmt: skip
    own: dict[str, Any] = {
        "objective": objective,
        "batch_size": batch_size,
        "mine_every": mine_every,
        "device": device,
        "storage": storage,
    }
    model = _local_model(regions, shared, given) if regions else HDSL(**own, **shared)
    vectorizer = None
    if inputs.is_table(data):
        vectorizer = make_vectorizer(
            tokens, ngrams=ngrams, stop_words=stop_words,
            min_df=_count_or_share(min_df), max_df=_count_or_share(max_df, share=1.0),
        )  # fmt: skip
    source = inputs.Source(
        text, label, labels, triplets, quadruplets, ids, sep, encoding, skip_missing,
        zero_based, matlab_names,
    )  # fmt: skip
    try:
        outcome = learn(
            inputs.read_data(data, source), model, vectorizer=vectorizer, tfidf=tfidf,
            class_scores=not no_class_scores, test=test, validation=validation, seed=seed,
            quiet=as_json, checkpoint=checkpoint,
        )  # fmt: skip
    except memory.NotEnoughMemory as error:
        raise MemoryError(error.message("--memory-limit", MORE_MEMORY)) from None
    collection = outcome.collection
    if no_documents:
        kept = ("vectorizer", "columns", "idf", "verdict", "choice")
        collection = Collection(**{name: getattr(collection, name) for name in kept})
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
        _show_file(output, outcome, no_documents)
    if is_interrupted:
        if sys.stdout is not None:
            sys.stdout.flush()
        say(f"interrupted after {model.n_iter_} iterations: the model so far is in {output}.")
        if any(path.exists() for path in checkpoints):
            say("the same command continues from the checkpoint.")
        raise typer.Exit(INTERRUPTED)


def _check_checkpoints(checkpoint: Path | None, output: Path) -> list[Path]:
    """Return the files of checkpoints; raise unless they can be written."""
    from ..files.atomic import check_can_write
    from .learn import checkpoint_of_choice

    checkpoints = [path for path in (checkpoint, checkpoint_of_choice(checkpoint)) if path]
    if any(path.resolve() == output.resolve() for path in checkpoints):
        raise ValueError(f"{output} is both the model and the checkpoint: name two files.")
    for path in checkpoints:
        if not os.path.lexists(path):
            check_can_write(path, "the checkpoint")
    return checkpoints


def _show_file(output: Path, outcome: Outcome, no_documents: bool) -> None:
    """Print what the model file holds, and what to do with it."""
    size = memory.format_bytes(output.stat().st_size)
    show("", f"{output}: {size}{'' if no_documents else ', with the documents'}.")
    if no_documents:
        return
    query = "--row 0" if outcome.collection.vectorizer is None else '"some words"'
    show(f"Next: hdsl search {output} {query}, or hdsl report {output}")
    if outcome.collection.verdict != "better":
        show("Search shows the rank by cosine beside each hit: compare the two.")


def _check_options(
    data: Path, jobs: int | None, norm: str, tfidf: bool | None, is_unscored: bool
) -> None:
    """Raise ValueError for options that no fit takes together."""
    from . import inputs

    if jobs == 0:
        raise ValueError("--jobs must be 1 or more, or -1 for all cores. Got 0.")
    if norm not in ("l2", "none"):
        raise ValueError(f"--norm must be l2 or none. Got {norm!r}.")
    if norm == "none" and not is_unscored:
        raise ValueError(
            "--norm none leaves rows as they are, but class scores stand beside rows at unit "
            "length: add --no-class-scores."
        )
    if tfidf is not None and inputs.is_table(data):
        raise ValueError(
            "--tfidf and --no-tfidf are for a matrix of counts: the texts of a table are always "
            "weighted. Leave it out."
        )


def _local_model(regions: int, shared: dict[str, Any], given: dict[str, Any]) -> Any:
    """Return the model with regions; raise ValueError for an option that it does not have."""
    from ..local import LocalHDSL

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
    return f" and {facts['pairs of regions']} more in {facts['regions']} regions"


def show_outcome(outcome: Outcome, *, n_pairs: int = 10) -> None:
    """Print the data, the model, its errors, what to do without a gain, and its strongest pairs."""
    facts, model = outcome.facts(), outcome.model
    kind = outcome.collection.row_name
    by = counted(facts["labels"], "label") if outcome.by == "labels" else "judgements"
    scores = f" and {facts['class scores']} class scores" if facts["class scores"] else ""
    show(
        f"{counted(facts['rows'], kind)} with {by}, {counted(facts['features'], 'feature')}"
        f"{scores}; {facts['rows held out']:,} held out.",
        *_left_out(facts, kind),
        f"{counted(facts['pairs'], 'pair')}{_of_regions(facts)} from "
        f"{counted(facts['triplets'], 'triplet')} in {counted(facts['iterations'], 'iteration')}"
        f"{' (chosen on validation rows)' if outcome.is_chosen else ''}, {outcome.seconds:.1f} s; "
        f"scale {model.scale_:.4g}, prior {model.prior_:.4g}.",
    )
    show("")
    if outcome.measured:
        of = counted(outcome.measured.n, kind if outcome.by == "labels" else "judgement")
        show_measured(f"{outcome.measured.measure}, {of} held out", outcome.measured)
    else:
        show("No rows are held out, so nothing shows that this model is better than the cosine.")
    show(*_advice(outcome))
    show("", f"Strongest pairs: + raises, - lowers the similarity of two {kind}s")
    heads = [("  pair", "effect", "weight", f"{kind}s with each")]
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


def _left_out(facts: dict[str, Any], kind: str) -> list[str]:
    """Return what was skipped, and the documents that nothing is known of."""
    said = []
    if facts["rows skipped"]:
        said.append(f"{counted(facts['rows skipped'], 'row')} without a value skipped.")
    if facts["empty rows"]:
        n, what = facts["empty rows"], "known word" if kind == "document" else "value"
        verb, they = ("has", "it matches") if n == 1 else ("have", "they match")
        said.append(f"{counted(n, kind)} {verb} no {what}: {they} nothing.")
    return said


def _advice(outcome: Outcome) -> list[str]:
    """Return what to try where a gain over the cosine is not shown."""
    if outcome.measured is None or outcome.measured.errors.verdict == "better":
        return []
    said = ["", "This model is not shown to be better than the cosine. To try:"]
    collection = outcome.collection
    if outcome.by == "labels":
        said.append("  more labelled rows: the more per label, the more there is to learn")
    else:
        said.append("  more judgements, about more rows")
    if outcome.measured.errors.verdict == "no difference":
        said.append("  --test 0.4: measured on more rows, a small gain may show")
    if collection.vectorizer is not None:
        said.append(
            "  other words: --ngrams 2, --stop-words none, --min-df 1, --tokens identifiers"
        )
    elif collection.idf is None:
        said.append("  --tfidf if the values are counts, or weigh them before")
    return said
