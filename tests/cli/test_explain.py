"""`hdsl explain`: the parts sum up to the similarity."""

import pytest

from commands import good, told
from hdsl import load


def test_explain(folder):
    model = folder / "model.hdsl"
    shown = good("explain", model, "--x", "goal of the match", "--y", "a goal").stdout
    assert shown.startswith("S(x, y) = ")
    facts = told("explain", model, "--x", 3, "--y", 6, "--rather-than", 1)
    collection = load(model)
    rows = collection.model[0].transform(collection.documents.X)
    scores = collection.learned.similarity(rows[[3]], rows[[6, 1]])[0]
    assert facts["total"] == pytest.approx(scores[0] - scores[1])
    assert sum(term["value"] for term in facts["parts"]) == pytest.approx(
        facts["total"]
    )


def test_an_id_that_is_missing_is_said_to_be_read_as_a_text(folder):
    model = folder / "model.hdsl"
    said = good("explain", model, "--x", "d3", "--y", "goal").stderr
    assert "'goal' is not the id of a document" in said
    assert (
        "no document" not in good("explain", model, "--x", "d3", "--y", "a goal").stderr
    )
