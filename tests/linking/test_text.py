"""Texts as rows of words and n-grams: counts as by hand, of later texts too."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdsl.linking.rows import Vocabulary, words_and_grams

WORDS = st.sampled_from(["red", "apple", "x-10", "'s", "10", "\\", "apples", "ÿ"])
TEXTS = st.lists(st.lists(WORDS, max_size=5).map(" ".join), min_size=1, max_size=6)


def features_of(text):
    return [name for token in text.split() for name in words_and_grams(token)]


def weights_by_hand(first, text):
    """Weights of the features of a text, by name; the first texts say how rare they are."""
    n_texts = Counter(name for other in first for name in {*features_of(other)})
    return {
        name: (1 + np.log(count))
        * (1 + np.log((1 + len(first)) / (1 + max(n_texts[name], 1))))
        for name, count in Counter(features_of(text)).items()
    }


def weights_by_name(vocabulary, texts):
    """The same as rows have them, words and n-grams together."""
    grams, words = vocabulary.rows(texts)
    names = vocabulary.names
    weights = [{} for _ in texts]
    columns = (vocabulary.gram_columns, vocabulary.word_columns)
    for rows, numbers in zip((grams, words), columns, strict=True):
        arrays = rows.arrays
        for row, weights_of_row in enumerate(weights):
            entries = slice(arrays.indptr[row], arrays.indptr[row + 1])
            assert (np.diff(arrays.indices[entries]) > 0).all()
            names_of_row = [names[k] for k in numbers[arrays.indices[entries]]]
            weights_of_row.update(zip(names_of_row, arrays.data[entries], strict=True))
    return weights


@given(first=TEXTS, later=TEXTS)
def test_weights_are_those_by_hand(first, later):
    first = [*first, "red apple"]
    vocabulary = Vocabulary.of_texts(first).with_texts(later)
    for text, weights in zip(
        [*first, *later], weights_by_name(vocabulary, [*first, *later]), strict=True
    ):
        assert weights == pytest.approx(weights_by_hand(first, text))


@given(first=TEXTS, later=TEXTS)
def test_later_texts_are_the_same_one_by_one(first, later):
    first = [*first, "red apple"]
    at_once = Vocabulary.of_texts(first).with_texts(later)
    one_by_one = Vocabulary.of_texts(first)
    for text in later:
        one_by_one = one_by_one.with_texts([text])
    again = Vocabulary(at_once.names, at_once.idf, at_once.rarest)
    for other in (one_by_one, again):
        assert other.names == at_once.names
        assert weights_by_name(other, later) == weights_by_name(at_once, later)
        np.testing.assert_array_equal(other.has_digit, at_once.has_digit)


def test_texts_without_a_word_are_refused():
    with pytest.raises(ValueError, match="nothing to link by"):
        Vocabulary.of_texts(["", " "])
