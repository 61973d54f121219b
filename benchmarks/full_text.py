"""Full-text search with learned terms: `python -m benchmarks.full_text`.

Summaries of Python's docstrings are in SQLite's FTS5 and in PostgreSQL. Each fifth of
them in turn asks for documents among the others, and the first answer is right if it is
of the same module. The engine's own ranking of the words of the query is compared with
the sum over the learned terms.
"""

from __future__ import annotations

import argparse
import sqlite3
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import StratifiedKFold

from hdsl import HDSL, datasets
from hdsl.serving import expand_query, full_text_query

from .engines import PostgreSQL

#: As the default tokenizer of FTS5 splits English texts.
WORD = r"[^\W_]+"


class FTS5:
    """SQLite with its default tokenizer; a query is ranked by ``bm25``."""

    name = "SQLite FTS5, bm25"
    to = "sqlite"

    def __init__(self, texts: list[str]) -> None:
        self.db = sqlite3.connect(":memory:")
        self.db.execute("CREATE VIRTUAL TABLE documents USING fts5(body)")
        self.db.executemany(
            "INSERT INTO documents(rowid, body) VALUES (?, ?)", list(enumerate(texts))
        )
        self.split = TfidfVectorizer(token_pattern=WORD).build_analyzer()

    def plain(self, text: str) -> list[Any]:
        """Return the best document by the words of a text."""
        wanted = " OR ".join(f'"{word}"' for word in dict.fromkeys(self.split(text)))
        order = "SELECT rowid FROM documents WHERE body MATCH ? ORDER BY rank LIMIT 1"
        return self.db.execute(order, (wanted,)).fetchall()

    def run(self, query: str) -> list[Any]:
        """Return the answers to a query in SQL."""
        return self.db.execute(query).fetchall()

    def close(self) -> None:
        self.db.close()


class TSVector:
    """PostgreSQL with English stems; a query is ranked by ``ts_rank`` over the length."""

    name = "PostgreSQL english, ts_rank"
    to = "postgresql"

    def __init__(self, texts: list[str]) -> None:
        self.engine = PostgreSQL(2)
        self.cursor = self.engine.db.cursor()
        self.cursor.execute("CREATE TEMP TABLE documents (id integer, body tsvector)")
        self.cursor.executemany(
            "INSERT INTO documents VALUES (%s, to_tsvector('english', %s))",
            list(enumerate(texts)),
        )

    def split(self, text: str) -> list[str]:
        """Return the lexemes of a text, each as often as it occurs."""
        self.cursor.execute(
            "SELECT lexeme, cardinality(positions) FROM "
            "unnest(to_tsvector('english', %s))",
            (text,),
        )
        return [word for word, n in self.cursor.fetchall() for _ in range(n)]

    def plain(self, text: str) -> list[Any]:
        """Return the best document by the words of a text."""
        any_word = (
            "replace(plainto_tsquery('english', %s)::text, ' & ', ' | ')::tsquery"
        )
        self.cursor.execute(
            f"""SELECT id FROM documents, (SELECT {any_word} AS q) AS asked
                WHERE body @@ q ORDER BY ts_rank(body, q, 1) DESC LIMIT 1""",
            (text,),
        )
        return self.cursor.fetchall()

    def run(self, query: str) -> list[Any]:
        """Return the answers to a query in SQL."""
        self.cursor.execute(query)
        return self.cursor.fetchall()

    def close(self) -> None:
        self.engine.__exit__()


def first_answers(
    kind: Any, texts: list[str], y: np.ndarray, n_folds: int
) -> np.ndarray:
    """Return per text whether the first answer is right, by the engine and by terms."""
    right = np.zeros((2, len(y)), dtype=bool)
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
    for train, test in folds.split(texts, y):
        engine = kind([texts[i] for i in train])
        tokens = [engine.split(text) for text in texts]
        vectorizer = TfidfVectorizer(analyzer=list, sublinear_tf=True)
        X = vectorizer.fit_transform([tokens[i] for i in train])
        model = HDSL(random_state=0).fit(X, y[train])
        for i in test:
            by_words = engine.plain(texts[i])
            right[0, i] = _is_right(by_words, y[train], y[i])
            terms = expand_query(model, tokens[i], vectorizer)
            if terms:
                by_terms = engine.run(full_text_query(engine.to, terms, k=1))
                right[1, i] = _is_right(by_terms, y[train], y[i])
        engine.close()
    return right


def _is_right(answers: list[Any], labels: np.ndarray, label: Any) -> bool:
    """Return whether there is an answer, and the first one has a label."""
    if not answers:
        return False
    first, *_ = answers[0]
    return labels[first] == label


def main() -> None:
    """Print the share of right first answers per engine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folds", type=int, default=5)
    n_folds = parser.parse_args().folds
    docs = datasets.load_docstrings(
        min_rows_per_label=80, summaries=True, vectorize=False
    )
    kinds = [FTS5]
    if PostgreSQL.missing() is None:
        kinds.append(TSVector)
    for kind in kinds:
        plain, learned = first_answers(
            kind, list(docs.texts), np.asarray(docs.y), n_folds
        )
        gain = learned.astype(float) - plain
        error = gain.std(ddof=1) / np.sqrt(len(gain))
        print(
            f"{kind.name}: {plain.mean():.3f} right first answers of {len(plain):,}; "
            f"with learned terms {learned.mean():.3f}, gain {gain.mean():+.3f} ± "
            f"{error:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
