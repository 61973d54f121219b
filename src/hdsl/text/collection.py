"""Collection: documents with a model that takes texts, searches and says why."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..class_scores.scores import Scores
from ..class_scores.words import with_words
from ..files.container import Arrays
from ..files.tables import get_value, nested, part_of
from ..similarity.arrays import similarity_from_arrays
from ..similarity.cosine import LearnedCosine
from ..similarity.rows import unit_rows
from .documents import Documents
from .scored import Scored
from .words import Words


class Collection:
    """Documents with a learned similarity: takes texts, searches, and says why.

    ``hdsl.load`` returns it for a file of ``hdsl fit``.

    Parameters
    ----------
    model : HDSL or Pipeline
        Fitted; a pipeline has `ClassScores` first.
    words : Words, default=None
        What made rows of texts; None for rows of numbers.
    documents : Documents, default=None

    Attributes
    ----------
    model : HDSL or Pipeline
    words : Words or None
    documents : Documents
    """

    def __init__(
        self, model: Any, words: Words | None = None, documents: Documents | None = None
    ) -> None:
        self._model = model
        self._saved: tuple[Arrays, dict[str, Any]] | None = None
        self.words = words
        self.documents = documents or Documents()

    def __repr__(self) -> str:
        documents = self.documents
        what = "rows" if documents.texts is None else "documents"
        n = "no documents" if documents.X is None else f"{documents.n_rows:,} {what}"
        return f"<Collection: {n}, {self.scored.n_features:,} features; search, explain, model>"

    @property
    def model(self) -> Any:
        """The fitted model, as scikit-learn has it."""
        if self._model is None:
            from .. import saving

            assert self._saved is not None
            self._model = saving.from_arrays(*self._saved)
        return self._model

    @property
    def learned(self) -> Any:
        """The fitted model without class scores before it."""
        return self.model[-1] if hasattr(self.model, "steps") else self.model

    @property
    def scores(self) -> Any:
        """The fitted `ClassScores` before the model, None where there are none."""
        return self.model[0] if hasattr(self.model, "steps") else None

    @cached_property
    def scored(self) -> Scored:
        """The learned similarity of rows."""
        return self._plain() or Scored(self.learned.similarity_, self.scores)

    def _plain(self) -> Scored | None:
        """Return the similarity of a file without loading scikit-learn, None for other kinds."""
        arrays, header = self._saved or ({}, {})
        if header.get("kind") == "HDSL":
            return Scored(similarity_from_arrays(arrays, header))
        if header.get("kind") != "Pipeline":
            return None
        steps = header.get("steps")
        if not isinstance(steps, list):
            return None
        step_headers = [step[1] for step in steps]
        if [step.get("kind") for step in step_headers] != ["ClassScores", "HDSL"]:
            return None
        scores_header, model_header = step_headers
        scores = Scores().restore(part_of(arrays, "0"), scores_header)
        similarity = similarity_from_arrays(part_of(arrays, "1"), model_header)
        scored = Scored(similarity, scores)
        if scored.n_features != scores.n_features_in_:
            raise ValueError("the class scores and the model have other features")
        return scored

    @property
    def feature_names(self) -> np.ndarray | None:
        """The words, one per feature of a row; None where they have no names."""
        return None if self.words is None else self.words.names

    # --- use --------------------------------------------------------------------------

    def rows_of(self, texts: Iterable[str]) -> sp.csr_array:
        """Return texts as rows; words that are not known are ignored (see `unknown_words`)."""
        if self.words is None:
            raise ValueError(
                "The model was not learned from texts, so it has no words: give row "
                "numbers."
            )
        return self.words.transform(texts)

    def unknown_words(self, text: str) -> list[str]:
        """Return the words of a text that the model does not know, and so does not search for."""
        return [] if self.words is None else self.words.unknown(text)

    def known_share(self, text: str) -> float:
        """Return which share of the words of a text is known: what a score rests on."""
        if self.words is None:
            return 1.0
        n_words = len(set(self.words.split(text)))
        return 1.0 - len(self.words.unknown(text)) / n_words if n_words else 0.0

    def is_document(self, name: Any) -> bool:
        """Return whether this is the id or the number of a document."""
        try:
            return self.row_number(name) >= 0
        except ValueError:
            return False

    def row_number(self, name: Any) -> int:
        """Return the row of a document by its id, or by its number where ids are no numbers."""
        documents = self.documents
        name = str(name)
        if documents.X is None:
            raise ValueError("The model has no documents: give texts instead of rows.")
        ids = (
            []
            if documents.ids is None
            else [str(value) for value in documents.ids.tolist()]
        )
        if name in ids:
            return ids.index(name)
        are_numbers = bool(ids) and all(map(str.isdecimal, ids))
        is_number = name.isdecimal() and len(name) < 19 and int(name) < documents.n_rows
        if are_numbers or not is_number:
            ways = ["named by their ids"] if ids else []
            ways += [] if are_numbers else ["numbered from 0"]
            raise ValueError(
                f"There is no document {name[:60]!r}: the model has "
                f"{documents.n_rows:,}, {' or '.join(ways)}."
            )
        return int(name)

    def row_of(self, given: Any) -> sp.csr_array:
        """Return one row: of a document by id or number, else of a text."""
        is_text = (
            self.words is not None and isinstance(given, str) and not given.isdecimal()
        )
        if is_text and not self.is_document(given):
            return self.row_of_text(given)
        return self.documents.X[[self.row_number(given)]]

    def row_of_text(self, text: str) -> sp.csr_array:
        """Return a text as one row; raise ValueError where no word of it is known."""
        row = self.rows_of([text])
        if not row.nnz:
            raise ValueError(
                f"The model knows none of the words of {text[:60]!r}: try others."
            )
        return row

    def search(
        self, query: Any, k: int = 5, *, why: int = 4, row: Any = None
    ) -> list[dict[str, Any]]:
        """Return the documents of largest learned cosine with a text, and why.

        Parameters
        ----------
        query : str or None
        k : int, default=5
            Number of documents.
        why : int, default=4
            Number of reasons for each.
        row : int or str, default=None
            The id or number of a document to search with, instead of a text.

        Returns
        -------
        list of dict
            ``row``, ``id``, ``label``, ``text``, ``similarity`` (the learned cosine),
            ``cosine``, ``rank`` and ``rank by cosine``, ``why`` (name and value of the
            largest parts) and ``more`` (number and sum of the others).
        """
        if row is None:
            if not isinstance(query, str):
                raise TypeError(
                    f"search takes one text, or row=. Got {type(query).__name__}."
                )
            return self.search_rows(self.row_of_text(query), k, why=why)[0]
        number = self.row_number(row)
        return self.search_rows(
            self.documents.X[[number]], k, why=why, leave_out=number
        )[0]

    def search_rows(
        self,
        queries: sp.csr_array,
        k: int = 5,
        *,
        why: int = 4,
        leave_out: int | None = None,
        first_by_cosine: bool = False,
    ) -> list[list[dict[str, Any]]]:
        """Return for each row what `search` returns; nothing for an empty row.

        With `first_by_cosine` the nearest document by cosine comes last, if it is not
        among them.
        """
        X = self.documents.X
        scored = self.scored
        if X is None:
            raise ValueError(
                "The model has no documents: fit it again without --no-documents."
            )
        if k < 1 or why < 0:
            raise ValueError(
                f"k must be 1 or more and why 0 or more. Got {k} and {why}."
            )
        learned = LearnedCosine(scored.similarity)
        index = learned.index_rows(scored.rows(X))
        plain = unit_rows(X)
        left_out = [] if leave_out is None else [leave_out]
        answers: list[list[dict[str, Any]]] = []
        for query in (queries[[q]] for q in range(queries.shape[0])):
            answers.append([])
            if not query.nnz:
                continue
            sides = (
                (index, learned.rewrite(scored.rows(query))),
                (plain, unit_rows(query)),
            )
            scores, cosines = (
                np.asarray((rows @ x.T).todense()).ravel() for rows, x in sides
            )
            scores[left_out] = cosines[left_out] = -np.inf
            nearest = np.argsort(-scores, kind="stable")[
                : min(k, len(scores) - len(left_out))
            ]
            rows = nearest.tolist()
            first = int(np.argmax(cosines))
            if first_by_cosine and first not in rows and cosines[first] > 0.0:
                rows.append(first)
            answers[-1] += [self._hit(row, query, scores, cosines, why) for row in rows]
        return answers

    def _hit(
        self, row: int, query: Any, scores: np.ndarray, cosines: np.ndarray, why: int
    ) -> dict[str, Any]:
        """Return a document that was found, with what is known of it and the reasons."""
        documents = self.documents
        score = float(scores[row])
        reasons = self._reasons(query, documents.X[[row]], score)
        known = {
            name: getattr(documents, f"{name}s") for name in ("id", "label", "text")
        }
        return {
            "row": row,
            **{
                name: None if values is None else values[row]
                for name, values in known.items()
            },
            "similarity": score,
            "cosine": float(cosines[row]),
            "rank": int((scores > scores[row]).sum()) + 1,
            "rank by cosine": int((cosines > cosines[row]).sum()) + 1,
            "why": reasons[:why],
            "more": {
                "n": len(reasons[why:]),
                "value": sum(p["value"] for p in reasons[why:]),
            },
        }

    def _explained(
        self, rows: dict[str, Any], by: str = "pair", top: int | None = None
    ) -> Any:
        """Return the parts of the similarity of rows without scores, classes with their words."""
        from .. import explain

        scored = self.scored
        names = self.scored.names(self.feature_names)
        given = {name: scored.rows(row) for name, row in rows.items()}
        found = explain.explain(
            scored.similarity, **given, by=by, feature_names=names, top=top
        )
        if scored.scores is None or names is None:
            return found
        return with_words(found, scored.scores, rows, names)

    def _reasons(self, x: Any, y: Any, cosine: float) -> list[dict[str, Any]]:
        """Return what each feature and feature pair adds to the cosine, learned part and prior."""
        found = self._explained({"x": x, "y": y})
        share = cosine / found.total if found.total else 0.0
        reasons: dict[str, dict[str, Any]] = {}
        for part in found.parts:
            reason = reasons.setdefault(
                str(part["name"]), {"name": str(part["name"]), "value": 0}
            )
            reason["value"] += share * float(part["value"])
            if words := found.words_of(part):
                reason["words"] = words
        return sorted(reasons.values(), key=lambda reason: -abs(reason["value"]))

    def explain(
        self,
        x: Any,
        y: Any,
        *,
        rather_than: Any = None,
        by: str = "pair",
        top: int | None = 10,
    ) -> Any:
        """Return the parts of the similarity of two documents or texts.

        Parameters
        ----------
        x, y, rather_than : str or int
            The id or number of a document, else a text.
        by, top
            As in ``HDSL.explain``.

        Returns
        -------
        hdsl.explain.Explanation
        """
        given = {"x": x, "y": y, "rather_than": rather_than}
        rows = {name: self.row_of(z) for name, z in given.items() if z is not None}
        return self._explained(rows, by, top)

    # --- files ------------------------------------------------------------------------

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return all of it as arrays, and what is no array."""
        from .. import saving

        model, saved = self._saved or saving.to_arrays(self.model)
        documents, facts = self.documents.to_arrays()
        words, layout = ({}, None) if self.words is None else self.words.to_arrays()
        arrays = nested(model=model, documents=documents, words=words)
        return arrays, {"model": saved, "documents": facts, "words": layout}

    @classmethod
    def from_arrays(cls, arrays: Arrays, header: dict[str, Any]) -> Collection:
        """Return what `to_arrays` was called on; raise ValueError if it is damaged."""
        found = cls(None)
        layout = header.get("words")
        found._saved = part_of(arrays, "model"), get_value(header, "model", dict)
        if found._saved[1].get("kind") == "Collection":
            raise ValueError("a collection holds a model")
        if layout is not None:
            found.words = Words.from_arrays(part_of(arrays, "words"), layout)
        n_features = found.scored.n_features
        if found.words is not None and len(found.words.names) != n_features:
            raise ValueError(
                f"there are {len(found.words.names)} words, for {n_features} features"
            )
        documents = part_of(arrays, "documents")
        facts = get_value(header, "documents", dict)
        found.documents = Documents.from_arrays(documents, facts, n_features)
        return found
