"""A page that searches documents in the browser, learned and plain side by side."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..input.matrices import canonical
from ..memory import format_bytes
from ..printable import printable
from ..rows import Rows
from .content import MAX_NAME, cut
from .page import policy

#: Most documents of a page; of more, as many are taken, spread evenly.
MAX_DOCUMENTS = 20_000

#: Most bytes of a page: mail takes it as an attachment.
MAX_BYTES = 20 * 2**20

#: How exact values are and how long texts, in bits and characters: the first that fits.
FORMS = ((16, 1000), (16, 300), (8, 300), (8, 100))

#: The files of the script in their order; they share one scope.
SCRIPT = ("search_page/read", "script/words", "search_page/search")


def search_page(collection: Any, *, title: str) -> str:
    """Return a page that searches the documents of a collection, as HTML.

    Typed words are read, weighted and scored as ``Collection.search`` does it. The page
    asks for nothing from outside.

    Parameters
    ----------
    collection : Collection
        With words and documents, without an encoder.
    title : str

    Raises
    ------
    ValueError
        The model has no words or no documents, or compares an embedding, or the page
        is too large in any form.
    """
    _check(collection)
    documents = collection.documents
    rows = _spread(documents.n_rows)
    index = _index(collection, documents.X[rows])
    for n_bits, n_characters in FORMS:
        content = {
            "title": printable(title),
            "version": version("hdsl"),
            "n_documents": documents.n_rows,
            "n_characters": n_characters,
            "n_bits": n_bits,
            "rows": rows,
            "texts": _cut(documents.texts, rows, n_characters),
            "ids": _cut(documents.ids, rows, MAX_NAME),
            "labels": _cut(documents.labels, rows, MAX_NAME),
            "reader": collection.words.reader,
            **index,
            **_quantized(index["X"], n_bits),
        }
        del content["X"]
        page = _filled(printable(title), _packed(content))
        if len(page) <= MAX_BYTES:
            return page
    raise ValueError(
        f"A page of {len(rows):,} documents with {index['X'].nnz:,} words takes "
        f"{format_bytes(len(page))}, and at most {format_bytes(MAX_BYTES)} can be sent: "
        "learn with --min-df 2 or more, so that rare words are left out."
    )


def _check(collection: Any) -> None:
    """Raise ValueError where a page could not search."""
    if collection.words is None:
        raise ValueError(
            "A page that searches needs a model of texts, but this one was learned from "
            "rows of numbers: leave out --search."
        )
    if collection.documents.X is None:
        raise ValueError(
            "The model has no documents to search: fit it again without --no-documents."
        )
    if isinstance(collection.documents.X, Rows):
        raise ValueError(
            "The model compares an embedding, and a page has no encoder for typed "
            "texts: fit without --encoder, or leave out --search."
        )


def _spread(n_documents: int) -> np.ndarray:
    """Return the numbers of the documents of a page, spread evenly where these are more."""
    n = min(n_documents, MAX_DOCUMENTS)
    return np.unique(np.linspace(0, n_documents - 1, n).round().astype(np.int64))


def _cut(values: Any, rows: np.ndarray, length: int) -> list[str] | None:
    """Return the values of some rows as short texts, None where there are no values."""
    if values is None:
        return None
    return [
        cut(" ".join(str(value).split()), length) for value in values[rows].tolist()
    ]


# --- what is compared -----------------------------------------------------------------


def _index(collection: Any, X: sp.csr_array) -> dict[str, Any]:
    """Return the documents as the model compares them, and what rewrites a query."""
    scored = collection.scored
    similarity = scored.similarity
    compared = canonical(sp.csr_array(similarity.index_rows(scored.rows(X))))
    own_lengths = np.ones(X.shape[0])
    if scored.ranking == "cosine":
        own_lengths = similarity.own_lengths(scored.rows(X))
    is_word = compared.indices < scored.n_words
    words = sp.csr_array(
        (compared.data * is_word, compared.indices, compared.indptr), compared.shape
    )
    fixed = np.zeros(compared.shape[1])
    for fixed_part in similarity.fixed:
        fixed[fixed_part.start : fixed_part.stop_in(compared.shape[1])] += (
            fixed_part.weight
        )
    return {
        "X": compared,
        "names": [str(name) for name in scored.names(collection.feature_names)],
        "n_words": scored.n_words,
        "ranking": scored.ranking,
        "norm": similarity.fixed[0].norm,
        "own_lengths": own_lengths,
        "plain_lengths": _lengths(words),
        "fixed": fixed,
        "i": np.reshape(similarity.atoms, (-1, 3))[:, 0],
        "j": np.reshape(similarity.atoms, (-1, 3))[:, 1],
        "sign": np.reshape(similarity.atoms, (-1, 3))[:, 2],
        "weight": similarity.scale * np.asarray(similarity.weights, dtype=np.float64),
        "words": collection.words.weighting,
        "scores": _scorer(scored.scores),
    }


def _lengths(X: sp.csr_array) -> np.ndarray:
    """Return the length of each row, 1 for a row without."""
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    return np.where(lengths > 0, lengths, 1.0)


def _scorer(scores: Any) -> dict[str, Any] | None:
    """Return what gives a typed query its class scores, None without such."""
    if scores is None:
        return None
    classifier = scores.classifier_
    coef = np.atleast_2d(np.asarray(classifier.coef_))
    columns = scores.columns_
    if not scores.is_wide_ or columns is None:
        columns = np.arange(coef.shape[1])
    return {
        "coef": coef.ravel().astype(np.float32),
        "columns": columns,
        "intercept": np.broadcast_to(classifier.intercept_, len(coef)).astype(float),
        "places": np.searchsorted(scores.classes_, classifier.classes_),
        "n_classes": len(scores.classes_),
        "n_scores": scores.n_scores,
        "weight": float(scores.weight_),
    }


def _quantized(X: sp.csr_array, n_bits: int) -> dict[str, Any]:
    """Return rows in whole numbers of a share of their largest value.

    The features of a row are stored as the steps between them.
    """
    largest = np.zeros(X.shape[0])
    np.maximum.at(largest, _row_numbers(X), np.abs(X.data))
    step = largest / (2 ** (n_bits - 1) - 1)
    step[step == 0] = 1.0
    row_of = _row_numbers(X)
    steps = np.diff(X.indices, prepend=0)
    starts = X.indptr[:-1][np.diff(X.indptr) > 0]
    steps[starts] = X.indices[starts]
    values = np.round(X.data / step[row_of])
    return {
        "sizes": np.diff(X.indptr),
        "steps": steps,
        "values": values.astype(f"<i{n_bits // 8}"),
        "value_step": step,
    }


def _row_numbers(X: sp.csr_array) -> np.ndarray:
    """Return the row of each value."""
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))


# --- the file -------------------------------------------------------------------------


def _packed(content: dict[str, Any]) -> str:
    """Return content as base64 of gzip: a line of JSON, then the arrays that it names."""
    arrays: list[bytes] = []
    end = 0

    def described(value: Any) -> Any:
        nonlocal end
        if isinstance(value, dict):
            return {name: described(entry) for name, entry in value.items()}
        if not isinstance(value, np.ndarray):
            return value
        array = _small(value)
        data = array.tobytes()
        data += bytes(-len(data) % 8)
        arrays.append(data)
        end += len(data)
        kind = f"{array.dtype.kind}{array.dtype.itemsize}"
        return {"array": [kind, end - len(data), len(array)]}

    header = json.dumps(described(content), ensure_ascii=True).encode()
    header += b" " * (-len(header) % 8)
    length = len(header).to_bytes(8, "little")
    return base64.b64encode(
        gzip.compress(length + header + b"".join(arrays), 6, mtime=0)
    ).decode()


def _small(array: np.ndarray) -> np.ndarray:
    """Return floats in 32 bits, and whole numbers in the smallest type of a script."""
    if array.dtype.kind == "f":
        return array.astype("<f4")
    if array.dtype.itemsize <= 2 or not array.size:
        return array if array.size else array.astype(np.uint8)
    dtype = np.result_type(
        np.min_scalar_type(array.min()), np.min_scalar_type(array.max())
    )
    return array.astype(dtype.newbyteorder("<"))


def _filled(title: str, data: str) -> str:
    """Return the page with its styles, its script and its data."""
    folder = files(__package__)
    template = (folder / "search_page" / "page.html").read_text("utf-8")
    css = (folder / "search_page" / "page.css").read_text("utf-8")
    modules = [(folder / f"{name}.js").read_text("utf-8") for name in SCRIPT]
    script = '"use strict";\n(async () => {\n' + "\n".join(modules) + "})();\n"
    slots = {
        "policy": policy(css, script),
        "title": html.escape(title),
        "css": css,
        "data": data,
        "js": script,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: slots[match[1]], template)
