"""Exact parts of a similarity, effects of features and pairs, and their text and HTML."""

import json
import math
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

import reference
from hdsl import HDSL, Solver
from hdsl.explain import explain, importance, strongest_directions
from hdsl.explain.parts import DIRECTIONS, LEARNED_MEANING, MEANING
from hdsl.settings import nested_parameters
from hdsl.similarity import FixedPart, Similarity
from hdsl.similarity.fixed import NO_FEATURE
from strategies import (
    SCALES,
    directions_beside,
    fixed_parts,
    matrices,
    models,
    models_beside,
)

NAMES = ["goal", "match", "profit", "shares"]
HOSTILE = [
    "<script>alert(1)</script>",
    "\x1b[31mred\u202e",
    "two\nlines\ud800",
    "a" * 500,
]

#: goal+match has 3 of the scale, goal-profit 1.
SMALL_ATOMS = np.array([[0, 1, 1], [0, 2, -1]])
SMALL = Similarity(
    SMALL_ATOMS, np.array([0.75, 0.25]), 4.0, (FixedPart("prior", 0.5),), 4
)
ROWS = np.array([[1.0, 0, 2, 0], [1, 1, 0, 0], [0, 0, 3, 1]])


def learned_matrix(similarity):
    """Return M, dense."""
    return reference.model_matrix(
        similarity.atoms, similarity.weights, similarity.n_features, similarity.scale
    )


def rounding(similarity, x, y):
    """Return what the roundings in S(x, y) may come to: 16 units in the last place of its terms."""
    absolute = replace(similarity, atoms=np.abs(similarity.atoms))
    if similarity.directions is not None:
        absolute = replace(absolute, directions=np.abs(similarity.directions))
    return (
        16
        * np.finfo(float).eps
        * (np.abs(x) @ reference.similarity_matrix(absolute) @ np.abs(y))
    )


@st.composite
def cases(draw):
    """A similarity and three rows."""
    X = draw(matrices())
    fixed = draw(fixed_parts(X.shape[1]))
    atoms, weights = draw(models_beside(fixed, X.shape[1]))
    directions = draw(directions_beside(fixed, X.shape[1]))
    similarity = Similarity(atoms, weights, draw(SCALES), fixed, X.shape[1], directions)
    return similarity, X[
        draw(st.lists(st.integers(0, len(X) - 1), min_size=3, max_size=3))
    ]


# --- parts ----------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["pair", "atom"])
@given(case=cases())
def test_parts_sum_to_the_similarity(by, case):
    similarity, (x, y, z) = case
    explanation = explain(similarity, x, y, by=by)
    assert explanation.total == math.fsum(explanation.parts["value"])  # exactly
    error = abs(explanation.total - similarity.pair_score(x[None], y[None])[0])
    assert error <= rounding(similarity, x, y)
    assert explanation.fixed == tuple(part.name for part in similarity.fixed)
    sums = {part.name: explanation.of_fixed(part.name) for part in similarity.fixed}
    assert explanation.prior == sums["prior"]
    for part in similarity.fixed:
        expected = part.weight * (part.block(x[None]) @ part.block(y[None]).T).item()
        assert abs(sums[part.name] - expected) <= rounding(similarity, x, y)
    error = abs(explanation.learned + sum(sums.values()) - explanation.total)
    assert error <= rounding(similarity, x, y)
    assert (np.diff(np.abs(explanation.parts["value"])) <= 0).all()
    assert explanation.parts["value"].all()

    contrast = explain(similarity, x, y, rather_than=z, by=by)
    assert contrast.total == math.fsum(contrast.parts["value"])
    difference = similarity.pair_score(x[None], y[None]) - similarity.pair_score(
        x[None], z[None]
    )
    allowed = rounding(similarity, x, y) + rounding(similarity, x, z)
    assert abs(contrast.total - difference[0]) <= allowed


@given(case=cases())
def test_parts_are_those_of_their_formulas(case):
    similarity, (x, y, _) = case
    M = learned_matrix(similarity)
    fixed = np.diag(np.diag(reference.fixed_matrix(similarity.fixed, len(x))) * x * y)
    as_one = [part.name for part in similarity.fixed if not part.by_feature]
    tolerance = rounding(similarity, x, y) + 1e-300
    for by in ("pair", "atom"):
        parts = explain(similarity, x, y, by=by).parts
        of_fixed = {part.name for part in similarity.fixed}
        assert set(parts["kind"]) <= {by, DIRECTIONS, *of_fixed}
        inside = parts[parts["kind"] == DIRECTIONS]
        assert set(inside["name"]) <= {LEARNED_MEANING}
        assert (inside["i"] == NO_FEATURE).all()
        along = x @ reference.embedding_part(similarity) @ y
        assert_allclose(inside["value"].sum(), along, rtol=0, atol=tolerance)
        parts = parts[parts["kind"] != DIRECTIONS]
        of_block = parts[np.isin(parts["kind"], as_one)]
        assert set(of_block["name"]) <= {MEANING}
        assert (of_block["i"] == NO_FEATURE).all()
        assert len(of_block) <= 1
        is_fixed = (parts["kind"] != by) & (parts["i"] != NO_FEATURE)
        got = np.zeros_like(M)
        got[parts["i"][is_fixed], parts["j"][is_fixed]] = parts["value"][is_fixed]
        for part in similarity.fixed:
            block = slice(part.start, part.stop)
            if part.by_feature:
                assert_allclose(got[block, block], fixed[block, block], rtol=1e-14)
        learned = parts[parts["kind"] == by]
        if by == "pair":
            products = M * np.outer(x, y)
            joined = np.triu(products) + np.tril(products, -1).T
            got = np.zeros_like(M)
            got[learned["i"], learned["j"]] = learned["value"]
            assert_allclose(got, joined, rtol=0, atol=tolerance)
        else:
            terms = [
                weight * similarity.scale * (x[i] + sign * x[j]) * (y[i] + sign * y[j])
                for (i, j, sign), weight in zip(
                    similarity.atoms, similarity.weights, strict=True
                )
            ]
            terms = sorted((term for term in terms if term), key=abs)[::-1]
            assert_allclose(learned["value"], terms, rtol=1e-14)


def test_small_case_by_hand():
    by_pair = explain(SMALL, *ROWS[:2], feature_names=NAMES).to_dict()
    assert by_pair == {
        "of": "S(x, y)",
        "total": 5.5,
        "parts": [
            {"kind": "pair", "name": "goal", "i": 0, "j": 0, "value": 4.0},
            {"kind": "pair", "name": "goal ~ match", "i": 0, "j": 1, "value": 3.0},
            {"kind": "pair", "name": "goal ~ profit", "i": 0, "j": 2, "value": -2.0},
            {"kind": "prior", "name": "goal", "i": 0, "j": 0, "value": 0.5},
        ],
    }
    by_atom = explain(SMALL, *ROWS[:2], by="atom").parts
    assert by_atom["name"].tolist() == ["x0+x1", "x0-x2", "x0"]
    assert by_atom["value"].tolist() == [6.0, -1.0, 0.5]
    contrast = explain(SMALL, *ROWS[:2], rather_than=ROWS[2])
    assert contrast.of == "S(x, y) - S(x, z)"
    assert contrast.total == 5.5 - (-3 + 6 + 3)
    nothing = explain(SMALL, [0, 0, 0, 1], [1, 0, 0, 0])
    assert (nothing.total, len(nothing.parts)) == (0.0, 0)
    assert "share no feature" in repr(nothing)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "word"}, "by"),
        ({"top": 0}, "top"),
        ({"feature_names": NAMES[:3]}, "4 features"),
        ({"rather_than": ROWS}, r"rather_than .*\(3, 4\)"),
        ({"x": [1.0, 2.0]}, r"x .*\(1, 2\)"),
        ({"x": [1e200, 0, 0, 0], "y": [1e200, 0, 0, 0]}, r"1e\+200"),
    ],
)
def test_messages(options, message):
    with pytest.raises(ValueError, match=message):
        explain(SMALL, **{"x": ROWS[0], "y": ROWS[1], **options})


# --- weights --------------------------------------------------------------------------


def dense_effects(similarity, X):
    """Return the root mean squares of the parts of M, by all pairs of rows; slow and dense."""
    M = learned_matrix(similarity)
    X = np.asarray(similarity.index_rows(X))
    parts = np.array([M * np.outer(x, y) for x in X for y in X])
    joined = parts + parts.transpose(0, 2, 1) * (1 - np.eye(len(M)))
    return np.sign(M) * np.sqrt(np.mean(joined**2, axis=0))


@settings(max_examples=40)
@given(matrices(), st.sampled_from([None, "l2"]), st.sampled_from([0, 2]), st.data())
def test_importance_by_effect_is_that_of_all_pairs_of_rows(X, norm, min_rows, data):
    atoms, weights = data.draw(models(X.shape[1]))
    fixed = (FixedPart("prior", 0.5, norm),)
    similarity = Similarity(atoms, weights, 4.0, fixed, X.shape[1])
    M = learned_matrix(similarity)
    effects = dense_effects(similarity, X)
    present = (X != 0).astype(int)
    n_rows = present.sum(axis=0)
    both = present.T @ present
    for form in (np.asarray, sp.csr_array, sp.coo_array):
        ranking = importance(similarity, form(X), min_rows=min_rows)
        features = ranking.features
        pairs = ranking.pairs
        i = pairs["i"]
        j = pairs["j"]
        active = features["i"]
        assert ranking.ranked_by == "effect"
        assert_allclose(features["weight"], M[active, active], rtol=1e-14)
        assert_allclose(pairs["weight"], M[i, j], rtol=1e-12, atol=1e-14)
        tolerance = {"rtol": 1e-9, "atol": 1e-12 * np.abs(effects).max()}
        known = n_rows / (n_rows + 5)  # little is known of what few rows have
        assert_allclose(
            features["effect"],
            effects[active, active] * known[active],
            **tolerance,
        )
        expected = effects[i, j] * np.minimum(known[i], known[j])
        assert_allclose(pairs["effect"], expected, **tolerance)
        rare = n_rows < min_rows
        for table, last in ((features, rare[active]), (pairs, rare[i] | rare[j])):
            assert (np.diff(last.astype(int)) >= 0).all()
            for part in (table[last], table[~last]):
                assert (np.diff(np.abs(part["effect"])) <= 0).all()
        assert_array_equal(features["n_rows"], n_rows[active])
        assert_array_equal(pairs["n_rows"], both[i, j])
        assert_array_equal(pairs["n_rows_i"], n_rows[i])
        assert_array_equal(pairs["n_rows_j"], n_rows[j])
        assert ranking.n_rare == (rare[i] | rare[j]).sum()


@given(st.integers(2, 8), st.data())
def test_importance_without_rows_is_by_weight(d, data):
    atoms, weights = data.draw(models(d))
    similarity = Similarity(atoms, weights, 4.0, (FixedPart("prior", 0.0),), d)
    M = learned_matrix(similarity)
    ranking = importance(similarity)
    features = ranking.features
    pairs = ranking.pairs
    assert ranking.ranked_by == "weight"
    assert_allclose(features["weight"], M[features["i"], features["i"]], rtol=1e-14)
    assert len(features) == np.count_nonzero(np.diag(M))
    assert_allclose(features["share"].sum(), weights.sum())
    assert_allclose(pairs["weight"], M[pairs["i"], pairs["j"]], rtol=1e-12, atol=1e-14)
    assert len(pairs) >= np.count_nonzero(np.abs(np.triu(M, 1)) > 1e-14)
    assert (pairs["i"] < pairs["j"]).all()
    for table in (features, pairs):
        assert (np.diff(np.abs(table["weight"])) <= 0).all()
    for i, direction in zip(features["i"], features["direction"], strict=True):
        has_feature = (atoms[:, :2] == i).any(axis=1)
        assert_allclose(
            direction,
            np.average(atoms[has_feature, 2], weights=weights[has_feature]),
            atol=1e-14,
        )


def test_pairs_of_words_come_before_those_of_classes():
    names = ["goal", "class:sport", "profit", "shares"]
    titles = [block.title for block in importance(SMALL, feature_names=names).blocks()]
    assert [title.split()[0] for title in titles] == ["3", "1", "1"]
    assert "class" in titles[2]
    _, words, classes = importance(SMALL, feature_names=names).blocks()
    assert [line.label for line in words.lines] == ["goal ~ profit"]
    assert [line.label for line in classes.lines] == ["goal ~ class:sport"]


def test_words_behind_the_score_of_a_class_are_shown():
    names = ["goal", "class:sport", "profit", "shares"]
    explanation = explain(SMALL, *ROWS[:2], feature_names=names)
    explanation = replace(
        explanation, words={1: {"x": ["match", "cup"], "y": ["league"]}}
    )
    parts = {part["name"]: part for part in explanation.to_dict()["parts"]}
    assert parts["goal ~ class:sport"]["words"] == ["match", "league", "cup"]
    assert "words" not in parts["goal ~ profit"]
    assert "goal ~ class:sport: match, league, cup" in repr(explanation)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"X": ROWS[:, :3]}, "3 columns"),
        ({"min_rows": -1}, "min_rows"),
        ({"top": 0}, "top"),
        ({"X": 1e160 * ROWS}, "too large"),
    ],
)
def test_messages_of_importance(options, message):
    with pytest.raises(ValueError, match=message):
        importance(SMALL, **options)


# --- how they look --------------------------------------------------------------------


def test_text_has_signed_bars_and_says_what_it_leaves_out():
    assert repr(explain(SMALL, *ROWS[:2], feature_names=NAMES, top=3)).splitlines() == [
        "S(x, y) = 5.5, learned +5, prior +0.5",
        "                 sum learned prior",
        "  goal          +4.5      +4  +0.5          |++++++++++++++++++++",
        "  goal ~ match    +3      +3                |+++++++++++++",
        "  goal ~ profit   -2      -2       ---------|",
    ]
    shortened = repr(explain(SMALL, *ROWS[:2], feature_names=NAMES, top=1))
    assert re.search(r"\[2 more\] +\+1 +\+1 ", shortened)
    by_weight = importance(SMALL, top=1)
    by_effect = importance(SMALL, ROWS, min_rows=1, top=1)
    assert "2 pairs, the first 1 by weight in M" in repr(by_weight)
    assert "\n  x0 ~ x1 +3 |+++" in repr(by_weight)
    assert "2 pairs, the first 1 by effect on S (rows that have each)" in repr(
        by_effect
    )
    assert "x0 ~ x2 (2, 2)" in repr(by_effect)


@given(case=cases())
def test_reasons_name_what_both_rows_have_and_add_up(case):
    """Each once: what is learned of a feature stands beside what is not."""
    similarity, (x, y, _) = case
    explanation = explain(similarity, x, y)
    reasons = explanation.reasons
    error = abs(math.fsum(reason.value for reason in reasons) - explanation.total)
    assert error <= rounding(similarity, x, y)
    assert len({(reason.i, reason.j) for reason in reasons}) == len(reasons)
    for reason in reasons:
        assert reason.value == math.fsum(reason.addends)
        if reason.i != NO_FEATURE:
            assert x[reason.i] or y[reason.i]
            assert x[reason.j] or y[reason.j]
    learned = math.fsum(reason.addends[0] for reason in reasons)
    assert abs(learned - explanation.learned) <= rounding(similarity, x, y)
    sizes = [abs(reason.value) for reason in reasons]
    assert sizes == sorted(sizes, reverse=True)


def test_an_atom_is_a_reason_only_where_atoms_are_asked_for():
    by_atom = explain(SMALL, *ROWS[:2], feature_names=NAMES, by="atom").reasons
    assert [reason.name for reason in by_atom] == ["goal+match", "goal-profit", "goal"]
    assert by_atom[2].addends == (0.0, 0.5)


def test_a_reason_that_adds_next_to_nothing_is_not_shown_by_name():
    query = np.array([1.0, 0, 0, 0])
    nearly_the_same = np.array([1.0, 0, 1e-9, 0])
    explanation = explain(SMALL, query, nearly_the_same, feature_names=NAMES)
    text = repr(explanation)
    assert "profit" not in text
    assert "e-" not in text
    assert "[1 more]" in text
    assert "profit" in repr(replace(explanation, top=None))


@pytest.mark.parametrize(
    "found",
    [
        explain(SMALL, *ROWS[:2], feature_names=HOSTILE),
        importance(SMALL, feature_names=HOSTILE),
    ],
)
def test_hostile_names_are_escaped(found):
    text = repr(found)
    page = found._repr_html_()
    assert all(line.isprintable() and len(line) < 120 for line in text.splitlines())
    assert r"\x1b[31mred\u202e" in text
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    text.encode(), page.encode()  # a lone surrogate cannot be printed


def test_tables_as_frames_and_json(monkeypatch):
    explanation = explain(SMALL, *ROWS[:2], feature_names=NAMES)
    weights = importance(SMALL, ROWS)
    assert json.loads(json.dumps(explanation.to_dict())) == explanation.to_dict()
    assert json.loads(json.dumps(weights.to_dict())) == weights.to_dict()
    pytest.importorskip("pandas")
    assert explanation.to_frame().to_dict("records") == explanation.to_dict()["parts"]
    for of in ("pairs", "features"):
        assert weights.to_frame(of).to_dict("records") == weights.to_dict()[of]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install pandas.*to_dict"):
        explanation.to_frame()


# --- the estimators -------------------------------------------------------------------


def data(seed=0, n=40, d=10):
    """Two classes, each with features of its own under noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.random((n, d)) * (rng.random((n, d)) < 0.3)
    X[np.arange(n), 3 * y + rng.integers(3, size=n)] += 1
    return X, y


X, Y = data()


@pytest.fixture(scope="module")
def model():
    return HDSL(scale=5.0, prior=0.3, solver=Solver(max_iter=30), random_state=0).fit(
        X, Y
    )


def test_explanations_of_an_estimator(model):
    explanation = model.explain(X[0], X[2], top=3)
    assert explanation.total == pytest.approx(
        model.pair_score(X[[0]], X[[2]])[0], rel=1e-13
    )
    assert (explanation.top, explanation.parts["name"][0][0]) == (3, "x")
    assert_array_equal(explanation.parts, explain(model.similarity_, X[0], X[2]).parts)
    for form in (sp.csr_array, sp.coo_array, sp.csr_matrix, np.asarray):
        assert_array_equal(
            model.explain(form(X[[0]]), form(X[[2]])).parts, explanation.parts
        )
    assert_array_equal(model.explain(list(X[0]), list(X[2])).parts, explanation.parts)
    x, y = X[[0, 2]].astype(np.float32)  # explained in float64
    assert_array_equal(
        model.explain(x, y).parts, model.explain(x.astype(float), y).parts
    )
    contrast = model.explain(X[0], X[2], rather_than=X[1], by="atom")
    scores = model.similarity(X[[0]], X[[2, 1]])[0]
    assert contrast.total == pytest.approx(scores[0] - scores[1], rel=1e-12)
    weights = model.importance(X, feature_names=[f"word{k}" for k in range(10)])
    assert all(name.startswith("word") for name in weights.features["name"])
    assert weights.features["n_rows"].max() <= len(X)
    assert weights.ranked_by == "effect"
    sparse = model.importance(sp.csr_array(X)).pairs["effect"]
    assert_allclose(weights.pairs["effect"], sparse, rtol=1e-12)
    by_weight = model.importance()
    assert by_weight.ranked_by == "weight"
    assert by_weight.features["share"].sum() == pytest.approx(model.weights_.sum())


def test_names_of_a_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X).add_prefix("word")
    model = HDSL(scale=5.0, prior=0.3, solver=Solver(max_iter=5), random_state=0).fit(
        frame, Y
    )
    by_row = model.explain(frame.iloc[0], frame.iloc[2])  # no warning of missing names
    assert_array_equal(
        by_row.parts, model.explain(frame.iloc[[0]], frame.iloc[[2]]).parts
    )
    assert by_row.parts["name"][0].startswith("word")
    assert model.importance(frame).features["name"][0].startswith("word")
    with pytest.raises(ValueError, match="feature_names_in_"):
        model.explain(frame.iloc[0], frame.iloc[2], feature_names=list("abcdefghij"))


def test_messages_of_an_estimator(model):
    with pytest.raises(ValueError, match=r"y .*\(40, 10\)"):
        model.explain(X[0], X)
    with pytest.raises(ValueError, match=r"rather_than\[0, 3\] is NaN"):
        model.explain(X[0], X[1], rather_than=np.where(np.arange(10) == 3, np.nan, 0.0))
    with pytest.raises(ValueError, match="3 features"):
        model.explain(X[0, :3], X[1, :3])
    for ask in (lambda: HDSL().explain(X[0], X[1]), lambda: HDSL().importance()):
        with pytest.raises(NotFittedError):
            ask()


# --- more columns than an array can have numbers --------------------------------------


@pytest.fixture(scope="module", params=[0.0, 0.3])
def wide(request):
    """A model on 2**40 columns, its rows, and the same model on the used columns alone."""
    columns = np.sort(np.random.default_rng(0).choice(2**40, X.shape[1], replace=False))
    narrow = sp.csr_array(X)
    rows = sp.csr_array(
        (narrow.data, columns[narrow.indices], narrow.indptr), shape=(len(X), 2**40)
    )
    options = {"scale": 5.0, "prior": request.param, "max_iter": 10, "random_state": 0}
    return (
        HDSL(**nested_parameters(**options)).fit(rows, Y),
        rows,
        HDSL(**nested_parameters(**options)).fit(narrow, Y),
        columns,
    )


def by_pair(table, column, features=None):
    """Return values by their features: the order of values that are nearly equal may differ."""
    i, j = (
        table[end] if features is None else features[table[end]] for end in ("i", "j")
    )
    kinds = table["kind"].tolist() if "kind" in table.dtype.names else [""] * len(table)
    keys = zip(kinds, i.tolist(), j.tolist(), strict=True)
    return dict(zip(keys, table[column].tolist(), strict=True))


def test_wide_rows_are_explained(wide):
    model, rows, twin, columns = wide
    for by in ("pair", "atom"):
        table = model.explain(rows[[0]], rows[[2]], rather_than=rows[[1]], by=by).parts
        expected = twin.explain(X[0], X[2], rather_than=X[1], by=by).parts
        assert by_pair(table, "value") == pytest.approx(
            by_pair(expected, "value", columns)
        )
    for by, wide_rows, narrow_rows in (("weight", None, None), ("effect", rows, X)):
        table = model.importance(wide_rows).pairs
        expected = twin.importance(narrow_rows).pairs
        assert by_pair(table, by) == pytest.approx(by_pair(expected, by, columns))
    assert table["name"][0] == f"x{table['i'][0]} ~ x{table['j'][0]}"


def test_wide_names_are_those_of_pairs_alone(wide):
    model, _, twin, columns = wide
    if model.prior_ > 0:
        with pytest.raises(
            ValueError, match=r"with prior=0 .* the names of 1099511627776 columns"
        ):
            model.get_feature_names_out()
    else:
        expected = [
            f"x{columns[i]}{'+' if sign > 0 else '-'}x{columns[j]}"
            for i, j, sign in twin.atoms_
        ]
        assert model.get_feature_names_out().tolist() == expected


# --- large numbers --------------------------------------------------------------------


def test_importance_says_when_no_pair_is_large():
    """The largest effect is compared with a usual similarity of two rows."""
    rng = np.random.default_rng(0)
    X = rng.random((200, 6))
    atoms = np.array([[0, 1, 1], [2, 3, -1]])
    weights = np.array([0.6, 0.4])

    def note(scale):
        fixed = (FixedPart("prior", 1.0),)
        return importance(Similarity(atoms, weights, scale, fixed, 6), X).note

    assert note(scale=10.0) == ""
    assert "No pair is large" in note(scale=1e-3)
    assert "0.0" in note(scale=1e-3)
    similarity = Similarity(atoms, weights, 1e-3, (FixedPart("prior", 1.0),), 6)
    assert repr(importance(similarity, X)).endswith("2 small ones.")
    assert importance(similarity).note == ""


@given(case=cases(), top=st.integers(1, 3))
def test_directions_sum_to_what_is_learned_inside_the_embedding(case, top):
    similarity, (x, y, z) = case
    rows = np.array([x, y, z])
    found = strongest_directions(similarity, rows[:1], rows[1:2], rows, top=10)
    along = x @ reference.embedding_part(similarity) @ y
    total = sum(direction.value for direction in found)
    assert_allclose(total, along, rtol=0, atol=rounding(similarity, x, y) + 1e-300)
    sizes = [abs(direction.value) for direction in found]
    assert sizes == sorted(sizes, reverse=True)
    for direction in found:
        v = similarity.directions[direction.number]
        places = rows[:, similarity.n_paired :] @ v
        assert places[direction.low[0]] == pytest.approx(places.min())
        assert places[direction.high[0]] == pytest.approx(places.max())
    few = strongest_directions(similarity, rows[:1], rows[1:2], rows, "abc", top=top)
    assert [direction.number for direction in few] == [
        direction.number for direction in found[:top]
    ]
    assert all(set(direction.low) <= set("abc") for direction in few)
