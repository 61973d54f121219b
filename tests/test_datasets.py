"""The docstrings of Python as texts with labels."""

import sys
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from hdsl.datasets import load_docstrings


@pytest.fixture(scope="module")
def docs():
    return load_docstrings()


def test_docstrings_are_distinct_texts_labelled_by_module(docs):
    n = len(docs.texts)
    assert docs.X.shape == (n, len(docs.feature_names))
    assert len(docs.y) == len(docs.names) == len(set(docs.names)) == n
    assert n > 1000
    count = Counter(docs.y.tolist())
    assert min(count.values()) >= 20
    assert {"asyncio", "logging", "email"} < set(count)
    assert not set(count) & {"test", "idlelib", "lib2to3", "turtledemo"}
    assert all(
        name.partition(".")[0] == label
        for name, label in zip(docs.names, docs.y, strict=True)
    )
    assert all(len(text.split()) >= 8 for text in docs.texts)
    assert len({" ".join(text.split()) for text in docs.texts}) == n
    assert str(n) in docs.DESCR


def test_docstrings_are_those_that_python_shows(docs):
    import logging

    row = docs.names.tolist().index("logging.Logger.debug")
    assert docs.texts[row].split() == logging.Logger.debug.__doc__.split()


def test_docstring_rows_have_length_1(docs):
    assert isinstance(docs.X, sp.csr_array)
    assert docs.X.dtype == np.float64
    norms = np.sqrt((docs.X**2).sum(axis=1))
    assert_allclose(norms[norms > 0], 1)
    assert (np.diff(docs.X.indptr) == 0).mean() < 0.01
    assert ((docs.X != 0).sum(axis=0) >= 2).all()
    word = docs.feature_names.tolist().index("socket")
    rows = docs.X[:, [word]].nonzero()[0]
    assert all("socket" in docs.texts[k].lower() for k in rows)


SOURCE = """
def shown():
    '''One two three four five six seven eight.'''

def short():
    '''Too short to say anything.'''

def _hidden():
    '''One two three four five six seven hidden.'''

class Thing:
    '''Many words about a thing, enough of them.'''

    async def method(self):
        '''Many words about a method, enough of them.'''
        def inner():
            '''Many words about an inner one, enough of them.'''
"""


def test_public_docstrings_of_enough_words_are_loaded(tmp_path, monkeypatch):
    files = {
        "alpha.py": SOURCE,
        "beta/__init__.py": "def other():\n    '''One two three four   five six seven eight.'''\n",
        "beta/inside.py": SOURCE.replace("Many", "Some"),
        "beta/_private.py": SOURCE.replace("Many", "None"),
        "beta/tests/test_it.py": SOURCE.replace("Many", "None"),
        "_gamma.py": SOURCE.replace("Many", "None"),
        "site-packages/delta.py": SOURCE.replace("Many", "None"),
        "broken.py": SOURCE.replace("def", "deaf"),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    before = set(sys.modules)
    loaded = load_docstrings(min_rows_per_label=2, vectorize=False)
    assert not {"alpha", "beta"} & (set(sys.modules) - before)
    # The text of `shown` has two labels, and occurs twice under one of them.
    assert loaded.names.tolist() == [
        "alpha.Thing",
        "alpha.Thing.method",
        "beta.inside.Thing",
        "beta.inside.Thing.method",
    ]
    assert loaded.y.tolist() == ["alpha", "alpha", "beta", "beta"]
    assert "X" not in loaded
    with pytest.raises(ValueError, match=r"No module in .* has 3 docstrings: lower"):
        load_docstrings(min_rows_per_label=3)
    with pytest.raises(
        ValueError, match="'min_rows_per_label' parameter of load_docstrings"
    ):
        load_docstrings(min_rows_per_label=0)


SUMMARIES = """
def shown():
    '''One two three
    four {name} five.

    Six seven eight.
    '''

def other():
    '''The same in both, and of no use.

    But {name} not all.
    '''
"""


def test_summaries(tmp_path, monkeypatch):
    for name in ("alpha", "beta"):
        (tmp_path / f"{name}.py").write_text(SUMMARIES.format(name=name))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    options = {"min_rows_per_label": 1, "vectorize": False}
    whole = load_docstrings(**options)
    assert len(whole.texts) == 4
    short = load_docstrings(**options, summaries=True)
    assert short.texts == [
        "One two three\nfour alpha five.",
        "One two three\nfour beta five.",
    ]
    assert short.y.tolist() == ["alpha", "beta"]
