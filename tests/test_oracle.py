"""Oracles against trying all atoms."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference
from hdsl.core import oracle
from hdsl.core.atoms import Atom
from hdsl.core.oracle import Vertex
from strategies import exact_twins, make_twin, models, random_twin, subsets, twins_with_margins

NAMES = ["exact", "heuristic", "ascent"]


def ask(name, twin, margins, seed=0, subset=None):
    """Return the vertex of a new oracle of that name."""
    return oracle.ORACLES[name]()(twin.ours.gradient(margins, subset), np.random.default_rng(seed))


def scores_of_feature(scores, feature):
    """Return the scores of the atoms on one feature."""
    return {atom: score for atom, score in scores.items() if feature in atom[:2]}


def dense_scores(twin, margins):
    """Return the score of every atom, in the order in which ties are settled."""
    everyone = reference.all_atoms(twin.dense.d)
    return dict(zip(everyone, twin.dense.scores(margins, everyone), strict=True))


@pytest.mark.parametrize("name", NAMES)
@given(case=twins_with_margins(), seed=st.integers(0, 99))
def test_no_atom_is_given_a_score_it_does_not_have(name, case, seed):
    twin, margins = case
    score, atom = ask(name, twin, margins, seed)
    tolerance = 1e-12 * twin.dense.score_size(margins)
    assert 0 <= atom.i < atom.j < twin.dense.d
    assert atom.sign in (1, -1)
    assert score == pytest.approx(twin.dense.scores(margins, [atom])[0], abs=tolerance)
    assert score <= twin.dense.best_atom(margins)[0] + tolerance


@given(twins_with_margins())
def test_exact_is_the_best_of_all(case):
    twin, margins = case
    best, _ = twin.dense.best_atom(margins)
    tolerance = 1e-12 * twin.dense.score_size(margins)
    assert ask("exact", twin, margins).score == pytest.approx(best, abs=tolerance)


@given(exact_twins())
def test_exact_ties_to_the_smallest(twin):
    margins = np.zeros(twin.dense.T)
    assert ask("exact", twin, margins) == twin.dense.best_atom(margins)


@pytest.mark.parametrize("name", NAMES)
@given(case=twins_with_margins(), data=st.data())
def test_a_batch_is_the_problem_of_its_triplets(name, case, data):
    twin, margins = case
    subset = data.draw(subsets(twin.dense.T))
    part = twin.dense.subproblem(subset)
    score, atom = ask(name, twin, margins, subset=subset)
    tolerance = 1e-12 * part.score_size(margins[subset])
    assert score == pytest.approx(part.scores(margins[subset], [atom])[0], abs=tolerance)
    if name == "exact":
        assert score == pytest.approx(part.best_atom(margins[subset])[0], abs=tolerance)


@st.composite
def walks(draw):
    """A problem and the margins of a few models of it, each near the one before or far off."""
    twin, _ = draw(twins_with_margins())
    here = twin.dense.margins(*draw(models(twin.dense.d)))
    walk = [here]
    for _ in range(draw(st.integers(1, 8))):
        toward = twin.dense.margins(*draw(models(twin.dense.d)))
        here = here + draw(st.sampled_from([0.0, 1e-12, 1e-3, 0.1, 1.0])) * (toward - here)
        walk.append(here)
    return twin, walk


@given(walks())
def test_exact_remembers_nothing_wrong(case):
    """One oracle asked along a path answers as a new one does at each of its points."""
    twin, walk = case
    asked = oracle.ORACLES["exact"]()
    for margins in walk:
        score, atom = asked(twin.ours.gradient(margins), np.random.default_rng(0))
        tolerance = 1e-12 * twin.dense.score_size(margins)
        assert score == pytest.approx(twin.dense.best_atom(margins)[0], abs=tolerance)
        assert score == pytest.approx(twin.dense.scores(margins, [atom])[0], abs=tolerance)
        assert (score, atom) == ask("exact", twin, margins)


@pytest.mark.parametrize("seed", range(5))
def test_exact_looks_at_few_rows_of_a_long_path(seed):
    """What is remembered saves work, and not one vertex of the path is missed."""
    twin = random_twin(seed, n=30, d=60, T=300, density=0.1, scale=20.0)
    asked, rng = oracle.ORACLES["exact"](), np.random.default_rng(seed)
    margins = twin.dense.offset
    for k in range(80):
        score, atom = asked(twin.ours.gradient(margins), rng)
        assert (score, atom) == ask("exact", twin, margins)
        if k % 20 == 0:
            assert score == pytest.approx(twin.dense.best_atom(margins)[0], abs=1e-12)
        margins = margins + 2 / (k + 2) * (twin.ours.atom_margins(atom) - margins)
    assert asked.n_calls == 80
    assert asked.n_rows < 80 * 60


@pytest.mark.parametrize("seed", range(3))
def test_what_exact_counts_and_remembers(seed):
    """Looks at all rows come when a look at each has been used up; another object goes on alike."""
    d = 60
    twin = random_twin(seed, n=30, d=d, T=300, density=0.1, scale=20.0)
    asked, rng = oracle.Exact(), np.random.default_rng(seed)
    assert {name: part.tolist() for name, part in asked.memory().items()} == {"counts": [0, 0, 0]}
    margins, budget, looks, whole = twin.dense.offset, 0, 0, 0
    for k in range(60):
        other = oracle.Exact()
        other.recall(asked.memory(), twin.ours)
        asked = other if k % 7 == 3 else asked
        gradient = Watched(twin.ours.gradient(margins))
        vertex = asked(gradient, rng)
        rows = gradient.looks[-1]
        if k % 7 != 3:
            again = Watched(twin.ours.gradient(margins))
            assert (other(again, rng), again.looks) == (vertex, gradient.looks)
        assert (len(rows) == d) or (len(rows) <= budget)
        whole += len(rows) == d
        budget, looks = d if len(rows) == d else budget - len(rows), looks + len(rows)
        memory = asked.memory()
        assert memory["counts"].tolist() == [k + 1, looks, budget] == [
            asked.n_calls, asked.n_rows, budget
        ]  # fmt: skip
        assert_array_equal(memory["last"], gradient.w)
        if len(rows) == d:
            assert_array_equal(memory["base"], gradient.w)
            assert_array_equal(memory["value"], memory["base_value"])
        # What is remembered is a bound of every row, and no more than the value of those seen.
        value, *_ = gradient.gradient.partners(np.arange(d), after=True)
        assert (memory["value"] >= value - 1e-12).all()
        assert_allclose(memory["value"][rows], value[rows], rtol=1e-12)
        margins = margins + 2 / (k + 200) * (twin.ours.atom_margins(vertex.atom) - margins)
    assert 2 <= whole < 30
    assert looks < 0.5 * 60 * d


def test_exact_sees_a_partner_rise():
    """Features that never meet: a row's best pair rises though nothing in the row itself moved."""
    twin = make_twin(
        np.vstack([np.diag([2.0, 1.0, 3.0, 2.0]), np.zeros(4)]), [[k, k, 4] for k in range(4)]
    )
    levels = [np.array(margins) for margins in product([0.0, 0.5, 2.0], repeat=4)]
    asked, rng = oracle.ORACLES["exact"](), np.random.default_rng(0)
    for k in rng.integers(len(levels), size=500):
        vertex = asked(twin.ours.gradient(levels[k]), rng)
        assert vertex == twin.dense.best_atom(levels[k])


@pytest.mark.parametrize("batch_first", [False, True])
def test_exact_is_not_misled_by_a_batch(batch_first):
    """Batches between calls over all triplets leave no trace."""
    twin, rng = random_twin(3, d=12, scale=5.0), np.random.default_rng(0)
    asked = oracle.ORACLES["exact"]()
    for k in range(20):
        margins = rng.normal(size=30) * 10.0 ** rng.integers(-3, 1)
        subset = np.sort(rng.choice(30, size=5, replace=False)) if k % 2 == batch_first else None
        assert asked(twin.ours.gradient(margins, subset), rng) == ask(
            "exact", twin, margins, subset=subset
        )


def test_exact_finds_a_pair_with_zero_off_diagonal():
    """The two largest diagonal entries win although the two features never meet."""
    X = [[3.0, 0.0, 1.0], [3.0, 0.0, 1.0], [0.0, 3.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 0.0]]
    T = [[0, 1, 4], [2, 3, 4]]
    twin = make_twin(X, T)
    gradient = twin.ours.gradient(np.zeros(2))
    assert gradient.entries(np.array([[0, 1, 1]]))[0] == 0.0
    assert ask("exact", twin, np.zeros(2)) == Vertex(9.0, Atom(0, 1, 1))
    assert ask("ascent", twin, np.zeros(2)) == Vertex(9.0, Atom(0, 1, 1))


@pytest.mark.parametrize("name", NAMES)
def test_all_atoms_equal(name):
    """Where no triplet pulls, every atom scores 0 and the exact oracle takes the first."""
    twin = random_twin(0, T=5)
    score, atom = ask(name, twin, np.full(5, 2.0))
    assert score == 0.0
    if name == "exact":
        assert atom == Atom(0, 1, 1)


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
    found = {ask("heuristic", twin, margins, seed).atom for seed in range(40 * twin.dense.d)}
    assert found == reachable


@given(twins_with_margins(), st.integers(0, 99))
def test_ascent_is_as_good_as_its_starts(case, seed):
    """No pair of one of the four largest diagonal entries is better: with four features, none."""
    twin, margins = case
    scores, tolerance = dense_scores(twin, margins), 1e-12 * twin.dense.score_size(margins)
    found = ask("ascent", twin, margins, seed).score
    diagonal = -np.diag(twin.dense.gradient(margins))
    starts = np.argsort(-diagonal, kind="stable")[:5]
    fifth = diagonal[starts[-1]] if twin.dense.d > 4 else -np.inf
    for i in starts:
        if diagonal[i] > fifth + tolerance / twin.dense.scale:  # which of equals starts is open
            assert found >= max(scores_of_feature(scores, i).values()) - tolerance


class Watched:
    """A gradient that remembers which features it was asked for the partners of."""

    def __init__(self, gradient):
        self.gradient, self.looks = gradient, []

    def __getattr__(self, name):
        return getattr(self.gradient, name)

    def partners(self, features, **options):
        self.looks.append(np.asarray(features).tolist())
        return self.gradient.partners(features, **options)


@given(twins_with_margins(), st.data())
def test_climb(case, data):
    """The atom, and the passes over X that it takes, are those of a slow twin."""
    twin, margins = case
    gradient = Watched(twin.ours.gradient(margins))
    starts = data.draw(st.lists(st.integers(0, twin.dense.d - 1), min_size=1, max_size=9))
    vertex = oracle.climb(gradient, starts)
    C = -twin.dense.gradient(margins)
    every = np.sort(twin.dense.scores(margins, reference.all_atoms(twin.dense.d)))
    if (np.diff(every) <= 1e-10 * twin.dense.score_size(margins)).any():
        return  # rounding may settle what ties here; the next test has true ties
    atom, looks = reference.climb(C, C + C.T, starts)
    assert vertex.atom == atom
    assert gradient.looks == looks


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("count", [1, 3, 8])
def test_climb_takes_no_look_too_many(seed, count):
    twin = random_twin(seed, n=30, d=40, T=200, density=0.2)
    rng = np.random.default_rng(seed)
    margins, starts = rng.normal(size=200), rng.integers(40, size=count)
    C = -twin.dense.gradient(margins)
    gradient = Watched(twin.ours.gradient(margins))
    vertex = oracle.climb(gradient, starts)
    atom, looks = reference.climb(C, C + C.T, starts.tolist())
    assert (vertex.atom, gradient.looks) == (atom, looks)


@given(exact_twins(), st.data())
def test_climb_settles_ties(twin, data):
    starts = data.draw(st.lists(st.integers(0, twin.dense.d - 1), min_size=1, max_size=9))
    gradient = Watched(twin.ours.gradient(np.zeros(twin.dense.T)))
    C = -twin.dense.gradient(np.zeros(twin.dense.T))
    atom, looks = reference.climb(C, C + C.T, starts)
    assert oracle.climb(gradient, starts).atom == atom
    assert gradient.looks == looks


def test_starts_of_an_ascent():
    """Six of the largest diagonal, the first feature of the last atom, and one at random."""
    twin = random_twin(0, n=30, d=40, T=200, density=0.2)
    asked, rng, last = oracle.Ascent(), np.random.default_rng(0), set()
    memory = asked.memory()["recent"]
    assert (memory.dtype, memory.shape) == (np.int64, (0,))
    for k in range(5):
        margins = np.random.default_rng(k).normal(size=200)
        chance = np.random.default_rng()
        chance.bit_generator.state = rng.bit_generator.state
        largest = np.argsort(twin.dense.gradient(margins).diagonal())[:6]
        gradient = Watched(twin.ours.gradient(margins))
        vertex = asked(gradient, rng)
        expected = {*largest.tolist(), *last, int(chance.integers(40))}
        assert gradient.looks[0] == sorted(expected)
        last = {vertex.atom.i}
        assert asked.memory()["recent"].tolist() == [vertex.atom.i]
        other = oracle.Ascent()
        other.recall(asked.memory(), twin.ours)
        asked = other if k % 2 else asked


@pytest.mark.parametrize("seed", range(10))
def test_ascent_ends_at_a_fixed_point(seed):
    """Exchanging either feature of the atom improves nothing (hardly a tie in this data)."""
    twin = random_twin(seed, n=30, d=40, T=200, density=0.2)
    margins = np.random.default_rng(seed).normal(size=200)
    scores = dense_scores(twin, margins)
    found, atom = ask("ascent", twin, margins, seed)
    for feature in atom[:2]:
        assert found >= max(scores_of_feature(scores, feature).values()) - 1e-13


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_atom(name):
    twin = random_twin(5, n=30, d=40, T=200, density=0.2)
    answers = {ask(name, twin, np.zeros(200), seed=3) for _ in range(3)}
    assert len(answers) == 1


def test_a_vertex_beats_another_by_score_then_order():
    everyone = [
        (-score, k, Vertex(score, Atom(*atom)))
        for score in (0.0, 1.0)
        for k, atom in enumerate(reference.all_atoms(3))
    ]
    for a, b in product(everyone, repeat=2):
        assert a[2].beats(b[2]) == (a[:2] < b[:2])
