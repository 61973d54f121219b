"""Triplets from grades and choices, against slow twins."""

import itertools
from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from hdsl.triplets import Judgements, choice_triplets, graded_triplets


@st.composite
def graded_lines(draw):
    """Lines (event, query, document, grade): few values, so that all kinds of ties occur."""
    few = st.integers(0, 3)
    grade = st.sampled_from([0.0, 1.0, 2.5, -1.0])
    return draw(st.lists(st.tuples(few, few, few, grade), min_size=1, max_size=20))


def slow_graded(lines, by_event):
    """Return, for each anchor (and event), its triplets with the difference of grades."""
    made = {}
    for (e, a, i, g), (e2, a2, j, h) in itertools.product(lines, lines):
        if a == a2 and (e == e2 or not by_event) and g > h and i != j:
            made.setdefault((e if by_event else 0, a), []).append((a, i, j, g - h))
    return made


def as_columns(lines):
    return dict(
        zip(
            ("event", "query", "document", "grade"),
            zip(*lines, strict=True),
            strict=True,
        )
    )


def listed(judgements):
    triplets, weights = judgements
    return sorted((*t, w) for t, w in zip(triplets.tolist(), weights, strict=True))


@given(graded_lines(), st.sampled_from([None, "event"]))
def test_graded_triplets_are_those_of_the_slow_twin(lines, event):
    slow = sorted(itertools.chain(*slow_graded(lines, event is not None).values()))
    if not slow:
        with pytest.raises(
            ValueError, match=r"No triplet can be built: no query has two documents"
        ):
            graded_triplets(as_columns(lines), event=event)
        return
    made = graded_triplets(as_columns(lines), event=event)
    assert isinstance(made, Judgements)
    assert made.triplets.dtype == np.int64
    assert listed(made) == slow


@given(graded_lines(), st.integers(1, 4), st.integers(0, 100))
def test_n_per_anchor_limits_the_triplets_of_each_anchor(lines, n, seed):
    # An item has one grade in an event.
    lines = list({line[:3]: line for line in lines}.values())
    slow = slow_graded(lines, by_event=True)
    if not slow:
        return
    made = graded_triplets(
        as_columns(lines), event="event", n_per_anchor=n, random_state=seed
    )
    assert not Counter(listed(made)) - Counter(itertools.chain(*slow.values()))
    assert len(made.triplets) == sum(min(n, len(found)) for found in slow.values())


def test_too_many_triplets_are_refused_before_memory_is_allocated():
    n = 70_000
    table = {
        "query": np.zeros(n, dtype=int),
        "document": np.arange(n),
        "grade": np.arange(n),
    }
    with pytest.raises(
        ValueError, match=r"2449965000 triplets would be made.*set n_per_anchor"
    ):
        graded_triplets(table)
    assert len(graded_triplets(table, n_per_anchor=100, random_state=0).triplets) == 100


@given(st.data())
def test_choice_triplets_are_query_times_chosen_times_the_others(data):
    row = st.integers(0, 6)
    events = []
    for _ in range(data.draw(st.integers(1, 5))):
        shown = data.draw(st.lists(row, min_size=1, max_size=5, unique=True))
        chosen = data.draw(
            st.sampled_from(shown) | st.lists(st.sampled_from(shown), unique=True)
        )
        events.append((data.draw(row), shown, chosen))
    slow = [
        [query, p, n]
        for query, shown, chosen in events
        for p in (chosen if isinstance(chosen, list) else [chosen])
        for n in shown
        if n not in np.atleast_1d(chosen)
    ]
    if not slow:
        with pytest.raises(
            ValueError, match=r"No triplet can be built: no event has both"
        ):
            choice_triplets(events)
        return
    made = choice_triplets(events).triplets
    assert made.dtype == np.int64
    assert sorted(made.tolist()) == sorted(slow)


def test_choices_of_a_table_with_ids(tmp_path):
    events = [
        ("q", ["a", "b", "c"], ["b"]),
        ("a", ["q", "b"], "q"),
        ("q", ["a", "b"], []),
    ]
    ids = ["a", "b", "c", "q"]
    expected = [[3, 1, 0], [3, 1, 2], [0, 3, 1]]
    assert choice_triplets(events, ids=ids).triplets.tolist() == expected
    path = tmp_path / "clicks.csv"
    path.write_text(
        "session,query,document,clicked\n"
        "s1,q,a,0\ns1,q,b,True\ns2,a,q,1\ns1,q,c,false\ns2,a,b,FALSE\ns3,q,a,0\ns3,q,b,0\n"
    )
    assert choice_triplets(path, event="session", ids=ids).triplets.tolist() == expected


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (
            [(0, [1, 2])],
            r"events\[0\] must be \(query, shown, chosen\). Got \(0, \[1, 2\]\)",
        ),
        (
            [(0, [1, 2], 1), (0, [1, 2], [3])],
            r"events\[1\]: 3 was chosen but is not one of",
        ),
        (
            {"event": [1, 1], "query": [0, 0], "document": [1, 2], "clicked": [0, 2]},
            r"table, row 1 has 2 in column 'clicked': true or false, or 1 or 0",
        ),
        ([], r"table has no rows"),
    ],
)
def test_bad_choices_are_refused(events, message):
    with pytest.raises(ValueError, match=message):
        choice_triplets(events)


def test_former_names_of_columns_are_read_and_those_of_parameters_say_the_new_one(
    tmp_path,
):
    former = {"anchor": [0, 0, 0], "item": [1, 2, 3], "grade": [0, 3, 1]}
    table = {"query": [0, 0, 0], "document": [1, 2, 3], "grade": [0, 3, 1]}
    expected = graded_triplets(table).triplets.tolist()
    assert graded_triplets(former).triplets.tolist() == expected
    path = tmp_path / "log.csv"
    path.write_text("event,anchor,item,clicked\n1,0,1,0\n1,0,2,1\n")
    assert choice_triplets(path).triplets.tolist() == [[0, 2, 1]]
    with pytest.raises(TypeError, match="no parameter 'anchor': its name is 'query'"):
        graded_triplets(table, anchor="query")
    # A name that the caller chose is the only one.
    with pytest.raises(ValueError, match="no column 'typed'"):
        graded_triplets(former, query="typed")
