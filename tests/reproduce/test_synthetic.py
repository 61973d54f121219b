"""The experiments on synthetic data, at small size, through the command that runs them."""

import csv
import itertools
import math

import numpy as np
import pytest

from reproduce import (
    command,
    complexity,
    links,
    phase,
    recovery,
    runner,
    thresholds,
)
from reproduce.settings import Settings

pytest.importorskip("matplotlib")

FILES = {
    "recovery": ["auc.csv", "features", "entries", "matrices"],
    "links": ["auc.csv", "choices.csv", "auc", "frequency"],
    "complexity": ["time.csv", "memory.csv", "time", "memory"],
    "phase": [
        "law.csv",
        "noise.csv",
        "needed.csv",
        "methods.csv",
        "probability.csv",
        "diagrams-features",
        "diagrams-entries",
        "law",
        "methods",
    ],
}


def table(out, name):
    with (out / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return a function that runs an experiment at its first call, and returns its folder."""
    folder = tmp_path_factory.mktemp("results")

    def of(name):
        if not (folder / f"{name}.md").exists():
            with pytest.MonkeyPatch.context() as smaller:
                smaller.setitem(recovery.QUICK, "n_features", 200)
                smaller.setattr(links, "SCALES", links.SCALES[2:])
                arguments = [name, "--quick", "--jobs", "1", "--out", str(folder)]
                assert command.main(arguments) == 0
        page = (folder / f"{name}.md").read_text()
        for file in FILES[name]:
            if file.endswith(".csv"):
                assert len(table(folder, f"{name}-{file[:-4]}")) > 1
            else:
                assert f"({name}-{file}.png)" in page
                assert (folder / f"{name}-{file}.png").stat().st_size > 3000
        return folder

    return of


def test_recovery_finds_what_was_hidden(results):
    out = results("recovery")
    for line in runner.read(Settings(out), "recovery").values():
        iterations, features, entries = zip(*line["curve"], strict=True)
        assert list(iterations) == sorted(set(iterations))
        assert features[0] < 0.7
        assert features[-1] > 0.95
        assert entries[-1] > 0.95
    assert [row["alpha"] for row in table(out, "recovery-auc")] == [
        "10%",
        "20%",
        "25%",
        "30%",
    ]


def test_links_are_predicted(results):
    rows = table(results("links"), "links-auc")
    assert [row["features"] for row in rows] == ["400", "1,000"]
    for row in rows:
        assert float(row["true similarity"]) > 0.999
        for curve in links.CURVES:
            assert float(row[curve.name]) > max(0.95, float(row["dot product"]))


def test_validation_links_alone_choose():
    curve = links.CURVES[0]
    cells = [
        {"d": 7, "run": run, **choice}
        for run in range(2)
        for choice in (*curve.choices(), *links.CURVES[1].choices())
    ]
    made = [{"cell": cell, "valid": 0.5, "test": 0.9} for cell in cells]
    for line in made:
        if line["cell"]["scale"] == links.SCALES[1 + line["cell"]["run"]]:
            line.update(valid=0.6, test=0.1)
        if line["cell"]["per_link"] != curve.per_link:
            line["valid"] = 1.0
    chosen = links._chosen(made, 7, curve)
    assert [line["cell"]["scale"] for line in chosen] == [
        links.SCALES[1],
        links.SCALES[2],
    ]


@pytest.mark.slow
def test_exponents_are_finite_and_memory_grows_with_s(results):
    out = results("complexity")
    time = table(out, "complexity-time")
    memory = table(out, "complexity-memory")
    assert [row["variant"] for row in time] == list(complexity.VARIANTS)
    for row in (*time, *memory):
        for name, text in row.items():
            if name.startswith("exponent") and text != "–":
                assert math.isfinite(float(text.partition(" (")[0]))
    # Memory is counted, not timed: it never grows with the square of s.
    assert all(float(row["exponent of s"].split()[0]) < 1.2 for row in memory)


@pytest.mark.slow
def test_more_triplets_recover_more(results):
    rows = table(results("phase"), "phase-probability")
    plain = [
        row for row in rows if (row["noise"], row["correlation"]) == ("0.0", "0.0")
    ]
    few, many = (
        np.mean(
            [float(row["entries"]) for row in plain if int(row["triplets"]) == count]
        )
        for count in (phase.QUICK.triplets[0], phase.QUICK.triplets[-1])
    )
    assert few < 0.2 < 0.8 < many


# --- how a number of triplets grows ---------------------------------------------------


@pytest.mark.parametrize(
    ("recovered", "expected"),
    [
        ([0, 0, 1, 1], 2.0**1.5 * 100),
        ([0, 1, 0, 1], 2.0**1.5 * 100),
        ([1, 1, 1, 1], 100),
        ([0, 0, 0, 0], math.inf),
    ],
)
def test_threshold_lies_after_as_many_numbers_as_fail(recovered, expected):
    assert thresholds.threshold([100, 200, 400, 800], recovered) == pytest.approx(
        expected
    )


def test_exponents_of_a_known_law_are_found():
    """Draws that need 5 k^1.3 (log d)² triplets, times a log-normal number."""
    rng = np.random.default_rng(0)
    counts = np.array([2.0**n for n in range(6, 20)])
    samples = []
    for k, d in itertools.product((4, 8, 16), (100, 1000, 10_000)):
        middle = 5 * k**1.3 * np.log(d) ** 2
        needed = middle * np.exp(rng.normal(0, 0.5, size=30))
        factors = {
            "k": k,
            "log d": np.log(d),
            "d": d,
            "right": middle,
            "k log d": k * np.log(d),
        }
        samples.append(thresholds.Sample(factors, counts, counts >= needed[:, None]))
    found = thresholds.exponents(samples, ["k", "log d"], 200, rng)
    assert found["k"].low < 1.3 < found["k"].high
    assert found["log d"].low < 2 < found["log d"].high
    assert found["k"].high - found["k"].low < 0.4
    right, other = (
        thresholds.explained(samples, name, ("k", "log d")) for name in ("right", "d")
    )
    assert right == pytest.approx(1, abs=0.02)
    assert (
        other < 0.5 < thresholds.explained(samples, "k log d", ("k", "log d")) < right
    )
