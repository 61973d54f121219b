"""The diagram of an estimator links to its page of the documentation."""

import re

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils import estimator_html_repr

import structure
from hdsl import HDSL, ClassScores, SimilarityKNeighborsClassifier
from hdsl.input import estimators
from hdsl.linking import Linker

ALL = [HDSL, ClassScores, SimilarityKNeighborsClassifier, Linker]


@pytest.fixture
def address(monkeypatch):
    """Let the package name pages, as it does from the first release on."""
    monkeypatch.setattr(estimators, "documentation", lambda: "https://pages.example")
    return "https://pages.example"


@pytest.mark.parametrize("kind", ALL)
def test_the_diagram_links_to_a_page_that_is_built(kind, address):
    page = estimator_html_repr(kind())
    (name,) = re.findall(rf'{address}/generated/api/([\w.]+)\.html"', page)
    module, _, own_name = name.rpartition(".")
    assert own_name == kind.__name__
    pages = (structure.ROOT / "docs" / "api.rst").read_text(encoding="utf-8")
    listed = re.search(
        rf"(auto|current)module:: {re.escape(module)}\n.*?\n   {own_name}\n",
        pages,
        flags=re.DOTALL,
    )
    assert listed


def test_an_estimator_of_a_user_does_not_link_there(address):
    class Mine(HDSL):
        """Of another module."""

    assert address not in estimator_html_repr(Mine())
    assert isinstance(Mine(), BaseEstimator)


def test_without_pages_there_is_no_link(monkeypatch):
    monkeypatch.setattr(estimators, "documentation", lambda: "")
    assert "generated/api" not in estimator_html_repr(HDSL())


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (["Paper, https://paper.example"], ""),
        (["Documentation, https://pages.example/"], "https://pages.example"),
        (None, ""),
    ],
)
def test_the_address_is_the_one_that_the_package_names(
    addresses, expected, monkeypatch
):
    class Metadata:
        def get_all(self, name):
            assert name == "Project-URL"
            return addresses

    estimators.documentation.cache_clear()
    monkeypatch.setattr(estimators.metadata, "metadata", lambda name: Metadata())
    assert estimators.documentation() == expected
    estimators.documentation.cache_clear()
