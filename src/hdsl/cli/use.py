"""What a model file is good for: ``hdsl evaluate``, ``search``, ``explain`` and ``report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.preprocessing import normalize

from .. import memory, search
from ..estimators.hdsl import HDSL, load
from ..neighbors import SimilarityKNeighborsClassifier
from ..text import TEST, Collection, load_collection
from . import inputs
from .learn import MEASURES, N_NEIGHBORS, errors_by_judgements, errors_by_labels
from .options import (
    Id,
    Json,
    LabelColumn,
    Labels,
    MatlabNames,
    Model,
    TextColumn,
    Triplets,
    ZeroBased,
    app,
    option,
)
from .shell import one_line, say, show, show_errors, show_json, show_table


@app.command()
def evaluate(
    model: Model,
    data: Annotated[
        Path | None,
        typer.Argument(help="New data; none: the rows that `fit` held out, kept in the model."),
    ] = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    labels: Labels = None,
    triplets: Triplets = None,
    ids: Id = None,
    zero_based: ZeroBased = False,
    matlab_names: MatlabNames = "fea,gnd",
    n_neighbors: Annotated[int, option("Neighbours that vote.", "-k")] = N_NEIGHBORS,
    as_json: Json = False,
) -> None:
    """Measure a model: as learned, by cosine, by dot product.

    New rows are judged by the documents in the model, or where it has none each by the other new
    ones. Columns are those of the fit unless told. With --triplets judgements are checked instead.

    **Examples**

      hdsl evaluate model.hdsl

      hdsl evaluate model.hdsl new_reviews.csv
    """
    learned, kept = load_all(model)
    by = "labels"
    if data is None:
        if kept.X is None or kept.labels is None or not (kept.part == TEST).any():
            raise ValueError(
                f"{model} keeps no labelled rows that were held out: name a data file."
            )
        X, y, new = kept.X, kept.labels, kept.part == TEST
        n_rows, against = int(new.sum()), "the documents in the model"
        errors = errors_by_labels(
            learned, X[~new], y[~new], X[new], y[new], n_neighbors=n_neighbors
        )
    else:
        columns = kept.columns or {}
        if inputs.is_table(data):
            text, label = text or columns.get("text"), label or columns.get("label")
            label = None if labels is not None or triplets is not None else label
        source = inputs.Source(text, label, labels, triplets, ids, zero_based, matlab_names)
        given = inputs.read_data(data, source)
        X = _rows(given, learned, kept)
        if given.judgements is not None:
            by, n_rows, against = "judgements", len(given.judgements.triplets), ""
            errors = errors_by_judgements(learned, X, *given.judgements)
        else:
            if given.labels is None:
                raise ValueError(
                    f"{data} has no labels to check against: name them with --label or --labels, "
                    "or judgements with --triplets."
                )
            n_rows = X.shape[0]
            errors, against = _errors_on_new_rows(learned, kept, X, given.labels, n_neighbors)
    if as_json:
        show_json({"measure": by, "n": n_rows, "neighbours": n_neighbors, "error": errors})
        return
    what = MEASURES[by] if by == "judgements" else f"error of {n_neighbors} nearest neighbours"
    among = f" among {against}" if against else ""
    show_errors(f"{what.capitalize()}{among}, {n_rows} {'rows' if by == 'labels' else by}", errors)


def _errors_on_new_rows(
    learned: HDSL, kept: Collection, X: Any, y: np.ndarray, n_neighbors: int
) -> tuple[dict[str, float], str]:
    """Return the errors and whom the rows were judged by."""
    if kept.X is None or kept.labels is None:

        def error(similarity: Any, X: Any) -> float:
            knn = SimilarityKNeighborsClassifier(n_neighbors, similarity=similarity).fit(X, y)
            return float(np.mean(knn.predict(None) != y))

        errors = {"dot product": error(None, X), "cosine": error(None, normalize(X))}
        return errors | {"learned": error(learned, X)}, "the other rows"
    same = kept.labels.dtype.kind == np.asarray(y).dtype.kind
    y = y if same else np.array([str(v) for v in y], dtype=object)
    known = kept.labels if same else np.array([str(v) for v in kept.labels], dtype=object)
    n_seen = _n_seen(kept.X, X)
    if n_seen:
        say(
            f"warning: {n_seen} of {X.shape[0]} rows are in the model already and find themselves: "
            "the errors flatter. `hdsl evaluate MODEL` alone measures on rows held out."
        )
    errors = errors_by_labels(learned, kept.X, known, X, y, n_neighbors=n_neighbors)
    return errors, "the documents in the model"


def _n_seen(known: Any, new: Any) -> int:
    """Return how many new rows are equal to a known one."""

    def keys(X: Any) -> list[bytes]:
        ends = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        columns, values = X.indices.astype(np.int64), X.data.round(9)
        return [columns[a:b].tobytes() + values[a:b].tobytes() for a, b in ends if a < b]

    seen = set(keys(known))
    return sum(key in seen for key in keys(new))


def _rows(data: inputs.Data, model: HDSL, kept: Collection) -> Any:
    """Return new data as rows of the features that the model knows."""
    if data.texts is not None:
        return kept.rows_of(data.texts)
    X, d = data.X, model.n_features_in_
    if kept.vectorizer is not None or X.shape[1] > d:
        raise ValueError(
            f"{data.path} has rows of {X.shape[1]} features, but the model was learned on "
            + ("texts: give a table of texts." if kept.vectorizer is not None else f"{d}.")
        )
    X.resize(X.shape[0], d)  # the last features may not occur in an svmlight file
    return X


@app.command("search")
def search_command(
    model: Model,
    query: Annotated[list[str] | None, typer.Argument(help="Words.", show_default=False)] = None,
    row: Annotated[int | None, option("A document of the model by its number, from 0.")] = None,
    n_neighbors: Annotated[int, option("Neighbours to show.", "-k")] = 5,
    why: Annotated[int, option("Reasons a neighbour.")] = 4,
    as_json: Json = False,
) -> None:
    """Find the documents most similar to a query, and why.

    "a ~ b" is a pair: a of one text met b of the other. A word alone was in both.

    **Examples**

      hdsl search model.hdsl "open a connection"

      hdsl search model.hdsl --row 17 -k 10
    """
    learned, kept = load_all(model)
    if (row is None) == (not query):
        raise ValueError("Give words to search for, or a document with --row, and not both.")
    x = row_of(kept, " ".join(query) if query else str(row), "the query")
    hits = find(learned, kept, x, n_neighbors, why, leave_out=row)
    if as_json:
        show_json({"query": " ".join(query or []) or row, "neighbours": hits})
        return
    show_hits(hits)


def find(
    model: HDSL, kept: Collection, x: Any, n: int, why: int, *, leave_out: int | None = None
) -> list[dict[str, Any]]:
    """Return the documents most similar to a row, with the largest parts of the similarity."""
    if kept.X is None:
        raise ValueError(
            "The model keeps no documents to search: fit it again without --no-documents."
        )
    if n < 1 or why < 0:
        raise ValueError(f"-k must be 1 or more and --why 0 or more. Got {n} and {why}.")
    found = search.top_k(model.rewrite(x), kept.X, n + (leave_out is not None))
    hits: list[dict[str, Any]] = []
    for row, score in zip(found.rows[0].tolist(), found.scores[0].tolist(), strict=True):
        if row < 0 or row == leave_out or len(hits) == n:
            continue
        hits.append(
            {
                "row": row,
                "similarity": score,
                "label": None if kept.labels is None else kept.labels[row],
                "text": None if kept.texts is None else kept.texts[row],
                "why": _reasons(model, x, kept.X[[row]], kept.feature_names)[:why],
            }
        )
    return hits


def _reasons(model: HDSL, x: Any, y: Any, names: Any) -> list[dict[str, Any]]:
    """Return what each feature and pair of features adds, learned and by the prior together."""
    values: dict[str, float] = {}
    for part in model.explain(x, y, feature_names=names).parts:
        values[part["name"]] = values.get(part["name"], 0.0) + float(part["value"])
    ordered = sorted(values.items(), key=lambda item: -abs(item[1]))
    return [{"name": name, "value": value} for name, value in ordered]


def show_hits(hits: list[dict[str, Any]]) -> None:
    """Print neighbours, two lines each."""
    rows = []
    for hit in hits:
        text = one_line(hit["text"]) if hit["text"] is not None else f"row {hit['row']}"
        lines = [text]
        if hit["why"]:
            reasons = (f"{one_line(w['name'], 40)} {w['value']:+.2g}" for w in hit["why"])
            lines.append("  " + ", ".join(reasons))
        label = "" if hit["label"] is None else one_line(hit["label"], 24)
        rows.append((f"{hit['similarity']:.2f}", label, "\n".join(lines)))
    show_table(rows, right=(0,))


@app.command()
def explain(
    model: Model,
    x: Annotated[str, option("A text, or the number of a document.", "--x")],
    y: Annotated[str, option("A text, or the number of a document.", "--y")],
    rather_than: Annotated[
        str | None, option("A third: why x is more like y than like this one.")
    ] = None,
    by: Annotated[str, option("pair: parts by pair of features; atom: by learned pair.")] = "pair",
    top: Annotated[int, option("Parts to show.")] = 10,
    as_json: Json = False,
) -> None:
    """Show what the similarity of two texts is made of.

    **Examples**

      hdsl explain model.hdsl --x "open a socket" --y "listen on a port"

      hdsl explain model.hdsl --x 17 --y 3 --rather-than 44
    """
    learned, kept = load_all(model)
    rows = {
        name: None if value is None else row_of(kept, value, name)
        for name, value in (("--x", x), ("--y", y), ("--rather-than", rather_than))
    }
    parts = learned.explain(
        rows["--x"], rows["--y"], rather_than=rows["--rather-than"], by=by,
        feature_names=kept.feature_names, top=top,
    )  # fmt: skip
    if as_json:
        show_json(parts.to_dict())
    else:
        show(repr(parts))


def row_of(kept: Collection, given: str, what: str) -> Any:
    """Return a text, or a document by its number, as one row."""
    if given.strip().isdecimal():
        k = int(given)
        if kept.X is None:
            raise ValueError("The model keeps no documents: give texts instead of numbers.")
        if k >= kept.n_rows:
            raise ValueError(
                f"There is no document {k}: the model has {kept.n_rows}, numbered from 0."
            )
        return kept.X[[k]]
    row = kept.rows_of([given])
    if not row.nnz:
        raise ValueError(
            f"The model knows none of the words of {what}, {one_line(given, 60)!r}: try others."
        )
    return row


@app.command()
def report(
    model: Model,
    output: Annotated[Path, option("HTML file.", "-o", "--output")] = Path("report.html"),
    title: Annotated[str | None, option("Of the page.")] = None,
) -> None:
    """Write an HTML page of what was learned.

    It needs nothing from outside.

    **Example**

      hdsl report model.hdsl -o report.html
    """
    inputs.check_output(output, (".html", ".htm"))
    learned, kept = load_all(model)
    write_report(learned, kept, output, title)
    show(f"{output}: {memory.format_bytes(output.stat().st_size)}.")


def write_report(model: HDSL, kept: Collection, path: Path, title: str | None) -> None:
    """Write the page of a model, with its documents where it has them."""
    if kept.X is None:
        model.report(path, feature_names=kept.feature_names, title=title)
        return
    new = np.zeros(kept.n_rows, dtype=bool) if kept.part is None else kept.part == TEST
    y = kept.labels
    measured = new.any() and y is not None
    model.report(
        path, kept.X[~new], None if y is None else y[~new],
        X_test=kept.X[new] if measured else None,
        y_test=y[new] if measured and y is not None else None,
        texts=None if kept.texts is None else kept.texts[~new],
        feature_names=kept.feature_names, title=title,
    )  # fmt: skip


def load_all(path: Path) -> tuple[HDSL, Collection]:
    """Return the model in a file, and the documents with it."""
    inputs.check_input(path)
    return load(path), load_collection(path)
