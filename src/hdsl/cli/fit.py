"""``hdsl fit``."""

from __future__ import annotations

import os
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import (
    INPUT,
    LEARNING,
    Clicks,
    Encoding,
    Grades,
    Id,
    Json,
    LabelColumn,
    Labels,
    Links,
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
from .shell import (
    INTERRUPTED,
    begin,
    counted,
    one_line,
    say,
    show,
    show_json,
    show_measured,
    show_table,
)

if TYPE_CHECKING:
    from .learn import Outcome

#: What to do where a fit needs too much memory.
MORE_MEMORY = (
    "learn from fewer triplets (--n-targets, --n-impostors)",
    "set --batch-size",
    "pass --memory-limit none to go on anyway",
)

WORDS, SPLIT = "Words", "Rows held out"


def _choice(name: str, *words: str) -> Any:
    """Return a type whose values are words, so that a mistake is told before anything is loaded."""
    return Enum(name, {word: word for word in words}, type=str)


Norm = _choice("Norm", "l2", "none")
Tokens = _choice("Tokens", "words", "identifiers")
StopWords = _choice("StopWords", "english", "none")
Mining = _choice("Mining", "neighbors", "random")
Loss = _choice("Loss", "smoothed_hinge", "squared_hinge", "logistic", "exponential")
Oracle = _choice("Oracle", "ascent", "heuristic", "exact")
Step = _choice("Step", "corrective", "away", "forward", "pairwise", "blended")


@command()
def fit(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="Texts: .csv, .tsv, .jsonl or .parquet, with --text. Rows: .npz, or svmlight "
            "under any other name.",
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
        str, option("Most GiB for the fit; auto is the free memory, none is no limit.")
    ] = "auto",
    as_json: Json = False,
    text: TextColumn = None,
    label: LabelColumn = None,
    labels: Labels = None,
    ids: Id = None,
    sep: Sep = None,
    encoding: Encoding = "utf-8",
    skip_missing: SkipMissing = False,
    zero_based: ZeroBased = False,
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
        Norm, option("l2: compare rows at unit length; none: as they are.", panel=INPUT)
    ] = Norm.l2,
    triplets: Triplets = None,
    quadruplets: Quadruplets = None,
    clicks: Clicks = None,
    links: Links = None,
    grades: Grades = None,
    tokens: Annotated[
        Tokens,
        option("identifiers: camelCase and snake_case are two words each.", panel=WORDS),
    ] = Tokens.words,
    ngrams: Annotated[int, option("2 adds pairs of consecutive words.", panel=WORDS)] = 1,
    min_df: Annotated[
        float, option("Fewest documents with a word; below 1, a share of them.", panel=WORDS)
    ] = 2,
    max_df: Annotated[
        float, option("Most documents with a word; up to 1, a share of them.", panel=WORDS)
    ] = 1.0,
    stop_words: Annotated[
        StopWords, option("Words to leave out.", panel=WORDS)
    ] = StopWords.english,
    scale: Annotated[str, option("Size of the learned part, or auto.", panel=LEARNING)] = "auto",
    prior: Annotated[
        str,
        option("Weight of the plain dot product; auto is chosen on held-out rows.", panel=LEARNING),
    ] = "auto",
    no_class_scores: NoClassScores = False,
    max_iter: Annotated[
        int | None,
        option(
            "Most iterations. A corrective step adds several pairs of features and sets all "
            "weights anew; other steps add one.",
            panel=LEARNING,
        ),
    ] = None,
    n_targets: Annotated[
        int, option("Nearest rows of the same label, per row.", panel=LEARNING)
    ] = 10,
    n_impostors: Annotated[
        int, option("Nearest rows of other labels, per row.", panel=LEARNING)
    ] = 10,
    mining: Annotated[
        Mining, option("How these rows are found.", panel=LEARNING)
    ] = Mining.neighbors,
    loss: Annotated[Loss, option("Loss of a comparison.", panel=LEARNING)] = Loss.smoothed_hinge,
    oracle: Annotated[
        Oracle,
        option("How the next pair is found; heuristic is the paper's.", panel=LEARNING),
    ] = Oracle.ascent,
    step: Annotated[
        Step, option("How weights change; away is the paper's.", panel=LEARNING)
    ] = Step.corrective,
    tol: Annotated[float, option("Stop at this duality gap.", panel=LEARNING)] = 1e-3,
    batch_size: Annotated[
        int | None, option("Triplets per iteration; default: all.", panel=LEARNING)
    ] = None,
    test: Annotated[float, option("Share of the rows to measure the error on.", panel=SPLIT)] = 0.2,
) -> None:
    """Learn a similarity, measure it on rows held out, save it.

    Ctrl-C ends the fit and saves the model so far.

    For example:

      hdsl fit reviews.csv --text body --label topic

      hdsl fit X.npz --labels y.npy -o model.hdsl

      hdsl fit products.csv --text title --id sku --clicks clicks.csv

      hdsl fit X.svm --step away --prior 0 --scale 1000 --max-iter 3000

      hdsl fit X.npz --labels y.npy --checkpoint run.ckpt
    """
    from . import inputs

    inputs.check_model_output(output)
    judged = {"triplets": triplets, "quadruplets": quadruplets, "clicks": clicks, "links": links,
              "grades": grades}  # fmt: skip
    is_unscored = no_class_scores or any(judged.values())
    _check_options(jobs, norm.value, tfidf, inputs.is_table(data), is_unscored)
    _check_checkpoint(checkpoint, output)
    params: dict[str, Any] = {
        "scale": _number(scale, "--scale"), "prior": _number(prior, "--prior"),
        "loss": loss.value, "oracle": oracle.value, "step": step.value, "mining": mining.value,
        "n_targets": n_targets, "n_impostors": n_impostors, "tol": tol, "batch_size": batch_size,
        "norm": None if norm.value == "none" else norm.value, "device": device, "n_jobs": jobs,
        "random_state": seed,
        "memory_limit": None if memory_limit == "none" else _number(memory_limit, "--memory-limit"),
    }  # fmt: skip
    params |= {} if max_iter is None else {"max_iter": max_iter}
    begin(f"reading {data}", quiet=as_json)
    given = inputs.read_data(
        data,
        inputs.Source(text, label, labels, judged, ids, sep, encoding, skip_missing, zero_based),
    )
    from ..text import Documents, Words
    from . import learn

    learn.check_labels(given)
    words = None
    if given.texts is not None:
        words = Words(
            tokens.value, ngrams=ngrams, stop_words=stop_words.value,
            min_df=_count_or_share(min_df), max_df=_count_or_share(max_df, share=1.0),
        )  # fmt: skip
    from .. import memory
    from ..hdsl import HDSL
    from ..saving import save

    model = HDSL(**params)
    try:
        outcome = learn.learn(
            given, model, words=words, tfidf=tfidf, class_scores=not no_class_scores, test=test,
            seed=seed, quiet=as_json, checkpoint=checkpoint,
        )  # fmt: skip
    except memory.NotEnoughMemory as error:
        raise MemoryError(error.message("--memory-limit", MORE_MEMORY)) from None
    collection = outcome.collection
    if no_documents:
        kept = collection.documents
        collection = type(collection)(
            collection.model, collection.words, Documents(idf=kept.idf, facts=kept.facts)
        )
    save(collection, output)
    is_interrupted = model.status_ == "interrupted"
    file = vars(model).pop("checkpoint_file_", None)
    if file is not None and not is_interrupted:
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
        if checkpoint is not None and checkpoint.exists():
            say("the same command continues from the checkpoint.")
        raise typer.Exit(INTERRUPTED)


def _check_checkpoint(checkpoint: Path | None, output: Path) -> None:
    """Raise unless the checkpoint can be written."""
    from ..files.atomic import check_can_write

    if checkpoint is None:
        return
    if checkpoint.resolve() == output.resolve():
        raise ValueError(f"{output} is both the model and the checkpoint: name two files.")
    if not os.path.lexists(checkpoint):
        check_can_write(checkpoint, "the checkpoint")


def _show_file(output: Path, outcome: Outcome, no_documents: bool) -> None:
    """Print what the model file holds, and what to do with it."""
    from ..memory import format_bytes

    size = format_bytes(output.stat().st_size)
    show("", f"{output}: {size}{'' if no_documents else ', with the documents'}.")
    if no_documents:
        return
    query = "--row 0" if outcome.collection.words is None else '"some words"'
    show(f"Next: hdsl search {output} {query}, or hdsl report {output}")
    if outcome.collection.documents.facts.get("verdict") != "better":
        show("Search shows the rank by cosine beside each hit: compare the two.")


def _check_options(
    jobs: int | None, norm: str, tfidf: bool | None, is_table: bool, is_unscored: bool
) -> None:
    """Raise ValueError for options that no fit takes together."""
    if jobs == 0:
        raise ValueError("--jobs must be 1 or more, or -1 for all cores. Got 0.")
    if norm == "none" and not is_unscored:
        raise ValueError(
            "--norm none leaves rows as they are, but class scores stand beside rows at unit "
            "length: add --no-class-scores."
        )
    if tfidf is not None and is_table:
        raise ValueError(
            "--tfidf and --no-tfidf are for a matrix of counts: the texts of a table are always "
            "weighted. Leave it out."
        )


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


def show_outcome(outcome: Outcome, *, n_pairs: int = 10) -> None:
    """Print the data, the model, its errors, what to do without a gain, and its strongest pairs."""
    facts, model, kind = outcome.facts(), outcome.model, outcome.row_name
    by = counted(facts["labels"], "label") if outcome.by == "labels" else "judgements"
    scores = f" and {facts['class scores']} class scores" if facts["class scores"] else ""
    show(
        f"{counted(facts['rows'], kind)} with {by}, {counted(facts['features'], 'feature')}"
        f"{scores}; {facts['rows held out']:,} held out.",
        *_left_out(facts, kind),
        f"{counted(facts['pairs'], 'pair')} from {counted(facts['triplets'], 'triplet')} in "
        f"{counted(facts['iterations'], 'iteration')}, {outcome.seconds:.1f} s; scale "
        f"{model.scale_:.4g}, prior {model.prior_:.4g}.",
        *([facts["choice"]] if facts["choice"] else []),
        "",
    )
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
    if outcome.by == "labels":
        said.append("  more labelled rows: the more per label, the more there is to learn")
    else:
        said.append("  more judgements, about more rows")
    if outcome.measured.errors.verdict == "no difference":
        said.append("  --test 0.4: measured on more rows, a small gain may show")
    if outcome.collection.words is not None:
        said.append(
            "  other words: --ngrams 2, --stop-words none, --min-df 1, --tokens identifiers"
        )
    elif outcome.collection.documents.idf is None:
        said.append("  --tfidf if the values are counts, or weigh them before")
    return said
