"""A linker in a file has its classifiers, and a damaged file is refused."""

import json

import numpy as np
import pytest

import hdsl
from hdsl.files import container
from hdsl.linking import Linker, learning
from products import make_tables


@pytest.fixture(scope="module")
def fitted():
    left, right, matches = make_tables(60)
    linker = Linker(["title", "price"], random_state=0)
    with pytest.MonkeyPatch.context() as patch:
        # Classifiers that count, though columns tell these products.
        patch.setattr(learning, "NOTHING_TO_GAIN", -1.0)
        patch.setattr(learning, "chosen_share", lambda *args: 0.5)
        linker.fit(left, right, matches[:40])
    assert linker.is_learned_
    return linker, matches


def test_classifiers_of_a_file_say_the_same(fitted, tmp_path):
    linker, matches = fitted
    linker.save(tmp_path / "linker.hdsl")
    loaded = hdsl.load(tmp_path / "linker.hdsl")
    unknown = matches[40:]
    np.testing.assert_array_equal(
        loaded.predict_proba(unknown), linker.predict_proba(unknown)
    )
    assert loaded.explain_probability(*unknown[0]) == linker.explain_probability(
        *unknown[0]
    )
    new = {"title": ["Sony 40in Bravia tv"], "price": ["12.00"]}
    links = loaded.link(new, 0.0)
    expected = linker.link(new, 0.0)
    np.testing.assert_array_equal(links.probability, expected.probability)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("words.weights", lambda a: a[:, :1], "weights"),
        ("training.pairs", lambda a: a + 10**6, "training pairs"),
        ("training.X", lambda a: a[1:], "X"),
        ("training.labels", lambda a: a[1:], "labels"),
        ("training.fold", lambda a: a[:, None], "fold"),
        ("mixture.matches", lambda a: a[1:], "matches"),
        ("mixture.others", lambda a: -a, "larger than 0"),
        ("mixture.rate", lambda a: a + 1.0, "larger than 0"),
        ("mixture.ties", lambda a: np.array([[0, 9]]), "strength"),
        ("mixture.doubt", lambda a: a + 1.0, "doubt"),
    ],
)
def test_damaged_numbers_are_refused(fitted, name, change, message):
    linker, _ = fitted
    arrays, header = linker.to_arrays()
    arrays[name] = change(arrays[name])
    with pytest.raises(ValueError, match=message):
        Linker.from_arrays(arrays, header)


def test_a_file_of_an_earlier_version_is_not_called_damaged(fitted, tmp_path):
    linker, _ = fitted
    arrays, header = linker.to_arrays()
    state = json.loads(arrays["state"].tobytes())
    del state["corrections"]
    arrays["state"] = np.frombuffer(json.dumps(state).encode(), dtype=np.uint8)
    container.write(tmp_path / "old.hdsl", arrays, header | {"kind": "Linker"})
    with pytest.raises(ValueError, match=r"earlier version: fit it again\.$"):
        hdsl.load(tmp_path / "old.hdsl")


def test_a_file_keeps_how_records_are_compared(tmp_path):
    table = ["red apple pie", "blue berry jam", "red apple pie"]
    Linker(similarity="cosine", random_state=0).fit(table).save(tmp_path / "a.hdsl")
    assert hdsl.load(tmp_path / "a.hdsl").similarity == "cosine"
