"""Texts as rows, and documents with a model that takes texts."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

import reference
from hdsl import HDSL, ClassScores, Rows, load, save
from hdsl.class_scores.scores import Scores
from hdsl.evaluate import compare_searches
from hdsl.files import container
from hdsl.settings import nested_parameters
from hdsl.similarity.cosine import LearnedCosine
from hdsl.text import (
    BM25,
    TEST,
    TRAIN,
    Collection,
    Documents,
    SentenceEncoder,
    Words,
    learn,
)
from hdsl.text.search import Cosines, ScoredSimilarity

TEXTS = np.array(
    [
        "The striker scored a late goal",
        "a goal in the last minute of the match",
        "Shares fell after the profit warning",
        "The bank cut its profit forecast: naïve \x1b[31m € \ud800",
    ]
    * 3,
    dtype=object,
)
LABELS = np.array(["sport", "sport", "money", "money"] * 3, dtype=object)
MODEL = {"scale": 2.0, "prior": 0.5, "n_targets": 1, "n_impostors": 1, "max_iter": 5}


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "scored"])
def collection(request):
    """Return texts with a model, without class scores and with them."""
    words = Words(stop_words="english").fit(TEXTS)
    X = words.transform(TEXTS)
    model = HDSL(**nested_parameters(**MODEL, random_state=0))
    model = (
        make_pipeline(ClassScores(random_state=0), model) if request.param else model
    )
    part = np.array([TRAIN] * 11 + [TEST], dtype=np.int8)
    ids = [f"d{k}" for k in range(12)]  # a list is as good as an array
    documents = Documents(
        X, LABELS, TEXTS, ids, part, facts={"columns": {"text": "body"}}
    )
    return Collection(model.fit(X, LABELS), words, documents)


@pytest.fixture
def path(collection, tmp_path):
    save(collection, tmp_path / "m.hdsl")
    return tmp_path / "m.hdsl"


def test_what_a_search_finds_prints_as_a_table(collection):
    hits = collection.search("late goal", 3)
    header, *lines = repr(hits).splitlines()
    assert header.split()[:6] == ["similarity", "rank", "by", "cosine", "id", "label"]
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)
    assert hits[0]["why"][0]["name"] in lines[0]
    assert "<th>similarity</th>" in hits._repr_html_()
    empty_row = sp.csr_array((1, collection.documents.X.shape[1]))
    assert repr(collection.search_rows(empty_row)[0]) == "nothing found"


def test_what_a_search_finds_becomes_a_frame(collection):
    pytest.importorskip("pandas")
    hits = collection.search("late goal", 3)
    frame = hits.to_frame()
    assert frame["row"].tolist() == [hit["row"] for hit in hits]
    assert frame["why"].str.contains("goal").any()
    assert "more" not in frame.columns


def test_a_hit_has_plain_values(collection):
    documents = Documents(
        collection.documents.X, LABELS.astype(str), TEXTS, np.arange(12)
    )
    again = Collection(collection.model, collection.words, documents)
    for hit in again.search("late goal", 3):
        assert {type(value) for value in hit.values()} <= {int, float, str, list, dict}


def test_ids_may_be_a_series_of_any_index():
    pandas = pytest.importorskip("pandas")
    index = np.arange(12)[::-1]
    ids = pandas.Series([f"d{k}" for k in range(12)], index=index)
    y = pandas.Series(pandas.Categorical(LABELS), index=index)
    collection = learn(pandas.Series(TEXTS, index=index, dtype=object), y, ids=ids)
    for hit in collection.search("late goal", 3):
        assert hit["id"] == f"d{hit['row']}"
        assert hit["label"] == LABELS[hit["row"]]
        assert hit["text"] == TEXTS[hit["row"]]


def test_learned_and_plain_add_up_to_a_reason(collection):
    (hit,) = collection.search("late goal", 1, why=100)
    explanation = collection.explain("late goal", hit["row"])
    learned = sum(reason["learned"] for reason in hit["why"])
    share = hit["similarity"] / explanation.total
    assert learned == pytest.approx(share * explanation.learned)


# --- learned in Python ----------------------------------------------------------------


def test_an_embedding_that_an_older_file_multiplied_by_its_weight_has_length_one():
    rows = Rows(np.eye(3), np.array([[0.6, 0.8], [1.0, 0.0], [0.0, 0.0]]))
    arrays, facts = Documents(rows).to_arrays()
    arrays["embedding"] = 1e-6 * arrays.pop("unit_embedding")
    documents = Documents.from_arrays(arrays, facts, 3, 2)
    assert_allclose(documents.X.dense, rows.dense)


def test_words_whose_lengths_count_are_ranked_by_the_similarity_as_it_is():
    words = Words(weights="bm25", norm=None)
    model = HDSL(**nested_parameters(**MODEL, norm=None, random_state=0))
    assert learn(TEXTS, LABELS, words=words, model=model).scored.ranking == "product"


def test_a_collection_learned_in_python_is_one_of_the_command_line(tmp_path):
    ids = [f"d{k}" for k in range(12)]
    collection = learn(TEXTS, LABELS, ids=ids)
    assert collection.scores is not None
    hits = collection.search("late goal", 2)
    assert {hit["label"] for hit in hits} == {"sport"}
    assert hits[0]["id"] in ids
    save(collection, tmp_path / "m.hdsl")
    again = load(tmp_path / "m.hdsl").search("late goal", 2)
    assert [hit["row"] for hit in again] == [hit["row"] for hit in hits]


def test_a_collection_is_learned_from_judgements():
    triplets = [[0, 1, 2], [1, 4, 3], [2, 3, 0], [3, 6, 1]]
    words = Words(ngrams=2)
    collection = learn(
        TEXTS, triplets=triplets, words=words, model=HDSL(**nested_parameters(**MODEL))
    )
    assert collection.scores is None
    assert "late goal" in collection.feature_names
    rows = words.transform(TEXTS)
    expected = HDSL(**nested_parameters(**MODEL)).fit(rows, triplets=triplets)
    assert_array_equal(collection.model.atoms_, expected.atoms_)


def test_a_collection_is_learned_from_several_labels_per_text():
    labels = [["sport"], ["sport", "ball"], ["money"], ["money", "bank"]] * 3
    collection = learn(TEXTS, labels, model=HDSL(**nested_parameters(**MODEL)))
    assert len(collection.search("goal", 2)) == 2


def test_texts_to_learn_from_need_labels_or_judgements():
    with pytest.raises(ValueError, match="requires y"):
        learn(TEXTS)
    with pytest.raises(ValueError, match="takes a list of texts"):
        learn([1, 2], [0, 1])


# --- words ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["and", "get_line", "html5", "twice"]),
        ({"stop_words": "english"}, ["get_line", "html5", "twice"]),
        ({"stop_words": ["Twice"]}, ["and", "get_line", "html5"]),
        (
            {"tokens": "identifiers", "stop_words": "english"},
            ["html", "line", "twice"],
        ),
        (
            {"ngrams": 2, "stop_words": "english"},
            ["get_line", "get_line html5", "html5", "html5 twice", "twice"],
        ),
    ],
)
def test_tokens_stop_words_and_ngrams_decide_what_is_a_word(options, names):
    words = Words(**{"tokens": "words", **options})
    assert words.fit(["get_line and html5 twice"]).names.tolist() == names


# Sentences of the same two subjects, cats and stocks, in scripts with spaces and without.
SENTENCES = {
    "Chinese": (
        "小猫喜欢喝牛奶",
        "黑色的猫在睡觉",
        "今天股票价格上涨",
        "投资者出售股票",
    ),
    "Japanese": (
        "白い三毛猫が牛乳を飲む",
        "黒い三毛猫が寝る",
        "投資家は株価に喜ぶ",
        "株価は下落、投資家泣く",
    ),
    "Thai": ("แมวชอบดื่มนม", "แมวดำกำลังนอนหลับ", "วันนี้ราคาหุ้นขึ้น", "นักลงทุนขายหุ้น"),
    "Hindi": (
        "बिल्ली को सुबह दूध बहुत पसंद है",
        "काली बिल्ली घर पर सो रही है",
        "आज बाजार में शेयर की कीमत बढ़ी",
        "निवेशक ने कल अपने सारे शेयर बेचे",
    ),
    "German": (
        "Eine Katze trinkt gern süße Milch",
        "Jede schwarze Katze schläft im Haus",
        "Heute stiegen die Preise der Aktien",
        "Unser Anleger verkaufte gestern seine Aktien",
    ),
    "English": (
        "The cat likes to drink sweet milk",
        "A black cat sleeps in the house",
        "Prices of the stocks went up today",
        "The investor sold all his stocks yesterday",
    ),
}


@pytest.mark.parametrize("language", SENTENCES)
def test_any_language_is_searched_without_an_option(language):
    """Each sentence is most like the other about its subject; its first half finds it."""
    texts = SENTENCES[language]
    words = Words().fit(texts)
    X = words.transform(texts)
    similarities = (X @ X.T).toarray()
    np.fill_diagonal(similarities, -1.0)
    assert similarities.argmax(axis=1).tolist() == [1, 0, 3, 2]
    halves = [text[: len(text) // 2] for text in texts]
    found = (words.transform(halves) @ X.T).toarray()
    assert found.argmax(axis=1).tolist() == [0, 1, 2, 3]
    assert words.unit == "words"
    has_spaces = " " in texts[0]
    assert ("without spaces (100 % of the letters)" in words.reading) != has_spaces


def test_a_vowel_sign_cuts_no_word():
    assert Words("words").split("मैं हिन्दी में किताबें पढ़ता हूँ") == [
        "मैं",
        "हिन्दी",
        "में",
        "किताबें",
        "पढ़ता",
        "हूँ",
    ]
    assert Words("words").split("cafe\u0301 ＡＢＣ") == ["café", "abc"]


def test_languages_may_be_mixed():
    assert Words("words").split("学习 Python，很好") == [
        "学",
        "学习",
        "习",
        "python",
        "很",
        "很好",
        "好",
    ]


def test_few_words_are_read_by_their_characters():
    words = Words().fit(["red cars", "blue cars", "green car"])
    assert words.unit == "characters"
    assert "only 2 different words" in words.reading
    assert words.transform(["caravan"]).nnz > 0
    long = Words().fit(TEXTS)
    assert long.unit == "words"
    assert "different ones" in long.reading
    assert Words("words").fit(["red cars"]).names.tolist() == ["cars", "red"]
    assert Words("characters").fit(["ab"]).names.tolist() == [
        " a",
        " ab",
        " ab ",
        "ab",
        "ab ",
        "b ",
    ]


@given(st.text(max_size=30), st.sampled_from(["words", "characters", "identifiers"]))
def test_a_text_gives_the_same_pieces_in_capitals_and_of_any_form(text, tokens):
    """Whatever the text is, no piece is empty, and reading a piece of a word gives it."""
    words = Words(tokens)
    pieces = words.split(text)
    assert all(pieces)
    if tokens == "words":
        again = [piece for word in pieces for piece in words.split(word)]
        assert set(pieces) <= set(again) | {p for p in pieces if len(p) == 1}


def test_a_query_in_an_unknown_script_says_the_way_out():
    texts = SENTENCES["English"]
    collection = learn(texts, [0, 0, 1, 1], model=HDSL(**nested_parameters(**MODEL)))
    with pytest.raises(ValueError, match=r"Chinese letters.*encoder"):
        collection.search("小猫")
    with pytest.raises(ValueError, match="try others"):
        collection.search("zebra")


def test_a_collection_of_characters_is_read_back(tmp_path):
    texts = ["red cars", "blue cars", "green apples", "a red apple"]
    collection = learn(texts, [0, 0, 1, 1], model=HDSL(**nested_parameters(**MODEL)))
    save(collection, tmp_path / "m.hdsl")
    again = load(tmp_path / "m.hdsl")
    assert again.words.unit == "characters"
    assert [hit["row"] for hit in again.search("apples of", 2)] == [
        hit["row"] for hit in collection.search("apples of", 2)
    ]


@pytest.mark.parametrize(
    "options", [{}, {"ngram_range": (1, 2), "min_df": 2, "max_df": 0.5}]
)
def test_rows_are_those_of_scikit_learn(options):
    theirs = TfidfVectorizer(stop_words="english", sublinear_tf=True, **options)
    own = {"stop_words": "english", **options}
    own["ngrams"] = own.pop("ngram_range", (1, 1))[1]
    words = Words(**own).fit(TEXTS)
    expected = theirs.fit_transform(TEXTS)
    assert words.names.tolist() == theirs.get_feature_names_out().tolist()
    assert_allclose(words.transform(TEXTS).toarray(), expected.toarray(), atol=1e-12)
    assert words.transform(["", "zebra"]).nnz == 0


# --- BM25 -----------------------------------------------------------------------------


def test_rows_of_bm25_have_its_scores_as_dot_products():
    """Up to one factor per query."""
    words = Words("words", weights="bm25", norm=None).fit(TEXTS)
    X = words.transform(TEXTS)
    counts = words.count(TEXTS).toarray()
    by_document = reference.bm25(counts, counts, 1.2, 0.75, "exact")
    for text in ("late goal", "profit of the bank, the the profit", "goal"):
        query = words.count([text]).toarray()
        expected = (by_document @ query.T).ravel()
        row = words.transform([text], are_queries=True)
        scores = (X @ row.T).toarray().ravel()
        assert_allclose(scores / scores.max(), expected / expected.max(), atol=1e-12)
    lengths = np.sqrt((X.toarray() ** 2).sum(axis=1))
    assert lengths.mean() == pytest.approx(1.0)
    at_unit_length = Words("words", weights="bm25").fit(TEXTS).transform(TEXTS)
    assert_allclose((at_unit_length.toarray() ** 2).sum(axis=1), 1.0)


def test_a_search_is_compared_with_that_by_bm25(collection):
    scores = collection.bm25_scores(["late goal goal", "zebra"])
    counts = collection.words.count(TEXTS).toarray()
    query = collection.words.count(["late goal goal"]).toarray()
    expected = reference.bm25(counts, counts, 1.2, 0.75, "exact") @ query.T
    assert_allclose(scores.toarray()[0], expected.ravel(), atol=1e-12)
    assert scores[[1]].nnz == 0
    D = collection.words.count(TEXTS)
    Q = collection.words.count(["late goal"])
    searches = compare_searches(BM25.of(D), Q, D, [{0, 4, 8}])
    assert searches.after.ndcg == 1.0
    with pytest.raises(ValueError, match="no texts of documents"):
        Collection(collection.model, collection.words).bm25_scores(["goal"])


def test_words_of_bm25_are_read_back(tmp_path):
    words = Words("words", weights="bm25", norm=None)
    collection = learn(
        TEXTS,
        LABELS,
        words=words,
        model=HDSL(**nested_parameters(**MODEL, norm=None)),
    )
    save(collection, tmp_path / "m.hdsl")
    again = load(tmp_path / "m.hdsl").words
    assert (again.transform(TEXTS) != words.transform(TEXTS)).nnz == 0
    assert (again.weights, again.norm) == ("bm25", None)


# --- a collection ---------------------------------------------------------------------


def test_a_saved_collection_takes_texts(collection, path):
    found = load(path)
    assert isinstance(found, Collection)
    for name in ("labels", "texts", "ids", "part"):
        assert (
            getattr(found.documents, name).tolist()
            == getattr(collection.documents, name).tolist()
        )
    assert found.documents.facts == collection.documents.facts
    assert (found.documents.X != collection.documents.X).nnz == 0
    new = ["the late goal of the bank, a match", "nothing known"]
    assert (found.rows_of(new) != collection.rows_of(new)).nnz == 0
    assert_array_equal(
        found.model.transform(collection.documents.X).toarray(),
        collection.model.transform(collection.documents.X).toarray(),
    )
    hits = found.search("a late goal", 3)
    assert {hit["label"] for hit in hits} == {"sport"}
    assert_allclose(
        [hit["similarity"] for hit in hits],
        [hit["similarity"] for hit in collection.search("a late goal", 3)],
    )
    for hit in hits:
        total = sum(part["value"] for part in hit["why"]) + hit["more"]["value"]
        assert total == pytest.approx(hit["similarity"])


def test_similarities_do_not_depend_on_who_reads_the_file(collection, path):
    """Neither the plain similarity of a search nor its class scores differ from the model's."""
    found = load(path)
    X = collection.documents.X
    assert_allclose(found.scored.rows(X).toarray(), collection.scored.rows(X).toarray())
    if collection.scores is not None:
        assert type(found.scored.scores) is Scores
        assert found.scored.scores.words(X) == collection.scores.words(X)
    theirs = found.learned.similarity(found.scored.rows(X))
    ours = (found.scored.rewrite(X) @ found.scored.index_rows(X).T).toarray()
    assert_allclose(ours, theirs, atol=1e-12)


def test_unknown_words_are_told(collection):
    assert collection.unknown_words("the goal of a zebra, zebra and unicorn") == [
        "zebra",
        "unicorn",
    ]
    assert collection.known_share("the goal of a zebra") == 0.5
    assert collection.known_share("zebra") == collection.known_share("") == 0.0
    with pytest.raises(ValueError, match="none of the words"):
        collection.search("zebra")


def test_many_texts_to_search_with_say_the_call_for_many(collection):
    with pytest.raises(TypeError, match=r"search_rows\(collection.rows_of\(texts\)\)"):
        collection.search(["goal", "profit"])


def test_labels_and_judgements_of_texts_at_once_are_an_error():
    with pytest.raises(ValueError, match="labels or judgements"):
        learn(TEXTS, LABELS, triplets=[[0, 1, 2]])


def test_the_first_by_cosine_is_told_too(collection):
    queries = collection.rows_of(["goal", "late profit", "the match and the bank"])
    alone = collection.search_rows(queries, 1)
    both = collection.search_rows(queries, 1, first_by_cosine=True)
    for (best,), hits in zip(alone, both, strict=True):
        assert hits[0]["row"] == best["row"]
        assert hits[0]["rank"] == 1
        assert any(hit["rank by cosine"] == 1 for hit in hits)
        assert all(hit["rank"] > 1 for hit in hits[1:])


def test_documents_have_ids_and_numbers(collection):
    assert (
        collection.row_number("d4")
        == collection.row_number(4)
        == collection.row_number("4")
        == 4
    )
    by_id = collection.explain("d0", "d1")
    by_text = collection.explain(TEXTS[0], TEXTS[1])
    assert by_id.total == pytest.approx(by_text.total)
    for name in ("d12", 12, "-1", "9" * 4000, None):
        with pytest.raises(ValueError, match="12") as caught:
            collection.row_number(name)
        assert len(str(caught.value)) < 300


def test_documents_are_indexed_by_the_first_search(collection, monkeypatch):
    """Class scores and lengths of all documents are not computed for every query."""
    index_rows = LearnedCosine.index_rows
    n_rows = []

    def spy(self, X):
        n_rows.append(X.shape[0])
        return index_rows(self, X)

    monkeypatch.setattr(LearnedCosine, "index_rows", spy)
    new = Collection(collection.model, collection.words, collection.documents)
    answers = [new.search("a late goal", 2) for _ in range(3)]
    assert n_rows == [12]
    assert answers == [collection.search("a late goal", 2)] * 3


def test_names_are_those_of_the_first_search(collection, monkeypatch):
    """A name per feature is not made anew for every document that is found."""
    names = ScoredSimilarity.names
    calls = []

    def spy(self, feature_names):
        calls.append(1)
        return names(self, feature_names)

    monkeypatch.setattr(ScoredSimilarity, "names", spy)
    new = Collection(collection.model, collection.words, collection.documents)
    for _ in range(3):
        new.search("a late goal", 4)
    assert len(calls) == 1


def test_a_search_without_reasons_looks_for_none(collection, monkeypatch):
    monkeypatch.setattr("hdsl.explain.explain", None)
    hits = collection.search("a late goal", 3, why=0)
    assert [hit["why"] for hit in hits] == [[], [], []]


def test_a_plain_search_is_ordered_by_the_cosine(collection):
    """Of all documents; reasons sum up to it, and the learned cosine stands beside."""
    X = collection.documents.X
    query = collection.rows_of(["a late goal"])
    cosines = (X @ query.T).toarray().ravel()
    hits = collection.search("a late goal", 12, why=3, plain=True)
    assert [hit["row"] for hit in hits] == np.argsort(-cosines, kind="stable").tolist()
    assert [hit["rank by cosine"] for hit in hits[:1]] == [1]
    learned = {hit["row"]: hit for hit in collection.search("a late goal", 12)}
    for hit in hits:
        total = sum(reason["value"] for reason in hit["why"]) + hit["more"]["value"]
        assert total == pytest.approx(cosines[hit["row"]])
        assert hit["similarity"] == learned[hit["row"]]["similarity"]
    (nearest,) = collection.search(None, 1, row=5, plain=True)
    assert nearest["row"] != 5
    assert nearest["cosine"] == pytest.approx(1.0)


def test_a_plain_search_prints_what_it_is_ordered_by(collection):
    hits = collection.search("late goal", 3, plain=True)
    header, first, *_ = repr(hits).splitlines()
    assert header.split()[:4] == ["cosine", "rank", "as", "learned"]
    assert first.split()[:2] == [f"{hits[0]['cosine']:.3f}", str(hits[0]["rank"])]
    assert "<th>cosine</th>" in hits._repr_html_()


@given(st.lists(st.integers(-2, 2), min_size=1), st.integers(1, 9))
def test_the_nearest_documents_are_those_of_a_full_sort(values, k):
    cosines = Cosines(np.array(values, dtype=float), np.array(values, dtype=float))
    order = np.argsort(-cosines.learned, kind="stable")
    assert cosines.nearest(k) == order[:k].tolist()
    cosines.leave_out(0)
    assert cosines.nearest_by_cosine(k) == order[order != 0][:k].tolist()


def test_digits_are_an_id_then_a_number_then_a_text():
    texts = ["shares fell in 2024", "profit of 2024", "a late goal", "the last goal"]
    words = Words().fit(texts)
    X = words.transform(texts)
    model = HDSL(**nested_parameters(**MODEL, random_state=0)).fit(X, [0, 0, 1, 1])
    numbered = Collection(model, words, Documents(X, texts=texts))
    by_text = numbered.explain("2024", 1).total
    assert by_text == pytest.approx(model.pair_score(words.transform(["2024"]), X[[1]]))
    assert numbered.explain("3", 1).total == numbered.explain(3, 1).total
    with pytest.raises(ValueError, match="no document '1999'"):
        numbered.explain("1999", 1)
    named = Collection(model, words, Documents(X, ids=["2024", "a", "3", "b"]))
    assert named.explain("2024", "a").total == named.explain(0, 1).total != by_text
    assert named.row_number("3") == 2


def test_reasons_of_a_class_end_in_words(collection):
    named = [
        part for part in collection.search("late goal", 1)[0]["why"] if "words" in part
    ]
    if collection.scores is None:
        assert not named
    else:
        assert all(
            "class:" in part["name"] and "goal" in part["words"] for part in named
        )


def test_words_without_documents(collection, tmp_path):
    save(Collection(collection.model, collection.words), tmp_path / "m")
    found = load(tmp_path / "m")
    assert found.documents.n_rows == 0
    assert found.rows_of(["goal"]).nnz == 1
    assert b"striker scored" not in (tmp_path / "m").read_bytes()
    with pytest.raises(ValueError, match="no documents"):
        found.search("goal")
    with pytest.raises(ValueError, match="not learned from texts"):
        Collection(collection.model).rows_of(["goal"])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("words.names.text", None),
        ("words.idf", np.array([np.nan])),
        ("documents.X_indptr", np.array([0, 10**6])),
        ("documents.X_indices", np.full(60, -5)),
        ("documents.part", np.zeros((4, 2))),
    ],
)
def test_damaged_arrays_are_refused(path, name, value):
    arrays, header = container.read(path)
    arrays.pop(name)
    container.write(path, arrays | ({} if value is None else {name: value}), header)
    with pytest.raises(ValueError, match="damaged"):
        load(path)


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("words", {"tokens": "eval"}),
        ("words", {"stop_words": [3]}),
        ("words", {"weights": "eval"}),
        ("words", {"average_length": "long"}),
        ("model", {"kind": "Collection"}),
        ("model", {"kind": "os.system"}),
        ("documents", []),
    ],
)
def test_damaged_headers_are_refused(path, part, changes):
    arrays, header = container.read(path)
    header[part] = header[part] | changes if isinstance(changes, dict) else changes
    container.write(path, arrays, header)
    with pytest.raises(ValueError, match="damaged"):
        load(path)


def test_rows_of_numbers_are_searched_by_number(tmp_path):
    X = sp.csr_array(np.eye(6)[[0, 0, 1, 2, 2, 3]] + 0.1 * np.eye(6))
    model = HDSL(**nested_parameters(**MODEL, random_state=0)).fit(
        X, [0, 0, 0, 1, 1, 1]
    )
    save(Collection(model, documents=Documents(X.tocsc())), tmp_path / "m")
    found = load(tmp_path / "m")
    assert found.search(None, 1, row=0)[0]["row"] == 1
    assert found.unknown_words("any") == []
    with pytest.raises(ValueError, match="2 ids"):
        Documents(X, ids=["a", "b"])


# --- what is no list of texts, and what no encoder returns ----------------------------


class Lengths:
    """An encoder; a function may spoil what it returns."""

    def __init__(self, spoil=lambda rows, texts: rows):
        self._spoil = spoil

    def encode(self, texts):
        rows = np.array([[len(text), text.count("a"), 1.0] for text in texts])
        return self._spoil(rows, texts)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda rows, texts: rows[:, :0],
        lambda rows, texts: rows[:, 0],
        lambda rows, texts: rows * 1j,
        lambda rows, texts: {"dense": rows},
        lambda rows, texts: sp.csr_array(rows),
        lambda rows, texts: rows * 1e300,
        lambda rows, texts: [[1.0], [1.0, 2.0]],
        lambda rows, texts: None,
    ],
)
def test_an_encoder_returns_rows(spoil):
    with pytest.raises(ValueError, match="one row of finite numbers"):
        learn(TEXTS, LABELS, encoder=Lengths(spoil))


def test_all_rows_of_an_encoder_have_one_length():
    encoder = Lengths(lambda rows, texts: rows[:, : 2 + (len(texts) == 1)])
    with pytest.raises(ValueError, match="the same length"):
        learn(TEXTS, LABELS, encoder=encoder)


def test_a_class_is_no_encoder():
    with pytest.raises(ValueError, match="An encoder is an object"):
        learn(TEXTS, LABELS, encoder=Lengths)


def test_one_text_or_a_table_is_no_list_of_texts():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"text": list("abcdef"), "label": list("xyxyxy")})
    for texts in ("one text", b"bytes", table, np.array([["a", "b"]])):
        with pytest.raises(ValueError, match="takes a list of texts"):
            learn(texts, LABELS)
        with pytest.raises(ValueError, match="takes a list of texts"):
            SentenceEncoder(Lengths()).fit_transform(texts)


@pytest.mark.parametrize("numbers", [(2.5, 4), ("3", 4), (3, 1.5), (True, 4), (3, -1)])
def test_hits_and_reasons_are_counted_in_whole_numbers(collection, numbers):
    k, why = numbers
    with pytest.raises(ValueError, match="parameter of search must be an int"):
        collection.search("late goal", k, why=why)


def test_ids_of_any_kind_are_saved_as_text(tmp_path):
    ids = [2**70 + k for k in range(12)]
    collection = learn(TEXTS, LABELS, ids=ids)
    (hit,) = collection.search("late goal", 1)
    assert hit["id"] in ids
    save(collection, tmp_path / "m.hdsl")
    (again,) = load(tmp_path / "m.hdsl").search("late goal", 1)
    assert again["id"] == str(hit["id"])


@pytest.mark.parametrize("kind", ["triplets", "quadruplets"])
def test_one_supervision_is_learned_from(kind):
    texts = ["a late goal", "the last goal", "profit fell", "a profit warning"] * 3
    labels = ["sport", "sport", "money", "money"] * 3
    judged = {"triplets": [[0, 1, 2], [2, 3, 0]], "quadruplets": [[0, 1, 0, 2]]}
    with pytest.raises(ValueError, match="got y and triplets or quadruplets"):
        learn(texts, labels, **{kind: judged[kind]})


@pytest.mark.parametrize(
    ("words", "texts", "message"),
    [
        (Words("identifiers"), ["1 2 3"] * 10, "no words: .* two or more letters in a"),
        (
            Words("words", stop_words="english"),
            ["the of"] * 10,
            "no words: .* is not a stop word",
        ),
        (
            Words(min_df=3),
            ["red", "blue"],
            "No word is in 3 to 2 of the 2 texts: .*min_df",
        ),
    ],
)
def test_texts_without_words_are_told_why(words, texts, message):
    with pytest.raises(ValueError, match=message):
        words.fit(texts)
