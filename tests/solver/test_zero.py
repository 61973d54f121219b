"""The domain with 0: paths that start at the prior alone, and weights that sum to at most 1."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hdsl import HDSL, Solver, load
from hdsl.solver.atoms import ZERO
from hdsl.solver.loop import Options, frank_wolfe
from hdsl.solver.oracle import ORACLES
from hdsl.solver.steps import RULES
from hdsl.solver.trace import replay
from pairwise import pairwise
from strategies import LOSSES, random_twin

CASES = pairwise(LOSSES, sorted(ORACLES), sorted(RULES), [0.0, 0.5], [0.3, 30.0])


def run(problem, oracle="exact", rule="away", **options):
    options = Options(**{"init": "zero", "max_iter": 60, "tol": 0.0, **options})
    rng = np.random.default_rng(0)
    return frank_wolfe(problem, ORACLES[oracle](), RULES[rule], options, rng=rng)


@pytest.mark.parametrize(("loss", "oracle", "rule", "prior", "scale"), CASES)
def test_every_step_keeps_the_model_in_the_domain(loss, oracle, rule, prior, scale):
    problem = random_twin(3, loss=loss, scale=scale, prior=prior).ours
    found = run(problem, oracle, rule)
    nothing = problem.margins(np.empty((0, 3), dtype=int), np.empty(0))
    trace = found.trace
    assert trace["objective"][0] == problem.value(nothing)
    assert trace["n_atoms"][0] == 0
    assert (np.diff(trace["objective"]) <= 1e-12 * trace["objective"][:-1]).all()
    for k in (0, 1, 7, found.n_iter):
        model = replay(trace, min(k, found.n_iter), found.corrections)
        assert (model.weights > 0).all()
        assert model.weights.sum() + model.zero == pytest.approx(1.0, abs=1e-12)
    assert_array_equal(model.atoms, found.atoms)
    assert_allclose(model.weights, found.weights, rtol=1e-12)
    margins = problem.margins(problem.from_user(found.atoms), found.weights)
    assert found.objective == pytest.approx(problem.value(margins), rel=1e-12)


@pytest.mark.parametrize("rule", ["away", "pairwise", "blended", "corrective"])
@pytest.mark.parametrize("loss", ["smoothed_hinge", "logistic"])
def test_the_certified_optimum_is_that_of_the_scale_it_needs(loss, rule):
    """With slack a larger scale changes nothing; the paper's domain of the scale used is enough."""
    found = {}
    for scale in (40.0, 80.0):
        problem = random_twin(5, loss=loss, scale=scale, prior=0.3, T=60).ours
        found[scale] = run(problem, rule=rule, max_iter=5000, tol=1e-7)
        assert found[scale].status in ("optimal", "no_violation")
    used = 40.0 * found[40.0].weights.sum()
    if used < 40.0 * (1 - 1e-6):
        assert found[80.0].objective == pytest.approx(found[40.0].objective, abs=2e-7)
    paper = random_twin(5, loss=loss, scale=used, prior=0.3, T=60).ours
    same = run(paper, rule=rule, init="oracle", max_iter=5000, tol=1e-7)
    assert same.objective == pytest.approx(found[40.0].objective, abs=3e-7)


def test_an_exact_gap_bounds_the_distance_to_the_optimum():
    problem = random_twin(4, scale=20.0).ours
    best = run(problem, rule="pairwise", max_iter=5000, tol=1e-9).objective
    trace = run(problem, max_iter=80).trace
    exact = trace["gap_is_exact"]
    assert exact.any()
    assert (trace["gap"][exact] >= trace["objective"][exact] - best - 1e-9).all()


def test_a_pull_the_wrong_way_goes_back_to_zero():
    """Triplets that contradict the prior-free dot product in every atom leave M = 0."""
    X = np.array([[1.0, 1.0], [1.0, 1.0], [2.0, 2.0]])
    model = HDSL(
        scale=1.0, prior=0.0, norm=None, solver=Solver(oracle="exact"), min_rows=1
    ).fit(X, triplets=[[0, 1, 2]])
    assert len(model.atoms_) <= 1
    assert model.objective_ <= model.at(0).objective_


def test_the_model_at_zero_is_the_cosine(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((30, 8)) * (rng.random((30, 8)) < 0.5)
    X[:, 0] += 0.1
    y = (X[:, 1] > X[:, 2]).astype(int)
    model = HDSL(
        scale=1e4,
        prior=0.5,
        solver=Solver(step="away", max_iter=20, tol=0.0),
        random_state=0,
    ).fit(X, y)
    start = model.at(0)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert_allclose(start.similarity(X), model.prior_ * unit @ unit.T, atol=1e-12)
    assert start.atoms_.shape == (0, 3)
    assert model.trace_[0]["sign"] == ZERO.sign
    start.save(tmp_path / "zero.hdsl")
    assert_array_equal(load(tmp_path / "zero.hdsl").transform(X), start.transform(X))
    assert 0 < model.weights_.sum() <= 1 + 1e-12
    with pytest.raises(ValueError, match="init='zero'"):
        model.set_params(solver__init="oracle", warm_start=True).at(5).fit(X, y)
