"""The commands on a model file: evaluate, search, explain, report, export, info."""

from argparse import BooleanOptionalAction, Namespace
from pathlib import Path
from typing import Any

from . import shell
from .shell import Section, add_command, add_input, add_json, add_model, say, show

#: Endings of the files that each engine loads.
SUFFIXES = {"pgvector": ".sql", "qdrant": ".qdrant.jsonl", "jsonl": ".terms.jsonl"}


def add(commands: Any) -> None:
    """Add the commands to the parser."""
    parser = add_command(commands, evaluate)
    add_model(parser)
    about = "new data; default: the rows that `fit` held out, from the model"
    parser.add_argument("data", metavar="DATA", type=Path, nargs="?", help=about)
    add_input(parser)
    more = Section(parser, "output")
    more.add("-k", "Neighbours that vote.", 3, dest="n_neighbors")
    add_json(more)

    parser = add_command(commands, search)
    add_model(parser)
    parser.add_argument("query", metavar="WORDS", nargs="*", help="words to search for")
    more = Section(parser, "search")
    more.add(
        "--row",
        "A document in the model, by its id, or its number from 0.",
        metavar="ROW",
    )
    more.add("--queries", "File of queries, one text per line.", Path, metavar="FILE")
    more.add("-k", "Neighbours to show.", 5, dest="n_neighbors")
    more.add("--why", "Reasons to show per neighbour.", 4)
    add_json(more)

    parser = add_command(commands, explain)
    add_model(parser)
    more = Section(parser, "explanation")
    for name in ("--x", "--y"):
        more.add(
            name, "A document in the model, by id or number, or a text.", required=True
        )
    more.add("--rather-than", "A third: explain why x is more like y than like this.")
    more.add("--by", "Parts per feature pair, or per learned pair.", ("pair", "atom"))
    more.add("--top", "Parts to show.", 10)
    add_json(more)

    parser = add_command(commands, report)
    add_model(parser)
    more = Section(parser, "page")
    more.add("-o --output", "HTML file.", Path("report.html"))
    more.add("--title", "Title of the page. Default: the name of the data.")

    parser = add_command(commands, export)
    add_model(parser)
    more = Section(parser, "export")
    kinds = (
        "pgvector: SQL for psql; qdrant: bodies of upserts; jsonl: words and weights. "
        "With --query also postgresql, sqlite (FTS5) and elasticsearch: a full-text "
        "query with learned terms."
    )
    full_text = (
        "postgresql",
        "sqlite",
        "elasticsearch",
    )  # without loading hdsl.serving
    more.add("--to", kinds, (*SUFFIXES, *full_text), required=True)
    more.add(
        "-o --output", "File. Default: the model's name with another ending.", Path
    )
    more.add(
        "--query", "Print this text as a query for the engine instead.", metavar="TEXT"
    )
    lengths = (
        "Divide each document by its learned length, so that dot products are the "
        "learned cosine. Otherwise they are the similarity, and a new model needs no "
        "new index."
    )
    more.add("--cosine", lengths, True, action=BooleanOptionalAction)

    parser = add_command(commands, info)
    about = "a model file, or a matrix of rows: .npz or svmlight"
    parser.add_argument("data", metavar="FILE", type=Path, nargs="?", help=about)
    more = Section(parser, "facts")
    more.add(
        "--per-row", "Triplets per row. Default: as `hdsl fit` makes from labels.", int
    )
    more.flag("--zero-based", "Indices of an svmlight file start at 0.")
    add_json(more)


def evaluate(given: Namespace) -> None:
    """Measure a model against the cosine, with intervals.

    The neighbours of new rows are the documents in the model, or the other new rows
    where it has none. Columns default to those of the fit. Known-item search ranks rows
    by half of their features.

    For example:

      hdsl evaluate model.hdsl

      hdsl evaluate model.hdsl new_reviews.csv
    """
    from . import inputs

    found = inputs.load_collection(given.model)
    about_data = {"ids": "id"} | {
        n: n for n in ("text", "label", "labels", *shell.JUDGEMENTS)
    }
    named = [option for name, option in about_data.items() if vars(given)[name]]
    if given.data is None and named:
        raise ValueError(
            f"--{named[0]} says what is in DATA, which is not given: name its file."
        )
    if given.n_neighbors < 1:
        raise ValueError(f"-k must be 1 or more. Got {given.n_neighbors}.")
    from . import measure

    if given.data is None:
        result = measure.measure_held_out(found, given.n_neighbors)
    else:
        if inputs.is_table(given.data):
            columns = found.documents.facts.get("columns") or {}
            given.text = given.text or columns.get("text")
            if not (
                given.labels or any(getattr(given, name) for name in shell.JUDGEMENTS)
            ):
                given.label = given.label or columns.get("label")
        data = inputs.read_data(given.data, **vars(given))
        result = measure.measure_new(data, found, given.n_neighbors)
    measured = result.measured
    if given.as_json:
        facts = {"measure": measured.errors.supervision, "n": measured.n}
        facts |= {"neighbours": measured.n_neighbors, "held out": result.held_out}
        shell.show_json(facts | measure.facts_of(measured))
    else:
        shell.show_measured(f"{measured.measure}{result.rows}", measured)


def search(given: Namespace) -> None:
    """Find the documents most similar to a query, and why.

    Each has its learned cosine, its rank by plain cosine, and the parts that the
    learned cosine is the sum of. "a ~ b" is a pair: a is in one text and b in the
    other. A single word is in both. Words that the model does not know are named: the
    score rests on the others.

    For example:

      hdsl search model.hdsl "open a connection"

      hdsl search model.hdsl --row 17 -k 10

      hdsl search model.hdsl --queries queries.txt --json
    """
    row = given.row
    queries = given.queries
    n = given.n_neighbors
    why = given.why
    if (row is not None) + bool(given.query) + (queries is not None) != 1:
        raise ValueError(
            "Give words to search for, a document with --row, or a file with "
            "--queries, and one of them only."
        )
    if n < 1 or why < 0:
        raise ValueError(
            f"-k must be 1 or more and --why 0 or more. Got {n} and {why}."
        )
    from . import inputs

    texts = [" ".join(given.query)] if queries is None else inputs.read_lines(queries)
    found = inputs.load_collection(given.model)
    if found.documents.facts.get("verdict") == "worse":
        say("warning: on rows held out, this model makes more errors than the cosine.")
    if row is not None:
        results = [
            {"query": row, "neighbours": found.search(None, n, why=why, row=row)}
        ]
    else:
        if queries is None:
            found.row_of_text(texts[0])  # an error where no word is known
        rows = found.rows_of(texts)
        answers = found.search_rows(rows, n, why=why, first_by_cosine=True)
        results = [
            {
                "query": text,
                "unknown words": found.unknown_words(text),
                "known share": found.known_share(text),
                "neighbours": hits[:n],
                "first by cosine": next(
                    (h for h in hits if h["rank by cosine"] == 1), None
                ),
            }
            for text, hits in zip(texts, answers, strict=True)
        ]
    if given.as_json:
        shell.show_json(results if queries is not None else results[0])
        return
    for result in results:
        if queries is not None:
            show(shell.one_line(result["query"]))
        show_answer(result)
        if queries is not None:
            show("")


def show_answer(result: dict[str, Any]) -> None:
    """Print the neighbours of a query, and the words of it that nothing rests on."""
    unknown = result.get("unknown words")
    if unknown:
        shown = ", ".join(repr(shell.one_line(word, 40)) for word in unknown[:5])
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        rest = f"the scores rest on {100 * result['known share']:.0f} % of the words"
        show(f"The model does not know {shown}{more}: {rest}.")
    show_hits(result["neighbours"]) if result["neighbours"] else show("  nothing found")
    first = result.get("first by cosine")
    if first and first["rank"] > len(result["neighbours"]):
        name = (
            f"row {first['row']}"
            if first["id"] is None
            else shell.one_line(first["id"], 40)
        )
        text = "" if first["text"] is None else f": {shell.one_line(first['text'], 60)}"
        show(f"First by cosine, {_ordinal(first['rank'])} as learned: {name}{text}")


def show_hits(hits: list[dict[str, Any]]) -> None:
    """Print neighbours, each with the reasons that sum up to its learned cosine."""
    has_ids, has_labels = (
        any(hit[name] is not None for hit in hits) for name in ("id", "label")
    )
    rows = [
        ("learned", "by cosine", *["id"] * has_ids, *["label"] * has_labels, "document")
    ]
    for hit in hits:
        cells = [f"{hit['similarity']:.2f}", _ordinal(hit["rank by cosine"])]
        cells += [shell.one_line(hit["id"], 24)] * has_ids
        cells += [
            "" if hit["label"] is None else shell.one_line(hit["label"], 24)
        ] * has_labels
        cells.append(
            f"row {hit['row']}" if hit["text"] is None else shell.one_line(hit["text"])
        )
        rows.append(tuple(cells))
    head, *lines = shell.table_lines(rows, right=(0, 1))
    show(head)
    for line, hit in zip(lines, hits, strict=True):
        show(line, *_reasons(hit))


def _reasons(hit: dict[str, Any]) -> list[str]:
    """Return the reasons of a neighbour as a line: those too small or too many as one sum."""
    named = [w for w in hit["why"] if abs(w["value"]) >= 0.01 * abs(hit["similarity"])]
    n_others = hit["more"]["n"]
    others = hit["more"]["value"]
    for part in hit["why"][len(named) :]:
        n_others = n_others + 1
        others = others + part["value"]
    while named:
        said = [f"{_reason(w)} {w['value']:+.2f}" for w in named]
        rest = round(others, 2) + 0.0  # no -0.00
        said += [f"and {n_others} more {rest:+.2f}"] if n_others else []
        line = f"{' ' * 9}= {', '.join(said)}"
        if len(line) <= shell.width() or len(named) == 1:
            return [line]
        n_others = n_others + 1
        others = others + named.pop()["value"]
    return []


def _reason(part: dict[str, Any]) -> str:
    """Return the name of a reason, of a class with the words that speak for it."""
    words = ", ".join(shell.one_line(word, 20) for word in part.get("words", [])[:2])
    return shell.one_line(part["name"], 40) + (f" ({words})" if words else "")


def _ordinal(n: int) -> str:
    """Return a rank.

    Examples
    --------
    >>> [_ordinal(n) for n in (1, 2, 3, 4, 11, 1222)]
    ['1st', '2nd', '3rd', '4th', '11th', '1,222nd']
    """
    end = (
        "th"
        if n % 100 in (11, 12, 13)
        else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    )
    return f"{n:,}{end}"


def explain(given: Namespace) -> None:
    """Show what the similarity of two texts or documents is made of.

    For example:

      hdsl explain model.hdsl --x "open a socket" --y "listen on a port"

      hdsl explain model.hdsl --x 17 --y 3 --rather-than 44
    """
    from . import inputs

    found = inputs.load_collection(given.model)
    for text in filter(None, (given.x, given.y, given.rather_than)):
        if not found.is_document(text):
            _name_unknown(found, text)
    parts = found.explain(
        given.x, given.y, rather_than=given.rather_than, by=given.by, top=given.top
    )
    shell.show_json(parts.to_dict()) if given.as_json else show(repr(parts))


def _name_unknown(found: Any, text: str) -> None:
    """Say which words of a text the model does not know."""
    unknown = found.unknown_words(text)
    if unknown:
        say(
            f"the model does not know {', '.join(map(repr, unknown[:5]))} of "
            f"{text[:60]!r}."
        )


def report(given: Namespace) -> None:
    """Write what was learned as one self-contained HTML page.

    For example:

      hdsl report model.hdsl -o report.html
    """
    from ..memory import format_bytes
    from . import inputs

    inputs.check_output(given.output, taken=[given.model], is_model=False)
    found = inputs.load_collection(given.model)
    title = given.title or found.documents.facts.get("data") or given.model.stem
    write_report(found, given.output, str(title))
    show(f"{given.output}: {format_bytes(given.output.stat().st_size)}.")


def write_report(found: Any, path: Path, title: str, measured: Any = None) -> None:
    """Write the page of a model, with its documents where it has them."""
    from .. import report
    from .measure import held_out

    documents = found.documents
    scored = found.scored
    learned = found.learned
    names = scored.names(found.feature_names)
    X = documents.X
    y = documents.labels
    texts = documents.texts
    new = documents.is_new
    if X is None:
        learned.report(path, feature_names=names, title=title)
        return
    idf = documents.idf if found.words is None else found.words.idf
    page = report.page(
        learned,
        scored.rows(X[~new]),
        None if y is None else y[~new],
        texts=None if texts is None else texts[~new],
        feature_names=names,
        title=title,
        measured=measured or held_out(found),
        more=report.More(
            (~new).nonzero()[0],
            found.scores,
            idf,
            None if documents.ids is None else documents.ids[~new],
        ),
    )
    report.write(path, page)


def export(given: Namespace) -> None:
    """Write the documents of a model as a file that a search engine loads, or one query.

    The dot product of a query with a document is the learned cosine. Each document has
    its place as id, its own id as name where the model has ids, label, text and learned
    length.

    For example:

      hdsl export model.hdsl --to pgvector -o index.sql

      hdsl export model.hdsl --to pgvector --query "open a socket"

      hdsl export model.hdsl --to postgresql --query "open a socket"
    """
    from ..files.atomic import atomic_write
    from ..memory import format_bytes
    from . import inputs

    to = given.to
    output = given.output or given.model.with_suffix(SUFFIXES.get(to, ""))
    if given.query is None:
        if to not in SUFFIXES:
            raise ValueError(
                f"{to} holds the documents already: give a text with --query."
            )
        inputs.check_output(output, taken=[given.model], is_model=False)
    elif given.output is not None:
        raise ValueError("--query prints the query: leave out -o, or end with > FILE.")
    found = inputs.load_collection(given.model)
    from ..serving import expand_query, export_query, export_rows, full_text_query
    from ..similarity.cosine import LearnedCosine

    if given.query is not None:
        _name_unknown(found, given.query)
    if to not in SUFFIXES:
        show(full_text_query(to, expand_query(found, given.query)))
        return
    scored = found.scored
    documents = found.documents
    side: Any = LearnedCosine(scored) if given.cosine else scored
    names = scored.names(found.feature_names)
    if given.query is not None:
        show(
            export_query(to, side.rewrite(found.row_of_text(given.query)), names=names)
        )
        return
    if documents.X is None:
        raise ValueError(
            "The model has no documents: fit it again without --no-documents."
        )
    fields: dict[str, Any] = {
        "length": LearnedCosine(scored).lengths(documents.X).tolist()
    }
    named = {"name": documents.ids, "label": documents.labels, "text": documents.texts}
    fields |= {
        name: values.tolist() for name, values in named.items() if values is not None
    }
    with atomic_write(output, "the export") as file:
        for piece in export_rows(
            to, side.index_rows(documents.X), names=names, fields=fields
        ):
            file.write(piece.encode("utf-8", "replace"))
    show(
        f"{output}: {documents.n_rows:,} documents, "
        f"{format_bytes(output.stat().st_size)}."
    )


def info(given: Namespace) -> None:
    """Show versions and the machine, a model, or the memory that a fit to a matrix needs.

    For example:

      hdsl info model.hdsl

      hdsl info X.npz
    """
    import os
    import platform
    from importlib.metadata import version

    from .. import memory

    free = memory.available()
    facts: dict[str, object] = {
        "hdsl": version("hdsl"),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn", "numba")},
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "free memory": memory.format_bytes(free) if free is not None else "unknown",
        "gpu": _gpu(),
    }
    if given.data is not None:
        facts |= _about(given.data, given.per_row, given.zero_based)
    if given.as_json:
        shell.show_json(facts)
    else:
        shell.show_table([(name, _fact(value)) for name, value in facts.items()])


def _fact(value: Any) -> str:
    """Return a fact as text.

    Examples
    --------
    >>> [_fact(value) for value in (2214, 1880.27, {"hdsl": "0.1.0", "numpy": "2.4"})]
    ['2214', '1880', 'hdsl 0.1.0, numpy 2.4']
    """
    if isinstance(value, dict):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _gpu() -> str:
    """Return the card that ``device="cuda"`` takes, or why there is none."""
    from ..cuda.runtime import DeviceError, get_device
    from ..memory import format_bytes

    try:
        card = get_device()
    except DeviceError as error:
        return f"none ({error})"
    return f"{card.name}, {format_bytes(card.memory()['free'])} free"


def _about(path: Path, per_row: int | None, zero_based: bool) -> dict[str, object]:
    """Return what a file holds: a model, or rows that a fit may take."""
    from ..files import container
    from . import inputs

    inputs.check_size(path)
    if inputs.is_table(path):
        raise ValueError(
            f"{path} is a table: hdsl info takes a model file or a matrix of rows "
            "(.npz, svmlight)."
        )
    with path.open("rb") as file:
        is_model = (
            path.suffix == ".hdsl" or file.read(9)[8:] == b"{"
        )  # as safetensors begins
    if not is_model:
        return _fit_facts(inputs.read_data(path, zero_based=zero_based).X, per_row)
    from .learn import n_different
    from .measure import labels_of

    found = inputs.load_collection(path)
    documents = found.documents
    scored = found.scored
    learned = found.learned
    facts: dict[str, object] = {
        "kind": type(learned).__name__,
        "made by": container.read(path)[1].get("versions"),
        "documents": documents.n_rows,
        "labels": 0 if documents.labels is None else n_different(labels_of(documents)),
        "words": found.words is not None,
        "features": scored.n_features,
        "class scores": scored.n_scores,
    }
    fitted = ("scale_", "prior_", "n_triplets_", "n_iter_", "status_")
    return facts | {
        name[:-1]: getattr(learned, name) for name in fitted if hasattr(learned, name)
    }


def _fit_facts(X: Any, per_row: int | None) -> dict[str, object]:
    """Return the memory that a fit with the default parameters takes, or with other triplets."""
    import numpy as np

    from .. import memory
    from ..fit.memory import estimate_fit
    from ..hdsl import HDSL

    model = HDSL()
    per_row = per_row or model.n_targets * model.n_impostors
    n = min(
        X.shape[0], model.max_anchors or X.shape[0]
    )  # of more rows a sample is learned from
    anchor = np.repeat(np.arange(n), per_row)
    shift = np.tile(np.arange(per_row), n)
    near = anchor + 1 + shift // 10
    far = anchor + 11 + shift % 10
    need = estimate_fit(model, X[:n], np.column_stack([anchor, near, far]) % n)
    free = memory.available()
    return {
        "rows": X.shape[0],
        "features": X.shape[1],
        "values": X.nnz,
        "triplets": len(anchor),
        "a fit takes": str(need),
        "fits": free is None or need.total <= free,
    }
