"""Which rows and judgements measure a model."""

import numpy as np
import pytest

from commands import good
from hdsl.cli import measure
from hdsl.cli.learn import split_judgements, split_rows
from hdsl.text import TEST, TRAIN


def test_split_takes_shares_of_each_label():
    labels = np.repeat(["a", "b", "c", "d"], [50, 30, 20, 1])
    parts = split_rows(labels, 101, share=0.2, seed=3)
    for label in "abc":
        assert np.mean(parts[labels == label] == TEST) == pytest.approx(0.2)
    assert parts[-1] == TRAIN  # the only row of its label
    assert (split_rows(labels, 101, share=0.2, seed=3) == parts).all()
    assert (split_rows(labels, 101, share=0.2, seed=4) != parts).any()
    assert np.bincount(split_rows(None, 100, share=0.2, seed=3)).tolist() == [
        80,
        20,
    ]


def test_judgements_of_rows_of_both_kinds_are_left_out(capsys):
    is_new = np.array([False, False, False, True, True])
    triplets = np.array([[0, 1, 2], [3, 0, 4], [0, 1, 3]])
    split = split_judgements(triplets, is_new)
    assert split.learned.tolist() == [True, False, False]
    assert split.measured.tolist() == [False, True, False]
    assert "1 name rows of both and are left out" in capsys.readouterr().err
    quadruplets = np.array([[0, 1, 0, 2], [3, 0, 4, 1], [3, 4, 0, 1]])
    split = split_judgements(quadruplets, is_new)
    assert split.learned.tolist() == [True, False, False]
    assert split.measured.tolist() == [False, True, False]
    with pytest.raises(ValueError, match="none is left to learn from"):
        split_judgements(triplets[1:], is_new)
    with pytest.raises(ValueError, match="none is left to measure by"):
        split_judgements(triplets[:1], is_new)


def test_few_of_many_rows_held_out_are_measured(folder, monkeypatch):
    """And the same ones by every command, which says so."""
    is_new = np.arange(300) % 3 > 0
    np.testing.assert_array_equal(
        measure.rows_to_measure(is_new), np.flatnonzero(is_new)
    )
    monkeypatch.setattr(measure, "MOST_MEASURED", 10)
    rows = measure.rows_to_measure(is_new)
    assert len(np.unique(rows)) == 10
    assert is_new[rows].all()
    np.testing.assert_array_equal(rows, measure.rows_to_measure(is_new))
    result = good("evaluate", folder / "model.hdsl")
    assert "10 of 18 rows held out" in result.stdout
