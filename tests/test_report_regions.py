"""What the page of a model shows of its regions: names, pairs, and queries by their own region."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.cluster import MiniBatchKMeans

from hdsl import HDSL, LocalHDSL
from hdsl.report import content
from pages import X_TEST, Y_TEST, X, Y, go_to, number

NAMES = [f"w{n}" for n in range(30)]
SMALL = {
    "scale": 5.0, "local_scale": 9.0, "prior": 0.3, "order": "cyclic", "max_iter": 60, "tol": 0.0,
    "random_state": 0,
}  # fmt: skip


def fitted(n_regions=3, **parameters):
    return LocalHDSL(n_regions, **SMALL | parameters).fit(X, Y)


@pytest.fixture(scope="module")
def model():
    model = fitted()
    assert all(len(weights) > 8 for weights in model.local_weights_)
    return model


def ask(page, text):
    """Search for a row or words."""
    page.locator("#query").fill(text)
    page.locator("#query").press("Enter")


def shown_scores(page):
    return [number(text.split()[0]) for text in page.locator("#after button").all_inner_texts()]


@pytest.mark.parametrize(("step", "n"), [("pairwise", 60), ("corrective", 12)])
def test_every_model_of_the_path_in_every_region(step, n, show):
    model = fitted(step=step, max_iter=n)
    page = show(model)
    last = len(model.trace_) - 1
    for k in (last, 0, last // 2, last - 1):
        then = model.at(k)
        blocks = [(then.atoms_, then.weights_)]
        blocks += zip(then.local_atoms_, then.local_weights_, strict=True)
        for block, (atoms, weights) in enumerate(blocks):
            there = page.evaluate("([k, block]) => window.hdslReport.at(k, block)", [k, block])
            own = {(atom["i"], atom["j"], atom["sign"]): atom["weight"] for atom in there}
            assert own.keys() == set(map(tuple, atoms.tolist()))
            assert_allclose([own[tuple(atom)] for atom in atoms.tolist()], weights, rtol=1e-9)


def test_name_rows_and_strongest_pairs_of_each_region(model, show):
    page = show(model, X, Y, feature_names=NAMES)
    assert page.locator("nav a[href='#regions']").is_visible()
    sizes = np.bincount(model.region(X))
    headings = [f"Region {r}: {name}" for r, name in enumerate(model.region_names(NAMES))]
    assert page.locator("#regions h3").all_inner_texts() == headings
    own = sum(map(len, model.local_weights_))
    assert f"and {own} more in 3 regions" in page.locator("#sentence").inner_text()
    assert str(own + len(model.weights_)) in page.locator("#facts").inner_text()
    rows = model.index_rows(X).toarray()
    for k in (model.n_iter_, 30):
        go_to(page, k)
        then = model.at(k)
        for r, (atoms, weights) in enumerate(
            zip(then.local_atoms_, then.local_weights_, strict=True)
        ):
            part = page.locator(".region").nth(r)
            assert f"{sizes[r]} of 60 rows; " in part.locator(".note").inner_text()
            both = [rows[:, [i]] * rows[:, j] for i, j in atoms[:, :2]]
            effects = 9.0 * weights * [np.sqrt(np.mean((B + B.T) ** 2)) for B in both]
            order = np.argsort(-effects, kind="stable")[:8]
            cells = [
                part.locator(f"tbody td:nth-child({n})").all_inner_texts() for n in (1, 2, 3, 4, 6)
            ]
            assert cells[0] == [f"w{i}" for i in atoms[order, 0]]
            assert cells[1] == ["−+"[int(sign > 0)] for sign in atoms[order, 2]]
            assert cells[2] == [f"w{j}" for j in atoms[order, 1]]
            assert_allclose([number(text) for text in cells[3]], 9 * weights[order], rtol=6e-3)
            assert_allclose([number(text) for text in cells[4]], effects[order], rtol=6e-3)
    table = page.get_by_role("table", name=headings[1])
    assert table.get_by_role("columnheader", name="Second feature").count() == 1
    go_to(page, 0)
    assert page.locator(".region table").count() == 0
    assert "no pairs of its own" in page.locator(".region .note").first.inner_text()


def test_pairs_by_weight_without_rows(model, show):
    page = show(model)
    assert page.locator("#regions h3").all_inner_texts() == [
        f"Region {r}: {name}" for r, name in enumerate(model.region_names())
    ]
    weights = np.sort(model.local_weights_[0])[::-1]
    note = page.locator(".region .note").first.inner_text()
    assert note == f"the 8 strongest of {len(weights)} pairs"
    shares = page.locator(".region").first.locator("tbody td:nth-child(5)").all_inner_texts()
    assert_allclose([number(text.strip(" %")) for text in shares], 100 * weights[:8], atol=6e-3)


def test_a_query_is_compared_by_its_own_region(model, show):
    page = show(model, X, Y)
    regions = model.region(X)
    pairs = [(a, b) for a in range(0, 60, 7) for b in range(60)]
    told = page.evaluate(
        "([pairs, k]) => pairs.map(([a, b]) => window.hdslReport.explain(a, b, k))",
        [pairs, model.n_iter_],
    )
    a, b = np.array(pairs).T
    assert_allclose([why["total"] for why in told], model.pair_score(X[a], X[b]), rtol=1e-6)
    shared = model.similarity_.shared.pair_score(X[a], X[b])
    assert_allclose([why["plain"] + why["learned"] for why in told], shared, rtol=1e-6)

    row = int(np.flatnonzero(regions == 1)[0])
    ask(page, f"Row {row}")
    name = f"Region 1: {model.region_names()[1]}"
    assert page.locator("#query-region").inner_text() == f"The query is in {name}."
    assert f"of {name}; the learned cosine" in page.locator("#sum").inner_text()
    for k in (model.n_iter_, 20):
        go_to(page, k)
        scores = model.at(k).similarity(X[[row]], X, cosine=True)[0]
        scores[row] = -np.inf
        assert_allclose(shown_scores(page), np.sort(scores)[::-1][:6], atol=6e-4)
    best = int(np.argmax(scores))
    total = number(page.locator("#total").inner_text())
    assert total == pytest.approx(model.at(20).pair_score(X[[row]], X[[best]])[0], rel=1e-3)
    page.locator("#more-parts").evaluate("button => button.click()")
    adds = [number(text) for text in page.locator("#parts tbody .effect").all_inner_texts()]
    assert sum(adds) == pytest.approx(total, rel=5e-3)
    assert any("in the region" in text for text in page.locator("#parts .pair").all_inner_texts())


def test_typed_words_are_in_the_region_of_the_nearest_center(model, show):
    page = show(model, X, Y, feature_names=NAMES)
    seen = set()
    for word in range(0, 12, 2):
        x = np.zeros((1, 30))
        x[0, word] = 1.0
        region = int(model.region(x)[0])
        seen.add(region)
        ask(page, f"w{word}")
        assert f"in Region {region}: " in page.locator("#query-region").inner_text()
        scores = np.sort(model.similarity(x, X, cosine=True)[0])[::-1]
        assert_allclose(shown_scores(page), scores[:6], atol=6e-4)
    assert len(seen) > 1


@pytest.mark.parametrize("has_centers", [False, True])
def test_typed_words_are_compared_by_the_shared_part_where_centers_are_not_on_the_page(
    has_centers, model, show, monkeypatch
):
    if has_centers:
        monkeypatch.setattr(content, "MAX_VALUES", 60)
    else:
        model = fitted(regions=MiniBatchKMeans(2, n_init=1, random_state=0))
    page = show(model, X, Y, feature_names=NAMES)
    if not has_centers:
        assert page.locator("#regions h3").all_inner_texts() == ["Region 0", "Region 1"]
    ask(page, "w3")
    text = page.locator("#query-region").inner_text()
    assert text.startswith("This page does not know the region of typed words: the query is")
    x = np.zeros((1, 30))
    x[0, 3] = 1.0
    second = int(page.locator("#second").input_value().split()[1].strip(",:"))
    expected = model.similarity_.shared.pair_score(x, X.toarray()[[second]])[0]
    assert number(page.locator("#total").inner_text()) == pytest.approx(expected, rel=1e-3)


def test_no_regions_no_section(show):
    for model in (fitted(0), HDSL(max_iter=5, random_state=0).fit(X, Y)):
        page = show(model, X, Y)
        assert page.locator("#regions, .of-regions, a[href='#regions']").count() == 0
        assert "region" not in page.locator("main").inner_text().lower().split("settings")[0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_hostile_and_long_names_on_a_phone(scheme, model, show):
    hostile = "</script><img src=x onerror=alert(1)><b>bold</b>"
    names = [f"{hostile}{n}" if n % 2 else f"{n}" + "x" * 90 for n in range(30)]
    window = {"viewport": {"width": 400, "height": 740}, "color_scheme": scheme}
    page = show(model, X, Y, feature_names=names, window=window)
    headings = page.locator("#regions h3").all_inner_texts()
    assert headings == [f"Region {r}: {name}" for r, name in enumerate(model.region_names(names))]
    assert any(hostile in heading for heading in headings)
    assert page.locator("img, #regions b, #query-region b").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    inside = "table => table.parentElement.scrollWidth <= table.parentElement.clientWidth"
    assert all(page.locator(".region table").nth(r).evaluate(inside) for r in range(3))


def test_errors_settings_and_names_of_the_whole_model(show):
    frame = pd.DataFrame(X.toarray(), columns=[f"c{n}" for n in range(30)])
    model = LocalHDSL(2, **SMALL).fit(frame, Y)
    test = pd.DataFrame(X_TEST.toarray(), columns=frame.columns)
    page = show(model, frame, Y, X_test=test, y_test=Y_TEST, feature_names=NAMES)
    assert "w" in page.locator("#regions h3").first.inner_text()  # names of the page, not of X
    found = content.measure_errors(model.similarity_, X, Y, X_TEST, Y_TEST)
    assert f"{100 * found['after']['error']:.2f} %" in page.locator("#measured").inner_text()
    assert "n_regions" in page.locator("#changed dt").all_inner_texts()
