"""``hdsl fit``."""

from __future__ import annotations

import sys
from argparse import BooleanOptionalAction, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import shell
from .shell import Section, add_command, add_input, add_json, counted, say, show

if TYPE_CHECKING:
    from .learn import Outcome

#: What to do where a fit needs too much memory.
MORE_MEMORY = (
    "learn from fewer triplets (--n-targets, --n-impostors)",
    "set --batch-size",
    "pass --memory-limit none to go on anyway",
)

#: Options that are parameters of HDSL under the same name.
SAME = (
    "loss",
    "oracle",
    "step",
    "mining",
    "n_targets",
    "n_impostors",
    "tol",
    "batch_size",
    "device",
)


#: Least values of options, told before a file is read.
LEAST = {
    "scale": 0.0,
    "prior": 0.0,
    "tol": 0.0,
    "max_iter": 1,
    "n_targets": 1,
    "n_impostors": 1,
    "batch_size": 1,
}


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, fit)
    parser.add_argument(
        "data",
        metavar="DATA",
        type=Path,
        help="texts: .csv, .tsv, .jsonl or .parquet, with --text; rows: .npz, or svmlight under "
        "any other name",
    )
    output = Section(parser, "output and machine")
    output.add("-o --output", "Model file.", Path("model.hdsl"))
    output.flag("--no-documents", "Leave texts, labels and rows out of the model file.")
    saved = (
        "File to save the run to on the way: after a crash the same command goes on "
        "from it. It is deleted when the model is written."
    )
    output.add("--checkpoint", saved, Path)
    output.add("--seed", "Random seed, 0 or more.", 0, type=shell.seed)
    output.add("--device", "Where the solver runs: cpu, cuda or cuda:1.", "cpu")
    output.add("--jobs", "Threads; -1 is all cores.", int)
    output.add("--memory-limit", "Most GiB for the fit, or auto, or none.", "auto")
    add_json(output)
    given = add_input(parser)
    given.add(
        "--label-sep", "What separates several labels of a row, such as ';' or '\\t'."
    )
    weighed = (
        "Weigh the counts of a matrix by TF-IDF. Default: if all values are whole "
        "numbers, and not only 0 and 1. Texts always are."
    )
    given.add("--tfidf", weighed, action=BooleanOptionalAction)
    given.add("--norm", "Compare rows at unit length?", ("l2", "none"))
    words = Section(parser, "words")
    split = "identifiers: camelCase and snake_case are two words each."
    words.add("--tokens", split, ("words", "identifiers"))
    words.add("--ngrams", "2 adds pairs of consecutive words.", 1)
    words.add("--min-df", "Fewest texts with a word; below 1, a share.", 2.0)
    words.add("--max-df", "Most texts with a word; up to 1, a share.", 1.0)
    words.add("--stop-words", "Words to leave out.", ("english", "none"))
    how = Section(parser, "learning")
    how.add("--scale", "Size of the learned part, or auto.", "auto")
    how.add(
        "--prior",
        "Weight of the plain dot product; auto: chosen on held-out rows.",
        "auto",
    )
    how.flag(
        "--no-class-scores",
        "Learn by the rows alone, without scores of a linear classifier.",
    )
    steps = (
        "Most iterations. A corrective step adds several pairs of features and sets "
        "all weights anew; other steps add one."
    )
    how.add("--max-iter", steps, int)
    how.add("--n-targets", "Nearest rows of the same label, per row.", 10)
    how.add("--n-impostors", "Nearest rows of other labels, per row.", 10)
    how.add("--mining", "How these are found.", ("neighbors", "random"))
    # The names are those of the library, written out: help loads no NumPy.
    losses = ("smoothed_hinge", "squared_hinge", "logistic", "exponential")
    how.add("--loss", "Loss of a comparison.", losses)
    oracles = ("ascent", "heuristic", "exact")
    how.add(
        "--oracle", "How the next pair is found; heuristic is the paper's.", oracles
    )
    rules = ("corrective", "away", "forward", "pairwise", "blended")
    how.add("--step", "How weights change; away is the paper's.", rules)
    how.add("--tol", "Stop at this duality gap.", 1e-3)
    how.add("--batch-size", "Triplets per iteration; default: all.", int)
    how.add("--test", "Share of the rows to measure the error on.", 0.2)


def fit(given: Namespace) -> int | None:
    """Learn a similarity, measure it on rows held out, save it.

    Ctrl-C ends the fit and saves the model so far.

    For example:

      hdsl fit reviews.csv --text body --label topic

      hdsl fit X.npz --labels y.npy -o model.hdsl

      hdsl fit products.csv --text title --id sku --clicks clicks.csv

      hdsl fit X.svm --step away --prior 0 --scale 1000 --max-iter 3000

      hdsl fit X.npz --labels y.npy --checkpoint run.ckpt
    """
    from ..input.parameters import check_device, check_number
    from . import inputs

    output = given.output
    checkpoint = given.checkpoint
    inputs.check_model_output(output)
    is_unscored = given.no_class_scores or any(
        getattr(given, name) for name in shell.JUDGEMENTS
    )
    _check_options(given, inputs.is_table(given.data), is_unscored)
    if checkpoint is not None and checkpoint.resolve() == output.resolve():
        raise ValueError(
            f"{output} is both the model and the checkpoint: name two files."
        )
    if checkpoint is not None and not checkpoint.exists():
        inputs.check_output(checkpoint, "the checkpoint")
    limit = given.memory_limit
    params: dict[str, Any] = {name: getattr(given, name) for name in SAME} | {
        "scale": _number(given.scale, "--scale"),
        "prior": _number(given.prior, "--prior"),
        "norm": None if given.norm == "none" else given.norm,
        "n_jobs": given.jobs,
        "random_state": given.seed,
        "memory_limit": None if limit == "none" else _number(limit, "--memory-limit"),
    }
    params |= {} if given.max_iter is None else {"max_iter": given.max_iter}
    for name, low in LEAST.items():
        check_number(
            "HDSL",
            name,
            params.get(name),
            low=low,
            strict=name == "scale",
            integer=isinstance(low, int),
            words=("auto", None) if name in ("scale", "prior", "max_iter") else (None,),
        )
    check_device("HDSL", given.device)
    shell.begin(f"reading {given.data}", quiet=given.as_json)
    data = inputs.read_data(given.data, **vars(given))
    from ..text import Documents, Words
    from . import learn

    learn.check_labels(data)
    words = None
    if data.texts is not None:
        words = Words(
            given.tokens,
            ngrams=given.ngrams,
            stop_words=given.stop_words,
            min_df=_count_or_share(given.min_df),
            max_df=_count_or_share(given.max_df, share=1.0),
        )
    from .. import memory
    from ..hdsl import HDSL
    from ..saving import save

    model = HDSL(**params)
    try:
        outcome = learn.learn(
            data,
            model,
            words=words,
            tfidf=given.tfidf,
            class_scores=not given.no_class_scores,
            test=given.test,
            seed=given.seed,
            quiet=given.as_json,
            checkpoint=checkpoint,
        )
    except memory.NotEnoughMemory as error:
        raise MemoryError(error.message("--memory-limit", MORE_MEMORY)) from None
    collection = outcome.collection
    if given.no_documents:
        kept = Documents(idf=collection.documents.idf, facts=collection.documents.facts)
        collection = type(collection)(collection.model, collection.words, kept)
    save(collection, output)
    is_interrupted = model.status_ == "interrupted"
    file = vars(model).pop("checkpoint_file_", None)
    if file is not None and not is_interrupted:
        file.remove()
    if given.as_json:
        pairs = {"strongest pairs": outcome.strongest_pairs(), "model": str(output)}
        shell.show_json(outcome.facts() | pairs)
    else:
        show_outcome(outcome)
        _show_file(output, outcome, given.no_documents)
    if not is_interrupted:
        return None
    if sys.stdout is not None:
        sys.stdout.flush()
    say(
        f"interrupted after {model.n_iter_} iterations: the model so far is in "
        f"{output}."
    )
    if checkpoint is not None and checkpoint.exists():
        say("the same command continues from the checkpoint.")
    return shell.INTERRUPTED


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


def _check_options(given: Namespace, is_table: bool, is_unscored: bool) -> None:
    """Raise ValueError for options that no fit takes together."""
    if given.jobs == 0:
        raise ValueError("--jobs must be 1 or more, or -1 for all cores. Got 0.")
    if given.norm == "none" and not is_unscored:
        raise ValueError(
            "--norm none leaves rows as they are, but class scores stand beside rows "
            "at unit length: add --no-class-scores."
        )
    if given.tfidf is not None and is_table:
        raise ValueError(
            "--tfidf and --no-tfidf are for a matrix of counts: the texts of a table "
            "are always weighted. Leave it out."
        )


def _number(text: str, name: str) -> float | str:
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise ValueError(f"{name} must be a number or auto. Got {text!r}.") from None


def _count_or_share(number: float, share: float = 0.0) -> float | int:
    """Return 2.0 as a count of documents, and 0.5 or `share` as a share of them."""
    if not 0 <= number < 2**31 or (number > 1 and number != int(number)):
        raise ValueError(
            "--min-df and --max-df must be whole numbers of documents, or shares up "
            f"to 1. Got {number:g}."
        )
    return int(number) if number >= 1 and number != share else number


def show_outcome(outcome: Outcome, *, n_pairs: int = 10) -> None:
    """Print the data, the model, its errors, and its strongest pairs."""
    facts = outcome.facts()
    model = outcome.model
    kind = "row" if outcome.collection.documents.texts is None else "document"
    by = counted(facts["labels"], "label") if outcome.by == "labels" else "judgements"
    scores = (
        f" and {facts['class scores']} class scores" if facts["class scores"] else ""
    )
    show(
        f"{counted(facts['rows'], kind)} with {by}, "
        f"{counted(facts['features'], 'feature')}{scores}; {facts['rows held out']:,} "
        "held out.",
        *_left_out(facts, kind),
        f"{counted(facts['pairs'], 'pair')} from "
        f"{counted(facts['triplets'], 'triplet')} in "
        f"{counted(facts['iterations'], 'iteration')}, {outcome.seconds:.1f} s; scale "
        f"{model.scale_:.4g}, prior {model.prior_:.4g}.",
        *([facts["choice"]] if facts["choice"] else []),
        "",
    )
    if outcome.measured:
        judged = counted(
            outcome.measured.n, kind if outcome.by == "labels" else "judgement"
        )
        shell.show_measured(
            f"{outcome.measured.measure}, {judged} held out", outcome.measured
        )
    else:
        show(
            "No rows are held out, so nothing shows that this model is better than "
            "the cosine."
        )
    least = (
        ""
        if model.min_rows == "auto"
        else f" of features in {model.min_rows} {kind}s or more"
    )
    show(
        "", f"Strongest pairs{least}: + raises, - lowers the similarity of two {kind}s"
    )
    rows = [("  pair", "effect", "weight", f"{kind}s with each")]
    for pair in outcome.strongest_pairs(n_pairs):
        numbers = f"{pair['effect']:+.2g}", f"{pair['weight']:+.3g}"
        counts = f"{pair['n_rows_i']:,}, {pair['n_rows_j']:,}"
        rows.append((f"  {shell.one_line(pair['name'], 60)}", *numbers, counts))
    shell.show_table(rows, right=(1, 2, 3))


def _left_out(facts: dict[str, Any], kind: str) -> list[str]:
    """Return what was skipped, and the documents that nothing is known of."""
    said = []
    if facts["rows skipped"]:
        said.append(f"{counted(facts['rows skipped'], 'row')} without a value skipped.")
    if facts["empty rows"]:
        n = facts["empty rows"]
        what = "known word" if kind == "document" else "value"
        verb, they = ("has", "it matches") if n == 1 else ("have", "they match")
        said.append(f"{counted(n, kind)} {verb} no {what}: {they} nothing.")
    return said
