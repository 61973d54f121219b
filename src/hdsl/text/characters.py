"""Words of any script: letters with their marks, and scripts without spaces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

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
