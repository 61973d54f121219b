"""``hdsl link --into`` and ``--entities``: new records day after day, and what they are."""

import errno
import json

import pytest

import hdsl
from commands import bad, good, read_csv, write_csv
from hdsl.linking import Linker
from products import make_tables

HEADER = ("id", "title", "price")


@pytest.fixture(scope="module")
def linked(tmp_path_factory):
    """A folder with the linker of 30 right records, and 10 that come later."""
    folder = tmp_path_factory.mktemp("into")
    left, right, matches = make_tables(40)
    write_csv(folder / "left.csv", zip(*left.values(), strict=True), HEADER)
    rows = [*zip(*right.values(), strict=True)]
    write_csv(folder / "right.csv", rows[:30], HEADER)
    write_csv(folder / "new.csv", rows[30:], HEADER)
    pairs = [(left["sku"][a], right["sku"][b]) for a, b in matches.tolist()]
    later = {*right["sku"][30:]}
    known = [pair for pair in pairs if pair[1] not in later]
    write_csv(folder / "pairs.csv", known[:20], ("left", "right"))
    result = good(
        "link",
        folder / "left.csv",
        folder / "right.csv",
        "--matches",
        folder / "pairs.csv",
        "-o",
        folder / "links.csv",
        "--model",
        folder / "links.hdsl",
        "--entities",
        folder / "entities.csv",
        "--jobs",
        1,
    )
    return folder, {pair for pair in pairs if pair[1] in later}, result


def test_entities_have_a_line_per_record(linked):
    folder, _, _ = linked
    rows = read_csv(folder / "entities.csv")
    assert len(rows) == 70
    assert {row["table"] for row in rows} == {"left", "right"}
    links = read_csv(folder / "links.csv")
    entity = {(row["table"], row["record"]): row["entity"] for row in rows}
    sure = [link for link in links if link["known"]]
    assert all(
        entity["left", link["left"]] == entity["right", link["right"]] for link in sure
    )


def test_new_records_are_linked_and_kept(linked, tmp_path):
    folder, expected, _ = linked
    entities = tmp_path / "entities.csv"
    entities.write_bytes((folder / "entities.csv").read_bytes())
    command = [
        "link",
        "--into",
        folder / "links.hdsl",
        folder / "new.csv",
        "-o",
        tmp_path / "new_links.csv",
    ]
    assert "not kept" in good(*command).stdout
    grown = tmp_path / "grown.hdsl"
    result = good(*command, "--model", grown, "--entities", entities)
    assert "kept in" in result.stdout
    links = read_csv(tmp_path / "new_links.csv")
    found = {(link["left"], link["right"]) for link in links}
    assert len(found & expected) >= 7  # of 10
    assert all(link["left_text"] and link["right_text"] for link in links)
    new = {row["id"] for row in read_csv(folder / "new.csv")}
    assert {link["right"] for link in links} <= new
    before = {
        (row["table"], row["record"]): row["entity"]
        for row in read_csv(folder / "entities.csv")
    }
    after = {(row["table"], row["record"]): row["entity"] for row in read_csv(entities)}
    assert len(after) == 80
    renamed = {record for record in before if before[record] != after[record]}
    if not renamed:
        assert "merged" not in result.stdout
    assert hdsl.load(grown).entities().record.shape == (80,)
    assert "already" in bad(*command[:2], grown, *command[3:])


def test_a_linker_may_be_replaced_by_the_grown_one(linked, tmp_path):
    folder, _, _ = linked
    model = tmp_path / "links.hdsl"
    model.write_bytes((folder / "links.hdsl").read_bytes())
    output = ["-o", tmp_path / "l.csv", "--json"]
    answer = good(
        "link", "--into", model, folder / "new.csv", "--model", model, *output
    )
    assert json.loads(answer.stdout)["model"] == str(model)
    assert answer.stderr == ""
    assert len(hdsl.load(model).entities().record) == 80


def test_what_into_does_not_do(linked, tmp_path):
    folder, _, _ = linked
    into = ["link", "--into", folder / "links.hdsl"]
    output = ["-o", tmp_path / "l.csv"]
    new = folder / "new.csv"
    assert "--matches" in bad(*into, new, "--matches", folder / "pairs.csv", *output)
    assert "--complete has no use" in bad(*into, new, "--complete", *output)
    assert "one table" in bad(*into, new, folder / "left.csv", *output)
    assert "--jobs" in bad(*into, new, "--jobs", 0, *output)
    other = write_csv(tmp_path / "other.csv", [(1, 2)], ("a", "b"))
    assert "not a file of entities" in bad(*into, new, "--entities", other, *output)
    assert not (tmp_path / "l.csv").exists() or other.read_text().startswith("a,b")


def test_nothing_is_replaced_where_the_model_cannot_be_written(
    linked, tmp_path, monkeypatch
):
    folder, _, _ = linked
    files = [tmp_path / name for name in ("links.csv", "entities.csv", "links.hdsl")]
    for file in files:
        file.write_bytes((folder / file.name).read_bytes())
    before = [file.read_bytes() for file in files]

    def is_full(self, path):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Linker, "save", is_full)
    links, entities, model = files
    options = ["--entities", entities, "--model", model]
    bad("link", "--into", model, folder / "new.csv", "-o", links, *options)
    assert [file.read_bytes() for file in files] == before
    assert len([*tmp_path.iterdir()]) == 3
