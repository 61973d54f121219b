"""Texts with an embedding beside the words, from the table to the page."""

import json
import sys
import zlib
from types import ModuleType

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from commands import LABELLED, TOPICS, bad, good, hdsl, told, write_csv
from hdsl import HDSL, ClassScores, Mining, Solver, load, save
from hdsl.cli.demo import ENCODERS, embedding_hint
from hdsl.rows import Rows
from hdsl.text import (
    Collection,
    EncoderError,
    SentenceEncoder,
    TextEncoder,
    Words,
    learn,
)
from hdsl.text.encoders import encode

WIDTH = 24
SYNONYMS = {"goal": "tor", "profit": "gewinn", "rose": "blume"}


class HashedTrigrams:
    """A small encoder: counts of hashed trigrams; words of a topic share one column."""

    def __init__(self, width=WIDTH):
        self.width = width
        self.n_texts = 0

    def encode(self, texts):
        self.n_texts += len(texts)
        rows = np.zeros((len(texts), self.width), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for start in range(max(1, len(text) - 2)):
                row[zlib.crc32(text[start : start + 3].encode()) % self.width] += 0.2
            for k, words in enumerate(TOPICS.values()):
                row[k] += 2 * sum(word in words.split() for word in text.split())
        return rows


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return a folder with texts, and a folder of an encoder that model2vec loads."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = []
    for k in range(90):
        topic = list(TOPICS)[k % 3]
        words = rng.choice(TOPICS[topic].split(), 2).tolist()
        rows.append(
            (f"d{k}", topic, " ".join([*words, f"filler{k % 7}", f"more{k % 11}"]))
        )
    write_csv(tmp_path / "texts.csv", rows)
    encoders = ModuleType("model2vec")

    class StaticModel(HashedTrigrams):
        @classmethod
        def from_pretrained(cls, folder):
            settings = json.loads((tmp_path / folder / "config.json").read_text())
            return cls(settings["width"])

    encoders.StaticModel = StaticModel
    monkeypatch.setitem(sys.modules, "model2vec", encoders)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    make_encoder(tmp_path / "small")
    return tmp_path


def make_encoder(folder, width=WIDTH):
    folder.mkdir()
    config = {"model_type": "model2vec", "width": width}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


SMALL = ("--encoder", "small")
FIT = (
    *LABELLED,
    *("--id", "id", *SMALL, "--max-iter", 4, "--min-df", 1),
    *("--tokens", "words", "--embedding-weight", 1),
)


def test_texts_are_learned_searched_explained_and_measured_with_an_embedding(home):
    facts = told("fit", "texts.csv", *FIT, "--embedding-weight", 1)
    assert facts["embedding"] == WIDTH
    assert facts["embedding weight"] > 0
    assert facts["error"]["learned"] <= facts["error"]["cosine"]
    (first, *_) = told("search", "model.hdsl", "goal keeper", "-k", 3, *SMALL)[
        "neighbours"
    ]
    assert first["label"] == "sport"
    parts = told("explain", "model.hdsl", "--x", "d0", "--y", "d3")["parts"]
    assert [part["name"] for part in parts if part["kind"] == "embedding"] == [
        "meaning"
    ]
    good("report", "model.hdsl")
    assert (
        "meaning" in (home / "report.html").read_text()
        or (home / "report.html").stat().st_size
    )
    assert told("evaluate", "model.hdsl")["n"] == 18
    assert "small" in good("info", "model.hdsl").stdout


def test_a_saved_collection_has_its_embedding_and_compares_as_before(home):
    good("fit", "texts.csv", *FIT, "--no-class-scores")
    collection = load(home / "model.hdsl")
    collection.encoder.use(str(home / "small"))
    X = collection.documents.X
    assert isinstance(X, Rows)
    assert_allclose(np.linalg.norm(X.dense, axis=1), 1.0, rtol=1e-5)
    row = collection.rows_of(["goal keeper"])
    expected = collection.scored.similarity.pairwise(row, X, cosine=True)[0]
    hits = collection.search("goal keeper", k=5)
    assert_allclose(
        [hit["similarity"] for hit in hits], np.sort(expected)[::-1][:5], rtol=1e-5
    )


def test_class_scores_see_an_embedding_that_the_similarity_leaves_out(tmp_path):
    texts = ["a late goal", "the last goal", "profit fell", "a profit warning"]
    y = ["sport", "sport", "money", "money"]
    scores = ClassScores(random_state=0, with_embedding=True)
    pairs = HDSL(
        embedding_weight=0.0, mining=Mining(n_targets=1, n_impostors=1), prior=1.0
    )
    words = Words(min_df=1)
    collection = learn(
        texts,
        y,
        words=words,
        encoder=HashedTrigrams(),
        model=make_pipeline(scores, pairs),
    )
    save(collection, tmp_path / "model.hdsl")
    loaded = load(tmp_path / "model.hdsl")
    loaded.encoder.use(HashedTrigrams())
    of_texts = loaded.scored.rows(loaded.rows_of(texts)).sparse
    of_documents = loaded.scored.rows(loaded.documents.X).sparse
    given = Rows(words.transform(texts), HashedTrigrams().encode(texts))
    expected = scores.transform(given).sparse
    assert_allclose(of_documents.toarray(), expected.toarray(), rtol=1e-4)
    assert_allclose(of_texts.toarray(), expected.toarray(), rtol=1e-4)


def test_an_encoder_that_a_file_names_is_not_loaded(home, monkeypatch):
    good("fit", "texts.csv", *FIT)
    loaded = []
    monkeypatch.setattr("hdsl.text.encoders.load_encoder", loaded.append)
    result = good("search", "model.hdsl", "goal keeper")
    assert loaded == []
    (line,) = [line for line in result.stderr.splitlines() if "words alone" in line]
    assert "--encoder" in line
    assert "'small'" in line


def test_an_encoder_that_the_user_names_is_loaded(home):
    good("fit", "texts.csv", *FIT)
    (home / "small").rename(home / "moved")
    assert (
        "words alone"
        not in good("search", "model.hdsl", "goal keeper", "--encoder", "moved").stderr
    )


def test_another_encoder_is_refused(home):
    good("fit", "texts.csv", *FIT)
    make_encoder(home / "wide", width=30)
    assert "24 columns" in bad("search", "model.hdsl", "goal", "--encoder", "wide")
    good("fit", "texts.csv", *LABELLED, "-o", "plain.hdsl", "--max-iter", 2)
    assert "without an encoder" in bad(
        "search", "plain.hdsl", "goal", "--encoder", "small"
    )


def test_an_export_has_words_and_embedding(home):
    good("fit", "texts.csv", *FIT, "--embedding-weight", 1)
    hits = told("search", "model.hdsl", "goal keeper", "-k", 90, *SMALL)["neighbours"]
    good("export", "model.hdsl", "--to", "jsonl", "-o", "index.jsonl")
    lines = [
        json.loads(line) for line in (home / "index.jsonl").read_text().split("\n")[:-1]
    ]
    options = ("--to", "jsonl", "--query", "goal keeper")
    query = json.loads(good("export", "model.hdsl", *options, *SMALL).stdout)
    scores = [
        sum(
            query["terms"].get(term, 0.0) * weight
            for term, weight in line["terms"].items()
        )
        + np.dot(query["meaning"], line["meaning"])
        for line in lines
    ]
    ranked = [scores[hit["row"]] for hit in hits]
    assert_allclose(ranked, [hit["similarity"] for hit in hits], atol=1e-5)
    (home / "small").rename(home / "moved")
    again = good("export", "model.hdsl", *options, "--encoder", "moved")
    assert json.loads(again.stdout) == query


def test_a_text_index_leaves_the_embedding_out_and_says_so(home):
    good("fit", "texts.csv", *FIT)
    result = good("export", "model.hdsl", "--to", "sqlite", "--query", "goal")
    assert "the embedding" in result.stderr
    assert "'\"goal\"'" in result.stdout
    expansion = told("search", "model.hdsl", "goal", "--expand")
    assert expansion["embedding left out"] == WIDTH
    assert expansion["terms"][0] == {"term": "goal", "weight": 1.0, "typed": True}


def test_an_embedding_of_weight_0_is_not_exported(home):
    good("fit", "texts.csv", *FIT)
    collection = load(home / "model.hdsl")
    collection.learned.embedding_weight_ = 0.0
    unweighted = Collection(
        collection.model,
        collection.words,
        collection.documents,
        None,
        collection.encoder,
    )
    save(unweighted, home / "words.hdsl")
    good("export", "words.hdsl", "--to", "qdrant", "-o", "index.jsonl")
    assert "meaning" not in (home / "index.jsonl").read_text()
    query = good("export", "words.hdsl", "--to", "qdrant", "--query", "goal").stdout
    assert set(json.loads(query)) == {"indices", "values"}


def test_rows_of_numbers_have_no_encoder(home):
    (home / "rows.svm").write_text("1 1:1 2:3\n2 2:1 3:1\n" * 20)
    assert "--text" in bad("fit", "rows.svm", "--encoder", "small")


def test_an_encoder_that_cannot_be_loaded_is_named(home, monkeypatch):
    monkeypatch.setitem(sys.modules, "model2vec", None)
    message = bad("fit", "texts.csv", *FIT)
    assert "hdsl[embed]" in message


# --- in Python ------------------------------------------------------------------------


def test_a_sentence_encoder_is_a_transformer():
    pairs = ["goal keeper", "bank loan", "rose soil"] * 20
    texts = [f"{pair} text{k // 7}" for k, pair in enumerate(pairs)]
    labels = ["a", "b", "c"] * 20
    words = TfidfVectorizer().fit(texts)
    Z = make_pipeline(SentenceEncoder(HashedTrigrams())).fit_transform(texts)
    assert Z.dtype == np.float32
    assert_allclose(np.linalg.norm(Z, axis=1), 1.0, rtol=1e-5)
    model = HDSL(random_state=0, solver=Solver(max_iter=2)).fit(
        (words.transform(texts), Z), labels
    )
    assert model.embedding_width_ == WIDTH


@pytest.mark.parametrize("has_labels", [True, False])
def test_a_collection_is_learned_in_python_with_an_encoder(tmp_path, has_labels):
    topics = list(TOPICS) * 15
    texts = [
        f"{TOPICS[topic].split()[k % 8]} note{k % 7}" for k, topic in enumerate(topics)
    ]
    supervision = {"y": topics}
    if not has_labels:
        supervision = {"triplets": [[k, k + 3, k + 1] for k in range(40)]}
    words = Words(min_df=1)
    collection = learn(texts, **supervision, words=words, encoder=HashedTrigrams())
    hits = collection.search("goal", 3)
    assert hits[0]["label"] in ("sport", None)
    save(collection, tmp_path / "model.hdsl")
    again = load(tmp_path / "model.hdsl")
    again.encoder.use(HashedTrigrams())
    assert [hit["row"] for hit in again.search("goal", 3)] == [
        hit["row"] for hit in hits
    ]


def test_texts_are_encoded_once_in_batches():
    encoder = HashedTrigrams()
    rows = encode(encoder, [f"text {k}" for k in range(10)], batch_size=4)
    assert rows.shape == (10, WIDTH)
    assert encoder.n_texts == 10


def test_the_fingerprint_tells_encoders_apart():
    known = TextEncoder.of(HashedTrigrams())
    arrays, header = known.to_arrays()
    again = TextEncoder.from_arrays(arrays, header)
    again.use(HashedTrigrams())

    class Reversed(HashedTrigrams):
        def encode(self, texts):
            return super().encode(texts)[:, ::-1]

    with pytest.raises(EncoderError, match="another encoder"):
        again.use(Reversed())
    with pytest.raises(EncoderError, match="encode"):
        TextEncoder.of(3)


@pytest.mark.parametrize("rows", [np.ones(3), np.full((1, 2), np.nan)])
def test_an_encoder_that_returns_no_rows_is_refused(rows):
    class Wrong:
        def encode(self, texts):
            return rows

    with pytest.raises(ValueError, match="one row of finite"):
        SentenceEncoder(Wrong()).transform(["a"])


@pytest.mark.slow
def test_the_demo_learns_with_an_encoder(home, monkeypatch):
    monkeypatch.setattr("hdsl.cli.demo.MIN_ROWS_PER_LABEL", 200)
    monkeypatch.setattr("hdsl.cli.demo.embedding_hint", lambda: "a hint")
    facts = told("demo", "--encoder", "small", "--model", "demo.hdsl")
    assert facts["embedding"] == WIDTH
    assert load(home / "demo.hdsl").encoder.name == "small"
    assert "a hint" not in good("demo", "--encoder", "small").stdout
    assert "a hint" in good("demo").stdout


@pytest.mark.parametrize("library", ["sentence_transformers", "model2vec", None])
def test_the_demo_names_an_encoder_where_a_library_is_installed(monkeypatch, library):
    def find(name):
        return name if name == library else None

    monkeypatch.setattr("hdsl.cli.demo.find_spec", find)
    hint = embedding_hint()
    if library is None:
        assert hint is None
    else:
        assert f"--encoder {ENCODERS[library]}" in hint


def test_hdsl_help_names_the_encoder():
    assert "--encoder" in hdsl("fit", "--help").stdout


def test_what_is_learned_inside_the_embedding_goes_all_the_way(home):
    learned = ("--prior", 0.5, "--embedding-scale", 4, "--embedding-weight", 0.05)
    facts = told("fit", "texts.csv", *FIT, *learned, "--no-class-scores")
    n_directions = facts["embedding directions"]
    assert n_directions > 0
    assert told("info", "model.hdsl")["embedding directions"] == n_directions
    parts = told("explain", "model.hdsl", "--x", "d0", "--y", "d3")["parts"]
    assert "meaning, learned" in [part["name"] for part in parts]
    collection = load(home / "model.hdsl")
    assert collection.learned.embedding_scale_ == 4.0
    named = ("--encoder", "small")
    found = told("search", "model.hdsl", "goal keeper", "-k", 3, *named)
    collection.encoder.use("small")
    query = collection.encode("goal keeper")
    vectors = collection.encode(collection.documents.texts)
    best = np.sort(vectors @ query)[::-1][:3]
    assert_allclose([hit["similarity"] for hit in found["neighbours"]], best, atol=1e-4)
    good("report", "model.hdsl")
    good("export", "model.hdsl", "--to", "jsonl", "-o", "index.jsonl")
    query = ("--query", "goal keeper", *named)
    asked = json.loads(good("export", "model.hdsl", "--to", "jsonl", *query).stdout)
    lines = (home / "index.jsonl").read_text().splitlines()
    scores = [score_of(asked, json.loads(line)) for line in lines]
    assert_allclose(np.sort(scores)[::-1][:3], best, atol=1e-4)


def score_of(query, document):
    """Return the sum of the products of terms and of meaning."""
    score = np.dot(query["meaning"], document["meaning"])
    terms = document["terms"]
    return score + sum(
        weight * terms.get(term, 0.0) for term, weight in query["terms"].items()
    )


# --- where a SentenceTransformer stands -----------------------------------------------


@pytest.mark.parametrize("with_scores", [False, True])
def test_vectors_of_a_collection_compare_as_its_search(with_scores):
    texts = [
        f"{word} {k % 5}" for k, word in enumerate(" ".join(TOPICS.values()).split())
    ]
    y = [k % 3 for k in range(len(texts))]
    model = HDSL(random_state=0, prior=2.0, solver=Solver(max_iter=3))
    if with_scores:
        model = make_pipeline(ClassScores(random_state=0), model)
    collection = learn(
        texts, y, words=Words(min_df=1), encoder=HashedTrigrams(), model=model
    )
    vectors = collection.encode(texts, batch_size=8, show_progress_bar=False)
    assert vectors.dtype == np.float32
    query = collection.encode_query(texts[3])
    order = np.argsort(-(vectors @ query), kind="stable")[:4]
    hits = collection.search(texts[3], 4, why=0)
    assert_allclose(
        (vectors @ query)[order], [hit["similarity"] for hit in hits], atol=1e-5
    )
    with pytest.raises(TypeError, match="truncate_dim"):
        collection.encode(texts, truncate_dim=8)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_semantic_search_takes_vectors_of_a_collection():
    util = pytest.importorskip("sentence_transformers.util")
    texts = ["goal keeper", "late goal", "profit fell", "profit rose"]
    collection = learn(
        texts,
        [0, 0, 1, 1],
        words=Words(min_df=1),
        encoder=HashedTrigrams(),
        model=HDSL(
            random_state=0,
            prior=2.0,
            solver=Solver(max_iter=2),
            mining=Mining(n_targets=1, n_impostors=1),
        ),
    )
    expected = [hit["row"] for hit in collection.search("goal", 4, why=0)]
    for as_tensor in (False, True):
        query = collection.encode_query(["goal"], convert_to_tensor=as_tensor)
        corpus = collection.encode_document(texts, convert_to_tensor=as_tensor)
        (hits,) = util.semantic_search(query, corpus, top_k=4)
        assert [hit["corpus_id"] for hit in hits] == expected


def test_columns_of_an_encoder_have_names():
    encoder = SentenceEncoder(HashedTrigrams())
    assert encoder.get_feature_names_out()[[0, -1]].tolist() == [
        "embedding0",
        f"embedding{WIDTH - 1}",
    ]
    frame = encoder.set_output(transform="pandas").fit_transform(["goal", "profit"])
    assert frame.shape == (2, WIDTH)
