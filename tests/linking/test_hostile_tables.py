"""Tables, pairs and parameters that no link can be made of are refused by name."""

import numpy as np
import pytest

from hdsl.linking import Linker, entity_changes

pytestmark = pytest.mark.filterwarnings("ignore:Nothing was learned")

TEXTS = ["red apple pie", "blue berry jam", "green apple tart", "red berry jam"]
TABLE = {"sku": ["a", "b", "c", "d"], "title": TEXTS}


@pytest.fixture(scope="module")
def linker():
    return Linker(id_column="sku").fit(TABLE)


@pytest.mark.parametrize(
    ("parameters", "data", "message"),
    [
        ({"id_column": []}, (TABLE,), "one per table"),
        ({"id_column": ["a", "b", "c"]}, (TABLE,), "one per table"),
        ({}, (TABLE, TABLE, 5), "matches must be pairs"),
        ({}, ({"title": "red apple pie"},), "one per row"),
        ({}, ({"title": b"red apple pie"},), "one per row"),
    ],
)
def test_what_no_table_is_is_named(parameters, data, message):
    with pytest.raises(ValueError, match=message):
        Linker(**parameters).fit(*data)


@pytest.mark.parametrize("threshold", [1.01, 50, -0.1, np.nan, "half", True])
@pytest.mark.parametrize("method", ["predict", "entities", "link"])
def test_a_threshold_is_a_probability(linker, method, threshold):
    data = [{"sku": ["e"], "title": ["red pie"]}] if method == "link" else []
    with pytest.raises(ValueError, match="from 0 to 1"):
        getattr(linker, method)(*data, threshold)


def test_links_and_entities_are_those_of_a_linker(linker):
    with pytest.raises(TypeError, match="what predict"):
        linker.records([("a", "b")])
    with pytest.raises(TypeError, match=r"Linker\.entities"):
        entity_changes([], linker.entities())


def test_bytes_are_the_text_that_they_encode():
    links = Linker().fit(TEXTS).predict(0.0)
    encoded = Linker().fit([text.encode() for text in TEXTS]).predict(0.0)
    np.testing.assert_array_equal(encoded.probability, links.probability)
    np.testing.assert_array_equal(encoded.left, links.left)


def test_records_have_plain_values(linker):
    (record, *_) = linker.records(linker.predict(0.0))
    assert {type(value) for value in record.values()} == {str, float}


def test_entities_are_numbered(linker):
    columns = {"table": ["left"], "record": ["a"], "entity": ["first"]}
    with pytest.raises(ValueError, match="whole number"):
        entity_changes(columns, linker.entities())
