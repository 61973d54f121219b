"""Oracles against trying all atoms."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from hdsl.solver import oracle
from hdsl.solver.atoms import Atom
from hdsl.solver.oracle import ORACLES
from hdsl.solver.protocols import Vertex
from strategies import (
    exact_twins,
    make_twin,
    models,
    random_twin,
    subsets,
    twins_with_margins,
)

every_oracle = pytest.mark.parametrize("name", sorted(ORACLES))


def ask(name, twin, margins, seed=0, subset=None):
    """Return the vertex of a new oracle of that name."""
    return ORACLES[name]()(
        twin.ours.gradient(margins, subset), np.random.default_rng(seed)
    )


def toward(twin, atom, margins):
    """Return the direction of a step toward an atom."""
    return twin.dense.margins([atom], [1.0]) - margins


def dense_scores(twin, margins):
    """Return the score of every atom, in the order in which ties are settled."""
    everyone = reference.all_atoms(twin.dense.d)
    return dict(zip(everyone, twin.dense.scores(margins, everyone), strict=True))


def ties(twin, margins, score):
    """Whether several atoms have this score, but for rounding."""
    near = 1e-12 * twin.dense.score_size(margins)
    return (
        sum(
            abs(other - score) <= near for other in dense_scores(twin, margins).values()
        )
        > 1
    )


def scores_of_feature(scores, feature):
    """Return the scores of the atoms on one feature."""
    return {atom: score for atom, score in scores.items() if feature in atom[:2]}


def watched(gradient):
    """Return a gradient that notes in `looks` which features it is asked for the partners of."""
    partners = gradient.partners
    gradient.looks = []

    def noted(features, **options):
        gradient.looks.append(np.asarray(features).tolist())
        return partners(features, **options)

    gradient.partners = noted
    return gradient


@every_oracle
@given(case=twins_with_margins(), seed=st.integers(0, 99), data=st.data())
def test_an_atom_has_the_score_that_it_is_given(name, case, seed, data):
    """No better one exists; the exact oracle finds the best. A batch is the problem of its own."""
    twin, margins = case
    subset = data.draw(st.none() | subsets(twin.dense.T))
    part = twin.dense if subset is None else twin.dense.subproblem(subset)
    own = margins if subset is None else margins[subset]
    score, atom = ask(name, twin, margins, seed, subset)
    tolerance = 1e-12 * part.score_size(own)
    best, _ = part.best_atom(own)
    assert 0 <= atom.i < atom.j < part.d
    assert atom.sign in (1, -1)
    assert score == pytest.approx(part.scores(own, [atom])[0], abs=tolerance)
    assert score <= best + tolerance
    assert name != "exact" or score >= best - tolerance


@every_oracle
def test_answers_of_all_oracles(name):
    """The same seed gives the same atom; where nothing pulls, every atom scores 0."""
    twin = random_twin(5, n=30, d=40, T=200, density=0.2)
    assert ask(name, twin, np.zeros(200), seed=3) == ask(
        name, twin, np.zeros(200), seed=3
    )
    score, atom = ask(name, twin, np.full(200, 2.0))
    assert score == 0.0
    assert name != "exact" or atom == Atom(0, 1, 1)


def test_vertices_are_sorted_by_score_then_order():
    everyone = [
        (-score, k, Vertex(score, Atom(*atom)))
        for score in (0.0, 1.0)
        for k, atom in enumerate(reference.all_atoms(3))
    ]
    for a, b in product(everyone, repeat=2):
        assert (a[2].order() < b[2].order()) == (a[:2] < b[:2])


# --- exact ----------------------------------------------------------------------------


@given(exact_twins())
def test_exact_ties_to_the_smallest(twin):
    margins = np.zeros(twin.dense.T)
    assert ask("exact", twin, margins) == twin.dense.best_atom(margins)


@st.composite
def walks(draw):
    """A problem and the margins of a few models of it, each near the one before or far off."""
    twin, here = draw(twins_with_margins())
    walk = [here]
    for _ in range(draw(st.integers(1, 8))):
        model = twin.dense.margins(*draw(models(twin.dense.d)))
        here = here + draw(st.sampled_from([0.0, 1e-12, 1e-3, 0.1, 1.0])) * (
            model - here
        )
        walk.append(here)
    return twin, walk


@given(walks())
def test_exact_remembers_nothing_wrong(case):
    """One oracle asked along a path answers as a new one does at each of its points."""
    twin, walk = case
    asked = oracle.Exact()
    for margins in walk:
        score, atom = asked(twin.ours.gradient(margins), np.random.default_rng(0))
        tolerance = 1e-12 * twin.dense.score_size(margins)
        assert score == pytest.approx(twin.dense.best_atom(margins)[0], abs=tolerance)
        assert atom == ask("exact", twin, margins).atom or ties(twin, margins, score)


@pytest.mark.parametrize("seed", range(3))
def test_exact_computes_few_rows(seed):
    """All of them once per as many computed rows as there are features."""
    d = 60
    twin = random_twin(seed, n=30, d=d, T=300, density=0.1, scale=20.0)
    asked = oracle.Exact()
    rng = np.random.default_rng(seed)
    margins = twin.dense.offset
    computed = []
    for k in range(60):
        gradient = twin.ours.gradient(margins)
        partners = gradient.partners

        def counting(features, after=False, partners=partners):
            computed.extend(features if after else ())  # others are of an ascent
            return partners(features, after=after)

        gradient.partners = counting
        vertex = asked(gradient, rng)
        assert vertex.atom == ask("exact", twin, margins).atom
        margins = margins + 2 / (k + 200) * toward(twin, vertex.atom, margins)
    assert d <= len(computed) < 0.5 * 60 * d


def test_the_vertices_of_exact_do_not_depend_on_its_past():
    twin = random_twin(5, n=30, d=40, T=200, density=0.2)
    rng = np.random.default_rng(0)
    asked = oracle.Exact()
    for _ in range(4):
        gradient = twin.ours.gradient(rng.normal(size=200))
        found = asked.vertices(gradient, rng, 48, np.arange(3))
        again = oracle.Exact().vertices(gradient, rng, 48, np.arange(3))
        assert [vertex.atom for vertex in found] == [vertex.atom for vertex in again]
        assert found[0].atom == asked(gradient, rng).atom
        assert len({vertex.atom for vertex in found}) == len(found) > 10


def test_an_ascent_to_many_vertices_starts_at_active_features():
    """The best pair may be of features with small diagonal entries, which nothing else leads to."""
    missed = 0
    for seed in range(10):
        twin = random_twin(seed, n=30, d=60, T=200, density=0.1)
        rng = np.random.default_rng(seed)
        gradient = twin.ours.gradient(rng.normal(size=200))
        best = oracle.Exact()(gradient, rng)
        found = [
            oracle.Ascent().vertices(gradient, rng, 3, active)[0]
            for active in (np.array([best.atom.i]), np.array([], dtype=np.int64))
        ]
        assert found[0].atom == best.atom
        missed += found[1].atom != best.atom
    assert missed


@pytest.mark.parametrize("batch_first", [False, True])
def test_exact_is_not_misled_by_a_batch(batch_first):
    """Batches between calls over all triplets leave no trace."""
    twin = random_twin(3, d=12, scale=5.0)
    rng = np.random.default_rng(0)
    asked = oracle.Exact()
    for k in range(20):
        margins = rng.normal(size=30) * 10.0 ** rng.integers(-3, 1)
        subset = (
            np.sort(rng.choice(30, size=5, replace=False))
            if k % 2 == batch_first
            else None
        )
        found = asked(twin.ours.gradient(margins, subset), rng)
        assert found.atom == ask("exact", twin, margins, subset=subset).atom


@pytest.mark.parametrize("name", ["exact", "ascent"])
def test_two_features_that_never_meet_may_be_the_best(name):
    X = [
        [3.0, 0.0, 1.0],
        [3.0, 0.0, 1.0],
        [0.0, 3.0, 0.0],
        [0.0, 3.0, 0.0],
        [0.0, 0.0, 0.0],
    ]
    twin = make_twin(X, [[0, 1, 4], [2, 3, 4]])
    assert twin.ours.gradient(np.zeros(2)).rows(np.array([0]))[0, 1] == 0.0
    assert ask(name, twin, np.zeros(2)) == Vertex(9.0, Atom(0, 1, 1))


# --- heuristic and ascent -------------------------------------------------------------


@given(exact_twins(max_features=7))
def test_heuristic_is_the_papers(twin):
    """Some feature i, its best partner j, and that one's best partner k; any i may be drawn."""
    margins = np.zeros(twin.dense.T)
    scores = dense_scores(twin, margins)
    reachable = set()
    for i in range(twin.dense.d):
        of_i = scores_of_feature(scores, i)
        first = max(of_i, key=of_i.get)
        of_j = scores_of_feature(scores, sum(first[:2]) - i)
        reachable.add(max(of_j, key=of_j.get))
    gradient = twin.ours.gradient(margins)
    rng = np.random.default_rng(0)
    found = {oracle.Heuristic()(gradient, rng).atom for _ in range(15 * twin.dense.d)}
    assert found == reachable


@given(exact_twins(), st.data())
def test_climb_takes_the_passes_of_a_slow_twin(twin, data):
    """Features that share a pass over X, and when it ends; with exact ties."""
    starts = data.draw(st.lists(st.integers(0, twin.dense.d - 1), max_size=9))
    count = data.draw(st.integers(0 if starts else 1, 4))
    C = -twin.dense.gradient(np.zeros(twin.dense.T))
    largest = np.argsort(-np.diag(C), kind="stable")[:count].tolist()
    gradient = watched(twin.ours.gradient(np.zeros(twin.dense.T)))
    atom, looks = reference.climb(C, C + C.T, [*starts, *largest])
    assert (oracle.climb(gradient, starts, count)[0].atom, gradient.looks) == (
        atom,
        looks,
    )


@pytest.mark.parametrize("seed", range(8))
def test_ascent(seed):
    """It starts from six of the largest diagonal, the first feature of the last atom and one at
    random, ends where no other partner of one of its features is better, and forgets
    when asked to.
    """
    twin = random_twin(seed, n=30, d=40, T=200, density=0.2)
    asked = oracle.Ascent()
    rng = np.random.default_rng(seed)
    last = []
    for k in range(4):
        margins = np.random.default_rng([seed, k]).normal(size=200)
        chance = np.random.default_rng()
        chance.bit_generator.state = rng.bit_generator.state
        C = -twin.dense.gradient(margins)
        largest = np.argsort(-C.diagonal())[:6].tolist()
        gradient = watched(twin.ours.gradient(margins))
        score, atom = asked(gradient, rng)
        starts = [*largest, *last, int(chance.integers(40))]
        assert (atom, gradient.looks) == reference.climb(C, C + C.T, starts)
        scores = dense_scores(twin, margins)
        assert any(
            score >= max(scores_of_feature(scores, feature).values()) - 1e-13
            for feature in atom[:2]
        )
        last = [atom.i]
        if k % 2:
            asked.reset()
            last = []
