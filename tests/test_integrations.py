"""Retrievers for LangChain, LlamaIndex and Haystack find what a search finds."""

import json
import re
from importlib.util import find_spec

import pytest

from hdsl import HDSL, integrations, save
from hdsl.integrations import EXTRAS
from hdsl.settings import nested_parameters
from hdsl.text import Collection, learn

TEXTS = ["the striker scored a late goal", "a goal in the last minute of the match"]
TEXTS += ["shares fell after the profit warning", "the bank cut its profit forecast"]
MODEL = {"scale": 2.0, "prior": 0.5, "n_targets": 1, "n_impostors": 1, "max_iter": 5}


@pytest.fixture(scope="module")
def collection():
    ids = ["a", "b", "c", "d"]
    labels = ["sport", "sport", "money", "money"]
    return learn(TEXTS, labels, ids=ids, model=HDSL(**nested_parameters(**MODEL)))


def assert_found(collection, names, texts, metadata):
    hits = collection.search("late goal", 2)
    assert names == [hit["id"] for hit in hits]
    assert texts == [hit["text"] for hit in hits]
    assert [data["label"] for data in metadata] == [hit["label"] for hit in hits]
    assert json.loads(metadata[0]["why"])[0]["name"] == hits[0]["why"][0]["name"]


@pytest.mark.filterwarnings("default")
def test_langchain(collection, tmp_path):
    pytest.importorskip("langchain_core", reason="langchain-core is not installed")
    retriever = integrations.LangChainRetriever(collection=collection, k=2)
    documents = retriever.invoke("late goal")
    assert_found(
        collection,
        [document.id for document in documents],
        [document.page_content for document in documents],
        [document.metadata for document in documents],
    )
    assert retriever.invoke("zebra") == []
    save(collection, tmp_path / "m.hdsl")
    of_file = integrations.LangChainRetriever(collection=str(tmp_path / "m.hdsl"))
    assert len(of_file.invoke("late goal")) == 4


@pytest.mark.filterwarnings("default")
def test_llama_index(collection):
    pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")
    retriever = integrations.LlamaIndexRetriever(collection, k=2)
    nodes = retriever.retrieve("late goal")
    assert_found(
        collection,
        [node.node_id for node in nodes],
        [node.text for node in nodes],
        [node.metadata for node in nodes],
    )
    hits = collection.search("late goal", 2)
    assert [node.score for node in nodes] == [hit["similarity"] for hit in hits]
    assert retriever.retrieve("zebra") == []


@pytest.mark.filterwarnings("default")
def test_haystack(collection, tmp_path):
    haystack = pytest.importorskip("haystack", reason="haystack-ai is not installed")
    save(collection, tmp_path / "m.hdsl")
    pipeline = haystack.Pipeline()
    path = str(tmp_path / "m.hdsl")
    retriever = integrations.HaystackRetriever(path, k=2, plain=False)
    pipeline.add_component("retriever", retriever)
    saved = pipeline.to_dict()
    kind = saved["components"]["retriever"]["type"]
    assert kind == "hdsl.integrations.HaystackRetriever"
    parameters = saved["components"]["retriever"]["init_parameters"]
    assert parameters == {"collection": path, "k": 2, "plain": False}
    read_back = integrations.HaystackRetriever.from_dict(retriever.to_dict())
    pipeline = haystack.Pipeline()
    pipeline.add_component("retriever", read_back)
    documents = pipeline.run({"retriever": {"query": "late goal"}})["retriever"]
    documents = documents["documents"]
    assert_found(
        collection,
        [document.id for document in documents],
        [document.content for document in documents],
        [document.meta for document in documents],
    )
    with pytest.raises(ValueError, match="give the retriever a path"):
        integrations.HaystackRetriever(collection).to_dict()


LIBRARIES = {
    "HaystackRetriever": "haystack",
    "LangChainRetriever": "langchain_core",
    "LlamaIndexRetriever": "llama_index",
}


@pytest.mark.parametrize("name", sorted(LIBRARIES))
def test_a_missing_library_is_named_with_what_to_install(name):
    if find_spec(LIBRARIES[name]) is not None:
        pytest.skip(f"{LIBRARIES[name]} is installed")
    with pytest.raises(
        ImportError, match=re.escape(f"pip install hdsl[{EXTRAS[name]}]")
    ):
        getattr(integrations, name)


def test_a_retriever_takes_a_model_of_texts_with_documents(collection):
    with pytest.raises(TypeError, match="takes a Collection"):
        integrations._loaded(collection.learned)
    with pytest.raises(ValueError, match="with its documents"):
        integrations._loaded(Collection(collection.model, collection.words))
