"""Words: texts of any script as rows, TF-IDF or BM25.

scikit-learn's vectorizers count the words of a script with spaces alone, and loading them
takes longer than most searches: a search in a model file loads no scikit-learn.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..files import container
from ..files.container import Arrays, get_array, get_value
from ..input.errors import short
from ..input.matrices import INDEX_LIMIT, canonical
from ..input.parameters import check_number, check_word
from ..rows import unit_rows
from ..similarity.products import row_products
from .counts import BM25, inverse_frequencies, scale_columns, weigh_counts

#: Blocks of scripts that put no space between words: those that Unicode breaks into
#: lines between letters (ideographs and kana) or by a dictionary (class SA).
SPACELESS_BLOCKS = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19DF),  # Tai Le, New Tai Lue
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),  # marks that stand for ideographs
    (0x3040, 0x312F),  # Hiragana, Katakana, Bopomofo
    (0x31A0, 0x31FF),
    (0x3400, 0x4DBF),  # ideographs
    (0x4E00, 0x9FFF),
    (0xA9E0, 0xA9FF),  # Myanmar
    (0xAA60, 0xAADF),  # Myanmar, Tai Viet
    (0xF900, 0xFAFF),  # ideographs
    (0x1B000, 0x1B16F),  # kana
    (0x20000, 0x3FFFF),  # ideographs
)

#: They join letters inside a word, in the scripts of India and in Persian.
JOINERS = "\u200c\u200d"

#: Lengths of the n-grams of characters of a word, which has a space at both ends.
SHORTEST_GRAM = 2
LONGEST_GRAM = 4

#: The first letters of the names that Unicode gives to letters of one script.
_HAN = ("CJK", "KANGXI", "IDEOGRAPHIC")

TOKENS = ("auto", "words", "characters", "identifiers")

STOP_WORDS = ("none", "english")

WEIGHTS = ("tfidf", "bm25")

#: Where camelCase and snake_case words begin.
_WORD_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_")

#: What words are made of beside marks.
_LETTER_OF_TOKENS = {"identifiers": r"[^\W\d_]"}

#: If the median text has fewer different words, "auto" takes n-grams of characters:
#: of sentences they make fewer errors up to 4 words per text, and more from 6 on
#: (benchmarks/reading.py).
FEW_WORDS = 5

#: Most texts that "auto" looks at: a median needs no more.
N_LOOKED_AT = 1000


_READ_AS = {
    "words": "words",
    "characters": f"n-grams of {SHORTEST_GRAM} to {LONGEST_GRAM} characters",
    "identifiers": "words of programs",
}


class Words:
    """Weighted rows of texts: TF-IDF at unit length, or BM25.

    A word has two or more letters, digits or underscores with their marks, in
    Unicode's form NFKC and in lower case. A script without spaces between words, such
    as Chinese, Japanese, Thai, Lao, Khmer and Myanmar, gives its letters and all pairs
    of neighboring letters.

    Parameters
    ----------
    tokens : {"auto", "words", "characters", "identifiers"}, default="auto"
        "characters" cuts words into n-grams of 2 to 4 characters, with a space at both
        ends of a word. With "identifiers", for texts about programs, words have only
        letters, and ``camelCase`` and ``snake_case`` are two words each. "auto" is
        "characters" if the median text has fewer than 5 different words, else
        "words".
    ngrams : int, default=1
        Maximum number of consecutive words in a feature. Not used for characters.
    stop_words : {"none", "english"} or list of str, default="none"
        Words to leave out before n-grams are made.
    min_df, max_df : int or float
        Minimum and maximum number of documents with a word, or their share.
    weights : {"tfidf", "bm25"}, default="tfidf"
        "tfidf": 1 + ln(count), times `idf`. "bm25": counts saturate, sooner in longer
        texts, and have the roots of the weights of BM25.
    norm : {"l2", None}, default="l2"
        "l2" scales rows to unit length. With "bm25", None keeps the lengths of texts, 1
        on average: the dot product with a query then ranks them like BM25.

    Attributes
    ----------
    names : ndarray of shape (n_features,)
        The words, sorted.
    idf : ndarray of shape (n_features,)
        1 + ln((1 + n) / (1 + n_w)) for a word in n_w of n documents; with "bm25"
        ln(1 + (n - n_w + 1/2) / (n_w + 1/2)).
    unit : {"words", "characters", "identifiers"}
        The choice of "auto", after the fit.
    reading : str
        How texts are read, and why, after the fit.

    Examples
    --------
    >>> Words("identifiers", ngrams=2).fit(["readLine, read_all"]).names.tolist()
    ['all', 'line', 'line read', 'read', 'read all', 'read line']
    >>> Words().fit(["机器学习", "机器"]).names.tolist()
    ['习', '器', '器学', '学', '学习', '机', '机器']
    """

    def __init__(
        self,
        tokens: str = "auto",
        *,
        ngrams: int = 1,
        stop_words: str | Sequence[str] = "none",
        min_df: int | float = 1,
        max_df: int | float = 1.0,
        weights: str = "tfidf",
        norm: str | None = "l2",
    ) -> None:
        check_word("Words", "tokens", tokens, TOKENS)
        check_number("Words", "ngrams", ngrams, low=1, integer=True)
        if isinstance(stop_words, str):
            check_word("Words", "stop_words", stop_words, STOP_WORDS)
        check_word("Words", "weights", weights, WEIGHTS)
        if norm is not None:
            check_word("Words", "norm", norm, ("l2",), also=" or None")
        self.tokens = tokens
        self.ngrams = int(ngrams)
        self.stop_words = stop_words
        self.min_df = min_df
        self.max_df = max_df
        self.weights = weights
        self.norm = norm
        self.names = np.empty(0, dtype=object)
        self.idf = np.empty(0)
        self._average_length = 0.0
        self._scale = 1.0
        self.unit = "words" if tokens == "auto" else tokens
        self.reading = ""
        self._index: dict[str, int] = {}

    def split(self, text: str) -> list[str]:
        """Return the words of a text, without those that are left out."""
        return [piece for pieces in self._pieces(text) for piece in pieces]

    def _pieces(self, text: str) -> Iterator[list[str]]:
        """Yield what each run of letters gives: itself if it is one word."""
        text = normalized(text)
        if self.unit == "identifiers":
            text = _WORD_BREAK.sub(" ", text)
        letter = _LETTER_OF_TOKENS.get(self.unit, r"\w")
        for run, is_spaceless in runs_of(text.lower(), letter):
            if run in self.left_out:
                continue
            if is_spaceless:
                yield letters_and_pairs(run)
            elif self.unit == "characters":
                yield character_grams(run)
            elif len(run) > 1:
                yield [run]

    @property
    def ranks_by_length(self) -> bool:
        """Whether the lengths of texts count: BM25 ranks by dot products of its rows."""
        return self.weights == "bm25" and self.norm is None

    @property
    def reader(self) -> dict[str, Any]:
        """How texts are read, for a page that reads typed queries."""
        return {
            "unit": self.unit,
            "stop_words": sorted(self.left_out),
            "spaceless": spaceless_class(),
            "gram_lengths": [SHORTEST_GRAM, LONGEST_GRAM],
        }

    def _described_words(self) -> str:
        """Return what a word is, for the middle of a message."""
        if self.tokens == "identifiers":
            return "a word is two or more letters in a row"
        return "a word is two or more letters or digits in a row"

    @property
    def weighting(self) -> dict[str, Any]:
        """How words are weighted, for a page that searches."""
        bm25 = BM25(self.idf, self._average_length)
        return {
            "weights": self.weights,
            "norm": self.norm,
            "ngrams": self.ngrams,
            "idf": self.idf,
            "k1": bm25.k1,
            "b": bm25.b,
            "average_length": self._average_length,
        }

    @cached_property
    def left_out(self) -> frozenset[str]:
        """The words that are left out."""
        if self.stop_words == "none":
            return frozenset()
        if self.stop_words != "english":
            return frozenset(word.lower() for word in self.stop_words)
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return ENGLISH_STOP_WORDS

    def _terms(self, text: str) -> Iterable[str]:
        """Yield words and sequences of words, or what stands for them."""
        runs = [*self._pieces(text)]
        for pieces in runs:
            yield from pieces
        if self.unit == "characters":
            return
        for n in range(2, self.ngrams + 1):
            for k in range(len(runs) - n + 1):
                words = [pieces[0] for pieces in runs[k : k + n] if len(pieces) == 1]
                if len(words) == n:
                    yield " ".join(words)

    def unknown(self, text: str) -> list[str]:
        """Return the words of a text that no row has a column for, each once."""
        return [
            word for word in dict.fromkeys(self.split(text)) if word not in self._index
        ]

    def unknown_scripts(self, text: str) -> list[str]:
        """Return the scripts of the letters of a text that no known word has, sorted."""
        known = scripts_of("".join(self.names.tolist()))
        return sorted(scripts_of(normalized(text)) - known)

    def fit(self, texts: Iterable[str]) -> Words:
        """Learn the words and their weights; raise ValueError if none is left."""
        texts = [*_checked_texts(texts)]
        self._read(texts)
        index: dict[str, int] = {}
        counts = self._count(texts, index, grow=True)
        n = counts.shape[0]
        n_with = np.bincount(counts.indices, minlength=len(index))
        low = _number_of_texts(self.min_df, n)
        high = _number_of_texts(self.max_df, n)
        is_kept = (n_with >= low) & (n_with <= high)
        names = np.sort(np.array(list(index), dtype=object)[is_kept])
        if not index:
            raise ValueError(
                f"The {n} texts have no words: {self._described_words()} that is not "
                "a stop word. Change tokens= or stop_words=."
            )
        if not len(names):
            raise ValueError(
                f"No word is in {low:g} to {high:g} of the {n} texts: change min_df= or "
                "max_df=."
            )
        columns = [index[name] for name in names]
        counts = counts[:, columns]
        if self.weights == "tfidf":
            self._set(names, inverse_frequencies(counts))
            return self
        bm25 = BM25.of(counts)
        self._set(names, bm25.idf)
        self._average_length = bm25.average_length
        rows = bm25.weigh(counts)
        lengths = np.sqrt(row_products(rows, rows))
        self._scale = 1.0 / (float(lengths.mean()) or 1.0)
        return self

    def _read(self, texts: list[str]) -> None:
        """Decide what texts are read as."""
        looked_at = texts[:: max(1, len(texts) // N_LOOKED_AT)]
        self.unit = "words" if self.tokens == "auto" else self.tokens
        split = Words("words").split
        n_words = [len(set(split(text))) for text in looked_at]
        median = float(np.median(n_words)) if n_words else 0.0
        reason = f"the median text has {median:g} different ones"
        if self.tokens == "auto" and median < FEW_WORDS:
            self.unit = "characters"
            reason = f"the median text has only {median:g} different words"
        elif self.tokens != "auto":
            reason = "as asked for"
        self.reading = f"{_READ_AS[self.unit]} ({reason})"
        share = _spaceless_share(looked_at)
        if share > 0:
            self.reading += (
                "; as letters and pairs of neighbors in scripts without spaces "
                f"({_percent(share)} of the letters)"
            )

    def transform(
        self, texts: Iterable[str], *, are_queries: bool = False
    ) -> sp.csr_array:
        """Return texts as rows; unknown words are ignored.

        Queries differ from documents if BM25 ranks by lengths, ``norm=None``: their
        counts do not saturate, and they have length 1.
        """
        counts = self.count(texts)
        if self.weights == "tfidf":
            rows = weigh_counts(counts, self.idf)
        elif are_queries and self.ranks_by_length:
            return unit_rows(scale_columns(counts, np.sqrt(self.idf)))
        else:
            rows = self._scale * BM25(self.idf, self._average_length).weigh(counts)
        if self.norm is None:
            return rows
        return unit_rows(rows)

    def count(self, texts: Iterable[str]) -> sp.csr_array:
        """Return how often each text has each known word."""
        if not self._index:
            raise ValueError("Words.transform: fit comes first.")
        return self._count(texts, self._index, grow=False)

    def _set(self, names: np.ndarray, idf: np.ndarray) -> None:
        """Take words and their weights."""
        self.names = names
        self.idf = idf
        self._index = {name: k for k, name in enumerate(names.tolist())}

    def _count(
        self, texts: Iterable[str], index: dict[str, int], *, grow: bool
    ) -> sp.csr_array:
        """Return how often each text has each term; terms that are new grow the index.

        Without `grow` they are ignored.
        """
        columns = array("q")
        ends = array("q", [0])
        for text in _checked_texts(texts):
            for term in self._terms(text):
                if grow:
                    columns.append(index.setdefault(term, len(index)))
                elif term in index:
                    columns.append(index[term])
            ends.append(len(columns))
        n_texts = len(ends) - 1
        n_terms = max(len(index), 1)
        dtype: type[np.integer] = np.int64
        if max(n_texts, n_terms, len(columns)) <= INDEX_LIMIT:
            dtype = np.int32
        indices = np.array(columns, dtype=dtype)
        indptr = np.array(ends, dtype=dtype)
        ones = np.ones(len(indices))
        counts = sp.csr_array((ones, indices, indptr), shape=(n_texts, n_terms))
        return canonical(counts)

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return all but `min_df` and `max_df`, as `from_arrays` takes them."""
        arrays = container.pack_strings("names", self.names.tolist()) | {
            "idf": self.idf
        }
        header = {
            "tokens": self.unit,
            "ngrams": self.ngrams,
            "stop_words": sorted(self.left_out),
            "weights": self.weights,
            "norm": self.norm,
            "average_length": self._average_length,
            "scale": self._scale,
        }
        return arrays, header

    @classmethod
    def from_arrays(cls, arrays: Arrays, header: dict[str, Any]) -> Words:
        """Return the words of `to_arrays`; raise ValueError if they are damaged."""
        stop_words = get_value(header, "stop_words", list)
        if not all(isinstance(word, str) for word in stop_words):
            raise ValueError("stop words are not words")
        tokens = get_value(header, "tokens", str)
        ngrams = get_value(header, "ngrams", int)
        words = cls(
            tokens,
            ngrams=min(ngrams, 100),
            stop_words=stop_words,
            weights=header.get("weights", "tfidf"),  # older files have only these
            norm=header.get("norm", "l2"),
        )
        words._average_length = _positive(header.get("average_length", 0.0))
        words._scale = _positive(header.get("scale", 1.0))
        names = container.get_strings(arrays, "names")
        words._set(names, get_array(arrays, "idf", "f", (len(names),)))
        if len(words._index) < len(names):
            raise ValueError("a word is in the vocabulary twice")
        return words


def _positive(value: Any) -> float:
    """Return a number of a file that is finite and not negative; ValueError without."""
    if not isinstance(value, int | float) or not 0 <= value < np.inf:
        raise ValueError("a length of texts is not a number")
    return float(value)


def _checked_texts(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts; raise ValueError if one is not a text, or all are one text."""
    if isinstance(texts, str):
        raise ValueError(f"Words takes a list of texts. Got {short(texts)}.")
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"Words takes a list of texts. Got {short(texts)}.")
        yield text


def _spaceless_share(texts: Iterable[str]) -> float:
    """Return which share of the letters are of scripts without spaces."""
    n_letters = 0
    n_spaceless = 0
    for text in texts:
        for run, is_spaceless in runs_of(normalized(text), r"\w"):
            n_letters += len(run)
            n_spaceless += len(run) * is_spaceless
    return n_spaceless / max(n_letters, 1)


def _percent(share: float) -> str:
    """Return a share in percent, never a part as none or as all."""
    percent = 100 * share
    if 0 < percent < 1:
        return "below 1 %"
    return f"{int(percent)} %"


def _number_of_texts(number: int | float, n_texts: int) -> float:
    """Return a number of texts that may be a share of them."""
    if isinstance(number, int | np.integer):
        return number
    return number * n_texts


# --- letters of any script ------------------------------------------------------------


@cache
def spaceless_class() -> str:
    """Return the letters of scripts without spaces, as ranges of a regular expression."""
    return "".join(f"{chr(low)}-{chr(high)}" for low, high in SPACELESS_BLOCKS)


@cache
def _marks() -> str:
    """Return all combining marks and joiners, as ranges of a regular expression."""
    ranges: list[list[int]] = []
    for point in (*range(0x300, 0x1F000), *range(0xE0100, 0xE01F0)):
        if unicodedata.category(chr(point))[0] != "M":
            continue
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return JOINERS + "".join(f"{chr(low)}-{chr(high)}" for low, high in ranges)


@cache
def _runs(letter: str) -> re.Pattern[str]:
    """Return the pattern of a run: group 1 of a script without spaces, else a word."""
    spaceless = rf"(?=[{spaceless_class()}])\w[{_marks()}]*"
    other = rf"(?![{spaceless_class()}])"
    first = rf"{other}{letter}"
    later = rf"{other}(?:{letter}|[{_marks()}])"
    return re.compile(rf"((?:{spaceless})+)|{first}(?:{later})*")


@cache
def _letters() -> re.Pattern[str]:
    """Return the pattern of a letter with its marks."""
    return re.compile(rf"\w[{_marks()}]*")


@cache
def _plain_runs(letter: str) -> re.Pattern[str]:
    """Return the pattern of a word without marks."""
    return re.compile(rf"{letter}+")


@cache
def _is_plain(character: str) -> bool:
    """Return whether a character is no mark, no joiner, and of a script with spaces."""
    if character in JOINERS or unicodedata.category(character)[0] == "M":
        return False
    return not any(low <= ord(character) <= high for low, high in SPACELESS_BLOCKS)


def normalized(text: str) -> str:
    """Return a text in Unicode's form NFKC: letters that look the same are the same."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", text)


def runs_of(text: str, letter: str) -> Iterator[tuple[str, bool]]:
    """Yield runs of letters, and whether their script has no spaces.

    Parameters
    ----------
    text : str
        Normalized.
    letter : str
        Regular expression of what words are made of, beside marks.
    """
    if text.isascii() or all(map(_is_plain, set(text))):
        for run in _plain_runs(letter).findall(text):
            yield run, False
        return
    for match in _runs(letter).finditer(text):
        yield match[0], match[1] is not None


def letters_and_pairs(run: str) -> list[str]:
    """Return the letters of a run with their marks, and all pairs of neighbors.

    Examples
    --------
    >>> letters_and_pairs("日本語")
    ['日', '日本', '本', '本語', '語']
    """
    letters = _letters().findall(run)
    pieces = letters[:1]
    for first, second in pairwise(letters):
        pieces += [first + second, second]
    return pieces


def character_grams(word: str) -> list[str]:
    """Return the n-grams of characters of a word, which has a space at both ends.

    Examples
    --------
    >>> character_grams("tie")
    [' t', 'ti', 'ie', 'e ', ' ti', 'tie', 'ie ', ' tie', 'tie ']
    """
    padded = f" {word} "
    return [
        padded[start : start + length]
        for length in range(SHORTEST_GRAM, LONGEST_GRAM + 1)
        for start in range(len(padded) - length + 1)
    ]


def scripts_of(text: str) -> set[str]:
    """Return the scripts of the letters of a text.

    Examples
    --------
    >>> sorted(scripts_of("naïve 日本 स्त्री 3!"))
    ['Chinese', 'Devanagari', 'Latin']
    """
    return {_script(letter) for letter in set(text) if letter.isalpha()}


@cache
def _script(letter: str) -> str:
    """Return the script of a letter, by the first word of its name."""
    word = unicodedata.name(letter, "unknown").split()[0].split("-")[0]
    if word in _HAN:
        return "Chinese"
    return word.capitalize()
