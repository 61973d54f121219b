"""How texts are read: `python -m benchmarks.reading --data FOLDER`.

By number of words per text, the errors of 9 nearest neighbours with words and with
n-grams of characters; then, by `min_df` and stop words, the same errors and nDCG@10 of
a search, by the plain cosine. Learned on the first lines of a set, measured on the last.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from hdsl.text import Words

from .table import aligned

N_LEARNED = 4000
N_MEASURED = 2000
N_WORDS = (1, 2, 3, 4, 6, 10)
OPTIONS = ((1, "none"), (2, "none"), (1, "english"), (2, "english"))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def error(words: Words, texts: list[str], labels: np.ndarray) -> float:
    """Return the share of the last texts that their 9 nearest first texts get wrong."""
    n_measured = min(N_MEASURED, len(texts) // 5)
    n_learned = min(N_LEARNED, len(texts) - n_measured)
    X = words.fit(texts[:n_learned]).transform(texts[:n_learned])
    cosines = (words.transform(texts[-n_measured:]) @ X.T).toarray()
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :9]
    predicted = labels[nearest].mean(axis=1) > 0.5
    return float((predicted != labels[-n_measured:]).mean())


def ndcg(words: Words, folder: Path, n_words: int | None = None) -> float:
    """Return the mean nDCG@10 of the cosine, by the first words of queries or by all."""
    documents = read_lines(folder / "documents.jsonl.gz")
    X = words.fit([document["text"] for document in documents]).transform(
        [document["text"] for document in documents]
    )
    relevant: dict[str, set[str]] = {}
    for line in (folder / "qrels.tsv").read_text("utf-8").splitlines():
        query, document, *grade = line.split()
        if not grade or float(grade[0]) >= 1:
            relevant.setdefault(query, set()).add(document)
    ids = [str(document["id"]) for document in documents]
    discounts = 1 / np.log2(np.arange(2, 12))
    gains = []
    for query in read_lines(folder / "queries.jsonl"):
        judged = relevant.get(str(query["id"]))
        if judged is None:
            continue
        content = [
            word for word in query["text"].split() if word.strip("?.,") not in english()
        ]
        text = query["text"] if n_words is None else " ".join(content[:n_words])
        scores = (words.transform([text]) @ X.T).toarray().ravel()
        first = np.argsort(-scores, kind="stable")[:10]
        is_relevant = np.array([ids[row] in judged for row in first])
        gains.append(discounts[is_relevant].sum() / discounts[: len(judged)].sum())
    return float(np.mean(gains))


def english() -> frozenset[str]:
    """Return the English stop words."""
    return Words(stop_words="english").left_out


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    data = parser.parse_args().data
    sets = {
        "subjectivity": read_lines(data / "subjectivity/sentences.jsonl.gz"),
        "movie_reviews": read_lines(data / "movie_reviews/documents.jsonl.gz"),
    }
    sets["movie_reviews"].sort(key=lambda line: int(line["fold"]))
    labels = {
        name: np.unique([line["label"] for line in lines], return_inverse=True)[1]
        for name, lines in sets.items()
    }
    headings = ["set", "words per text", "words", "characters"]
    table = []
    for name, lines in sets.items():
        for n_words in N_WORDS:
            texts = [
                " ".join(
                    [w for w in line["text"].split() if w.isalnum()][2 : n_words + 2]
                )
                for line in lines
            ]
            errors = [
                error(Words(tokens), texts, labels[name])
                for tokens in ("words", "characters")
            ]
            table.append([name, str(n_words), *(f"{100 * e:.1f} %" for e in errors)])
    print(aligned(table, headings, headings[1:]), end="\n\n")
    columns = [f"min_df {least}, {stop}" for least, stop in OPTIONS]
    table = []
    words = [Words("words", min_df=least, stop_words=stop) for least, stop in OPTIONS]
    for name, lines in sets.items():
        texts = [line["text"] for line in lines]
        errors = [error(reader, texts, labels[name]) for reader in words]
        table.append([f"{name}, error", *(f"{100 * e:.1f} %" for e in errors)])
    for name in ("cisi", "cranfield"):
        for n_words in (None, 3):
            gains = [ndcg(reader, data / name, n_words) for reader in words]
            about = "whole queries" if n_words is None else f"{n_words} words"
            table.append([f"{name}, {about}", *(f"{gain:.3f}" for gain in gains)])
    print(aligned(table, ["set", *columns], columns))


if __name__ == "__main__":
    main()
