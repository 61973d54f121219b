"""Tables of columns read as text, as HTML and as frames, and are still dicts."""

import copy
import pickle
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from hdsl import HDSL, Solver, load
from hdsl.printable import Columns, html_table, text_table
from small_fits import labelled_counts


@pytest.fixture(scope="module")
def model():
    X, y = labelled_counts()
    return HDSL(solver=Solver(max_iter=3), random_state=0).fit(X, y)


def test_what_was_tried_prints_as_a_table(model):
    header, *lines = repr(model.choice_).splitlines()
    assert header.split() == [*model.choice_]
    assert len(lines) == len(model.choice_["prior"])
    assert lines[0].split()[0] == "inf"
    assert sum(line.endswith("yes") for line in lines) == 1
    page = model.choice_._repr_html_()
    assert page.count("<tr>") == 1 + len(lines)


def test_what_was_tried_stays_a_table_in_copies_and_files(model, tmp_path):
    model.save(tmp_path / "model.hdsl")
    copies = (
        load(tmp_path / "model.hdsl"),
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
        model.at(1),
    )
    for other in copies:
        assert repr(other.choice_) == repr(model.choice_)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_have_the_columns(library, model):
    frame = pytest.importorskip(library).DataFrame(model.choice_)
    assert list(frame.columns) == list(model.choice_)
    assert_array_equal(np.asarray(frame["prior"]), model.choice_["prior"])


def test_to_frame_says_what_it_needs(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        model.choice_.to_frame()


def test_columns_are_flush_and_hostile_text_is_escaped():
    columns = Columns(n=np.array([7, 100]), name=np.array(["<b>", "a"]))
    assert repr(columns).splitlines() == ["  n  name", "  7   <b>", "100     a"]
    assert "&lt;b&gt;" in columns._repr_html_()
    assert text_table(["a", "b"], [["1", "x"], ["22", "yy"]], left=[1]) == (
        " a  b\n 1  x\n22  yy"
    )
    assert '<td style="text-align:left">x</td>' in html_table(["b"], [["x"]], left=[0])


@pytest.mark.filterwarnings("ignore:Nothing is learned")
def test_a_chosen_prior_is_a_round_number_of_units():
    """Rows of unit length have a mean ‖x‖² of 1 but for rounding."""
    X, y = labelled_counts(seed=1)
    model = HDSL(solver=Solver(max_iter=3), random_state=0).fit(X, y)
    priors = model.choice_["prior"]
    assert float(f"{model.prior_:.6g}") == model.prior_
    finite = priors[np.isfinite(priors)]
    assert_array_equal(finite, np.round(finite, 9))


def test_a_table_obeys_no_control_character():
    columns = Columns({"a\u202eb": np.array(["c\u2067d", "\x1b[31mred"], dtype=object)})
    for text in (repr(columns), columns.to_html()):
        assert not set("\u202e\u2067\x1b") & set(text)
        assert "a\\u202eb" in text
        assert "\\x1b[31mred" in text
