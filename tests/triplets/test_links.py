"""Triplets from signed links, against a slow twin."""

from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from numpy.testing import assert_array_equal

from hdsl.triplets import link_triplets


@st.composite
def signed_links(draw):
    """Links among a few rows: repeated, reversed, from a row to itself, of both signs."""
    row = st.integers(0, 5)
    link = st.tuples(row, row, st.sampled_from([-1, 1]))
    drawn = np.array(draw(st.lists(link, min_size=1, max_size=25)))
    return drawn[:, :2], drawn[:, 2]


def completions(links, signs, directed):
    """Return, for each link, all triplets that another link completes it to."""
    known = {
        (a, b, s) for (a, b), s in zip(links.tolist(), signs.tolist(), strict=True)
    }
    if not directed:
        known |= {(b, a, s) for a, b, s in known}
    known = {(a, b, s) for a, b, s in known if (a, b, -s) not in known}
    made = {}
    for a, b, s in known:
        link = (a, b, s) if directed else (min(a, b), max(a, b), s)
        for c in (c for a2, c, s2 in known if a2 == a and s2 == -s and c != b):
            made.setdefault(link, set()).add((a, b, c) if s == 1 else (a, c, b))
    return made


@pytest.mark.filterwarnings("ignore:.*linked both as similar and as dissimilar")
@given(signed_links(), st.booleans())
def test_all_link_triplets_are_those_of_the_slow_twin(links, directed):
    slow = set().union(*completions(*links, directed).values())
    if not slow:
        with pytest.raises(
            ValueError, match=r"No triplet can be built: no row has both"
        ):
            link_triplets(*links, n_per_link=None, directed=directed)
        return
    made = link_triplets(*links, n_per_link=None, directed=directed)
    assert made.dtype == np.int64
    assert sorted(map(tuple, made.tolist())) == sorted(slow)


@pytest.mark.filterwarnings("ignore:.*linked both as similar and as dissimilar")
@given(signed_links(), st.booleans(), st.integers(1, 4), st.integers(0, 100))
def test_link_triplets_are_drawn_link_by_link_without_replacement(
    links, directed, n, seed
):
    slow = completions(*links, directed)
    if not any(slow.values()):
        return
    made = link_triplets(*links, n_per_link=n, directed=directed, random_state=seed)
    counts = Counter(map(tuple, made.tolist()))
    assert len(made) == sum(min(n, len(found)) for found in slow.values())
    for triplet, count in counts.items():
        assert count <= sum(triplet in found for found in slow.values())


def test_a_pair_that_is_similar_and_dissimilar_is_left_out_with_a_warning():
    links = [[0, 1], [1, 0], [0, 2], [0, 3], [0, 1]]
    signs = [1, -1, 1, -1, 1]
    with pytest.warns(
        UserWarning, match=r"1 pair is linked both .* \[0, 1\]: left out"
    ):
        made = link_triplets(links, signs, n_per_link=None)
    assert made.tolist() == [[0, 2, 3]]
    directed = link_triplets(links, signs, n_per_link=None, directed=True)
    assert directed.tolist() == [[0, 1, 3], [0, 2, 3]]


def test_links_of_a_matrix_are_links_of_a_list():
    rng = np.random.default_rng(0)
    links = rng.integers(20, size=(60, 2))
    signs = rng.choice([-1, 1], size=60)
    links, first = np.unique(np.sort(links, axis=1), axis=0, return_index=True)
    signs = signs[first]
    upper = sp.coo_array((signs * 2.5, links.T), shape=(20, 20))
    expected = link_triplets(links, signs, random_state=0)
    for matrix in (upper, upper.tocsc(), sp.csr_matrix(upper + sp.triu(upper, 1).T)):
        assert_array_equal(link_triplets(matrix, random_state=0), expected)
    assert_array_equal(
        link_triplets(links.tolist(), signs > 0, random_state=0), expected
    )
    assert_array_equal(
        link_triplets(links[::-1, ::-1], signs[::-1], random_state=0), expected
    )


@pytest.mark.parametrize(
    ("links", "signs", "message"),
    [
        (
            [[0, 1, 2]],
            [1],
            r"links must be integers of shape \(n_links, 2\).*Got shape \(1, 3\)",
        ),
        ([[0.0, 1.0]], [1], r"links must be integers.*dtype float64"),
        (
            [[0, 1], [2, -3]],
            [1, 1],
            r"links\[1\] is \[2, -3\]: rows are numbered from 0",
        ),
        ([[0, 1]], None, r"signs must be given with a list of links"),
        (
            [[0, 1]],
            [1, -1],
            r"signs must have shape \(1,\), one per link. Got shape \(2,\)",
        ),
        ([[0, 1], [0, 2]], [1, 0], r"signs\[1\] is 0: pass signs == 1"),
        (
            sp.eye_array(3),
            [1, 1, 1],
            r"signs must be None if links is an adjacency matrix",
        ),
        (
            sp.eye_array(3, 4),
            None,
            r"shape \(n_rows, n_rows\). links has shape \(3, 4\)",
        ),
        (sp.csr_array([[0, np.nan], [0, 0]]), None, r"links\[0, 1\] is NaN"),
        (sp.csr_array((3, 3)), None, r"No triplet can be built: no row has both"),
        (np.empty((0, 2), dtype=int), [], r"No triplet can be built: no row has both"),
    ],
)
def test_bad_links_are_refused(links, signs, message):
    with pytest.raises(ValueError, match=message):
        link_triplets(links, signs)
