"""Every benchmark at toy size, without data files."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import (
    compare,
    first_use,
    fits,
    measure,
    memory,
    one_gpu,
    problems,
    runner,
    serving,
    steps,
    table,
    tasks,
)
from devices import DEVICES
from hdsl.cuda import runtime

FIELDS = {
    "benchmark", "problem", "commit", "machine", "python", "versions", "threads", "seconds",
    "cpu_seconds", "yardstick_seconds", "ratio", "peak_mb", "objective", "gap", "n_iter", "n_atoms",
    "n_features", "load", "extra",
}  # fmt: skip

PARTS = {
    "memory": {"small"},
    "classes": {"10", "200"},
    "kernels": {
        "build", "first_look", "gradient", "diagonal", "rows_1", "rows_8", "scores", "atom_margins",
        "slope_along", "value", "oracle_exact", "oracle_exact_new", "oracle_ascent",
        "oracle_ascent_new",
    },
    "time_to_objective": {"ascent-away", "ascent-pairwise", "ascent-blended"},
    "mean_iteration": {"ascent-away"},
    "minibatch": {"ascent-away"},
    "threads": {""},
    "exact_rows": {"away"},
    "mining": {""},
    "mining_part": {""},
    "first_use": {"import_sklearn", "import_hdsl", "cold_fit", "warm_fit"},
    "steps": {f"{oracle}-{step}" for oracle in fits.ORACLES for step in fits.STEPS},
    "corrective": {"away", "corrective"},
    "dimension": {""},
    "triplets": {""},
    "million": {"full", "minibatch"},
    "neighbors": {"dot", "prior_0", "prior_auto"},
    "one_gpu": {"cpu", "gpu"},
    "gpu_mining": {""},
    "gpu_search": {""},
    "gpu_fit": {"cpu", "cuda"},
}  # fmt: skip


def run_toy(name, **options):
    """Run a benchmark on the first of its problems, in this process."""
    task = tasks.plan([name], n_cores=2, toy=True, **options)[-1]
    task = replace(task, problem=tasks.registered()[name].problems[0])
    return list(runner.run(task))


@pytest.mark.parametrize("name", tasks.registered())
def test_benchmark_at_toy_size_gives_complete_records(name, monkeypatch):
    if name in runner.GPU_ONLY:
        if not DEVICES:
            pytest.skip("no C++ compiler for the emulator, and no card")
        device = next(iter(DEVICES.values()))
        monkeypatch.setattr(one_gpu, "make_device", lambda: device)
        monkeypatch.setattr(runtime, "get_device", lambda name="cuda": device)
    records = run_toy(name)
    assert {record["benchmark"].partition(".")[2] for record in records} == PARTS[name]
    for record in records:
        assert set(record) == FIELDS
        assert record["problem"].endswith("-toy") or record["problem"] == tasks.NO_PROBLEM
        assert record["seconds"] is None or record["seconds"] > 0.0
        assert json.loads(json.dumps(record, allow_nan=False)) == record
        if record["yardstick_seconds"] is not None and record["seconds"] is not None:
            assert record["ratio"] == pytest.approx(record["seconds"] / record["yardstick_seconds"])
        if record["n_iter"] is not None:
            assert record["objective"] > 0.0
            assert record["n_atoms"] > 0
            if "corrective" not in record["benchmark"]:  # whose steps add several
                assert record["n_atoms"] <= record["n_iter"] + 1
            assert record["n_features"] > 1
        if name == "first_use" and record["benchmark"].endswith("hdsl"):
            assert record["extra"]["numba_imported"] is False
    text = table.results(records)
    assert len(text.splitlines()) == 2 + len(records)


def test_kernels_are_compiled_and_loaded_in_new_processes(monkeypatch):
    """With an empty cache and with the same one again."""
    folders = []

    def probe(code, CUPY_CACHE_DIR):
        compile(code, "probe", "exec")
        folders.append(CUPY_CACHE_DIR)
        return {"opened": 0.1, "kernels": 2.0 / len(folders), "single": 0.3, "name": "card"}

    monkeypatch.setattr(first_use, "_probe", probe)
    cold, cached = run_toy("first_use", device="cuda")
    assert (cold["benchmark"], cold["seconds"]) == ("first_use.cuda_cold", 2.0)
    assert (cached["benchmark"], cached["seconds"]) == ("first_use.cuda_cached", 1.0)
    assert len(set(folders)) == 1


@pytest.mark.skipif(not DEVICES, reason="no C++ compiler for the emulator, and no card")
def test_gpu_fit_times_the_parts_of_corrections(monkeypatch):
    monkeypatch.setattr(runtime, "get_device", lambda name="cuda": next(iter(DEVICES.values())))
    records = run_toy("gpu_fit", steps=("corrective",), iterations=3)
    for found, name in zip(records, ("cpu", "cuda"), strict=True):
        assert found["benchmark"] == f"gpu_fit.{name} corrective"
        assert {"curvature", "shift"} <= set(found["extra"]["correction_seconds"])


@pytest.mark.skipif(not DEVICES, reason="no C++ compiler for the emulator, and no card")
def test_one_gpu_takes_oracles_batches_and_storage(monkeypatch):
    monkeypatch.setattr(one_gpu, "make_device", lambda: next(iter(DEVICES.values())))
    options = {"oracles": ("exact",), "batch_size": 50, "storage": "float32"}
    *_, found = run_toy("one_gpu", **options)
    assert found["benchmark"] == "one_gpu.gpu-exact"
    assert "batches of 50, values as float32" in found["extra"]["note"]


def test_time_to_objective_records_whether_it_was_reached():
    reached = run_toy("time_to_objective", steps=("away",), target=0.4)[0]
    assert reached["extra"]["reached"]
    assert reached["objective"] <= 0.4
    assert reached["cpu_seconds"] > 0.0
    never = run_toy("time_to_objective", steps=("away",), target=0.0)[0]
    assert never["seconds"] is None
    assert "not reached" in table.note(never)


def test_a_run_ends_at_its_limit():
    record = run_toy("mean_iteration", iterations=10**6, limit=0.05)[0]
    assert record["extra"]["status"] == "callback"
    assert record["n_iter"] < 10**5


def test_threads_give_the_same_bits():
    one, two = run_toy("threads", threads=(2,))
    assert (one["threads"], two["threads"]) == (1, 2)
    assert two["extra"]["same_bits"]
    assert one["objective"] == two["objective"]


def test_exact_rows_are_counted():
    (record,) = run_toy("exact_rows", iterations=20)
    extra = record["extra"]
    assert extra["n_live"] <= extra["n_rows"] <= extra["n_live"] * extra["n_calls"]
    counts = list(extra["rows_by_iteration"].values())
    assert counts == sorted(counts)
    assert counts[-1] > 0


def test_steps_record_objective_and_error_along_the_path():
    records = run_toy("steps", oracles=("ascent",), steps=("away", "forward"))
    path = records[0]["extra"]["path"]
    assert [point["n_iter"] for point in path] == sorted({point["n_iter"] for point in path})
    assert path[-1]["n_iter"] == records[0]["n_iter"]
    assert path[-1]["objective"] < path[0]["objective"]
    assert all(0.0 <= point["error"] <= 1.0 for point in path)
    assert len(steps.steps_table(records).splitlines()) == 2 + len(records)


def test_dimension_is_the_same_problem_at_any_width():
    narrow = problems.load("same_nonzeros:1e4", toy=True)
    wide = problems.load("same_nonzeros:1e7", toy=True)
    assert wide.X.shape[1] == 10**7
    assert wide.X.nnz == narrow.X.nnz
    assert np.array_equal(wide.triplets, narrow.triplets)
    models = [fits.fit(problem, max_iter=5) for problem in (narrow, wide)]
    assert models[0].objective_ == models[1].objective_


@pytest.mark.parametrize(
    ("name", "key"), [("dimension", "ratios"), ("triplets", "yardstick_exponent")]
)
def test_scaling_has_a_summary(name, key):
    known = tasks.registered()[name]
    records = [
        line
        for task in tasks.plan([name], n_cores=2, toy=True, iterations=2)[:2]
        for line in runner.run(task)
    ]
    (summary,) = known.summary(records)
    assert set(summary) == FIELDS
    assert summary["benchmark"] == f"{name}.summary"
    assert summary["extra"][key]


def test_power_law_rows_and_triplets():
    problem = problems.power_law(500, 600, 20, n_targets=3, n_impostors=5, seed=1)
    X, triplets, y = problem.X, problem.triplets, problem.y
    columns = X.indices.reshape(500, 20)
    assert (np.diff(columns, axis=1) > 0).all()
    np.testing.assert_allclose(np.asarray(X.power(2).sum(axis=1)).ravel(), 1.0)
    assert len(np.unique(triplets, axis=0)) == 500 * 15
    assert (triplets[:, 0] != triplets[:, 1]).all()
    assert (y[triplets[:, 0]] == y[triplets[:, 1]]).all()
    assert (y[triplets[:, 0]] != y[triplets[:, 2]]).all()
    again = problems.power_law(500, 600, 20, seed=1)
    assert (again.X != X).nnz == 0
    frequency = np.sort(np.bincount(X.indices, minlength=600))[::-1]
    assert frequency[0] > 5 * frequency[300]
    scaled = problems.scaled(1500, n_features=300, nnz_per_row=10)
    assert scaled.size == {"n_rows": 100, "n_columns": 300, "nnz": 1000, "n_triplets": 1500}


def test_problems_without_data_are_skipped(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HDSL_DATA", str(tmp_path))
    assert "HDSL_DATA" in problems.why_missing("dexter")
    assert problems.why_missing("recovery") is None
    out = tmp_path / "out.jsonl"
    assert command.main(["mean_iteration", "--problems", "dexter", "--out", str(out)]) == 0
    assert "skip: mean_iteration on dexter" in capsys.readouterr().err
    usual = command.tasks_of(command.parse([]))
    assert {task.problem for task in usual} == {"recovery"}


def test_unknown_names_raise(capsys):
    with pytest.raises(SystemExit):
        command.parse(["no_such_benchmark"])
    assert "no_such_benchmark" in capsys.readouterr().err
    with pytest.raises(ValueError, match="No problem is named 'no_such_problem'"):
        problems.load("no_such_problem")


def test_reset_peak_starts_from_the_memory_held():
    before = measure.peak_mb()
    block = np.ones(8 << 20)
    assert measure.peak_mb() >= before
    del block
    if measure.reset_peak():
        assert measure.peak_mb() == pytest.approx(measure.held_mb(), abs=16)


def test_command_writes_a_file_that_compare_and_show_read(tmp_path, capsys):
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    arguments = ["mean_iteration", "minibatch", "--problems", "recovery", "--threads", "1", "--toy"]
    assert command.main([*arguments, "--out", str(old)]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].split() == list(table.HEADINGS)
    assert "recovery-toy" in printed
    records = table.read(old)
    assert len(records) == 2
    assert records[0]["peak_mb"] > 0.0
    halved = {**records[0], "seconds": records[0]["seconds"] / 2.0}
    new.write_text(json.dumps(halved) + '\n{"cut short')
    assert compare.main([str(old), str(new)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["benchmark", "problem", "threads"]
    assert " 0.50 " in lines[2]
    assert lines[3].endswith("only in old")
    assert command.main(["--show", str(old)]) == 0
    assert capsys.readouterr().out == printed


def test_a_failing_task_is_reported(tmp_path, capsys):
    plan = tasks.plan(["mean_iteration"], problems=("bad",), threads=(1,), n_cores=1, toy=True)
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


@pytest.mark.slow
def test_the_cluster_benchmark_runs(tmp_path):
    pytest.importorskip("distributed")
    command = [sys.executable, "-m", "benchmarks.cluster", "--toy", "--iterations", "8"]
    ended = subprocess.run(
        [*command, "--folder", tmp_path],
        cwd=problems.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "| 2 workers, 1 thread each |" in ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("point", memory.GRID)
def test_the_memory_estimate_is_within_a_quarter(point):
    """Of the peak of resident memory in a fresh process, beyond what it held before."""
    command = [sys.executable, "-m", "benchmarks.memory", json.dumps([point, False])]
    for _ in range(2):  # the first may compile kernels, which takes memory
        ended = subprocess.run(command, cwd=problems.ROOT, capture_output=True, check=True)
        estimated, measured = json.loads(ended.stdout)
        ratio = estimated / measured
        if 0.75 <= ratio <= 1.25:
            return
    pytest.fail(f"{estimated:.1f} MiB estimated, {measured:.1f} measured, {ratio:.2f}")
