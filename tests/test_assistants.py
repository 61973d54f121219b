"""What assistants and newcomers are given first: ten tasks, a notebook, and a page of facts."""

import doctest
import json
import re
import shlex
from pathlib import Path

import pytest

from commands import good

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

pytestmark = pytest.mark.skipif(
    not DOCS.is_dir(), reason="an installed library has no pages"
)


def test_the_ten_tasks_run(tmp_path, monkeypatch):
    """Python by doctest, commands by the command line, in the order of the page."""
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "assistants.md").read_text("utf-8")
    names = {}
    blocks = re.findall(r"```(python|console)\n(.*?)```", page, re.DOTALL)
    for kind, block in blocks:
        if kind == "console":
            for command in block.strip().splitlines():
                _, program, *arguments = shlex.split(command)
                assert program == "hdsl"
                good(*arguments)
            continue
        test = doctest.DocTestParser().get_doctest(block, names, "tasks", None, 0)
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        assert runner.run(test, clear_globs=False).failed == 0
        names = test.globs
    assert len(re.findall(r"^## \d+\.", page, re.MULTILINE)) == 10
    assert (tmp_path / "search.html").stat().st_size > 10_000


def test_the_notebook_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((DOCS / "examples/five_minutes.ipynb").read_text("utf-8"))
    assert notebook["nbformat"] == 4
    names = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            exec("".join(cell["source"]), names)
    assert "asyncio" in {hit["label"] for hit in names["hits"]}
    assert "read as" in capsys.readouterr().out
    assert (tmp_path / "docstrings.html").exists()


def test_the_page_of_facts_links_to_pages_that_exist():
    text = (ROOT / "llms.txt").read_text("utf-8")
    paths = re.findall(r"\]\(([^)]+)\)", text)
    assert len(paths) > 5
    for path in paths:
        assert (ROOT / path).exists(), path
