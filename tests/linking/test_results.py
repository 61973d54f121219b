"""Results come in the form of the tables: frames for frames, and tables in a notebook."""

import numpy as np
import pytest

import hdsl
from hdsl.linking import Linker, Links
from hdsl.linking.results import Measures
from products import TEXTS, make_tables


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.filterwarnings("ignore:Nothing was learned")
def test_frames_in_frames_out(library, tmp_path):
    module = pytest.importorskip(library)
    make = getattr(module, "DataFrame", None) or module.table
    left, right, _ = make_tables(12)
    linker = Linker(["title"], id_column="sku").fit(make(left), make(right))
    linker.save(tmp_path / "linker.hdsl")
    for each in (linker, hdsl.load(tmp_path / "linker.hdsl")):
        every = each.predict(0.0)
        results = [
            every,
            each.candidates(2),
            each.to_label(3),
            each.link(make({"sku": ["R99"], "title": ["acme printer x100"]}), 0.0),
        ]
        for links in results:
            assert isinstance(links, type(make(left)))
            names = getattr(links, "column_names", None) or links.columns
            assert list(names) == ["left", "right", "probability"]
        entities = each.entities(0.1)
        assert isinstance(entities, type(make(left)))
        assert entities.shape == (24, 4)
        records = each.records(every)
        assert len(records) == len(every)
        assert records[0]["left_text"]
        assert each.predict_proba(every).shape == (len(every),)


def test_lists_in_links_out():
    links = Linker().fit(TEXTS).candidates(1)
    assert isinstance(links, Links)
    assert links._repr_html_().count("<tr>") == 1 + len(links.left)
    assert repr(links).split()[:3] == ["left", "right", "probability"]


def test_many_links_print_their_first_rows():
    many = Links(np.arange(500), np.arange(500), np.ones(500))
    assert len(repr(many).splitlines()) < 30
    assert "480 more" in repr(many)
    assert "480 more" in many._repr_html_()
    frame = pytest.importorskip("pandas").DataFrame(many.to_frame())
    assert frame.shape == (500, 3)


def test_measures_are_lines_and_a_table():
    measures = Measures([{"k": 1, "cosine": (0.5, 0.4, 0.6)}])
    assert measures[0]["k"] == 1
    assert list(measures.columns()) == ["k", "cosine", "cosine_low", "cosine_high"]
    assert measures._repr_html_().count("<th>") == 4
    pytest.importorskip("pandas")
    assert measures.to_frame().shape == (1, 4)
