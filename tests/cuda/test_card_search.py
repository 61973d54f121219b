"""The search on a graphics card: the lists of the slow twin and of the CPU."""

import contextlib
import copy
import pickle
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference
from devices import DEVICES, no_card
from hdsl import search
from hdsl.cuda import runtime
from hdsl.cuda import search as card_search
from hdsl.memory import NotEnoughMemory
from hdsl.neighbors import SimilarityKNeighborsClassifier
from hdsl.triplets import neighbor_triplets
from strategies import INTEGERS, matrices
from test_search import assert_found, searches

needs_device = pytest.mark.skipif(
    not DEVICES, reason="no C++ compiler for the emulator, no card"
)
every_device = pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
fewer = settings(max_examples=settings().max_examples // 3)

#: Small chunks and little memory, so that small searches have many chunks, groups and
#: blocks.
CHUNKS = st.sampled_from([3, 7, 8192])


def on(device, chunk_rows, call):
    """Return the answer of a call that finds the device as "cuda"."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "get_device", lambda name="cuda": device)
        patch.setattr(card_search, "CHUNK_ROWS", chunk_rows)
        return call()


def smallest_limit(queries, index, k):
    """Return the GiB that just a few rows fit in."""
    entries = max(int((X != 0).sum(axis=1).max(initial=0)) for X in (queries, index))
    chunk = card_search.POSTING_BYTES * np.count_nonzero(index)
    room = card_search.ENTRY_BYTES * entries + card_search.ROW_BYTES + 12 * k
    return (card_search.FEATURE_BYTES * index.shape[1] + chunk + 6 * room) / 2**30


@needs_device
@every_device
@fewer
@given(
    case=searches(INTEGERS), chunk_rows=CHUNKS, is_tight=st.booleans(), data=st.data()
)
def test_rows_and_ties_are_those_of_the_slow_twin(
    device, case, chunk_rows, is_tight, data
):
    queries, index, k = case
    own_k = data.draw(st.integers(1, len(index) - 1))
    limit = smallest_limit(queries, index, k) if is_tight else "auto"
    options = {"device": "cuda", "memory_limit": limit}

    def both():
        yield search.top_k(sp.csr_array(queries), sp.csr_array(index), k, **options)
        yield search.top_k(index, index, own_k, exclude_self=True, device="cuda")

    found = on(device, chunk_rows, lambda: list(both()))
    assert_found(found[0], reference.top_k(*case))
    assert_found(found[1], reference.top_k(index, index, own_k, exclude_self=True))


@needs_device
@every_device
@fewer
@given(X=matrices(elements=INTEGERS), chunk_rows=CHUNKS, data=st.data())
def test_neighbors_by_label_are_those_of_the_cpu(device, X, chunk_rows, data):
    n = len(X)
    matrix = sp.csr_array(X)
    labels = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    widths = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 3))
    found = on(
        device,
        chunk_rows,
        lambda: search.neighbors_by_label(matrix, labels, *widths, device="cuda"),
    )
    for ours, expected in zip(
        found, search.neighbors_by_label(matrix, labels, *widths), strict=True
    ):
        for part, of in zip(ours, expected, strict=True):
            assert_array_equal(part, of)


def text_like(n, d, seed, n_topics=12):
    """Return rows of unit length, of which few are empty, and the topic of each."""
    rng = np.random.default_rng(seed)
    share = np.minimum(0.9, 6.0 / (np.arange(d) + 4.0))
    X = (
        (rng.random((n, d)) < share)
        * rng.uniform(0.5, 1.5, (n, d))
        * np.log(2.0 + np.arange(d))
    )
    topic = rng.integers(n_topics, size=n)
    words = rng.integers(d // 4, d, size=(n_topics, 6))
    X[np.arange(n)[:, None], words[topic]] += 4.0
    X /= np.sqrt((X * X).sum(axis=1))[:, None]
    X[:: n // 3] = 0.0
    return sp.csr_array(
        X * rng.choice([1.0, 1e-3, -1.0], p=[0.9, 0.05, 0.05], size=(n, 1))
    ), topic


@needs_device
@every_device
@pytest.mark.parametrize("scale", [1.0, 1e-140])
def test_large_searches_leave_out_only_what_cannot_enter(device, scale):
    """Many chunks, frequent features, more features than a block has threads."""
    X, topic = text_like(200, 300, seed=0)
    X = X * scale
    found = on(
        device, 32, lambda: search.neighbors_by_label(X, topic % 3, 3, 5, device="cuda")
    )
    for ours, expected in zip(
        found, search.neighbors_by_label(X, topic % 3, 3, 5), strict=True
    ):
        assert_array_equal(ours.rows, expected.rows)
        assert_allclose(ours.scores, expected.scores, rtol=1e-12)
    dense = X[:40].toarray() + 0.01 * scale
    found = on(device, 100, lambda: search.top_k(dense, X, 40, device="cuda"))
    expected = search.top_k(dense, X, 40)
    assert_allclose(found.scores, expected.scores, rtol=1e-12)


@needs_device
@every_device
def test_long_postings_and_many_equal_rows(device):
    """Features of more than 512 rows of a chunk, more ties than there is space for."""
    rng = np.random.default_rng(1)
    index = rng.integers(0, 2, size=(1400, 3)).astype(float)
    queries = np.array([[1.0, 1, 0], [1, 1, 1], [-1, -1, 0], [0, 0, 0]])
    for chunk_rows in (8192, 700):
        found = on(
            device, chunk_rows, lambda: search.top_k(queries, index, 9, device="cuda")
        )
        assert_found(found, reference.top_k(queries, index, 9))


@needs_device
@every_device
def test_the_classifier_and_mining_use_the_device(device):
    X, topic = text_like(80, 60, seed=2, n_topics=4)
    calls = {
        "predict": lambda where: (
            SimilarityKNeighborsClassifier(3, device=where)
            .fit(X[:60], topic[:60])
            .predict(X[60:])
        ),
        "mining": lambda where: neighbor_triplets(X, topic, 2, 3, device=where),
    }
    with pytest.MonkeyPatch.context() as patch:
        launched = count_launches(patch, device)
        for call in calls.values():
            launched.clear()
            found = on(device, 32, partial(call, "cuda"))
            assert "search_chunk" in launched
            assert_array_equal(found, call("cpu"))


# --- an index that is kept ------------------------------------------------------------


def count_launches(patch, device):
    """Return a list that gets the name of every kernel that the device runs."""
    launched = []
    launch = device.launch

    def note(kernel, n_blocks, /, **arguments):
        launched.append(kernel)
        launch(kernel, n_blocks, **arguments)

    patch.setattr(device, "launch", note)
    return launched


@needs_device
@every_device
@fewer
@given(case=searches(INTEGERS), chunk_rows=CHUNKS, data=st.data())
def test_every_search_of_an_index_is_that_of_the_slow_twin(
    device, case, chunk_rows, data
):
    """The first and the next: of other queries and its own rows, with little memory."""
    queries, rows, k = case
    index = search.Index(sp.csr_array(rows))
    asked = [queries[:1], queries, rows, index.rows]
    for which in data.draw(st.lists(st.integers(0, 3), min_size=2, max_size=4)):
        own = which == 3
        limit = smallest_limit(queries, rows, k) if data.draw(st.booleans()) else "auto"
        size = min(k, len(rows) - own) or 1
        options = {"exclude_self": own, "device": "cuda", "memory_limit": limit}
        found = on(
            device, chunk_rows, partial(index.top_k, asked[which], size, **options)
        )
        dense = rows if own else asked[which]
        assert_found(found, reference.top_k(dense, rows, size, exclude_self=own))


@needs_device
@every_device
def test_rows_are_sent_to_the_device_once(device, monkeypatch):
    """By an index, and by the classifier; a copy, a pickle and a new fit begin anew."""
    X, topic = text_like(80, 60, seed=3, n_topics=4)
    launched = count_launches(monkeypatch, device)
    knn = SimilarityKNeighborsClassifier(3, cosine=False, device="cuda").fit(X, topic)
    expected = SimilarityKNeighborsClassifier(3, cosine=False).fit(X, topic)

    def n_sent():
        return launched.count("feature_levels")  # once per set of rows

    for queries in (X[:7], None, X[7:9]):
        found = on(
            device, 32, partial(knn.kneighbors, queries, return_similarity=False)
        )
        assert_array_equal(found, expected.kneighbors(queries)[1])
        assert n_sent() == 1
    assert launched.count("search_chunk") == 3 * 3
    index = search.Index(X)
    for one in (index, index, copy.copy(index), copy.deepcopy(index)):
        on(device, 32, partial(one.top_k, X[:2], 3, device="cuda"))
    assert n_sent() == 4
    again = pickle.loads(pickle.dumps(knn))
    assert len(pickle.dumps(knn)) < 1.5 * len(pickle.dumps(X))
    for model in (again, knn.fit(X[:50], topic[:50])):
        before = n_sent()
        for _ in range(2):
            found = on(device, 32, partial(model.predict, X[50:]))
        assert n_sent() == before + 1
        assert_array_equal(found, model.set_params(device="cpu").predict(X[50:]))


@needs_device
@every_device
def test_an_interrupt_leaves_nothing_half_done_in_an_index(device, monkeypatch):
    X, _ = text_like(70, 50, seed=4)
    expected = search.top_k(X[:9], X, 4)
    index = search.Index(X)
    look = partial(index.top_k, X[:9], 4, device="cuda")
    launch = device.launch
    for at in range(1, 14, 3):
        left = iter([False] * at + [True])
        with monkeypatch.context() as patch:

            def stop(kernel, n_blocks, /, *, left=left, **arguments):
                if next(left, False):
                    raise KeyboardInterrupt
                launch(kernel, n_blocks, **arguments)

            patch.setattr(device, "launch", stop)
            with contextlib.suppress(KeyboardInterrupt):
                on(device, 32, look)
        for _ in range(2):
            assert_array_equal(on(device, 32, look).rows, expected.rows)


@needs_device
@every_device
def test_an_index_of_few_features_among_many(device):
    """Columns that only queries have add nothing; an index may have no value at all."""
    column = np.array([3, 4000, 4999])

    def few(values, columns):
        return sp.csr_array((values, (np.arange(3), columns)), shape=(3, 5000))

    queries = few([1.0, 2.0, 3.0], column) + few([5.0, 5.0, 5.0], np.array([7, 8, 9]))
    for rows in (few([2.0, -1.0, 1.0], column), sp.csr_array((3, 5000))):
        found = on(
            device, 8, partial(search.Index(rows).top_k, queries, 2, device="cuda")
        )
        assert_found(found, reference.top_k(queries.toarray(), rows.toarray(), 2))


# --- refusals -------------------------------------------------------------------------


@pytest.mark.skipif(no_card is None, reason="this machine has a card")
def test_without_a_card_no_search_runs():
    X = np.eye(4)
    for call in (
        lambda: search.top_k(X, X, 1, device="cuda"),
        lambda: neighbor_triplets(X, [0, 0, 1, 1], 1, 1, device="cuda"),
        lambda: (
            SimilarityKNeighborsClassifier(1, device="cuda")
            .fit(X, [0, 0, 1, 1])
            .predict(X)
        ),
    ):
        with pytest.raises(runtime.DeviceError, match="device='cpu'"):
            call()


@needs_device
@every_device
def test_rows_that_cannot_fit_are_refused_with_the_figure(device):
    with pytest.raises(
        NotEnoughMemory, match=r"search on the GPU needs about .* memory_limit"
    ):
        on(
            device,
            8,
            lambda: search.top_k(
                np.eye(9), np.eye(9), 1, device="cuda", memory_limit=1e-7
            ),
        )
    with pytest.raises(ValueError, match="lengths of some rows overflow"):
        on(
            device,
            8,
            lambda: search.top_k(
                np.full((1, 4), 1e308), np.full((2, 4), 1e-9), 1, device="cuda"
            ),
        )
