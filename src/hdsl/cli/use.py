"""The commands on a model file: ``hdsl evaluate``, ``search``, ``explain`` and ``report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..memory import format_bytes
from .options import (
    N_NEIGHBORS,
    Id,
    Json,
    LabelColumn,
    Labels,
    MatlabNames,
    Model,
    Quadruplets,
    TextColumn,
    Triplets,
    ZeroBased,
    app,
    option,
)
from .shell import one_line, show, show_json, show_measured, show_table


@app.command()
def evaluate(
    model: Model,
    data: Annotated[
        Path | None,
        typer.Argument(help="New data. Default: the rows that `fit` held out, from the model."),
    ] = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    labels: Labels = None,
    triplets: Triplets = None,
    quadruplets: Quadruplets = None,
    ids: Id = None,
    zero_based: ZeroBased = False,
    matlab_names: MatlabNames = "fea,gnd",
    n_neighbors: Annotated[int, option("Neighbours that vote.", "-k")] = N_NEIGHBORS,
    as_json: Json = False,
) -> None:
    """Measure a model against the cosine, with intervals.

    The neighbours of new rows are the documents in the model, or the other new rows where it has
    none. Columns default to those of the fit. --triplets and --quadruplets measure judgements.
    Known-item search ranks rows by half of their features.

    **Examples**

      hdsl evaluate model.hdsl

      hdsl evaluate model.hdsl new_reviews.csv
    """
    from . import documents, inputs

    learned, collection = documents.load_all(model)
    if data is None:
        found = documents.measure_held_out(model, learned, collection, n_neighbors)
    else:
        if inputs.is_table(data):
            columns = collection.columns or {}
            is_labelled = not (labels or triplets or quadruplets)
            text = text or columns.get("text")
            label = (label or columns.get("label")) if is_labelled else None
        source = inputs.Source(
            text, label, labels, triplets, quadruplets, ids, zero_based, matlab_names
        )
        given = inputs.read_data(data, source)
        found = documents.measure_new(given, learned, collection, n_neighbors)
    measured = found.measured
    if as_json:
        facts = {"measure": measured.errors.supervision, "n": measured.n}
        facts |= {"neighbours": n_neighbors, "held out": found.held_out}
        show_json(facts | measured.facts())
    else:
        show_measured(f"{measured.measure}{found.rows}", measured)


@app.command()
def search(
    model: Model,
    query: Annotated[list[str] | None, typer.Argument(help="Words.", show_default=False)] = None,
    row: Annotated[int | None, option("Number of a document in the model, from 0.")] = None,
    n_neighbors: Annotated[int, option("Neighbours to show.", "-k")] = 5,
    why: Annotated[int, option("Reasons to show per neighbour.")] = 4,
    as_json: Json = False,
) -> None:
    """Find the documents most similar to a query, and why.

    "a ~ b" is a pair: a is in one text and b in the other. A single word is in both.

    **Examples**

      hdsl search model.hdsl "open a connection"

      hdsl search model.hdsl --row 17 -k 10
    """
    from . import documents

    learned, collection = documents.load_all(model)
    if (row is None) == (not query):
        raise ValueError("Give words to search for, or a document with --row, and not both.")
    words = " ".join(query or [])
    x = documents.row_of(collection, words or str(row), "the query")
    hits = documents.find(learned, collection, x, n_neighbors, why, leave_out=row)
    if as_json:
        show_json({"query": words or row, "neighbours": hits})
    else:
        show_hits(hits)


def show_hits(hits: list[dict[str, Any]]) -> None:
    """Print neighbours, two lines each."""
    rows = []
    for hit in hits:
        text = one_line(hit["text"]) if hit["text"] is not None else f"row {hit['row']}"
        if hit["why"]:
            reasons = (f"{one_line(w['name'], 40)} {w['value']:+.2g}" for w in hit["why"])
            text += "\n  " + ", ".join(reasons)
        label = "" if hit["label"] is None else one_line(hit["label"], 24)
        rows.append((f"{hit['similarity']:.2f}", label, text))
    show_table(rows, right=(0,))


@app.command()
def explain(
    model: Model,
    x: Annotated[str, option("A text, or the number of a document.", "--x")],
    y: Annotated[str, option("A text, or the number of a document.", "--y")],
    rather_than: Annotated[
        str | None, option("A third one: explain why x is more like y than like this.")
    ] = None,
    by: Annotated[str, option("pair: parts per feature pair; atom: per learned pair.")] = "pair",
    top: Annotated[int, option("Parts to show.")] = 10,
    as_json: Json = False,
) -> None:
    """Show what the similarity of two texts is made of.

    **Examples**

      hdsl explain model.hdsl --x "open a socket" --y "listen on a port"

      hdsl explain model.hdsl --x 17 --y 3 --rather-than 44
    """
    from . import documents

    learned, collection = documents.load_all(model)
    given = {"--x": x, "--y": y, "--rather-than": rather_than}
    rows = {
        name: learned.rows(documents.row_of(collection, text, name))
        for name, text in given.items()
        if text is not None
    }
    parts = learned.model.explain(
        rows["--x"],
        rows["--y"],
        rather_than=rows.get("--rather-than"),
        by=by,
        feature_names=learned.feature_names(collection.feature_names),
        top=top,
    )
    if as_json:
        show_json(parts.to_dict())
    else:
        show(repr(parts))


@app.command()
def report(
    model: Model,
    output: Annotated[Path, option("HTML file.", "-o", "--output")] = Path("report.html"),
    title: Annotated[str | None, option("Title of the page.")] = None,
) -> None:
    """Write what was learned as one self-contained HTML page.

    **Example**

      hdsl report model.hdsl -o report.html
    """
    from . import documents, inputs

    inputs.check_output(output, (".html", ".htm"))
    learned, collection = documents.load_all(model)
    documents.write_report(learned, collection, output, title)
    show(f"{output}: {format_bytes(output.stat().st_size)}.")
