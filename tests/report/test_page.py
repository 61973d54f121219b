"""What the page of a model shows in a browser: every model of the path, tables, matches, errors."""

import dataclasses
import re

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from hdsl import HDSL, ClassScores, Rows, Solver, report
from hdsl.evaluate import compare_errors
from hdsl.evaluate.measured import measure_labels, measure_searches
from hdsl.relevance import Relevance
from hdsl.report.content import choose_rows
from hdsl.settings import nested_parameters
from hdsl.similarity import FixedPart
from hdsl.solver.atoms import DIRECTION
from hdsl.solver.directions import principal_directions
from hdsl.triplets import relevance_triplets
from pages import X_TEST, Y_TEST, X, Y, column, go_to, number, path_model, until_at


@pytest.fixture(scope="module")
def model():
    return path_model()


def effects_of_atoms(model, X):
    """Return the root mean square of scale·w·(x_i y_j + x_j y_i) over all pairs of rows."""
    rows = sp.csr_array(model.index_rows(X)).toarray()
    both = [rows[:, [i]] * rows[:, j] for i, j in model.atoms_[:, :2]]
    size = np.array([np.sqrt(np.mean((B + B.T) ** 2)) for B in both])
    n_rows = (rows != 0).sum(axis=0)[model.atoms_[:, :2]].min(axis=1)
    return model.scale_ * model.weights_ * size * n_rows / (n_rows + 5)


def weights_on(page, k):
    return {
        (atom["i"], atom["j"], atom["sign"]): atom["weight"]
        for atom in page.evaluate("k => window.hdslReport.at(k)", k)
    }


def weights_of(model):
    return dict(
        zip(map(tuple, model.atoms_.tolist()), model.weights_.tolist(), strict=True)
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"step": "away", "max_iter": 150},
        {"step": "corrective", "max_iter": 12},
        {
            "step": "away",
            "max_iter": 60,
            "oracle": "heuristic",
            "init": "random",
            "prior": 0.0,
        },
    ],
)
def test_every_model_of_the_path(parameters, show):
    model = HDSL(
        **nested_parameters(
            **(
                {"scale": 20.0, "prior": 0.3, "tol": 0.0, "random_state": 0}
                | parameters
            )
        )
    )
    model.fit(X, Y)
    page = show(model)
    last = len(model.trace_) - 1
    assert page.evaluate("window.hdslReport.lastIteration") == last
    wanted = [
        *range(0, last, 29),
        last // 2,
        last,
        0,
    ]  # back and forth over what it keeps
    for k in wanted:
        there = weights_on(page, k)
        expected = weights_of(model.at(k))
        assert there.keys() == expected.keys()
        assert_allclose([there[a] for a in expected], [*expected.values()], rtol=1e-9)


def test_page_follows_the_slider(model, show):
    page = show(model, X, Y)
    slider = page.locator("#slider")
    assert slider.input_value() == str(model.n_iter_)
    slider.focus()
    last = len(model.trace_) - 1
    for key, k in [
        ("Home", 0),
        ("ArrowRight", 1),
        ("End", last),
        ("ArrowLeft", last - 1),
    ]:
        slider.press(key)
        until_at(page, k)
        then = model.at(k)
        effects = effects_of_atoms(then, X)
        order = np.argsort(-effects, kind="stable")
        shown = [number(text) for text in column(page, 6)]
        assert_allclose(shown, effects[order][:50], rtol=6e-3)
        signs = {1: "+", -1: "−"}
        names = [
            [f"x{i}", signs[sign], f"x{j}"]
            for i, j, sign in then.atoms_[order].tolist()
        ]
        cells = [column(page, n) for n in (1, 2, 3)]
        assert list(map(list, zip(*cells, strict=True))) == names[:50]
        now = page.locator("#now").inner_text()
        assert f"pairs\n{len(then.weights_)}" in re.sub(r"\s+", "\n", now)
    page.locator("#fitted").click()
    until_at(page, model.n_iter_)


def test_search_and_sort(model, show):
    page = show(model, X, Y, feature_names=[f"Word{n}" for n in range(30)])
    n_atoms = len(model.weights_)
    page.locator("#search").fill("word2")
    wanted = [
        a for a in model.atoms_.tolist() if any(str(f).startswith("2") for f in a[:2])
    ]
    assert 0 < len(wanted) < n_atoms
    assert (
        page.locator("#found").inner_text()
        == f"{len(wanted)} of {len(wanted)} pairs found"
    )
    assert all(
        "Word2" in a + b for a, b in zip(column(page, 1), column(page, 3), strict=True)
    )
    page.locator("#search").fill("nothing has this name")
    assert column(page, 1) == []
    page.locator("#search").fill("")

    pairs = [(f"Word{i}", f"Word{j}") for i, j, _ in model.atoms_]
    first = page.get_by_role("button", name="First feature")
    first.click()
    by_name = sorted((a for a, _ in pairs), key=lambda name: int(name[4:]))
    assert column(page, 1) == by_name[:50]
    assert page.locator("#by-i").get_attribute("aria-sort") == "ascending"
    first.press("Enter")
    assert column(page, 1) == by_name[::-1][:50]
    assert page.locator("[aria-sort]").count() == 1


@pytest.mark.parametrize(("prior", "dtype"), [(0.0, np.float64), (0.3, np.float32)])
def test_why_two_items_match(prior, dtype, show):
    rows = X.astype(dtype)
    rows.data[::7] *= -1
    model = HDSL(
        scale=20.0, prior=prior, solver=Solver(max_iter=10), random_state=0
    ).fit(rows, Y)
    page = show(model, rows, Y, max_items=21)
    chosen = choose_rows(rows, 21)
    assert len(chosen) == 21
    pairs = [(a, b) for a in range(0, 21, 4) for b in range(21)]
    told = page.evaluate(
        "([pairs, k]) => pairs.map(([a, b]) => window.hdslReport.explain(a, b, k))",
        [pairs, model.n_iter_],
    )
    a, b = chosen[np.array(pairs).T]
    # Python adds float32 in float32: then parts that cancel leave its rounding.
    precision = {"rtol": 1e-6, "atol": 1e-12 if dtype == np.float64 else 1e-5}
    assert_allclose(
        [why["total"] for why in told], model.pair_score(rows[a], rows[b]), **precision
    )
    unit = sp.csr_array(model.index_rows(rows))
    plain = prior * np.asarray(unit[a].multiply(unit[b]).sum(axis=1))
    assert_allclose([why["plain"] for why in told], plain, **precision)

    for k in range(0, len(pairs), 9):
        explanation = model.explain(rows[[a[k]]], rows[[b[k]]], top=None)
        of_python = [
            ([f"x{i}" for i in dict.fromkeys((reason.i, reason.j))], *reason.addends)
            for reason in explanation.reasons
        ]
        of_page = [
            (reason["names"], reason["learned"], reason["plain"])
            for reason in told[k]["reasons"]
        ]
        assert_same_reasons(of_page, of_python, precision["atol"])

    choose(page, rows, chosen, 3, 8)
    expected = float(model.pair_score(rows[chosen[[3]]], rows[chosen[[8]]])[0])
    total = number(page.locator("#total").inner_text())
    assert total == pytest.approx(expected, rel=1e-3, abs=1e-3)
    if page.locator("#more-parts").is_visible():
        page.locator("#more-parts").click()
    adds = page.locator("#parts tbody .effect").all_inner_texts()
    parts = [number(text) for text in adds]
    assert sum(parts) == pytest.approx(
        expected, rel=5e-3, abs=1e-2 * np.abs(parts).max()
    )
    assert np.all(np.diff(np.abs(parts)) <= 0)


def assert_same_reasons(reasons, expected, atol):
    """Compare (names, learned, plain) of reasons, without those that cancel."""
    sums = [
        {
            tuple(names): (learned, plain)
            for names, learned, plain in table
            if abs(learned) + abs(plain) > 1e3 * atol
        }
        for table in (reasons, expected)
    ]
    assert sums[0].keys() == sums[1].keys()
    for names, values in sums[0].items():
        assert_allclose(values, sums[1][names], rtol=1e-6, atol=atol)


class TwoBlocks(HDSL):
    """A model whose similarity has two fixed parts: words, and an image as a whole."""

    @property
    def similarity_(self):
        learned = super().similarity_
        words = FixedPart("prior", 0.3, norm="l2", stop=20)
        image = FixedPart("image", 0.7, norm="l2", start=20, by_feature=False)
        return dataclasses.replace(learned, fixed=(words, image))


def test_all_fixed_parts_are_compared_and_named(show):
    words = X @ sp.diags_array(1.0 * (np.arange(X.shape[1]) < 20))
    words.eliminate_zeros()  # so that words alone are paired
    model = TwoBlocks(scale=20.0, prior=0.3, solver=Solver(max_iter=10), random_state=0)
    model.fit(words, Y)
    page = show(model, X, Y, max_items=21)
    chosen = choose_rows(X, 21)
    why = page.evaluate(
        "k => [...Array(21).keys()].map(b => window.hdslReport.explain(3, b, k))",
        model.n_iter_,
    )
    rows = X[chosen]
    expected = model.pair_score(rows[np.full(21, 3)], rows)
    assert_allclose([pair["total"] for pair in why], expected, rtol=1e-6)

    parts = model.explain(rows[[3]], rows[[8]])
    choose(page, X, chosen, 3, 8)
    shown = page.locator("#sum").inner_text()
    values = re.findall(r"([\d.−]+) (plain dot product|image)", shown)
    assert {name: number(value) for value, name in values} == pytest.approx(
        {"plain dot product": parts.prior, "image": parts.of_fixed("image")}, rel=1e-3
    )
    labels = page.locator("#parts tbody td:first-child").all_inner_texts()
    assert labels.count("Image") == 1  # as a whole
    assert "Plain dot product" not in labels  # it is explained word by word
    settings = page.locator("#status").inner_text()
    assert "the weight of the image is 0.7" in settings
    sentence = page.locator("#sentence").inner_text()
    assert "on top of the plain dot product and the image" in sentence


def choose(page, rows, chosen, first, second):
    """Type to pick two items."""
    for box, item in (("#query", first), ("#second", second)):
        page.locator(box).fill(f"Row {chosen[item]}")
        page.locator(box).press("Enter")


def test_neighbours_before_and_after(model, show):
    page = show(model, X, Y)
    page.locator("#query").fill("Row 7")
    page.locator("#query").press("Enter")
    unit = sp.csr_array(model.index_rows(X))
    for name, scores in (
        ("before", (unit[[7]] @ unit.T).toarray()[0]),
        ("after", model.similarity(X[[7]], X, cosine=True)[0]),
    ):
        scores[7] = -np.inf
        order = [row for row in np.argsort(-scores)[:6] if scores[row] > 0]
        shown = page.locator(f"#{name} button").all_inner_texts()
        titles = zip(order, shown, strict=True)
        assert all(f"Row {row}, {Y[row]}" in text for row, text in titles)
        values = [number(text.split()[0]) for text in shown]
        assert_allclose(values, scores[order], atol=6e-4)
    button = page.locator("#after button").nth(2)
    title = re.search(r"Row \d+, \w", button.inner_text())[0]
    button.click()
    assert page.locator("#second").input_value().startswith(title)
    go_to(page, 0)
    plain = (model.at(0).similarity(X[[7]], X, cosine=True))[0]
    plain[7] = -np.inf
    shown = page.locator("#after button").first.inner_text()
    # Follows the slider.
    assert number(shown.split()[0]) == pytest.approx(plain.max(), abs=6e-4)


def test_words_are_searched_for(show):
    names = [f"w{n}" for n in range(30)]
    model = HDSL(scale=20.0, prior=0.3, solver=Solver(max_iter=10), random_state=0).fit(
        X, Y
    )
    page = show(model, X, Y, feature_names=names)
    page.locator("#query").fill("W3 and w9, w9!")
    page.locator("#query").press("Enter")
    x = np.zeros((1, 30))
    x[0, [3, 9]] = 1, 1 + np.log(2)
    scores = model.similarity(x, X, cosine=True)[0]
    shown = [
        number(text.split()[0])
        for text in page.locator("#after button").all_inner_texts()
    ]
    assert_allclose(shown, np.sort(scores)[::-1][:6], atol=6e-4)
    assert page.locator("#first-text").inner_text() == "W3 and w9, w9!"
    page.locator("#query").fill("w3 unheard")
    page.locator("#query").press("Enter")
    said = page.locator("#unknown").inner_text()
    assert "“unheard”" in said
    assert "1 of 2 words" in said
    assert page.locator("#after button").count() > 0
    page.locator("#query").fill("unheard")
    page.locator("#query").press("Enter")
    assert "“unheard”" in page.locator("#unknown").inner_text()
    assert page.locator("#before button, #after button").count() == 0
    assert not page.locator("#match").is_visible()


def test_no_neighbour_has_a_score_of_0(show):
    rows = np.kron(np.eye(3), np.ones((3, 2))) + 0.0
    model = HDSL(scale=1.0, prior=1.0, solver=Solver(max_iter=1)).fit(
        rows, triplets=[[0, 1, 3]]
    )
    page = show(model, rows)
    page.locator("#query").fill("Row 0")
    page.locator("#query").press("Enter")
    assert page.locator("#before button").count() == 2
    assert "9 rows" in page.locator("#items-note").inner_text()


def test_the_first_example_is_one_that_the_cosine_gets_wrong(model, show):
    page = show(model, X, Y)
    assert (
        "No error on test rows was measured" in page.locator("#measured").inner_text()
    )
    assert not page.locator("#gain").is_visible()
    row = int(re.match(r"Row (\d+)", page.locator("#query").input_value())[1])
    unit = sp.csr_array(model.index_rows(X)).toarray()
    plain = unit @ unit.T
    learned = model.similarity(X, cosine=True)
    right = []
    for scores in (plain, learned):
        scores = scores.copy()
        np.fill_diagonal(scores, -np.inf)
        near = np.argsort(-scores, axis=1, kind="stable")[:, :6]
        right.append((Y[near] == Y[:, None]).sum(axis=1))
    gains = right[1] - right[0]
    assert gains[row] > 0
    assert np.sort(plain[row])[-7] > 0


def test_class_scores_are_taken_apart_into_words(chromium, tmp_path):
    scores = ClassScores(random_state=0)
    rows = sp.csr_array(scores.fit_transform(X, Y))
    model = HDSL(solver=Solver(max_iter=5), prior=4.0, random_state=0).fit(rows, Y)
    names = scores.get_feature_names_out([f"w{k}" for k in range(30)])
    more = report.More(np.arange(60) + 100, scores, np.ones(30))
    text = report.page(model, rows, Y, more=more, feature_names=names)
    (tmp_path / "r.html").write_text(text, encoding="utf-8")
    page = chromium.new_page(viewport={"width": 400, "height": 800})
    page.goto((tmp_path / "r.html").as_uri())
    page.locator("#query").fill("Row 107")
    page.locator("#query").press("Enter")
    unit = X / np.sqrt(X.power(2).sum(axis=1))[:, None]
    plain = (sp.csr_array(unit)[[7]] @ sp.csr_array(unit).T).toarray()[0]
    plain[7] = -np.inf
    shown = [
        number(text.split()[0])
        for text in page.locator("#before button").all_inner_texts()
    ]
    assert_allclose(shown, np.sort(plain)[::-1][:6], atol=6e-4)  # without the scores
    parts = page.locator("#parts tbody tr").all_inner_texts()
    assert any(re.search(r"class:\w.* by w\d", part) for part in parts)
    pairs = page.locator("#together .pair, #apart .pair").all_inner_texts()
    assert not any("class:" in pair for pair in pairs)
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    page.close()


def test_known_queries_are_named(chromium, tmp_path):
    rng = np.random.default_rng(0)
    D = rng.random((40, 12)) * (rng.random((40, 12)) < 0.5)
    D[:, 5] += 0.1
    Q = np.eye(12)[np.arange(30) % 5] + 0.2 * rng.random((30, 12))
    queries, documents = np.nonzero(np.arange(30)[:, None] % 5 == np.arange(40) % 5)
    names = [f"known <b>{k}</b>" for k in range(30)]
    qrels = {"query": np.array(names)[queries].tolist(), "document": documents}
    judged = relevance_triplets(
        Q, D, qrels, grade=None, query_ids=names, random_state=0
    )
    model = HDSL(solver=Solver(max_iter=3), prior=4.0, random_state=0).fit(judged)
    assert model.memory_.weight > 0
    words = [f"w{k}" for k in range(12)]
    text = report.page(model, D, feature_names=words)
    (tmp_path / "r.html").write_text(text, encoding="utf-8")
    page = chromium.new_page()
    page.goto((tmp_path / "r.html").as_uri())
    page.evaluate("window.hdslReport.ask('w0 w1')")
    query = np.zeros((1, 12))
    query[0, :2] = np.sqrt(0.5)
    cosine = model.ranking_ == "cosine"
    learned = model.similarity(query, D, cosine=cosine)[0]
    expected = learned + model.memory_.scores(query).toarray()[0]
    shown = page.locator("#after button").all_inner_texts()
    scores = [number(line.split()[0]) for line in shown]
    assert_allclose(scores, np.sort(expected)[::-1][:6], rtol=5e-3)
    best = int(np.argmax(expected))
    reason = model.memory_.reasons(query, best)[0]
    told = page.locator("#remembered").inner_text()
    assert f"“{reason.query}”, a query like this ({reason.similarity:.2f})" in told
    if cosine:
        assert number(page.locator("#cosine").inner_text()) == pytest.approx(
            learned[best], abs=6e-4
        )
    page.close()


def test_several_labels_per_row(show):
    tags, new = (
        [[label] if label == Y[0] else [label, "z"] for label in y] for y in (Y, Y_TEST)
    )
    model = HDSL(solver=Solver(max_iter=5), prior=4.0, random_state=0).fit(X, tags)
    page = show(model, X, tags, X_test=X_TEST, y_test=new)
    found = compare_errors(model, X, tags, X_TEST, new, cosine=True)
    for part in ("#headline", "#measured"):
        assert "1 − F1" in page.locator(part).inner_text()
    assert f"{100 * found.after.share:.1f} %" in page.locator("#headline").inner_text()
    labels = page.locator("#before button, #after button").all_inner_texts()
    assert any(", z" in each for each in labels)


def test_rows_are_named_by_their_ids(chromium, model, tmp_path):
    more = report.More(ids=np.array([f"id-{k}" for k in range(len(Y))]))
    text = report.page(model, X, Y, more=more)
    (tmp_path / "r.html").write_text(text, encoding="utf-8")
    page = chromium.new_page()
    page.goto((tmp_path / "r.html").as_uri())
    page.locator("#query").fill("id-7")
    page.locator("#query").press("Enter")
    shown = page.locator("#before button, #after button").all_inner_texts()
    assert shown
    assert all(re.search(r"\bid-\d", each) and "id-7," not in each for each in shown)
    page.close()


def test_errors_are_those_of_test_rows(model, show):
    page = show(model, X, Y, X_test=X_TEST, y_test=Y_TEST)
    text = page.locator("#measured").inner_text()
    assert "40 test rows" in text
    known = page.locator("#known-items").inner_text()
    measured = measure_labels(model.similarity_, X, Y, X_TEST, Y_TEST)
    assert measured.ranks_sentence.replace("`", "") in known
    assert page.locator("#known-items code").inner_text() == "hdsl search --plain"
    assert "LinearSVC" in page.locator("#gain").inner_text()
    found = compare_errors(model, X, Y, X_TEST, Y_TEST, cosine=True)
    for rate in (found.before, found.after):
        low, high = (100 * share for share in rate.interval)
        wrong = (
            f"{100 * rate.share:.2f} % ({rate.n_wrong:g}; {low:.1f} to {high:.1f} %)"
        )
        assert wrong in text
    assert text.endswith(found.sentence)


def test_searches_of_judged_queries_are_told(chromium, model, tmp_path):
    judged = Relevance(np.arange(10), np.arange(10, 20), np.ones(10))
    measured = measure_searches(model.similarity_, X[:10], X, judged)
    text = report.page(model, X, Y, measured=measured)
    (tmp_path / "r.html").write_text(text, encoding="utf-8")
    page = chromium.new_page()
    page.goto((tmp_path / "r.html").as_uri())
    assert "10 judged queries" in page.locator("#headline").inner_text()
    assert page.locator("#measured").inner_text().endswith(measured.searches.sentence)
    shown = page.locator("#known-items").inner_text()
    for name, quality in (("nDCG@10", "ndcg"), ("recall@10", "recall")):
        values = [measured.searches.after, measured.searches.before]
        learned, cosine = (f"{side.values(quality).mean():.3f}" for side in values)
        assert f"{name} is {learned} as learned and {cosine} by cosine" in shown
    page.close()


def test_learned_and_settings(model, show):
    page = show(model, title="Three classes")
    assert page.title() == page.locator("h1").inner_text() == "Three classes"
    signs = model.atoms_[:, 2]
    sentence = page.locator("#sentence").inner_text()
    assert (
        f"learned {len(signs)} pairs of features: {(signs > 0).sum()} that count"
        in sentence
    )
    for name, sign in (("together", 1), ("apart", -1)):
        own = np.flatnonzero(signs == sign)
        own = own[np.argsort(-model.weights_[own])][:8]
        expected = [f"x{i} {'−+'[sign > 0]} x{j}" for i, j, _ in model.atoms_[own]]
        assert page.locator(f"#{name} .pair").all_inner_texts() == expected
    changed = page.locator("#changed dt").all_inner_texts()
    assert set(changed) == {"max_iter", "prior", "random_state", "scale", "step", "tol"}
    assert "written without rows" in page.locator("#items-note").inner_text()


def test_pairs_in_few_rows_come_last(show):
    rows = np.hstack([np.eye(60), X.toarray()])  # each row has a feature of its own
    model = HDSL(
        scale=500.0,
        prior=0.0,
        solver=Solver(max_iter=30, step="away"),
        min_rows=1,
        random_state=0,
    )
    model.fit(rows, Y)
    is_rare = ((rows != 0).sum(axis=0)[model.atoms_[:, :2]] < 5).any(axis=1)
    assert 0 < is_rare.sum() < len(is_rare)
    page = show(model, rows)
    listed = page.locator("#together .pair, #apart .pair").all_inner_texts()
    rare = [{f"x{i}", f"x{j}"} for i, j, _ in model.atoms_[is_rare]]
    assert not any(set(pair.split()[::2]) in rare for pair in listed)
    assert page.locator("#graph .edge").count() == (~is_rare).sum()


def test_what_is_learned_inside_an_embedding_is_a_part_of_its_own(show):
    rng = np.random.default_rng(0)
    rows = Rows(X, rng.normal(size=(len(Y), 5)).astype(np.float32))
    model = HDSL(
        prior=2.0, solver=Solver(max_iter=3), random_state=0, embedding_weight=0.5
    )
    learn_inside(model.fit(rows, Y), rng.normal(size=(3, 5)))
    page = show(model, rows, Y, max_items=21)
    chosen = choose_rows(model.similarity_.index_rows(rows), 21, 3)
    why = page.evaluate(
        "k => [...Array(21).keys()].map(b => window.hdslReport.explain(3, b, k))",
        model.n_iter_,
    )
    expected = model.similarity(rows[chosen[3]], rows[chosen])[0]
    assert_allclose([pair["total"] for pair in why], expected, rtol=1e-4, atol=1e-5)
    parts = model.explain(rows[chosen[3]], rows[chosen[8]]).parts
    inside = parts["value"][parts["name"] == "meaning, learned"]
    of_page = [
        reason["learned"]
        for reason in why[8]["reasons"]
        if not reason["names"] and reason["learned"]
    ]
    assert_allclose(of_page, inside, rtol=1e-4)
    choose(page, rows, chosen, 3, 8)
    assert "Meaning, learned" in page.locator("#parts tbody").inner_text()
    assert "3 directions of the embedding" in page.locator("#sentence").inner_text()


def learn_inside(model, vectors):
    """Give a fitted model directions that the last iteration of its path has learned."""
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    weights = np.array([0.3, 0.2, 0.1])
    model.embedding_scale_ = 4.0
    model.path_directions_ = vectors.astype(np.float32)
    model.directions_ = principal_directions(vectors, 4.0 * weights)
    added = np.zeros(3, dtype=model.corrections_.dtype)
    added["n_iter"] = model.n_iter_
    added["i"] = DIRECTION
    added["j"] = np.arange(3)
    added["sign"] = 1
    added["weight"] = weights
    model.corrections_ = np.concatenate([model.corrections_, added])


def test_a_click_on_a_pair_shows_where_it_acts_and_the_command(
    chromium, model, tmp_path
):
    path = tmp_path / "acts.html"
    names = [f"it's {k}" for k in range(X.shape[1])]
    model.report(path, X, Y, feature_names=names)
    page = chromium.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(error))
    page.goto(path.as_uri())
    assert page.locator("#acts").is_hidden()
    pair = page.locator("#together button.acts, #apart button.acts").first
    pair.click()
    ends = pair.locator(".feature").all_inner_texts()
    shown = page.locator("#acts").inner_text()
    command = f"--pair '{' ~ '.join(ends)}'".replace("it's", "it'\\''s")
    assert command in shown
    assert "Row " in page.locator("#acts li").first.inner_text()
    page.locator("#acts button", has_text="Copy").click()
    page.locator("#acts p button", has_text=re.compile("Copied|Select")).wait_for()
    assert not errors
    page.close()
