"""The matrix of linking people says where it falls short."""

from benchmarks.linking_people import lines_of
from benchmarks.people_lists import make_list, pairs_of_one_person


def cell(what, value, data="febrl3"):
    return {"data": data, "subset": 2, "what": what, "f1": value}


def test_cells_behind_splink_and_losses_by_answers_are_named():
    records = [
        cell("splink", 90.0),
        cell("none", 86.5),
        cell("yes 5", 85.0),
        cell("yes 20", 84.5),
        cell("both 20", 86.0),
    ]
    said = "\n".join(lines_of(records))
    assert "febrl3 2: 86.5 is more than 3 points below Splink's 90.0" in said
    assert "febrl3 2: none 86.5, yes 5 85.0" in said
    assert "yes 20 84.5\n" not in said.partition("febrl3 2:")[2]
    assert "both 20 86.0" not in said.partition("febrl3 2:")[2]
    assert "mean none: 86.50 (1 cells)" in said


def test_budgets_that_are_exceeded_are_named():
    budgets = {"0.01": 0.02, "0.1": 0.05}
    records = [
        cell("none", 90.0),
        {"data": "febrl1", "subset": 0, "what": "budgets", "budgets": budgets}
        | {"audits_that_hold": 0.95},
    ]
    said = "\n".join(lines_of(records))
    assert "febrl1 0: 0.0200 wrong within a budget of 0.01" in said
    assert "within a budget of 0.1" not in said
    assert "audits whose bound holds: 0.950 of 20" in said


def test_a_list_has_several_records_of_each_person():
    table = make_list("list30")
    assert len({*table["id"]}) == len(table["id"])
    pairs = pairs_of_one_person(table["id"])
    assert all(a.split("-")[0] == b.split("-")[0] for a, b in pairs)
    assert len(pairs) > 5 * len(table["id"])
