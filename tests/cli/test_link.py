"""``hdsl link``: tables and known pairs in; links, pairs to label and a page out."""

import json

import numpy as np
import pytest

import hdsl
from commands import bad, good, read_csv, told, write_csv
from products import KINDS, make_tables


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two tables of 40 records, and 25 of their matches by id."""
    folder = tmp_path_factory.mktemp("link")
    left, right, matches = make_tables(40)
    for name, table in (("left", left), ("right", right)):
        header = ("id", "title", "price")
        write_csv(folder / f"{name}.csv", zip(*table.values(), strict=True), header)
    pairs = [(left["sku"][a], right["sku"][b]) for a, b in matches.tolist()]
    write_csv(folder / "pairs.csv", pairs[:25], ("left", "right"))
    return folder, pairs


def test_a_column_may_have_any_name(tmp_path):
    lines = [json.dumps({"\0": text}) for text in ("red apple pie", "red apple tart")]
    (tmp_path / "t.jsonl").write_text(
        "\r\n".join(lines)
    )  # and lines may end as on Windows
    good("link", tmp_path / "t.jsonl", "--threshold", "0", "-o", tmp_path / "links.csv")
    assert len(read_csv(tmp_path / "links.csv")) == 1


def test_links_are_written_as_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    rows = [("a1", "red apple pie"), ("a2", "red apple pies"), ("a3", "green tea")]
    table = write_csv(tmp_path / "t.csv", rows, ("id", "title"))
    out = tmp_path / "links.parquet"
    options = ("--threshold", 0, "--entities", tmp_path / "entities.parquet", "--sql")
    shown = good("link", table, "-o", out, *options).stdout
    links = parquet.read_table(out).to_pydict()
    good("link", table, "-o", tmp_path / "links.csv", *options[:2])
    expected = read_csv(tmp_path / "links.csv")
    assert links["left"] == [link["left"] for link in expected]
    assert links["probability"] == [float(link["probability"]) for link in expected]
    assert "read_parquet(" in shown
    assert parquet.read_table(tmp_path / "entities.parquet").num_rows == 3
    assert "Entities" in good("link", table, "-o", out, *options).stdout


@pytest.mark.parametrize("has_ids", [True, False])
def test_a_query_joins_links_to_both_tables(files, tmp_path, has_ids):
    folder, _ = files
    left = folder / "left.csv"
    right = tmp_path / "it's right.csv"
    header, *rows = (folder / "right.csv").read_text().splitlines()
    right.write_text("\n".join([header.replace("id", "code", 1), *rows]))
    ids = ("--id", "id,code") if has_ids else ("--columns", "title")
    if not has_ids:
        left = tmp_path / "left.csv"
        text = (folder / "left.csv").read_text()
        left.write_text(text.replace("id", "code", 1))
    out = tmp_path / "links.csv"
    shown = good("link", left, right, *ids, "-o", out, "--sql").stdout
    query = shown[shown.index("SELECT ") :]
    assert "it''s right.csv" in query
    assert ("hdsl_row" in query) != has_ids
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    joined = duckdb.sql(query).fetchall()
    links = read_csv(out)
    assert len(joined) == len(links) > 0
    assert float(joined[0][0]) == max(float(link["probability"]) for link in links)
    assert "leave out" in bad("link", left, right, "--sql", "--json", "-o", out)


def test_candidates_agree_in_the_columns_that_block_on_names(tmp_path):
    left, right, _ = make_tables(30)
    texts = left["title"] + right["title"]
    kinds = [next(word for word in text.split() if word in KINDS) for text in texts]
    prices = [*map(str, left["price"] + right["price"])]
    rows = [*zip(texts, kinds, prices, strict=True)]
    table = write_csv(tmp_path / "t.csv", rows, ("title", "kind", "price"))
    values = np.array([kinds, prices])
    for block_on, agree in (("kind,price", np.any), ("kind+price", np.all)):
        options = ["--block-on", block_on, "--threshold", 0, "-o", tmp_path / "l.csv"]
        good("link", table, "--columns", "title", *options)
        links = read_csv(tmp_path / "l.csv")
        pairs = np.array([[int(link["left"]), int(link["right"])] for link in links])
        assert len(pairs) > 5
        assert agree(values[:, pairs[:, 0]] == values[:, pairs[:, 1]], axis=0).all()
    assert "to block on" in bad("link", table, "--block-on", "nothing")


@pytest.fixture(scope="module")
def linked(files):
    folder, pairs = files
    result = good(
        "link",
        folder / "left.csv",
        folder / "right.csv",
        "--matches",
        folder / "pairs.csv",
        "-o",
        folder / "links.csv",
        "--html",
        folder / "links.html",
        "--model",
        folder / "links.hdsl",
        "--one-to-one",
    )
    return folder, pairs, result.stdout


def test_links_are_written_by_id(linked):
    folder, pairs, _ = linked
    links = read_csv(folder / "links.csv")
    linked_pairs = {(row["left"], row["right"]) for row in links}
    assert len(linked_pairs & {*pairs[25:]}) >= 12  # of 15
    assert {*pairs[:25]} <= linked_pairs
    assert len({row["left"] for row in links}) == len(links)
    assert all(0.5 <= float(row["probability"]) <= 1 for row in links)
    assert all(row["left_text"] and row["right_text"] for row in links)
    linker = hdsl.load(folder / "links.hdsl")
    assert (linker.predict_proba(pairs[:25]) == 1.0).all()


def test_what_is_expected_is_shown(linked):
    _, _, shown = linked
    assert "What tells most: " in shown
    assert "links from a probability of 0.5 on, about" in shown
    assert "Held out, " in shown


def test_an_audit_is_drawn_filled_in_and_bounds_the_wrong_links(files, tmp_path):
    folder, pairs = files
    audit = tmp_path / "audit.csv"
    command = [
        "link",
        folder / "left.csv",
        folder / "right.csv",
        "-o",
        tmp_path / "links.csv",
        "--audit",
        10,
        "--audit-file",
        audit,
    ]
    assert "0 of them answered" in good(*command).stdout
    rows = read_csv(audit)
    n_drawn = len(rows)
    assert 1 <= n_drawn <= 10
    links = {(row["left"], row["right"]) for row in read_csv(tmp_path / "links.csv")}
    assert {(row["left"], row["right"]) for row in rows} <= links
    for number, row in enumerate(rows):
        is_match = (row["left"], row["right"]) in {*pairs}
        row["match"] = ("yes" if is_match else "no") if number else ""
    header = rows[0].keys()
    write_csv(audit, [row.values() for row in rows], header)
    shown = good(*command).stdout
    assert f"{n_drawn - 1} of them answered" in shown
    is_match = (rows[0]["left"], rows[0]["right"]) in {*pairs}
    rows[0]["match"] = "yes" if is_match else "no"
    write_csv(audit, [row.values() for row in rows], header)
    shown = good(*command).stdout
    assert f"of {n_drawn} " in shown
    assert "(95 %)" in shown
    rows[0]["right"] = next(b for _, b in pairs if b != rows[0]["right"])
    write_csv(audit, [row.values() for row in rows], header)
    assert "delete the file of the audit" in bad(*command)


def test_a_budget_takes_the_place_of_the_threshold(files, tmp_path):
    folder, _ = files
    command = ["link", folder / "left.csv", folder / "right.csv"]
    command += ["-o", tmp_path / "links.csv"]
    assert "of which 5 % may be wrong" in good(*command, "--max-false", "5%").stdout
    links = read_csv(tmp_path / "links.csv")
    expected = sum(1 - float(row["probability"]) for row in links)
    assert expected <= 0.05 * len(links) + 1e-3
    entities = tmp_path / "entities.csv"
    command += ["--one-to-one", "--entities", entities]
    good(*command, "--max-false", "0.01%")
    links = read_csv(tmp_path / "links.csv")
    numbers = [row["entity"] for row in read_csv(entities)]
    assert len(numbers) - len({*numbers}) == len(links)
    assert "--max-false" in bad(*command, "--max-false", "200%")


def test_each_table_names_its_own_ids(files, tmp_path):
    folder, pairs = files
    tables = []
    for name, column in (("left", "sku"), ("right", "code")):
        rows = [row.values() for row in read_csv(folder / f"{name}.csv")]
        tables.append(
            write_csv(tmp_path / f"{name}.csv", rows, (column, "title", "price"))
        )
    command = [
        "link",
        *tables,
        "--matches",
        folder / "pairs.csv",
        "-o",
        tmp_path / "links.csv",
    ]
    good(*command, "--id", "sku, code")
    links = {(row["left"], row["right"]) for row in read_csv(tmp_path / "links.csv")}
    assert {*pairs[:25]} <= links
    assert "'ean'" in bad(*command, "--id", "sku,ean")
    assert "--id" in bad(*command)


def test_labels_are_asked_for_filled_in_and_taken_back(files, tmp_path):
    folder, pairs = files
    labels = tmp_path / "labels.csv"
    command = [
        "link",
        folder / "left.csv",
        folder / "right.csv",
        "-o",
        tmp_path / "links.csv",
        "--label",
        12,
        "--label-file",
        labels,
    ]
    assert "What tells most" in good(*command).stdout
    to_label = read_csv(labels)
    assert len(to_label) == 12
    for row in to_label[:10]:
        row["match"] = "yes" if (row["left"], row["right"]) in pairs else "no"
    write_csv(labels, [row.values() for row in to_label], to_label[0])
    assert "Held out" in told(*command)["statement"]
    again = read_csv(labels)
    assert [row["match"] for row in again[:10]] == [
        row["match"] for row in to_label[:10]
    ]
    assert {row["match"] for row in again[10:]} == {""}
    ends = [(row["left"], row["right"]) for row in again]
    assert len({*ends}) == len(ends) > 12


def test_answers_are_of_the_records_they_name(files, tmp_path):
    folder, pairs = files
    links = tmp_path / "links.csv"
    right = folder / "right.csv"
    words = ["yes"] * 20 + ["no"] * 4 + ["unsure"]
    rows = [(*pair, word) for pair, word in zip(pairs[:25], words, strict=True)]
    answers = write_csv(tmp_path / "pairs.csv", rows, ("left", "right", "is_match"))
    assert "match" in bad(
        "link", folder / "left.csv", right, "--matches", answers, "-o", links
    )
    table = [[*row.values()] for row in read_csv(folder / "left.csv")]
    upper = write_csv(tmp_path / "left.csv", table, ("ID", "title", "price"))
    rows = [
        (*pair, "") for pair in pairs[:25]
    ]  # notes, of which there are none, are no answers
    answers = write_csv(tmp_path / "pairs.csv", rows, ("left", "right", "note"))
    good("link", upper, right, "--matches", answers, "-o", links)
    assert {*pairs[:25]} <= {(row["left"], row["right"]) for row in read_csv(links)}
    other = write_csv(tmp_path / "left.csv", table, ("sku", "title", "price"))
    message = bad("link", other, right, "--matches", folder / "pairs.csv", "-o", links)
    assert "--id" in message
    left = write_csv(
        tmp_path / "left.csv", [row[1:] for row in table], ("title", "price")
    )
    command = [
        "link",
        left,
        right,
        "-o",
        links,
        "--label",
        5,
        "--label-file",
        tmp_path / "l.csv",
    ]
    good(*command)
    to_label = [row | {"match": "no"} for row in read_csv(tmp_path / "l.csv")]
    write_csv(tmp_path / "l.csv", [row.values() for row in to_label], to_label[0])
    write_csv(
        left, [(f"new thing {k}", k) for k in range(len(table))], ("title", "price")
    )
    assert "--label-file" in bad(*command)


def test_duplicates_in_one_table(files, tmp_path):
    folder, _ = files
    rows = read_csv(folder / "left.csv") + read_csv(folder / "right.csv")
    people = write_csv(tmp_path / "all.csv", [row.values() for row in rows], rows[0])
    good("link", people, "-o", tmp_path / "links.csv", "--threshold", 0.2)
    links = read_csv(tmp_path / "links.csv")
    assert links
    assert all(row["left"] != row["right"] for row in links)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("left,right\nL0,nobody\n", "'nobody'"),
        ("left,right,label\nL0,R0,1\nL1,R2,0\n", "'label'"),
        ("left\nL0\n", "two columns"),
        ("left,right\nL0\n", "1 field"),
    ],
)
def test_bad_answers_are_named_and_nothing_is_written(files, tmp_path, content, words):
    folder, _ = files
    (tmp_path / "pairs.csv").write_text(content, encoding="utf-8")
    message = bad(
        "link",
        folder / "left.csv",
        folder / "right.csv",
        "--matches",
        tmp_path / "pairs.csv",
        "-o",
        tmp_path / "links.csv",
    )
    assert words in message
    assert not (tmp_path / "links.csv").exists()


def test_faulty_labels_are_left_out_named_and_marked(files, tmp_path):
    folder, _ = files
    labels = tmp_path / "labels.csv"
    lines = ["yes,L0,R0", "yes,L0,R0", "no,L1,R1", "yes,L1,R1", "yes,L2,nobody"]
    lines += ["no,L3,R4", "no,L4,R5", "no,L5,R6", "no,L6,R7"]
    labels.write_text("\n".join(["match,left,right", *lines]), encoding="utf-8")
    ended = good(
        "link",
        folder / "left.csv",
        folder / "right.csv",
        *("-o", tmp_path / "links.csv"),
        *("--label", 3, "--label-file", labels),
    )
    for pair in ("('L0', 'R0')", "('L1', 'R1')", "('L2', 'nobody')"):
        assert pair in ended.stderr
    faults = [row["fault"] for row in read_csv(labels)][: len(lines)]
    assert [fault != "" for fault in faults] == [True] * 5 + [False] * 4
    known = [row for row in read_csv(tmp_path / "links.csv") if row["known"] == "yes"]
    assert [(row["left"], row["right"]) for row in known] == [("L0", "R0")]


def test_bad_tables_and_options_are_named(files, tmp_path):
    folder, _ = files
    left = folder / "left.csv"
    links = tmp_path / "links.csv"
    (tmp_path / "header.csv").write_text("id,title\n", encoding="utf-8")
    (tmp_path / "numbers.csv").write_text("id,size\na,3\nb,7\n", encoding="utf-8")
    for other, words in (
        ("header.csv", "empty"),
        ("numbers.csv", "no text"),
        ("x.csv", "no file"),
    ):
        assert words in bad("link", left, tmp_path / other, "-o", links)
    assert "--threshold" in bad("link", left, "--threshold", 2, "-o", links)
    assert ".csv" in bad(
        "link", left, "-o", links, "--label", 3, "--label-file", "labels.tsv"
    )
    assert "--encoding" in bad("link", left, "-o", links, "--encoding", "no-such-one")
    assert "no column 'key'" in bad("link", left, "--id", "key", "-o", links)
    (tmp_path / "mine.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    (tmp_path / "pairs.csv").write_text("L0,R24\nL1,R37\n", encoding="utf-8")
    tables = [left, folder / "right.csv", "--matches", tmp_path / "pairs.csv"]
    assert "starts with a pair" in bad(
        "link", *tables, "-o", links
    )  # else the first pair is lost
    message = bad(
        "link", left, "-o", links, "--label", 3, "--label-file", tmp_path / "mine.csv"
    )
    assert "--label-file" in message
    assert (tmp_path / "mine.csv").read_text(encoding="utf-8") == "a,b\n1,2\n"
    assert not np.any([path.name == "links.csv" for path in tmp_path.iterdir()])


def test_fields_that_something_else_separates(files, tmp_path):
    folder, pairs = files
    paths = [tmp_path / f"{name}.csv" for name in ("left", "right", "pairs")]
    for path in paths:
        text = (folder / path.name).read_text(encoding="utf-8")
        path.write_text(text.replace(",", ";"), encoding="utf-8")
    command = ["link", *paths[:2], "--matches", paths[2], "-o", tmp_path / "links.csv"]
    assert "--sep" in bad(*command)
    good(*command, "--sep", ";")
    linked_pairs = {
        (row["left"], row["right"]) for row in read_csv(tmp_path / "links.csv")
    }
    assert {*pairs[:25]} <= linked_pairs
    (tmp_path / "blank.jsonl").write_text("\n\n", encoding="utf-8")
    assert "no rows" in bad(
        "link", tmp_path / "blank.jsonl", "-o", tmp_path / "links.csv"
    )


def write_as_spreadsheets_do(path, lines):
    """A byte order mark, lines that end as on Windows, commas in quotes."""
    quoted = (",".join(f'"{cell}"' for cell in line) for line in lines)
    path.write_bytes(("\ufeff" + "\r\n".join(quoted) + "\r\n").encode())
    return path


def test_files_of_spreadsheets_with_other_columns_and_ids_of_digits(tmp_path):
    left, right, matches = make_tables(30)
    name = [title.replace(" ", ", ") for title in left["title"]]
    rows = [[f"{k:03}", text, "5"] for k, text in enumerate(name)]
    write_as_spreadsheets_do(tmp_path / "left.csv", [["id", "name", "size"], *rows])
    rows = [["first\nsecond", f"{k:03}", text] for k, text in enumerate(right["title"])]
    write_as_spreadsheets_do(tmp_path / "right.csv", [["note", "id", "title"], *rows])
    pairs = [(f"{a:03}", f"{b:03}") for a, b in matches.tolist()]
    known = write_as_spreadsheets_do(
        tmp_path / "pairs.csv", [["left", "right"], *pairs[:20]]
    )
    links = tmp_path / "links.csv"
    tables = [tmp_path / "left.csv", tmp_path / "right.csv"]
    good("link", *tables, "--matches", known, "-o", links, "--encoding", "UTF8")
    linked_pairs = {(row["left"], row["right"]) for row in read_csv(links)}
    assert {*pairs[:20]} <= linked_pairs
    assert len(linked_pairs & {*pairs[20:]}) >= 5  # of 10
    assert any(row["left_text"].count(",") > 1 for row in read_csv(links))
    others = write_csv(tmp_path / "others.csv", [(7, 7)], ("left", "right"))
    assert "'7'" in bad("link", *tables, "--matches", others, "-o", links)


def test_wrong_answers_are_named_and_what_a_person_wrote_is_kept(files, tmp_path):
    folder, pairs = files
    labels = tmp_path / "labels.csv"
    command = [
        "link",
        folder / "left.csv",
        folder / "right.csv",
        "-o",
        tmp_path / "links.csv",
        "--label",
        20,
        "--label-file",
        labels,
        "--encoding",
        "latin-1",
    ]
    good(*command)
    to_label = [
        {"match": "", "left": row["left"], "right": row["right"], "note": "é"}
        for row in read_csv(labels)
    ]
    to_label[0]["match"] = "perhaps"
    write_csv(labels, [row.values() for row in to_label], to_label[0])
    before = labels.read_bytes()
    assert "'perhaps'" in bad(*command)
    assert labels.read_bytes() == before
    for row in to_label[:4]:  # few, so that no classifier is learned
        row["match"] = "no" if (row["left"], row["right"]) in pairs[:3] else "Yes"
    write_csv(labels, [row.values() for row in to_label], to_label[0])
    good(*command)
    again = read_csv(labels)
    assert [(row["match"], row["note"]) for row in again[:4]] == [
        (row["match"], "é") for row in to_label[:4]
    ]
    assert {(row["match"], row["note"]) for row in again[4:]} == {("", "")}
    links = {(row["left"], row["right"]) for row in read_csv(tmp_path / "links.csv")}
    answers = {(row["left"], row["right"]): row["match"] for row in to_label[:4]}
    assert all((pair in links) == (word == "Yes") for pair, word in answers.items())


def test_nothing_that_is_read_is_overwritten(files, tmp_path):
    folder, _ = files
    left = folder / "left.csv"
    pairs = folder / "pairs.csv"
    for other in (left, pairs, folder / "." / "right.csv"):
        before = other.read_bytes()
        tables = [left, folder / "right.csv", "--matches", pairs]
        assert "two files" in bad("link", *tables, "-o", other)
        assert "two files" in bad(
            "link", *tables, "-o", tmp_path / "links.csv", "--html", other
        )
        assert other.read_bytes() == before
    same = tmp_path / "same.csv"
    assert "two files" in bad(
        "link", left, "-o", same, "--label", 2, "--label-file", same
    )


def test_known_links_are_told_where_ids_are_numbers(tmp_path):
    pandas = pytest.importorskip("pandas")
    left, right, matches = make_tables(30)
    for name, table in (("left", left), ("right", right)):
        table = pandas.DataFrame(table | {"id": np.arange(30) + 1.0})
        table.drop(columns="sku").to_parquet(tmp_path / f"{name}.parquet")
    write_csv(tmp_path / "pairs.csv", (matches[:8] + 1).tolist(), ("left", "right"))
    tables = [tmp_path / "left.parquet", tmp_path / "right.parquet"]
    options = [
        "--matches",
        tmp_path / "pairs.csv",
        "-o",
        tmp_path / "links.csv",
        "--json",
    ]
    assert json.loads(good("link", *tables, *options).stdout)["known"] == 8


def test_answers_may_stand_first_and_no_other_file_is_replaced(files, tmp_path):
    folder, pairs = files
    tables = [folder / "left.csv", folder / "right.csv"]
    rows = [("yes", *pair) for pair in pairs[:25]]
    write_csv(tmp_path / "pairs.csv", rows, ("match", "one", "other"))
    good(
        "link",
        *tables,
        "--matches",
        tmp_path / "pairs.csv",
        "-o",
        tmp_path / "links.csv",
    )
    known = {
        (r["left"], r["right"]) for r in read_csv(tmp_path / "links.csv") if r["known"]
    }
    assert known == {*pairs[:25]}
    (tmp_path / "mine.txt").write_text("mine")
    assert "not a model" in bad("link", *tables, "--model", tmp_path / "mine.txt")
    assert (tmp_path / "mine.txt").read_text() == "mine"


# --- cells that a spreadsheet would run -----------------------------------------------


@pytest.fixture
def formulas(tmp_path):
    """Two tables whose ids and titles begin as formulas, and some of their matches."""
    left, right, matches = make_tables(40)
    for table, sign in ((left, "="), (right, "@")):
        table["sku"] = [f"{sign}{value}" for value in table["sku"]]
        table["title"] = [f"+cmd {title}" for title in table["title"]]
    for name, table in (("left", left), ("right", right)):
        rows = zip(*table.values(), strict=True)
        write_csv(tmp_path / f"{name}.csv", rows, ("id", "title", "price"))
    pairs = [(left["sku"][a], right["sku"][b]) for a, b in matches.tolist()]
    # Too few for classifiers, which are slow.
    write_csv(tmp_path / "pairs.csv", pairs[:4], ("left", "right"))
    tables = [tmp_path / "left.csv", tmp_path / "right.csv"]
    return tables, {left for left, _ in pairs}


def test_no_cell_that_is_written_is_a_formula(formulas, tmp_path):
    tables, left_ids = formulas
    matches = tmp_path / "pairs.csv"
    links = tmp_path / "links.csv"
    entities = tmp_path / "entities.csv"
    label_file = tmp_path / "labels.csv"
    command = ["link", *tables, "-o", links, "--entities", entities]
    command += ["--label", 5, "--label-file", label_file]
    result = good(*command, "--matches", matches)
    for path in (links, entities, label_file):
        assert f"cells of {path} would run as formulas" in result.stderr
        cells = [cell for row in read_csv(path) for cell in row.values()]
        assert cells
        assert not any(cell.startswith(("=", "@", "+")) for cell in cells)
    assert {row["left"] for row in read_csv(links)} <= {f"'{id}" for id in left_ids}
    # Its own files are read as they were meant, the entities without a change.
    rows = read_csv(label_file)
    header = tuple(rows[0])
    for row in rows:
        row["match"] = "no"
    write_csv(label_file, [row.values() for row in rows], header)
    pairs = [(row["left"], row["right"]) for row in read_csv(links) if row["known"]]
    known = write_csv(tmp_path / "known.csv", pairs, ("left", "right"))
    result = good(*command, "--matches", known)
    assert "merged" not in result.stdout
    assert told(*command, "--matches", known)["label_report"]["unknown"] == []
    answered = [row for row in read_csv(label_file) if row["match"] == "no"]
    assert [row["left"] for row in answered] == [row["left"] for row in rows]
