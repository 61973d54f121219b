"""What a reader stumbles over becomes rarer, never more frequent."""

import ast

import pytest

import sentences
import structure

pytestmark = pytest.mark.skipif(
    not structure.SOURCE.is_dir(), reason="an installed library has other folders"
)

#: Most of each per 1,000 lines of the package. Lower a number when the source allows
#: it; never raise one.
MOST = {
    "packed assignments": 0.3,
    "unpacked generators": 0.3,
    "starred bundles": 0.3,
    "conditional expressions": 4.0,
    "vague names": 1.0,
    "wide signatures": 1.0,
}


@pytest.fixture(scope="module")
def per_1000_lines():
    """Return how often each stands in the package."""
    counts, n_lines = sentences.count(sentences.files_of(structure.SOURCE))
    return {name: 1000.0 * count / n_lines for name, count in counts.items()}


@pytest.mark.parametrize("name", MOST)
def test_the_source_reads_one_fact_per_line(name, per_1000_lines):
    assert per_1000_lines[name] <= MOST[name]


def test_the_formatter_has_the_last_word():
    for folder in ("src", "tests", "reproduce", "benchmarks", "examples"):
        for path in (structure.ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            assert "# fmt: " + "skip" not in text, path
            assert "# fmt: " + "off" not in text, path


def test_the_counts_see_what_they_should():
    source = """
a, b = 1, f(2)
a, b = b, a
a, b = f(3)
x, y = (f(k) for k in (1, 2))
c = 1 if a else 2
def call(found):
    given = a, b
    pair = a, b
    return f(*given), pair
def wide(a, b, c, d, e, f, g): ...
"""
    tree = ast.parse(source)
    lines = {name: list(find(tree)) for name, find in sentences.COUNTED.items()}
    assert lines == {
        "packed assignments": [2],
        "unpacked generators": [5],
        "starred bundles": [8],
        "conditional expressions": [6],
        "vague names": [7, 8],
        "wide signatures": [11],
    }
