"""Results come in the form of the tables: frames for frames, and tables in a notebook."""

import json
import sys

import numpy as np
import pytest

import hdsl
from hdsl.files import container
from hdsl.linking import Entities, Linker, Links
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


@pytest.fixture
def on_pandas():
    """A linker that was fitted on a table of pandas."""
    pandas = pytest.importorskip("pandas")
    return Linker().fit(pandas.DataFrame({"title": TEXTS}))


def with_library(linker, library):
    """Return the arrays and the header of a linker whose file names a library."""
    arrays, header = linker.to_arrays()
    state = json.loads(arrays["state"].tobytes()) | {"library": library}
    arrays["state"] = np.frombuffer(json.dumps(state).encode(), np.uint8)
    return arrays, header


@pytest.mark.parametrize("library", ["hdsl_intruder", "os", "pandas.io", "", 5, ["os"]])
def test_a_file_names_no_module_to_import(on_pandas, library, tmp_path, monkeypatch):
    (tmp_path / "hdsl_intruder.py").write_text("raise SystemExit('it ran')")
    monkeypatch.syspath_prepend(tmp_path)
    arrays, header = with_library(on_pandas, library)
    path = tmp_path / "linker.hdsl"
    container.write(path, arrays, {**header, "kind": "Linker"})
    with pytest.raises(ValueError, match="it names the library"):
        hdsl.load(path)


def test_a_library_that_is_not_there_leaves_plain_results(on_pandas, monkeypatch):
    loaded = Linker.from_arrays(*with_library(on_pandas, "pandas"))
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert isinstance(loaded.candidates(1), Links)
    assert isinstance(loaded.entities(0.1), Entities)
