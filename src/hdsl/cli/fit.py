"""``hdsl fit``: its options; learn a similarity, measure it, and save it."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from . import shared_options
from .output import announce, say, show, show_json
from .run import INTERRUPTED
from .shared_options import OptionGroup, Parser, add_command

if TYPE_CHECKING:
    from ..text import Collection, Words
    from .inputs import Data
    from .learn import Outcome


#: The names are those of the library, the default first. They are written out, since
#: help loads no NumPy.
LOSSES = ("smoothed_hinge", "squared_hinge", "logistic", "exponential")
ORACLES = ("ascent", "heuristic", "exact")
TOKENS = ("auto", "words", "characters", "identifiers")
STOP_WORDS = ("none", "english")
WEIGHTS = ("auto", "tfidf", "bm25")
GOALS = ("auto", "neighbors", "comparisons", "search")
STEPS = ("corrective", "away", "forward", "pairwise", "blended")

#: Options that are parameters of HDSL, its solver or its mining under the same name.
SAME_NAME = (
    "goal",
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


class Limit(NamedTuple):
    """The least value of a parameter, and the words that it may be instead."""

    least: float
    words: tuple[str | None, ...] = (None,)
    is_excluded: bool = False


#: Limits of parameters, which are checked before a file is read. An int limits a
#: parameter that is a whole number.
LIMITS = {
    "scale": Limit(0.0, words=("auto", None), is_excluded=True),
    "prior": Limit(0.0, words=("auto", None)),
    "embedding_weight": Limit(0.0, words=("auto", None)),
    "embedding_scale": Limit(0.0, words=("auto", None)),
    "tol": Limit(0.0),
    "max_iter": Limit(1, words=("auto", None)),
    "n_targets": Limit(1),
    "n_impostors": Limit(1),
    "batch_size": Limit(1),
}


def add(commands: Any) -> None:
    """Add the command to the parser."""
    add_options(add_command(commands, fit))


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

    check_options(arguments)
    _check_files(arguments.output, arguments.checkpoint)
    parameters = hdsl_parameters(arguments)
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
    from . import files

    files.check_model_output(output)
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
        words = words_of(arguments)
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
            memory_limit=memory_limit(arguments.memory_limit),
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
    from .learn import show_outcome

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


# --- options --------------------------------------------------------------------------


def add_options(parser: Parser) -> None:
    """Add the options, by subject."""
    parser.add_argument(
        "data",
        metavar="DATA",
        type=Path,
        help="texts: .csv, .tsv, .jsonl or .parquet, with --text; rows: .npz, or svmlight under "
        "any other name",
    )
    _add_output(OptionGroup(parser, "output and machine"))
    _add_data(shared_options.add_input(parser))
    _add_words(OptionGroup(parser, "words"))
    _add_learning(OptionGroup(parser, "learning"))


def _add_output(options: OptionGroup) -> None:
    """Add the options of the model file, and of the machine."""
    options.add_path("-o --output", "Model file.", Path("model.hdsl"))
    options.add_flag(
        "--no-documents", "Leave texts, labels and rows out of the model file."
    )
    about_checkpoint = (
        "File to save the run to: after a crash the same command continues from it. "
        "It is deleted when the model is written."
    )
    options.add_path("--checkpoint", about_checkpoint)
    shared_options.add_seed(options)
    about_device = "Where the solver runs: cpu, cuda or cuda:1."
    options.add_text("--device", about_device, "cpu")
    options.add_integer("--jobs", "Threads; -1 is all cores.", -1)
    about_memory = "Maximum GiB for the fit, or auto, or none."
    options.add_text("--memory-limit", about_memory, "auto")
    shared_options.add_quiet(options)
    shared_options.add_json(options)


def _add_data(options: OptionGroup) -> None:
    """Add the options of how labels are split and rows weighed, which a model keeps."""
    options.add_text(
        "--label-sep", "What separates several labels of a row, such as ';' or '\\t'."
    )
    about_tfidf = (
        "Weigh the counts of a matrix by TF-IDF. Default: if all values are whole "
        "numbers, and not only 0 and 1. Texts always are."
    )
    options.add_switch("--tfidf", about_tfidf)
    about_names = (
        "Names of the columns of a matrix: .npy, or text with one per line. "
        "Default: x0, x1, ..."
    )
    options.add_path("--feature-names", about_names, metavar="FILE")
    options.add_choice("--norm", "Compare rows at unit length?", ("l2", "none"))


def _add_words(options: OptionGroup) -> None:
    """Add the options of which words texts are split into."""
    about_tokens = (
        "Units of texts. auto: words, or n-grams of characters if texts have few "
        "words; letters and pairs of letters if a script has no spaces. identifiers: "
        "camelCase and snake_case are two words each."
    )
    options.add_choice("--tokens", about_tokens, TOKENS)
    options.add_integer("--ngrams", "2 adds pairs of consecutive words.", 1)
    options.add_number("--min-df", "Fewest texts with a word; below 1, a share.", 1.0)
    options.add_number("--max-df", "Most texts with a word; up to 1, a share.", 1.0)
    about_stop_words = (
        "Words to leave out. english: for queries that are whole sentences."
    )
    options.add_choice("--stop-words", about_stop_words, STOP_WORDS)
    about_weights = (
        "Weights of words. bm25: like full-text engines; with queries that are not "
        "rows, texts keep their lengths. auto: tfidf, or bm25 if training queries "
        "find more with it."
    )
    options.add_choice("--weights", about_weights, WEIGHTS)
    about_encoder = (
        "Compare texts by an embedding too: folder or name of a model that "
        "sentence-transformers or model2vec loads (pip install hdsl[embed])."
    )
    shared_options.add_encoder(options, about_encoder)
    about_weight = (
        "Weight of the embedding beside words; auto: chosen on held-out rows."
    )
    options.add_text("--embedding-weight", about_weight, "auto")
    about_scale = (
        "Bound of the part learned inside the embedding, 0 for none; auto: chosen on "
        "held-out rows."
    )
    options.add_text("--embedding-scale", about_scale, "auto")


def _add_learning(options: OptionGroup) -> None:
    """Add the options of the model, of its supervision and of the solver."""
    about_goal = (
        "What the model is for, which decides the prior on held-out data; auto: "
        "neighbors by labels, comparisons by these, search by judged queries and clicks."
    )
    options.add_choice("--goal", about_goal, GOALS)
    options.add_text("--scale", "Size of the learned part, or auto.", "auto")
    about_prior = "Weight of the plain dot product; auto: chosen on held-out rows."
    options.add_text("--prior", about_prior, "auto")
    about_scores = "Learn by the rows alone, without scores of a linear classifier."
    options.add_flag("--no-class-scores", about_scores)
    about_steps = (
        "Maximum number of iterations. A corrective step adds several pairs of "
        "features and changes all weights; other steps add one."
    )
    options.add_integer("--max-iter", about_steps)
    options.add_integer("--n-targets", "Nearest rows of the same label, per row.", 10)
    options.add_integer("--n-impostors", "Nearest rows of other labels, per row.", 10)
    options.add_choice("--mining", "How these are found.", ("neighbors", "random"))
    options.add_choice("--loss", "Loss of a comparison.", LOSSES)
    about_oracle = "How the next pair is found; heuristic is the paper's."
    options.add_choice("--oracle", about_oracle, ORACLES)
    options.add_choice("--step", "How weights change; away is the paper's.", STEPS)
    about_forbidden = (
        "Pairs of words that never count: a table with a column pair, as 'cat ~ dog', or "
        "with two columns of words. The rest is learned again without them."
    )
    options.add_path("--forbid", about_forbidden, metavar="FILE")
    about_forced = "Pairs of words that always count, as one word in both texts does."
    options.add_path("--force", about_forced, metavar="FILE")
    options.add_number("--tol", "Stop at this duality gap.", 1e-3)
    options.add_integer("--batch-size", "Triplets per iteration; default: all.")
    options.add_number("--test", "Share of the rows to measure the error on.", 0.2)


# --- options checked --------------------------------------------------------------------------


def check_options(arguments: Namespace) -> None:
    """Raise ValueError for options that no fit takes together."""
    from .files import is_table

    if arguments.jobs == 0:
        raise ValueError("--jobs must be 1 or more, or -1 for all cores. Got 0.")
    if arguments.norm == "none" and _has_class_scores(arguments):
        raise ValueError(
            "--norm none leaves rows as they are, but class scores stand beside rows "
            "at unit length: add --no-class-scores."
        )
    if is_table(arguments.data) and arguments.tfidf is not None:
        raise ValueError(
            "--tfidf and --no-tfidf are for a matrix of counts: the texts of a table "
            "are always weighted. Leave it out."
        )
    if is_table(arguments.data) and arguments.feature_names is not None:
        raise ValueError(
            "--feature-names are of the columns of a matrix: the features of a table "
            "are the words of its texts. Leave it out."
        )


def _has_class_scores(arguments: Namespace) -> bool:
    """Return whether the model is learned with class scores: judgements have none."""
    if arguments.no_class_scores:
        return False
    return not shared_options.judgement_files(arguments)


# --- as parameters --------------------------------------------------------------------


def hdsl_parameters(arguments: Namespace) -> dict[str, Any]:
    """Return the parameters of HDSL, flat; raise ValueError where one is out of range."""
    parameters = {name: getattr(arguments, name) for name in SAME_NAME}
    parameters["scale"] = _number_or_auto(arguments.scale, "--scale")
    parameters["prior"] = _number_or_auto(arguments.prior, "--prior")
    parameters["embedding_weight"] = _number_or_auto(
        arguments.embedding_weight, "--embedding-weight"
    )
    parameters["embedding_scale"] = _number_or_auto(
        arguments.embedding_scale, "--embedding-scale"
    )
    parameters["norm"] = _norm(arguments)
    parameters["n_jobs"] = arguments.jobs
    parameters["random_state"] = arguments.seed
    if arguments.max_iter is not None:
        parameters["max_iter"] = arguments.max_iter
    _check_parameters(parameters)
    return parameters


def _norm(arguments: Namespace) -> str | None:
    """Return the norm of rows: none where BM25 ranks for queries, by lengths."""
    has_queries = arguments.judgements is not None or arguments.clicks is not None
    if arguments.weights == "bm25" and has_queries:
        return None
    return _word_or_none(arguments.norm)


def _check_parameters(parameters: dict[str, Any]) -> None:
    """Raise ValueError for the first parameter that is out of range."""
    from ..input.parameters import check_device, check_number

    for name, limit in LIMITS.items():
        check_number(
            "HDSL",
            name,
            parameters.get(name),
            low=limit.least,
            strict=limit.is_excluded,
            integer=isinstance(limit.least, int),
            words=limit.words,
        )
    check_device("HDSL", parameters["device"])


def _number_or_auto(text: str, option: str) -> float | str:
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{option} must be a number or auto. Got {text!r}.") from None


def _word_or_none(text: str) -> str | None:
    if text == "none":
        return None
    return text


def memory_limit(text: str) -> float | str | None:
    """Return the memory limit of a fit as a number of GiB, "auto" or None."""
    if text == "none":
        return None
    return _number_or_auto(text, "--memory-limit")


def words_of(arguments: Namespace) -> Words:
    """Return what makes rows of texts."""
    from ..text import Words

    return Words(
        arguments.tokens,
        ngrams=arguments.ngrams,
        stop_words=arguments.stop_words,
        min_df=_count_or_share(arguments.min_df),
        max_df=_count_or_share(arguments.max_df, share=1.0),
        weights="bm25" if arguments.weights == "bm25" else "tfidf",
        norm=_norm(arguments) if arguments.weights == "bm25" else "l2",
    )


def _count_or_share(number: float, share: float = 0.0) -> float | int:
    """Return 2.0 as a count of documents, and 0.5 or `share` as a share of them."""
    is_share = 0 <= number <= 1
    is_count = 0 <= number < 2**31 and number == int(number)
    if not is_share and not is_count:
        raise ValueError(
            "--min-df and --max-df must be whole numbers of documents, or shares up "
            f"to 1. Got {number:g}."
        )
    if number >= 1 and number != share:
        return int(number)
    return number


#: What to do where a fit needs too much memory.
MORE_MEMORY = (
    "learn from fewer triplets (--n-targets, --n-impostors)",
    "set --batch-size",
    "pass --memory-limit none to continue anyway",
)
