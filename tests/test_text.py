"""Texts as rows, and the documents in a model file."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from hdsl import HDSL, load
from hdsl.saving import save
from hdsl.text import TEST, TRAIN, Collection, load_collection, make_vectorizer, split_identifiers

GOLDEN = Path(__file__).parent / "golden" / "model-v1.hdsl"

TEXTS = np.array(
    [
        "The striker scored a late goal",
        "a goal in the last minute of the match",
        "Shares fell after the profit warning",
        "The bank cut its profit forecast: naïve \x1b[31m € \ud800",
    ],
    dtype=object,
)
LABELS = np.array(["sport", "sport", "money", "money"], dtype=object)


def learned(texts=TEXTS, **options):
    vectorizer = make_vectorizer(**options)
    X = sp.csr_array(vectorizer.fit_transform(texts))
    model = HDSL(scale=2.0, prior=0.5, n_targets=1, n_impostors=1, max_iter=5, random_state=0)
    return model.fit(X, LABELS), X, vectorizer


# --- words ---------------------------------------------------------------------------------------


def test_identifiers_are_split_at_capitals_and_underscores():
    words = {
        "readLine": "read line",
        "read_all": "read all",
        "HTTPServer": "http server",
        "parseHTML5Page": "parse html5 page",
        "Plain words.": "plain words.",
        "": "",
    }
    assert {text: split_identifiers(text) for text in words} == words


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["get_line", "html5", "twice"]),
        ({"stop_words": "none"}, ["and", "get_line", "html5", "twice"]),
        ({"tokens": "identifiers"}, ["html", "line", "twice"]),
        ({"ngrams": 2}, ["get_line", "get_line html5", "html5", "html5 twice", "twice"]),
    ],
)
def test_tokens_stop_words_and_ngrams_decide_what_is_a_word(options, names):
    fitted = make_vectorizer(**options).fit(["get_line and html5 twice"])
    assert fitted.get_feature_names_out().tolist() == names


@pytest.mark.parametrize(
    "options", [{"tokens": "letters"}, {"ngrams": 0}, {"stop_words": "german"}]
)
def test_bad_options_are_refused(options):
    with pytest.raises(ValueError, match=f"'{next(iter(options))}' parameter of make_vectorizer"):
        make_vectorizer(**options)


# --- documents in model files --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        ({}, LABELS),
        ({"tokens": "identifiers", "ngrams": 2}, LABELS.astype(str)),
        ({"stop_words": "none", "ngrams": 3}, np.array([1, 1, 0, 0])),
        ({}, None),
    ],
)
def test_saved_documents_are_loaded_again(tmp_path, options, labels):
    model, X, vectorizer = learned(**options)
    part = np.array([TRAIN, TRAIN, TRAIN, TEST], dtype=np.int8)
    columns = {"text": "body", "label": "topic"}
    path = tmp_path / "model.hdsl"
    save(model, path, Collection(X, labels, TEXTS, part, vectorizer, columns).to_extra())
    back = load_collection(path)
    assert (back.X != X).nnz == 0
    assert back.n_rows == 4
    assert_array_equal(back.texts, TEXTS)
    assert_array_equal(back.part, part)
    assert back.columns == columns
    if labels is None:
        assert back.labels is None
    else:
        assert back.labels.tolist() == labels.tolist()
    new = ["the late goal of the bank, a match", "nothing known"]
    assert (back.rows_of(new) != sp.csr_array(vectorizer.transform(new))).nnz == 0
    assert_array_equal(back.feature_names, vectorizer.get_feature_names_out())
    assert_array_equal(load(path).similarity(X), model.similarity(X))
    assert load(path).get_params() == model.get_params()


def test_words_without_documents(tmp_path):
    model, _, vectorizer = learned()
    save(model, tmp_path / "m", Collection(vectorizer=vectorizer).to_extra())
    back = load_collection(tmp_path / "m")
    assert back.X is None
    assert back.n_rows == 0
    assert back.rows_of(["goal"]).nnz == 1
    assert b"striker scored" not in (tmp_path / "m").read_bytes()


def test_a_model_saved_without_documents_has_none(tmp_path):
    model, _, _ = learned()
    model.save(tmp_path / "m")
    for path in (tmp_path / "m", GOLDEN):
        loaded = load_collection(path)
        assert loaded.X is None
        assert loaded.labels is None
    with pytest.raises(ValueError, match="was not learned from texts"):
        load_collection(tmp_path / "m").rows_of(["goal"])


def broken(extra, name, value):
    return {**{key: v for key, v in extra.items() if key != name}, **value}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("columns", {"columns": {"text": 3}}),
        ("vectorizer", {"vectorizer": {"tokens": "words"}}),
        ("vectorizer", {"vectorizer": {"tokens": "eval", "ngrams": 1, "stop_words": "none"}}),
        ("vectorizer", {"vectorizer": {"tokens": "words", "ngrams": "1", "stop_words": "none"}}),
        ("vocabulary", {}),
        ("vocabulary", {"vocabulary": np.array(["a", "b"], dtype=object)}),
        ("idf", {"idf": np.array([np.nan])}),
        ("rows_indptr", {}),
        ("rows_indptr", {"rows_indptr": np.array([], dtype=np.int32)}),
        ("rows_indptr", {"rows_indptr": np.array([0, 10**6], dtype=np.int32)}),
        ("rows_indices", {"rows_indices": np.array([-5], dtype=np.int32)}),
        ("rows_indices", {"rows_indices": np.arange(100, 114, dtype=np.int32)}),
        ("texts", {"texts": np.array(["one"], dtype=object)}),
        ("labels", {"labels": np.zeros((4, 2))}),
        ("part", {"part": "all"}),
    ],
)
def test_broken_documents_are_refused(tmp_path, name, value):
    model, X, vectorizer = learned()
    part = np.zeros(4, dtype=np.int8)
    extra = Collection(X, LABELS, TEXTS, part, vectorizer).to_extra()
    save(model, tmp_path / "m", broken(extra, name, value))
    with pytest.raises(ValueError, match=r"Cannot load the documents of '.*m': .*damaged"):
        load_collection(tmp_path / "m")
