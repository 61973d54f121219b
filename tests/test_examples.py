"""Every example runs without a warning, and prints the results it describes."""

import re
import runpy
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from functools import cache
from io import StringIO
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_allclose

from hdsl.datasets import load_docstrings

pytestmark = pytest.mark.slow  # pages and examples are run as a whole

EXAMPLES = Path(__file__).parents[1] / "examples"
#: Warnings that Python itself does not show.
UNSEEN = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)


@cache
def docstrings(**options):
    """Return the docstrings, which most examples use; reading them takes seconds."""
    return load_docstrings(**options)


def run(name):
    """Return the output of an example, which must draw at least one figure.

    It runs in this process: `make dist` runs each one in its own.
    """
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    printed = StringIO()
    said = StringIO()

    def show():
        figures = [plt.figure(k).canvas.draw() for k in plt.get_fignums()]
        print("Figures:", len(figures))

    with (
        mock.patch(
            "hdsl.datasets.load_docstrings",
            lambda **given: deepcopy(docstrings(**given)),
        ),
        mock.patch("matplotlib.pyplot.show", show),
        redirect_stdout(printed),
        redirect_stderr(said),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        for category in UNSEEN:
            warnings.simplefilter("ignore", category)
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    plt.close("all")
    assert said.getvalue() == ""
    assert line_of(printed.getvalue(), "Figures:")[0] > 0
    return printed.getvalue()


def numbers(line):
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", line)]


def line_of(output, start):
    """Return the numbers of the one line with this start."""
    (line,) = [line for line in output.splitlines() if line.startswith(start)]
    return numbers(line.removeprefix(start))


def test_every_example_is_tested():
    tested = set(
        re.findall(r'run\("(\w+)"\)', Path(__file__).read_text(encoding="utf-8"))
    )
    assert {path.stem for path in EXAMPLES.glob("*.py")} == tested


def test_examples_have_a_title_and_show_figures_at_the_end():
    for path in EXAMPLES.glob("*.py"):
        first, title, rule, _, learned, *lines = path.read_text(
            encoding="utf-8"
        ).splitlines()
        assert first == '"""'
        assert rule == "=" * len(title)
        assert learned.startswith("You learn ")
        assert lines[-1] == "plt.show()"


def test_neighbors_before_and_after():
    output = run("neighbors_before_and_after")
    right, error = line_of(output, "TF-IDF cosine")
    right_learned, error_learned = line_of(output, "learned similarity")
    assert right_learned > right + 4
    assert error_learned < error + 1  # percent; as a rule it is lower
    _, better, worse = numbers(*re.findall("Of .* worse ones", output))
    assert better > 2 * worse


def test_rerank_an_index():
    output = run("rerank_an_index")
    assert line_of(output, "Largest difference from model.similarity:")[0] < 1e-12
    assert "Index unchanged: True" in output
    for before, after in re.findall(r": (\d+) terms, rewritten (\d+)", output):
        assert int(after) > int(before)


def test_cluster_with_the_learned_similarity():
    output = run("cluster_with_the_learned_similarity")
    rand, information = line_of(output, "TF-IDF cosine")
    rand_learned, information_learned = line_of(output, "learned similarity")
    # The texts are those of the Python that runs this; on 3.12's the first measure
    # falls.
    assert min(rand, rand_learned) > 0.2
    assert information_learned > information > 0.2


def test_hand_over_to_faiss_and_usearch():
    pytest.importorskip("faiss")
    pytest.importorskip("usearch")
    output = run("hand_over_to_faiss_and_usearch")
    table = re.findall(r"(all|SVD) +\d+ +(\w+) +(\d\.\d+)", output)
    recall = {(space, index): float(share) for space, index, share in table}
    assert len(recall) == 6
    # Exact, but for ties and rounding to float32.
    assert recall["all", "faiss_flat"] > 0.99
    assert min(recall["all", index] for index in ("faiss_hnsw", "usearch_hnsw")) > 0.95
    assert all(
        0.8 < recall["SVD", index] <= recall["all", index] for _, index in recall
    )


@pytest.mark.parametrize(
    ("name", "package", "advice"),
    [
        ("hand_over_to_faiss_and_usearch", "faiss", "pip install faiss-cpu usearch"),
        ("molecules_from_smiles", "rdkit", "pip install rdkit"),
    ],
)
def test_other_packages_are_optional(name, package, advice, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setitem(sys.modules, package, None)  # a package that cannot be imported
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / f"{name}.py"))
    assert ended.value.code in (None, 0)
    assert advice in capsys.readouterr().out


def test_judgements_from_a_table():
    pytest.importorskip("pandas")
    output = run("judgements_from_a_table")
    assert "12000 clicks make 24000 triplets." in output
    assert "The same triplets: True with weights [1.0, 0.5, 1.0]" in output
    for fold in "01":
        _, _, before, after, _ = line_of(output, f"{fold}     ")
        assert 50 < before + 3 < after < 97


def test_clicks_on_typed_queries():
    pytest.importorskip("pandas")
    output = run("clicks_on_typed_queries")
    (cosine,) = re.findall(r"^cosine +nDCG@10 (0\.\d+)$", output, flags=re.MULTILINE)
    gains = {
        int(n_events): numbers(line)
        for n_events, line in re.findall(
            r"^ *(\d+) events +nDCG@10 (.*)$", output, flags=re.MULTILINE
        )
    }  # nDCG, gain, its limits, prior
    assert abs(gains[50][1]) < 0.01  # few clicks leave the cosine as it is
    assert gains[400][3] > -0.01
    assert gains[4000][0] > float(cosine) + 0.004
    assert gains[4000][2] > 0.0


def test_choose_the_prior():
    output = run("choose_the_prior")
    tried = re.findall(
        r"^ +([\d.]+) +(0\.\d+) +(0\.\d+)(  \*)?$", output, flags=re.MULTILINE
    )
    ((_, score, error, _),) = [line for line in tried if line[-1]]
    assert len(tried) >= 3
    assert float(score) + float(error) > max(float(line[1]) for line in tried)
    cosine, none, chosen, large = (
        line_of(output, name)
        for name in ("TF-IDF cosine", "no prior", "chosen prior", "prior of 100")
    )  # each the share of right rows and the error, percent
    assert chosen[0] > max(cosine[0], large[0]) + 2
    assert chosen[1] < min(cosine[1], large[1], none[1]) + 3  # the standard error is 2


def test_link_two_tables():
    output = run("link_two_tables")
    learned, cosine = numbers(*re.findall("is first for (.*)by cosine", output))
    assert learned > cosine + 20  # percent
    found, wrong = numbers(*re.findall("160 new products: (.*)", output))
    assert found > 120 > 20 > wrong


def test_why_this_one():
    output = run("why_this_one")
    total, learned, prior = numbers(
        *re.findall(r"S\(x, y\) - S\(x, z\) = (.*)", output)
    )
    assert total == pytest.approx(learned + prior, abs=2e-3)  # three digits are shown
    assert total > 0 > prior  # the words in common speak for z
    assert re.search(r"^  \S+ ~ \S+ +\+", output, flags=re.MULTILINE)


def test_signed_links():
    output = run("signed_links")
    (dot,), (learned,), (hidden,) = (
        line_of(output, name)
        for name in ("dot product", "learned similarity", "hidden similarity")
    )
    assert dot + 0.02 < learned < hidden


def test_molecules_as_fingerprints():
    output = run("molecules_as_fingerprints")
    (dot,), (learned,) = (
        line_of(output, name) for name in ("cosine", "learned cosine")
    )
    assert learned < 10 < 40 < dot  # percent; one label in twenty is drawn at random
    found, first, all_pairs = numbers(*re.findall(".*bioisosteres.*", output))
    assert first == 12 < all_pairs
    assert found >= 11


def test_fewer_dimensions():
    output = run("fewer_dimensions")
    svd, both = (
        line_of(output, name) for name in ("SVD of TF-IDF", "SVD of transform")
    )
    better = [after < before for before, after in zip(svd[1:], both[1:], strict=True)]
    # The texts are those of the Python that runs this.
    assert sum(better) >= len(better) - 1
    assert sum(both) < sum(svd)


def test_tickets_that_were_solved():
    output = run("tickets_that_were_solved")
    (cosine,), (learned,) = (
        line_of(output, name) for name in ("TF-IDF cosine", "learned  ")
    )
    assert learned > cosine + 5  # percent
    assert " found " in output


def test_embedding_under_words():
    output = run("embedding_under_words")
    cosine, learned, embedding, both = (
        line_of(output, name)[0]
        for name in (
            "words, by cosine",
            "words, learned",
            "embedding, by cosine",
            "both, learned",
        )
    )
    assert both + 1 < min(learned, embedding) < cosine  # percent
    assert re.search(r"^ +meaning +\+", output, flags=re.MULTILINE)


def test_molecules_from_smiles():
    pytest.importorskip("rdkit")
    output = run("molecules_from_smiles")
    assert "1017 molecules" in output
    splits = np.array([line_of(output, f"{split}  ") for split in range(3)])
    cosine, learned = splits.mean(axis=0)
    assert learned < cosine < 25  # percent
    *atoms, total = line_of(output, "The atoms add up to")
    assert_allclose(atoms, total, atol=2e-3)
