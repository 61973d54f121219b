"""Retrievers for LangChain, LlamaIndex and Haystack, over a model with documents.

Each is loaded when it is asked for: importing this module needs none of these libraries.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from .saving import load
from .text import Collection

#: What to install where a library is missing, by the name of its retriever.
EXTRAS = {
    "HaystackRetriever": "haystack",
    "LangChainRetriever": "langchain",
    "LlamaIndexRetriever": "llama-index",
}

ABOUT = """Finds the documents of a model that are most similar to a query.

    Parameters
    ----------
    collection : Collection, str or path-like
        A model with words and documents, or its file.
    k : int, default=4
        Number of documents.
    plain : bool, default=False
        Whether to order by the plain cosine instead of as learned.

    Notes
    -----
    A document has its label, its row, the plain cosine and the reasons as metadata. A
    query of unknown words finds nothing.
    """


def __getattr__(name: str) -> Any:
    """Return the class of a retriever; raise ImportError with what to install."""
    makers = {
        "HaystackRetriever": _haystack,
        "LangChainRetriever": _langchain,
        "LlamaIndexRetriever": _llama_index,
    }
    if name not in makers:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        retriever = makers[name]()
    except ImportError as error:
        raise ImportError(
            f"{name} needs a library that is not installed ({error}): "
            f"pip install hdsl[{EXTRAS[name]}]"
        ) from error
    return retriever


def _loaded(collection: Any) -> Collection:
    """Return a collection, of a file where it is named."""
    if isinstance(collection, str | Path):
        collection = load(collection)
    if not isinstance(collection, Collection):
        raise TypeError(
            "A retriever takes a Collection, as hdsl.text.learn returns it, or a file of "
            f"`hdsl fit`. Got {type(collection).__name__}."
        )
    if collection.words is None or collection.documents.X is None:
        raise ValueError(
            "A retriever needs a model of texts with its documents: fit on texts, "
            "without --no-documents."
        )
    return collection


def _found(
    collection: Collection, query: str, k: int, *, plain: bool
) -> list[tuple[str, str, float, dict[str, Any]]]:
    """Return the id, the text, the score and the metadata of each document found."""
    (hits,) = collection.search_rows(collection.rows_of([query]), k, plain=plain)
    documents = []
    for hit in hits:
        name = hit["row"] if hit["id"] is None else hit["id"]
        metadata = {
            "row": hit["row"],
            "label": hit["label"],
            "similarity": hit["similarity"],
            "cosine": hit["cosine"],
            "why": json.dumps(hit["why"], ensure_ascii=False),
        }
        score = hit["cosine"] if plain else hit["similarity"]
        documents.append((str(name), hit["text"] or "", score, metadata))
    return documents


@cache
def _langchain() -> type:
    """Return the retriever of LangChain."""
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    class LangChainRetriever(BaseRetriever):
        __doc__ = ABOUT
        collection: Any
        k: int = 4
        plain: bool = False

        def model_post_init(self, context: Any) -> None:
            """Load the model where its file is named."""
            self.collection = _loaded(self.collection)

        def _get_relevant_documents(self, query: str, **callbacks: Any) -> list[Any]:
            hits = _found(self.collection, query, self.k, plain=self.plain)
            return [
                Document(id=name, page_content=text, metadata=metadata)
                for name, text, _, metadata in hits
            ]

    return _named(LangChainRetriever)


@cache
def _llama_index() -> type:
    """Return the retriever of LlamaIndex."""
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

    class LlamaIndexRetriever(BaseRetriever):
        __doc__ = ABOUT

        def __init__(
            self, collection: Any, k: int = 4, plain: bool = False, **settings: Any
        ) -> None:
            self.collection = _loaded(collection)
            self.k = k
            self.plain = plain
            super().__init__(**settings)

        def _retrieve(self, query_bundle: Any) -> list[Any]:
            query = query_bundle.query_str
            hits = _found(self.collection, query, self.k, plain=self.plain)
            return [
                NodeWithScore(
                    node=TextNode(id_=name, text=text, metadata=metadata), score=score
                )
                for name, text, score, metadata in hits
            ]

    return _named(LlamaIndexRetriever)


@cache
def _haystack() -> type:
    """Return the retriever of Haystack, a component of its pipelines."""
    from haystack import Document, component, default_from_dict, default_to_dict

    class HaystackRetriever:
        __doc__ = ABOUT

        def __init__(self, collection: Any, k: int = 4, plain: bool = False) -> None:
            self._source = collection
            self.collection = _loaded(collection)
            self.k = k
            self.plain = plain

        def run(self, query: str, k: int | None = None) -> dict[str, Any]:
            """Return the documents for a query."""
            hits = _found(self.collection, query, k or self.k, plain=self.plain)
            documents = [
                Document(id=name, content=text, score=score, meta=metadata)
                for name, text, score, metadata in hits
            ]
            return {"documents": documents}

        def to_dict(self) -> dict[str, Any]:
            """Return the component for a file of a pipeline: the model by its own file."""
            if not isinstance(self._source, str | Path):
                raise ValueError(
                    "A pipeline is saved with the name of a model file: give the "
                    "retriever a path, not a Collection."
                )
            return default_to_dict(
                self, collection=str(self._source), k=self.k, plain=self.plain
            )

        @classmethod
        def from_dict(cls, data: dict[str, Any]) -> Any:
            """Return the component of `to_dict`."""
            return default_from_dict(cls, data)

    named = _named(HaystackRetriever)
    named.run = component.output_types(documents=list[Document])(named.run)  # type: ignore[attr-defined]
    return component(named)


def _named(retriever: type) -> type:
    """Return a class with the name by which this module has it, for files that name it."""
    retriever.__qualname__ = retriever.__name__
    retriever.__module__ = __name__
    return retriever
