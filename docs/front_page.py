"""The picture of the README, and tables of the README, when.md and faq.md, from the results here.

``python docs/front_page.py`` writes them again; tests compare them with the pages.
"""

import csv
import re
from pathlib import Path

HERE = Path(__file__).parent
PICTURE = HERE / "_static" / "neighbors.svg"
#: A docstring of the half that the model does not see, one of those whose neighbours
#: gain most.
QUERY = "Restore the mock object to its initial state."
MODULE = "unittest"

#: Of the texts in the picture: as readable on a white page as on a dark one.
INK = "#767676"

#: Name in the results, and in words.
SETS = {
    "dexter": "news, 2 classes (dexter)",
    "reuters_r52": "news, 52 classes (reuters_r52)",
    "rcv1_2": "news, 2 classes (rcv1_2)",
    "bbc_news": "news, 5 classes (bbc_news)",
    "bace_ecfp6": "molecules, 2 classes (bace_ecfp6)",
}
#: Training rows and features, as reproducing.md has them.
SIZES = {
    "dexter": ("300", "20,000"),
    "bbc_news": ("890", "27,851"),
    "dorothea": ("800", "100,000"),
    "rcv1_4": ("3,850", "22,225"),
    "reuters_r52": ("4,354", "27,336"),
    "rcv1_2": ("12,145", "47,236"),
}
COLUMNS = {
    "cosine": "cosine",
    "LinearSVC": "LinearSVC",
    "HDSL()": "HDSL",
    "ClassScores(), HDSL()": "ClassScores + HDSL",
}


def read(name):
    """Return a table of the results: the row of each method, by set."""
    with (HERE / "results" / f"{name}.csv").open(encoding="utf-8") as file:
        return {row.pop("method"): row for row in csv.DictReader(file)}


def markdown(head, rows):
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def first(cell):
    """Return a figure without its interval."""
    return cell.partition(" ")[0]


def readme_table():
    """Return errors of 3 nearest neighbours, and the seconds of HDSL, for five sets."""
    errors = read("quality-error-3nn")
    seconds = read("quality-seconds")
    rows = [
        [
            words,
            *(first(errors[method][of]) for method in COLUMNS),
            seconds["HDSL()"][of],
        ]
        for of, words in SETS.items()
    ]
    return markdown(["data", *COLUMNS.values(), "seconds of HDSL"], rows)


def rivals_table():
    """Return errors of all methods, with intervals, and their seconds on Reuters."""
    ours = read("quality-error-3nn")
    theirs = read("rivals-error-3nn")
    spent = {**read("rivals-seconds"), **read("quality-seconds")}
    sets = list(next(iter(theirs.values())))
    order = [
        *("cosine", "LSA, 300 dimensions"),
        *theirs,
        "LinearSVC",
        "HDSL()",
        "ClassScores()",
        "ClassScores(), HDSL()",
    ]
    both = {**theirs, **ours}
    rows = [
        [
            method,
            spent[method]["reuters_r52"],
            *(both[method][of] or "–" for of in sets),
        ]
        for method in order
    ]
    return markdown(["method", "seconds", *sets], rows)


def seconds_table():
    """Return the sizes of the sets and the seconds of HDSL."""
    seconds = read("quality-seconds")["HDSL()"]
    return markdown(
        ["set", "training rows", "features", "seconds"],
        [[of, rows, features, seconds[of]] for of, (rows, features) in SIZES.items()],
    )


#: Page and mark, and what stands between the marks.
TABLES = {
    (HERE.parent / "README.md", "readme_table"): readme_table,
    (HERE / "when.md", "rivals_table"): rivals_table,
    (HERE / "faq.md", "seconds_table"): seconds_table,
}


def between(mark):
    """Return the pattern of a table between its marks."""
    return re.compile(rf"(?<=<!-- {mark} -->\n\n).*?(?=\n<!-- end -->)", re.DOTALL)


def learned():
    """Return the model of the picture, its vectoriser, and rows, labels and names to search."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.model_selection import train_test_split

    from hdsl import HDSL
    from hdsl.datasets import load_docstrings

    docs = load_docstrings(min_rows_per_label=80, vectorize=False)
    texts, _, names, _, y, _ = train_test_split(
        docs.texts, docs.names, docs.y, test_size=0.5, stratify=docs.y, random_state=0
    )
    vectorizer = TfidfVectorizer(
        token_pattern="[A-Za-z][A-Za-z_]+", min_df=2, sublinear_tf=True
    )
    X = vectorizer.fit_transform(texts)
    return HDSL(random_state=0).fit(X, y), vectorizer, X, y, names


def neighbors(k=6):
    """Return the rows nearest to the query before and after, the labels and the names."""
    from hdsl.search import top_k

    model, vectorizer, X, y, names = learned()
    query = vectorizer.transform([QUERY])
    before, after = (
        top_k(asked, X, k).rows[0] for asked in (query, model.rewrite(query))
    )
    return before, after, y, names


def picture(path):
    """Draw the nearest docstrings of a query, before and after; return the display."""
    import matplotlib as mpl

    mpl.use("Agg")
    from hdsl.plots import NeighborsDisplay

    before, after, y, names = neighbors()
    style = {"svg.hashsalt": "hdsl", "svg.fonttype": "none", "text.color": INK}
    with mpl.rc_context(style):
        shown = NeighborsDisplay(
            before, after, dict(enumerate(names)), QUERY, y == MODULE
        ).plot()
        metadata = {"Date": None, "Creator": None}
        shown.figure_.savefig(
            path, bbox_inches="tight", metadata=metadata, transparent=True
        )
    return shown


def main():
    """Write the tables and the picture again."""
    for (page, mark), table in TABLES.items():
        text = page.read_text(encoding="utf-8")
        page.write_text(between(mark).sub(table() + "\n", text), encoding="utf-8")
    picture(PICTURE)


if __name__ == "__main__":
    main()
