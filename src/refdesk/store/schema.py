"""The tables of the library. SQL is the source of truth; every search index is derived from it.

Written for SQLite and PostgreSQL alike. Migrations in `migrations/` bring an older library here; a test compares both.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

metadata = MetaData()

# BIGINT PRIMARY KEY is not a rowid alias in SQLite, INTEGER is.
_Key = BigInteger().with_variant(Integer(), "sqlite")

state = Table(
    "state",
    metadata,
    Column(
        "name", String(40), primary_key=True
    ),  # generation, epoch, next_chunk, folded, space, lexical, settings, cache, keys, jobs, tables, shared
    Column("value", Text, nullable=False),
)

documents = Table(
    "documents",
    metadata,
    Column("key", _Key, primary_key=True, autoincrement=True),
    Column("id", String(32), nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("collection", Text, nullable=False),
    Column("content_hash", String(64), nullable=False),
    Column("status", String(12), nullable=False),
    Column("title", Text, nullable=False, default=""),
    Column("format", String(20), nullable=False, default=""),
    Column("language", String(12), nullable=False, default=""),
    Column("size", BigInteger, nullable=False, default=0),
    Column("modified", Float, nullable=False, default=0.0),  # of the file, to see at a glance that nothing changed
    Column("page_count", Integer, nullable=False, default=0),
    Column("chunk_count", Integer, nullable=False, default=0),
    Column("source", Text, nullable=False, default=""),
    Column("parent_id", String(32)),
    Column("date", String(10), nullable=False, default=""),
    Column("metadata", Text, nullable=False, default="{}"),
    Column("error", Text, nullable=False, default=""),
    Column("notes", Text, nullable=False, default="[]"),
    Column("owner", String(40), nullable=False, default=""),  # the run that is working on it, see runs.py
    Column("first_chunk", BigInteger, nullable=False, default=0),  # the ids of its chunks are first_chunk..last_chunk
    Column("last_chunk", BigInteger, nullable=False, default=-1),
    Column("created_at", String(32), nullable=False),
    Column("updated_at", String(32), nullable=False),
    Column("added_to", Text, nullable=False, server_default=""),  # the collection it was moved out of first, or ""
    Index("documents_by_first_place", "added_to", "source"),
    Index("documents_by_place", "collection", "source", "name"),
    Index("documents_by_name", "collection", "name"),
    Index("documents_by_hash", "content_hash"),
    Index("documents_by_parent", "parent_id"),
    Index("documents_by_language", "status", "language"),  # counted whenever the library has changed
)

pages = Table(
    "pages",
    metadata,
    Column("document_key", _Key, ForeignKey("documents.key", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("start", Integer, nullable=False),  # range of the document's text
    Column("end", Integer, nullable=False),
    Column("width", Float, nullable=False),
    Column("height", Float, nullable=False),
    Column("label", Text, nullable=False),
    Column("ocr", Integer, nullable=False),
    Column("text", Text, nullable=False),
    Column("words", LargeBinary),  # geometry of the page's words, None for formats without pages
    PrimaryKeyConstraint("document_key", "number"),
)

chunks = Table(
    "chunks",
    metadata,
    Column("id", _Key, primary_key=True, autoincrement=False),
    Column("document_key", _Key, ForeignKey("documents.key", ondelete="CASCADE"), nullable=False),
    Column("sequence", Integer, nullable=False),
    Column("kind", String(12), nullable=False),
    Column("first_page", Integer, nullable=False),
    Column("last_page", Integer, nullable=False),
    Column("token_count", Integer, nullable=False),
    Column("text", Text, nullable=False),
    Column("context", Text, nullable=False),
    Column("summary", Text, nullable=False),
    Column("details", LargeBinary, nullable=False),  # JSON: heading path, pages, spans, sentences, keywords
    Index("chunks_by_document", "document_key", "sequence"),
    Index("chunks_by_kind", "kind"),
)

tables = Table(
    "tables",
    metadata,
    Column("id", _Key, primary_key=True, autoincrement=True),
    Column("document_key", _Key, ForeignKey("documents.key", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),  # in the document, from 1
    Column("page", Integer, nullable=False),
    Column("start", Integer, nullable=False),  # range of the document's text
    Column("end", Integer, nullable=False),
    Column("caption", Text, nullable=False),
    Column("head_rows", Integer, nullable=False),
    Column("row_count", Integer, nullable=False),
    Column("cell_count", Integer, nullable=False),
    Column("scale", String(12), nullable=False),
    Column("heads", LargeBinary, nullable=False),  # JSON: of each column its path, unit, scale and period
    Index("tables_by_document", "document_key", "start"),  # two side by side begin at the same place
    sqlite_autoincrement=True,  # whoever holds the id of a table that is gone must not read another one
)

# The cells of tables, a row for each column of one: a sum over 100,000 of them reads an array.
cells = Table(
    "cells",
    metadata,
    Column("table_id", _Key, ForeignKey("tables.id", ondelete="CASCADE"), nullable=False),
    Column("column", Integer, nullable=False),
    Column("numbers", LargeBinary, nullable=False),
    Column("texts", LargeBinary, nullable=False),
    Column("places", LargeBinary, nullable=False),
    PrimaryKeyConstraint("table_id", "column"),
    sqlite_with_rowid=False,
)

# What a chunk names, in the order of its text.
entities = Table(
    "entities",
    metadata,
    Column("chunk_id", _Key, ForeignKey("chunks.id", ondelete="CASCADE"), nullable=False),
    Column("place", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("kind", String(40), nullable=False, server_default=""),  # "": nobody has told yet
    Column("key", Text, nullable=False, server_default=""),  # the same however it is written; "": an amount, a date
    PrimaryKeyConstraint("chunk_id", "place"),
    Index("entities_by_key", "key"),
    sqlite_with_rowid=False,
)

# What a sentence of a chunk says of two of them. Which of them stand in one sentence is read from the chunk itself.
relations = Table(
    "relations",
    metadata,
    Column("chunk_id", _Key, ForeignKey("chunks.id", ondelete="CASCADE"), nullable=False),
    Column("place", Integer, nullable=False),
    Column("subject", Text, nullable=False),
    Column("predicate", Text, nullable=False),
    Column("object", Text, nullable=False),
    Column("subject_key", Text, nullable=False, server_default=""),
    Column("object_key", Text, nullable=False, server_default=""),
    Column("sentence", Integer, nullable=False, server_default="-1"),  # that proves it; -1 is not known
    PrimaryKeyConstraint("chunk_id", "place"),
    Index("relations_by_subject", "subject_key"),
    Index("relations_by_object", "object_key"),
    sqlite_with_rowid=False,
)

# Chunks that a model has read for the graph, and what it found in them. Beside what rules find, not among it: a program
# that does not know of models would take one for the other when it moves a document.
extracted_chunks = Table(
    "extracted_chunks",
    metadata,
    Column("chunk_id", _Key, ForeignKey("chunks.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("model", Text, nullable=False),
)

extracted_names = Table(
    "extracted_names",
    metadata,
    Column("chunk_id", _Key, ForeignKey("extracted_chunks.chunk_id", ondelete="CASCADE"), nullable=False),
    Column("place", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("kind", String(40), nullable=False),  # alias: the key is that of the name that it stands for
    Column("key", Text, nullable=False),
    Column("sentences", Text, nullable=False),  # JSON: the places of those of the chunk that hold it
    PrimaryKeyConstraint("chunk_id", "place"),
    Index("extracted_names_by_key", "key"),
    sqlite_with_rowid=False,
)

extracted_relations = Table(
    "extracted_relations",
    metadata,
    Column("chunk_id", _Key, ForeignKey("extracted_chunks.chunk_id", ondelete="CASCADE"), nullable=False),
    Column("place", Integer, nullable=False),
    Column("subject", Text, nullable=False),
    Column("predicate", Text, nullable=False),
    Column("object", Text, nullable=False),
    Column("subject_key", Text, nullable=False),
    Column("object_key", Text, nullable=False),
    Column("sentence", Integer, nullable=False),  # that proves it
    PrimaryKeyConstraint("chunk_id", "place"),
    Index("extracted_relations_by_subject", "subject_key"),
    Index("extracted_relations_by_object", "object_key"),
    sqlite_with_rowid=False,
)

# Figures that were cut out of a page; a chunk of kind figure has one.
images = Table(
    "images",
    metadata,
    Column("chunk_id", _Key, ForeignKey("chunks.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("document_key", _Key, ForeignKey("documents.key", ondelete="CASCADE"), nullable=False),
    Column("page", Integer, nullable=False),
    Column("x", Float),  # its box in per cent of the page; None of formats without pages
    Column("y", Float),
    Column("width", Float),
    Column("height", Float),
    Column("file", String(64), nullable=False),  # the hash of its content
    Index("images_by_document", "document_key"),
    Index("images_by_file", "file"),
)

vectors = Table(
    "vectors",
    metadata,
    Column(
        "space", String(80), key="embedder", nullable=False
    ),  # its name; what a new one makes stands beside what the old one made
    Column("chunk_id", _Key, ForeignKey("chunks.id", ondelete="CASCADE"), nullable=False),
    Column("vector", LargeBinary, nullable=False),  # float16
    Column("sentences", LargeBinary, nullable=False),  # int8, one row per sentence of the chunk
    PrimaryKeyConstraint("embedder", "chunk_id"),
    Index("vectors_by_chunk", "chunk_id"),  # a cascade from chunks looks them up by chunk alone
)

# What a model wrote of a chunk: a summary, and questions that it answers. Searched, never quoted.
written_summaries = Table(
    "written_summaries",
    metadata,
    Column("document_key", _Key, ForeignKey("documents.key", ondelete="CASCADE"), nullable=False),
    Column("sequence", Integer, nullable=False),  # of the chunk: its id changes when its document is moved
    Column("space", String(80), key="embedder", nullable=False),  # the embedder of the vectors
    Column("text", Text, nullable=False),
    Column("questions", Text, nullable=False),  # JSON
    Column("vectors", LargeBinary, nullable=False),  # int8: of the text, then of each question
    Column("model", Text, nullable=False),
    PrimaryKeyConstraint("document_key", "sequence"),
)

# The tree above the chunks: sections (1), documents (2), and clusters of documents of one collection (3).
tree_nodes = Table(
    "tree_nodes",
    metadata,
    Column("id", _Key, primary_key=True, autoincrement=True),
    Column("level", Integer, nullable=False),
    Column("space", String(80), key="embedder", nullable=False),  # the embedder of the vector
    Column("document_key", _Key, ForeignKey("documents.key", ondelete="CASCADE")),  # None: a cluster
    Column("collection", Text, nullable=False),  # of a cluster
    Column("title", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("proofs", Text, nullable=False),  # JSON: [document, sequence, sentence] of what it was made of
    Column("first_sequence", Integer, nullable=False),
    Column("last_sequence", Integer, nullable=False),
    Column("vector", LargeBinary, nullable=False),  # float16
    Column("model", Text, nullable=False),  # who wrote the text; "": it is quoted
    Index("tree_nodes_by_document", "document_key", "level"),
    Index("tree_nodes_by_level", "level", "embedder"),
)

# The documents of a cluster; it goes when one of them does.
tree_members = Table(
    "tree_members",
    metadata,
    Column("node_id", _Key, ForeignKey("tree_nodes.id", ondelete="CASCADE"), nullable=False),
    Column("document_key", _Key, ForeignKey("documents.key", ondelete="CASCADE"), nullable=False),
    PrimaryKeyConstraint("node_id", "document_key"),
    Index("tree_members_by_document", "document_key"),
)

# Chunk ids that must not be in the search indexes: written before they are indexed and taken back in the transaction
# that makes them visible, or written in the transaction that deletes them. A crash at any point leaves the list right.
dropped = Table(
    "dropped",
    metadata,
    Column("first_chunk", BigInteger, primary_key=True, autoincrement=False),
    Column("last_chunk", BigInteger, nullable=False),
    Column("purged", Integer, nullable=False, default=0),  # 1: gone from the lexical index too
)

# What is to be added, by whom, and how far it has come; a row of the kind `run` is a process at work, and its lease.
jobs = Table(
    "jobs",
    metadata,
    Column("id", String(80), primary_key=True),
    Column("kind", String(12), nullable=False),
    Column("status", String(12), nullable=False),
    Column("name", Text, nullable=False),
    Column("collection", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("document_id", String(32), nullable=False),
    Column("content_hash", String(64), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("url", Text, nullable=False),
    Column("metadata", Text, nullable=False),  # JSON
    Column("password", Text),  # until the file was read
    Column("owner", String(80), nullable=False),  # the id of a key; "" is who sits at the machine
    Column("worker", String(80), nullable=False),  # the id of the run that has taken it; "" when it is free
    Column("lease_until", Float, nullable=False),  # of a run, in seconds since 1970
    Column("attempts", Integer, nullable=False),
    Column("pages_done", Integer, nullable=False),
    Column("pages_total", Integer, nullable=False),
    Column("chunks_done", Integer, nullable=False),
    Column("chunks_total", Integer, nullable=False),
    Column("seconds_left", Float),
    Column("outcome", String(12), nullable=False),
    Column("reason", Text, nullable=False),
    Column("created_at", String(32), nullable=False),
    Column("updated_at", String(32), nullable=False),
    Index("jobs_by_kind", "kind", "status", "created_at"),
    Index("jobs_by_worker", "worker"),
)

# --- what asking remembers -------------------------------------------------------------------------------------------

settings = Table(
    "settings",
    metadata,
    Column("name", String(80), primary_key=True),
    Column("value", Text, nullable=False),  # JSON
    Column("updated_at", String(32), nullable=False),
)

conversations = Table(
    "conversations",
    metadata,
    Column("id", String(80), primary_key=True),
    Column("title", Text, nullable=False, default=""),
    Column("owner", String(80), nullable=False, default=""),  # the id of a key; "" is who sits at the machine
    Column("summary", Text, nullable=False, default=""),
    Column("summarised_until", BigInteger, nullable=False, default=0),  # the last message that is in the summary
    Column("created_at", String(32), nullable=False),
    Column("updated_at", String(32), nullable=False),
    Index("conversations_by_owner", "owner", "updated_at"),
)

messages = Table(
    "messages",
    metadata,
    Column("key", _Key, primary_key=True, autoincrement=True),
    Column("conversation_id", String(80), ForeignKey("conversations.id", ondelete="CASCADE"), nullable=False),
    Column("role", String(12), nullable=False),
    Column("content", Text, nullable=False),
    Column("answer_id", String(40), nullable=False, default=""),
    Column("created_at", String(32), nullable=False),
    Index("messages_by_conversation", "conversation_id", "key"),
)

answers = Table(
    "answers",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("conversation_id", String(80), nullable=False, default=""),
    Column("owner", String(80), nullable=False, default=""),
    Column("question", Text, nullable=False),
    Column("answer", LargeBinary, nullable=False),  # JSON, compressed; empty when there was none
    Column("trace", LargeBinary, nullable=False),  # JSON, compressed
    Column("collections", Text, nullable=False, default="[]"),  # JSON: those its sources are in
    Column("created_at", String(32), nullable=False),
    # What analytics count; None is not known: the answer is older than these columns, or no price is known.
    Column("total_ms", Float),
    Column("stages", Text),  # JSON: milliseconds of each stage that ran
    Column("cached", String(12)),
    Column("cost_usd", Float),
    Column("route", String(20)),
    Column("is_answered", Integer),
    Column("confidence", String(12)),  # high, medium, low
    Column("model", Text),
    Column("level", String(12)),
    Column("failed_models", Text),  # JSON: [[model, code], …] of those that were to write it and did not
    Column("error", String(40), nullable=False, server_default=""),  # the code of what ended the question
    Index("answers_by_time", "created_at"),
    Index("answers_by_conversation", "conversation_id"),
)

# The same as `answers.collections`, for conditions in SQL.
answer_collections = Table(
    "answer_collections",
    metadata,
    Column("answer_id", String(40), ForeignKey("answers.id", ondelete="CASCADE"), nullable=False),
    Column("collection", Text, nullable=False),
    PrimaryKeyConstraint("answer_id", "collection"),
)

answer_cache = Table(
    "answer_cache",
    metadata,
    Column("key", _Key, primary_key=True, autoincrement=True),
    Column("realm", String(80), nullable=False, key="namespace"),
    Column("digest", String(32), nullable=False),  # of the question, which may be too long for an index
    Column("generation", BigInteger, nullable=False),  # of the corpus
    Column("question", Text, nullable=False),
    Column("vector", LargeBinary),  # float16; None: found by the very same question only
    Column("answer", LargeBinary, nullable=False),
    Column("created_at", Float, nullable=False),  # seconds since 1970
    Index("answer_cache_by_question", "namespace", "digest", unique=True),
    Index("answer_cache_by_generation", "generation"),
    Index("answer_cache_by_time", "created_at"),
    sqlite_autoincrement=True,  # a key is never used twice, so "greater than the last one seen" is "new"
)

# --- what serving needs ----------------------------------------------------------------------------------------------

keys = Table(
    "keys",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("role", String(12), nullable=False),
    Column("collections", Text),  # JSON; None: every one
    Column("digest", String(64), nullable=False, unique=True),  # SHA-256 of the secret, which is stored nowhere
    Column("created_at", String(32), nullable=False),
    Column("last_used", String(32), nullable=False, default=""),
)

# Sign-ins of the page; a revoked key takes its own along.
sessions = Table(
    "sessions",
    metadata,
    Column("digest", String(64), primary_key=True),  # SHA-256 of the cookie's token
    Column("key_id", String(32), ForeignKey("keys.id", ondelete="CASCADE"), nullable=False),
    Column("expires_at", Float, nullable=False),  # seconds since 1970
)

feedback = Table(
    "feedback",
    metadata,
    Column("answer_id", String(40), ForeignKey("answers.id", ondelete="CASCADE"), nullable=False),
    Column("owner", String(80), nullable=False, default=""),  # the id of a key; "" is who sits at the machine
    Column("verdict", String(12), nullable=False),  # correct, wrong
    Column("correction", Text, nullable=False, default=""),
    Column("created_at", String(32), nullable=False),
    PrimaryKeyConstraint("answer_id", "owner"),
)

# PostgreSQL orders and compares texts as SQLite does, by their bytes, and takes them at any length as it does.
for _table in metadata.tables.values():
    for _column in _table.columns:
        if isinstance(_column.type, String):
            _column.type = _column.type.with_variant(Text(collation="C"), "postgresql")
