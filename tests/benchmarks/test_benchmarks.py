"""Every benchmark at toy size, without data files."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks import __main__ as command
from benchmarks import (
    fits,
    goals,
    honest,
    learned_from,
    memory,
    one_gpu,
    problems,
    roads,
    serving,
    steps,
    table,
    tasks,
)
from benchmarks.click_log import N_SHOWN, ClickedSearch
from devices import DEVICES
from hdsl.cuda import runtime

FIELDS = {
    "benchmark",
    "problem",
    "commit",
    "machine",
    "python",
    "versions",
    "threads",
    "seconds",
    "cpu_seconds",
    "yardstick_seconds",
    "ratio",
    "peak_mb",
    "objective",
    "gap",
    "n_iter",
    "n_atoms",
    "n_features",
    "load",
    "extra",
}

# Toys are too small to choose a prior by.
pytestmark = pytest.mark.filterwarnings("ignore")


def run_toy(name, **options):
    """Run a benchmark on the first of its problems, in this process."""
    task = tasks.plan([name], n_cores=2, toy=True, **options)[-1]
    task = replace(task, problem=tasks.registered()[name].problems[0])
    return list(tasks.run(task))


SLOW = {"gpu_fit", "memory", "first_fit", "search", "rows:2e5"}


def some(names):
    """Return names for parametrize, the slow ones marked."""
    return [
        pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in names
    ]


@pytest.mark.parametrize("name", some(tasks.registered()))
def test_benchmark_at_toy_size_gives_complete_records(name, monkeypatch):
    if name in command.GPU_ONLY:
        if not DEVICES:
            pytest.skip("no C++ compiler for the emulator, and no card")
        device = next(iter(DEVICES.values()))
        monkeypatch.setattr(one_gpu, "make_device", lambda: device)
        monkeypatch.setattr(runtime, "get_device", lambda name="cuda": device)
    # Some steps take the other oracles in
    # test_steps_record_objective_and_error_along_the_path.
    records = run_toy(name, **({"oracles": ("exact",)} if name == "steps" else {}))
    assert records
    for record in records:
        assert set(record) == FIELDS
        assert record["seconds"] is None or record["seconds"] > 0.0
        assert json.loads(json.dumps(record, allow_nan=False)) == record
        if record["yardstick_seconds"] is not None and record["seconds"] is not None:
            assert record["ratio"] == pytest.approx(
                record["seconds"] / record["yardstick_seconds"]
            )
        if record["n_iter"] is not None:
            assert record["objective"] > 0.0
            assert record["n_atoms"] > 0
    assert len(table.results(records).splitlines()) == 2 + len(records)


@pytest.mark.parametrize("name", some(["first_fit", "fit_csv", "search", "rows:2e5"]))
def test_roads_lead_from_rows_to_an_answer(name):
    task = replace(tasks.plan(["roads"], n_cores=1, toy=True)[0], problem=name)
    (record,) = tasks.run(task)
    assert record["seconds"] > 0.0
    assert record["extra"]["aim"] == roads.ROADS[name].aim
    assert roads.ROADS[name].what in record["extra"]["note"]


def test_time_to_objective_records_whether_it_was_reached():
    reached = run_toy("time_to_objective", steps=("away",), target=0.4)[0]
    assert reached["extra"]["reached"]
    assert reached["objective"] <= 0.4
    never = run_toy("time_to_objective", steps=("away",), target=0.0)[0]
    assert never["seconds"] is None
    assert "not reached" in table.note(never)


def test_a_run_ends_at_its_limit():
    record = run_toy("mean_iteration", iterations=10**6, limit=0.05)[0]
    assert record["extra"]["status"] == "callback"


def test_threads_give_the_same_bits():
    one, two = run_toy("threads", threads=(2,))
    assert (one["threads"], two["threads"]) == (1, 2)
    assert two["extra"]["same_bits"]


def test_steps_record_objective_and_error_along_the_path():
    records = run_toy(
        "steps", oracles=("ascent", "heuristic"), steps=("away", "corrective")
    )
    path = records[0]["extra"]["path"]
    assert [point["n_iter"] for point in path] == sorted(
        {point["n_iter"] for point in path}
    )
    assert path[-1]["objective"] < path[0]["objective"]
    assert all(0.0 <= point["error"] <= 1.0 for point in path)
    assert len(steps.steps_table(records).splitlines()) == 2 + len(records)


@pytest.mark.parametrize(
    ("name", "key"), [("dimension", "ratios"), ("triplets", "exponent")]
)
def test_scaling_has_a_summary(name, key):
    planned = tasks.plan([name], n_cores=2, toy=True, iterations=2)[:2]
    records = [line for task in planned for line in tasks.run(task)]
    (summary,) = tasks.registered()[name].summary(records)
    assert set(summary) == FIELDS
    assert summary["extra"][key]


def test_the_same_problem_at_any_width():
    narrow, wide = (problems.load(f"same_nonzeros:1e{k}", toy=True) for k in (4, 7))
    assert wide.X.shape[1] == 10**7
    models = [fits.fit(problem, max_iter=5) for problem in (narrow, wide)]
    assert models[0].objective_ == models[1].objective_


def test_unknown_names_raise(capsys):
    with pytest.raises(SystemExit):
        command.parse(["no_such_benchmark"])
    assert "no_such_benchmark" in capsys.readouterr().err
    with pytest.raises(ValueError, match="no_such_problem"):
        problems.load("no_such_problem")


def test_command_writes_a_file_that_compare_and_show_read(tmp_path, capsys):
    old = tmp_path / "old.jsonl"
    new = tmp_path / "new.jsonl"
    arguments = ["mean_iteration", "--problems", "recovery", "--threads", "1", "--toy"]
    assert command.main([*arguments, "--out", str(old)]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].split() == list(table.HEADINGS)
    assert "recovery-toy" in printed
    assert command.main(["--show", str(old)]) == 0
    assert capsys.readouterr().out == printed
    (record,) = table.read(old)
    old.write_text(
        "\n".join(map(json.dumps, [record, {**record, "problem": "another"}]))
    )
    halved = {**record, "seconds": record["seconds"] / 2.0}
    new.write_text(json.dumps(halved) + '\n{"cut short')
    assert command.main(["--compare", str(old), str(new)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert " 0.50 " in lines[2]
    assert lines[3].endswith("only in old")


@pytest.mark.slow
def test_a_failing_task_is_reported(tmp_path, capsys):
    plan = tasks.plan(
        ["mean_iteration"], problems=("bad",), threads=(1,), n_cores=1, toy=True
    )
    with pytest.raises(RuntimeError, match="mean_iteration on bad"):
        list(command.run_all(plan, tmp_path / "out.jsonl"))
    assert "FAILED" in capsys.readouterr().err


def test_list_names_everything(capsys):
    assert command.main(["--list"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in (*tasks.registered(), *problems.REAL))


def test_serving_at_toy_size(capsys):
    assert serving.main(["--toy", "--engines", "sqlite"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    (measured,) = (line for line in lines if "sqlite" in line)
    assert measured[2] == measured[4] == "1.000"  # recall, as it is and certified


def test_what_is_learned_from_at_toy_size(monkeypatch):
    monkeypatch.setattr(learned_from, "PRIORS", (16.0,))
    monkeypatch.setattr(learned_from, "N_FOLDS", 2)
    rng = np.random.default_rng(0)
    rows = sp.csr_array(rng.random((52, 30)) * (rng.random((52, 30)) < 0.3))
    relevant = [set(range(query % 4, 40, 4)) for query in range(12)]
    clicked = ClickedSearch(rows[:40], rows[40:], relevant)
    queries = np.arange(12)
    log = learned_from.Clicks(clicked.events(queries, n_events=60))
    search = learned_from.Search(*clicked)
    shown = {*map(tuple, log.shown(search, queries).rows.tolist())}
    above = {*map(tuple, log.above(search, queries).rows.tolist())}
    assert above < shown
    assert all(len(event.shown) == N_SHOWN for event in log.events)
    ways = log.ways() | learned_from.JUDGED_WAYS
    lines = learned_from.table("toy", search, ways)
    assert [line[1] for line in lines] == list(ways)
    assert all("±" in line[2] for line in lines)


def test_goals_and_intervals_at_toy_size(monkeypatch, capsys):
    monkeypatch.setattr(honest, "N_TEST", 40)
    for name in ("neighbors", "comparisons", "search"):
        gain, low, high = honest.run(name, True, 0)
        assert np.isfinite([gain, low, high]).all()
    monkeypatch.setitem(
        goals.CASES, "toy", lambda data, seed: goals.labelled(*toy_rows(), 80, seed)
    )
    line = goals.run("toy", None, 0, (16.0,))
    assert {*line["scores"]} == {"start", "auto", "16.0"}
    assert len(goals.row([line], (16.0,))) == len(goals.HEADINGS)


def toy_rows():
    rng = np.random.default_rng(0)
    rows = rng.random((120, 20)) * (rng.random((120, 20)) < 0.3)
    return sp.csr_array(rows), rng.integers(3, size=120)


@pytest.mark.slow
def test_the_cluster_benchmark_runs(tmp_path):
    pytest.importorskip("distributed")
    command = [sys.executable, "-m", "benchmarks.cluster", "--toy", "--iterations", "8"]
    ended = subprocess.run(
        [*command, "--embedding", "8", "--folder", tmp_path],
        cwd=problems.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "2 workers" in ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("point", memory.GRID)
def test_the_memory_estimate_is_within_a_quarter(point):
    """Of the peak of resident memory in a fresh process, beyond what it held before."""
    command = [sys.executable, "-m", "benchmarks.memory", json.dumps([point, False])]
    for _ in range(2):  # the first may compile kernels, which takes memory
        ended = subprocess.run(
            command, cwd=problems.ROOT, capture_output=True, check=True
        )
        estimated, measured = json.loads(ended.stdout)
        ratio = estimated / measured
        if 0.75 <= ratio <= 1.25:
            return
    pytest.fail(f"{estimated:.1f} MiB estimated, {measured:.1f} measured, {ratio:.2f}")
