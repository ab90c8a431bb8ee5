"""Sessions, events, states, memories, their words and vectors.

Locks: nothing; every table is new.
"""

import sqlalchemy as sa
from alembic import op
from pgvector.sqlalchemy import HALFVEC
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    op.create_table(
        "app_states",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "state",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="Keys without the 'app:' prefix.",
        ),
        sa.Column(
            "update_time",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("app_name", name="app_states_pkey"),
        schema=schema,
        comment="State shared by all users of an app.",
    )
    op.create_table(
        "embedding_models",
        sa.Column("model_id", sa.SmallInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("name", sa.Text(collation="C"), nullable=False),
        sa.Column("dimensions", sa.Integer(), nullable=False),
        sa.Column(
            "create_time",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("model_id", name="embedding_models_pkey"),
        sa.UniqueConstraint("name", "dimensions", name="embedding_models_name_key"),
        schema=schema,
        comment="The models whose vectors are stored; vectors of two models are never compared.",
    )
    op.create_table(
        "memories",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Place in the user's history: neighbouring turns of a session are consecutive, everything else is far apart (each session has a block of its own).",
        ),
        sa.Column("memory_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "session_id",
            sa.Text(collation="C"),
            nullable=False,
            comment="The session the memory came from; '' if none. No foreign key: it outlives it.",
        ),
        sa.Column(
            "event_id",
            sa.Text(collation="C"),
            nullable=True,
            comment="The ADK event it came from; NULL if it was added directly.",
        ),
        sa.Column("author", sa.Text(), nullable=True),
        sa.Column(
            "timestamp",
            postgresql.TIMESTAMP(timezone=True),
            nullable=False,
            comment="When it was said.",
        ),
        sa.Column(
            "content",
            postgresql.JSON(astext_type=sa.Text()),
            nullable=False,
            comment="google.genai types.Content as JSON text.",
        ),
        sa.Column(
            "body",
            sa.Text(),
            nullable=False,
            comment="'author: text', what is searched and embedded.",
        ),
        sa.Column("length", sa.Integer(), nullable=False, comment="Number of lexemes in the body."),
        sa.Column("custom_metadata", postgresql.JSON(astext_type=sa.Text()), nullable=True),
        sa.Column(
            "digest",
            sa.Text(),
            nullable=False,
            comment="Hash of what was given; equal means unchanged.",
        ),
        sa.Column(
            "create_time",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint(
            "app_name", "user_id", "position", name="memories_pkey", postgresql_include=["length"]
        ),
        sa.UniqueConstraint("memory_id", "app_name", "user_id", name="memories_memory_id_key"),
        sa.UniqueConstraint(
            "session_id", "app_name", "user_id", "event_id", name="memories_event_id_key"
        ),
        schema=schema,
        comment="What is remembered of a user, one row per turn.",
    )
    op.create_table(
        "approximate_scopes",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column("model_id", sa.SmallInteger(), nullable=False),
        sa.Column(
            "ready",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Whether all its vectors are in the index, so that searches may use it.",
        ),
        sa.ForeignKeyConstraint(
            ["model_id"],
            [f"{schema}.embedding_models.model_id"],
            name="approximate_scopes_model_fkey",
        ),
        sa.PrimaryKeyConstraint("app_name", "user_id", "model_id", name="approximate_scopes_pkey"),
        schema=schema,
        comment="Users with too many memories for an exact answer; the HNSW index holds theirs alone.",
    )
    op.create_table(
        "memory_tombstones",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column("session_id", sa.Text(collation="C"), nullable=False),
        sa.Column("event_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "delete_time",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint(
            "app_name", "user_id", "session_id", "event_id", name="memory_tombstones_pkey"
        ),
        schema=schema,
        comment="Deleted memories of events, so that re-adding their session does not bring them back.",
    )
    op.create_table(
        "sessions",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column("session_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "incarnation",
            sa.UUID(as_uuid=False),
            server_default=sa.text("gen_random_uuid()"),
            nullable=False,
            comment="Tells this session from one deleted and created again under the same id.",
        ),
        sa.Column(
            "revision",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="Number of events ever appended; the seq of the last one.",
        ),
        sa.Column(
            "state",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default="{}",
            nullable=False,
            comment="Session-scoped state; NUL and lone surrogates escaped as U+001A and four hex.",
        ),
        sa.Column(
            "create_time",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column(
            "update_time",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Timestamp of the last event. In no index, so that appends stay HOT.",
        ),
        sa.PrimaryKeyConstraint("app_name", "user_id", "session_id", name="sessions_pkey"),
        schema=schema,
        comment="One row per ADK session.",
    )
    op.create_index(
        "sessions_create_time_idx",
        "sessions",
        ["app_name", "create_time", "user_id", "session_id"],
        unique=False,
        schema=schema,
    )
    op.create_table(
        "user_states",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "state",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="Keys without the 'user:' prefix.",
        ),
        sa.Column(
            "update_time",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("app_name", "user_id", name="user_states_pkey"),
        schema=schema,
        comment="State shared by all sessions of a user; outlives them.",
    )
    op.create_table(
        "events",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column("session_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "seq",
            sa.BigInteger(),
            nullable=False,
            comment="Append order within the session, from 1; the revision this event made.",
        ),
        sa.Column("event_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "timestamp",
            postgresql.TIMESTAMP(timezone=True),
            nullable=False,
            comment="The event's own timestamp, clamped to the calendar; exact in the payload.",
        ),
        sa.Column(
            "payload",
            postgresql.JSON(astext_type=sa.Text()),
            nullable=False,
            comment="The whole ADK event as JSON text, as it was written (NUL escapes included).",
        ),
        sa.ForeignKeyConstraint(
            ["app_name", "user_id", "session_id"],
            [
                f"{schema}.sessions.app_name",
                f"{schema}.sessions.user_id",
                f"{schema}.sessions.session_id",
            ],
            name="events_session_fkey",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("app_name", "user_id", "session_id", "seq", name="events_pkey"),
        sa.UniqueConstraint(
            "app_name", "user_id", "session_id", "event_id", name="events_event_id_key"
        ),
        schema=schema,
        comment="The events of a session, immutable once appended.",
    )
    op.create_table(
        "memory_lexemes",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column("lexeme", sa.Text(collation="C"), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column(
            "frequency",
            sa.SmallInteger(),
            nullable=False,
            comment="Occurrences in the memory's own body; counts for its neighbours too, by weight.",
        ),
        sa.Column(
            "date_frequency",
            sa.SmallInteger(),
            nullable=False,
            comment="Occurrences in its written-out date; counts for itself only.",
        ),
        sa.ForeignKeyConstraint(
            ["app_name", "user_id", "position"],
            [
                f"{schema}.memories.app_name",
                f"{schema}.memories.user_id",
                f"{schema}.memories.position",
            ],
            name="memory_lexemes_memory_fkey",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "app_name",
            "user_id",
            "lexeme",
            "position",
            name="memory_lexemes_pkey",
            postgresql_include=["frequency", "date_frequency"],
        ),
        schema=schema,
        comment="Postings: which words a memory holds. A memory's words go when it goes.",
    )
    op.create_index(
        "memory_lexemes_position_idx",
        "memory_lexemes",
        ["position", "app_name", "user_id"],
        unique=False,
        schema=schema,
    )
    op.create_table(
        "memory_vectors",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column("model_id", sa.SmallInteger(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column(
            "embedding",
            HALFVEC(),
            nullable=True,
            comment="The vector, up to 1,300 dimensions; covered by the primary key's index.",
        ),
        sa.Column(
            "bits",
            postgresql.BIT(varying=True),
            nullable=True,
            comment="Signs of a longer vector: first pass.",
        ),
        sa.Column(
            "large", HALFVEC(), nullable=True, comment="The longer vector itself: second pass."
        ),
        sa.Column(
            "approximate",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Whether the HNSW index holds it: only in scopes too large for an exact answer.",
        ),
        sa.ForeignKeyConstraint(
            ["app_name", "user_id", "position"],
            [
                f"{schema}.memories.app_name",
                f"{schema}.memories.user_id",
                f"{schema}.memories.position",
            ],
            name="memory_vectors_memory_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["model_id"], [f"{schema}.embedding_models.model_id"], name="memory_vectors_model_fkey"
        ),
        sa.PrimaryKeyConstraint(
            "app_name",
            "user_id",
            "model_id",
            "position",
            name="memory_vectors_pkey",
            postgresql_include=["embedding", "bits"],
        ),
        schema=schema,
        comment="One vector per memory and model.",
    )
    op.create_table(
        "pending_embeddings",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column(
            "create_time",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["app_name", "user_id", "position"],
            [
                f"{schema}.memories.app_name",
                f"{schema}.memories.user_id",
                f"{schema}.memories.position",
            ],
            name="pending_embeddings_memory_fkey",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("app_name", "user_id", "position", name="pending_embeddings_pkey"),
        schema=schema,
        comment="Memories committed and found by their words, but without a vector yet.",
    )

    # Room on the page for the next version of a row that every append rewrites (HOT).
    for table in ("sessions", "app_states", "user_states"):
        op.execute(f'ALTER TABLE "{schema}".{table} SET (fillfactor = 80)')
    # Index-only scans need the visibility map soon after an ingest.
    for table in ("memories", "memory_lexemes", "memory_vectors"):
        op.execute(
            f'ALTER TABLE "{schema}".{table} SET (autovacuum_vacuum_insert_scale_factor = 0.02)'
        )
    # In line, so that the covering index can hold them; the long ones out of line, uncompressed.
    op.execute(
        f'ALTER TABLE "{schema}".memory_vectors ALTER embedding SET STORAGE PLAIN, '
        "ALTER bits SET STORAGE PLAIN, ALTER large SET STORAGE EXTERNAL"
    )


def downgrade() -> None:
    schema = op.get_context().version_table_schema
    op.drop_table("pending_embeddings", schema=schema)
    op.drop_table("memory_vectors", schema=schema)
    op.drop_index("memory_lexemes_position_idx", table_name="memory_lexemes", schema=schema)
    op.drop_table("memory_lexemes", schema=schema)
    op.drop_table("events", schema=schema)
    op.drop_table("user_states", schema=schema)
    op.drop_index("sessions_create_time_idx", table_name="sessions", schema=schema)
    op.drop_table("sessions", schema=schema)
    op.drop_table("memory_tombstones", schema=schema)
    op.drop_table("memories", schema=schema)
    op.drop_table("approximate_scopes", schema=schema)
    op.drop_table("embedding_models", schema=schema)
    op.drop_table("app_states", schema=schema)
