"""Texts as rows of words and n-grams: counts as by hand, of later texts too."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdsl.linking import vocabulary
from hdsl.linking.vocabulary import TextReader, Tokens, Vocabulary, words_and_grams

WORDS = st.sampled_from(["red", "apple", "x-10", "'s", "10", "\\", "apples", "ÿ"])
TEXTS = st.lists(st.lists(WORDS, max_size=5).map(" ".join), min_size=1, max_size=6)


def weights_by_hand(known, text):
    """Weights of the features of a text, by name."""
    counts = Counter(name for token in text.split() for name in words_and_grams(token))
    idf = dict(zip(known.names, known.idf.tolist(), strict=True))
    return {
        name: (1.0 + np.log(count)) * idf[name]
        for name, count in counts.items()
        if name in idf
    }


def weights_by_name(reader, texts):
    """The same as rows have them, words and n-grams together."""
    known = reader.vocabulary
    grams, words = reader.weigh(Tokens.of_texts(texts))
    weights = [{} for _ in texts]
    for rows, columns in ((grams, known.gram_columns), (words, known.word_columns)):
        arrays = rows.arrays
        for row, weights_of_row in enumerate(weights):
            entries = slice(arrays.indptr[row], arrays.indptr[row + 1])
            assert (np.diff(arrays.indices[entries]) > 0).all()
            names = [known.names[k] for k in columns[arrays.indices[entries]]]
            weights_of_row.update(zip(names, arrays.data[entries], strict=True))
    return weights


@pytest.mark.parametrize("block_size", [2, 100])
@given(first=TEXTS, later=TEXTS)
def test_weights_are_those_by_hand(block_size, first, later):
    first = [*first, "red apple"]
    known = Vocabulary.of_tokens(Tokens.of_texts(first))
    reader = TextReader(known, keeps_missing=True)
    missing = reader.missing(Tokens.of_texts(later))
    every = {
        name for text in later for t in text.split() for name in words_and_grams(t)
    }
    assert set().union(*missing) == every - {*known.names}
    reader = reader.extended(sorted(set().union(*missing)))
    assert not any(reader.missing(Tokens.of_texts(later)))
    row_blocks = vocabulary.row_blocks
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary, "row_blocks", lambda n: row_blocks(n, block_size))
        weights = weights_by_name(reader, [*first, *later])
    expected = [weights_by_hand(reader.vocabulary, text) for text in [*first, *later]]
    assert weights == expected


@given(TEXTS)
def test_features_of_one_text_of_many_do_not_count(texts):
    texts = [*texts, *["red apple"] * 60]
    names = Counter()
    for text in texts:
        names.update({name for t in text.split() for name in words_and_grams(t)})
    known = Vocabulary.of_tokens(Tokens.of_texts(texts))
    assert known.names == sorted(name for name, n in names.items() if n > 1)
    idf = [np.log((len(texts) + 1) / (names[name] + 1)) + 1.0 for name in known.names]
    np.testing.assert_allclose(known.idf, idf)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=300))
def test_long_texts_are_counted_in_order(numbers):
    names = [f"a{number}" for number in numbers]
    known = Vocabulary.of_tokens(Tokens.of_texts([" ".join(names)]))
    frequencies = TextReader(known).frequencies(Tokens.of_texts(names))
    counts = Counter(name for token in names for name in words_and_grams(token))
    assert dict(zip(known.names, frequencies.tolist(), strict=True)) == counts
    weights = weights_by_name(TextReader(known), [" ".join(names)])
    assert weights == [weights_by_hand(known, " ".join(names))]
