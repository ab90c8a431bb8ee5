"""Sessions, events, states, files, memories, their words, vectors, jobs and sources.

Locks: nothing; every table is new.
"""

import sqlalchemy as sa
from alembic import op
from pgvector.sqlalchemy import HALFVEC
from sqlalchemy.dialects import postgresql

from adkpg.database.migrating import migrations
from adkpg.tables import FUNCTIONS, REGISTER

revision = "0001r40"
down_revision = None
branch_labels = None
depends_on = None


# A question mark at the end, behind nothing but what closes it. Classes of characters would depend
# on the database's locale.
_ENDS_ASKING = "[?\uff1f\u061f][\\s\"''\u201d\u2019\u00bb)*_.!]*$"
_ACKNOWLEDGES = (
    "^[\\s.!]*(("
    "ok|okay|noted|got it|saved|stored|understood|updated|thanks|thank you|great|perfect|i see"
    "|alright|all right|no problem|you.re welcome|my pleasure|so much|very much"
    "|i|will|.ll|have|.ve|it|that|this|remember|remembered|keep|in mind|for you|made|wrote|down"
    "|of|a note"
    "|好|好的|知道了|明白|明白了|记住了|我|会|的|记住|收到|谢谢|不客气"
    ")[\\s,.!~\u3002\uff01\uff0c\u2026]*)+$"
)
_DOES_NOT_KNOW = (
    "\\m(i|we|you)( am|.m| are|.re| do| did| have| can| could)?( not|n.t|.t)( \\w+){0,2} "
    "(know|find|have|remember|recall|told|tell|mention|mentioned|share|shared|sure|aware|say)\\M"
    "|\\mno (information|record|records|memory|memories|idea|data|note|notes|details)\\M"
    "|不知道|不清楚|不记得|找不到|没有(找到|记录|提到|告诉|说过|相关)|无法(找到|得知|确定|回答)"
)
_SAID = 'substr(body, coalesce(length(author) + 3, 1)) COLLATE "C"'
_SPEECH = (
    "CASE WHEN kind <> 'turn' THEN 0"
    f" WHEN right(body, 80) ~ '{_ENDS_ASKING}' THEN 2"
    f" WHEN length(body) <= 160 AND ({_SAID} ~* '{_ACKNOWLEDGES}'"
    f" OR author <> 'user' AND {_SAID} ~* '{_DOES_NOT_KNOW}') THEN 3 ELSE 1 END"
)


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    # Alembic makes this table; `adkpg.database.migrating.migrations` says what the column means.
    op.execute(
        f'ALTER TABLE "{schema}".{REGISTER} ADD COLUMN IF NOT EXISTS works_with text COLLATE "C"'
    )
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
            "writers",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
            comment="By key: the group of users, of 256, that one who wrote it is in; null is the app.",
        ),
        sa.Column(
            "updated_at",
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
            "created_at",
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
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Place in the user's history: neighbouring turns of a session are consecutive, everything else is far apart (each session has a block of its own). Negative in the app-wide scope, so that a place names one memory in a search of both.",
        ),
        sa.Column(
            "timestamp",
            postgresql.TIMESTAMP(timezone=True),
            nullable=False,
            comment="When it was said.",
        ),
        sa.Column(
            "created_at",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("length", sa.Integer(), nullable=False, comment="Number of lexemes in the body."),
        sa.Column(
            "importance",
            sa.REAL(),
            server_default="0.5",
            nullable=False,
            comment="From 0 to 1; a factor of its score.",
        ),
        sa.Column(
            "speech",
            sa.SmallInteger(),
            sa.Computed(_SPEECH, persisted=True),
            nullable=False,
            comment="0: no turn; 1: a turn that tells; 2: one that ends in a question; 3: one that "
            "only says that it was noted, or that nothing is known.",
        ),
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column("memory_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "kind",
            sa.Text(),
            nullable=False,
            comment="turn (of an event), note (added directly), document, fact or summary.",
        ),
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
        sa.Column(
            "invocation_id",
            sa.Text(collation="C"),
            nullable=True,
            comment="The agent's run that it was said in; NULL if unknown.",
        ),
        sa.Column("author", sa.Text(), nullable=True),
        sa.Column(
            "content",
            postgresql.JSON(astext_type=sa.Text()),
            nullable=True,
            comment="google.genai types.Content as JSON text; NULL if it is one text, which author and "
            "body tell, and their role.",
        ),
        sa.Column(
            "body",
            sa.Text(),
            nullable=False,
            comment="'author: text', what is searched and embedded.",
        ),
        sa.Column(
            "custom_metadata",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="An object; NUL and lone surrogates escaped as U+001A and four hex.",
        ),
        sa.Column(
            "source",
            sa.Text(collation="C"),
            nullable=True,
            comment="The file a document came from; NULL for everything else.",
        ),
        sa.Column(
            "artifacts",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="Names and versions of the artifacts that its event saved.",
        ),
        sa.Column(
            "topics",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default="[]",
            nullable=False,
            comment="An array of texts.",
        ),
        sa.Column(
            "expires_at",
            postgresql.TIMESTAMP(timezone=True),
            nullable=True,
            comment="From when on it is not recalled, nor its words; NULL is never.",
        ),
        sa.Column(
            "superseded_by",
            sa.Text(collation="C"),
            nullable=True,
            comment="The memory_id of the fact that replaced this one.",
        ),
        sa.Column(
            "extracted_at",
            postgresql.TIMESTAMP(timezone=True),
            nullable=True,
            comment="When facts were last drawn from this turn, if any; NULL is not yet.",
        ),
        sa.Column(
            "digest",
            sa.Text(),
            nullable=False,
            comment="Hash of what was given; equal means unchanged.",
        ),
        sa.PrimaryKeyConstraint(
            "app_name",
            "user_id",
            "position",
            name="memories_pkey",
            postgresql_include=["length", "speech", "timestamp", "expires_at"],
        ),
        sa.UniqueConstraint("memory_id", "app_name", "user_id", name="memories_memory_id_key"),
        sa.UniqueConstraint(
            "session_id", "app_name", "user_id", "event_id", name="memories_event_id_key"
        ),
        schema=schema,
        comment="What is remembered of a user, one row per turn, note, fact or piece of a document.",
    )
    op.create_index(
        "memories_expires_at_idx",
        "memories",
        ["expires_at", "app_name", "user_id", "position"],
        unique=False,
        schema=schema,
        postgresql_where=sa.text("expires_at IS NOT NULL AND superseded_by IS NULL"),
    )
    op.create_index(
        "memories_ended_idx",
        "memories",
        ["user_id", "app_name", "expires_at"],
        unique=False,
        schema=schema,
        postgresql_include=["position"],
        postgresql_where=sa.text("expires_at IS NOT NULL"),
    )
    op.create_index(
        "memories_source_idx",
        "memories",
        ["source", "app_name", "user_id"],
        unique=False,
        schema=schema,
        postgresql_where=sa.text("source IS NOT NULL"),
    )
    op.create_index(
        "memories_invocation_idx",
        "memories",
        ["invocation_id", "app_name", "user_id"],
        unique=False,
        schema=schema,
        postgresql_where=sa.text("invocation_id IS NOT NULL"),
    )
    op.create_index(
        "memories_kind_idx",
        "memories",
        ["kind", "app_name", "user_id"],
        unique=False,
        schema=schema,
        postgresql_where=sa.text("kind IN ('fact', 'summary')"),
    )
    op.create_table(
        "audit",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "user_id",
            sa.Text(collation="C"),
            nullable=False,
            comment="Whom it was about; of a person who was forgotten, the reserved id of the app.",
        ),
        sa.Column("audit_id", sa.UUID(as_uuid=False), nullable=False),
        sa.Column(
            "changed_at",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column(
            "actor", sa.Text(), nullable=False, comment="Who did it, as the console knows them."
        ),
        sa.Column(
            "action", sa.Text(), nullable=False, comment="What was done, such as delete_memory."
        ),
        sa.Column(
            "subject",
            sa.Text(),
            nullable=True,
            comment="Which memory or session; NULL if it is all.",
        ),
        sa.Column(
            "outcome",
            sa.Text(),
            nullable=False,
            comment="begun, done, or the error that ended it.",
        ),
        sa.PrimaryKeyConstraint("app_name", "user_id", "audit_id", name="audit_pkey"),
        schema=schema,
        comment="What people changed by hand, who and when; a person's goes when they are forgotten.",
    )
    op.create_index("audit_changed_at_idx", "audit", ["changed_at"], unique=False, schema=schema)
    op.create_table(
        "saved_questions",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column("question_id", sa.UUID(as_uuid=False), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column(
            "evidence",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="An array of the ids of the memories that answer it; an empty one: nothing does.",
        ),
        sa.Column(
            "created_at",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("app_name", "user_id", "question_id", name="saved_questions_pkey"),
        schema=schema,
        comment="Questions of a team about a person's memories, by which recall is measured.",
    )
    op.create_table(
        "memory_tombstones",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column("session_id", sa.Text(collation="C"), nullable=False),
        sa.Column("event_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "needed_at",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it was last known to be needed: its memory or session was deleted, its event was given to memory again, or found to be stored still.",
        ),
        sa.PrimaryKeyConstraint(
            "app_name", "user_id", "session_id", "event_id", name="memory_tombstones_pkey"
        ),
        schema=schema,
        comment="Deleted memories of events, so that re-adding their session does not bring them back.",
    )
    op.create_index(
        "memory_tombstones_needed_at_idx",
        "memory_tombstones",
        ["needed_at"],
        unique=False,
        schema=schema,
    )
    op.create_table(
        "sessions",
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
            "revision_token",
            sa.UUID(as_uuid=False),
            nullable=True,
            comment="The last event's, if an append of this session made it; NULL: ask the event.",
        ),
        sa.Column(
            "payload_bytes",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="Bytes of the payloads ever appended; a small session is read without measuring.",
        ),
        sa.Column(
            "created_at",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Timestamp of the last event. In no index, so that appends stay HOT.",
        ),
        sa.Column(
            "settled_at",
            postgresql.TIMESTAMP(timezone=True),
            nullable=True,
            comment="The same of a settled session, for an index; NULL while it is active.",
        ),
        sa.Column(
            "expires_at",
            postgresql.TIMESTAMP(timezone=True),
            nullable=True,
            comment="From when on nobody sees it; NULL is never. In no index: appends renew it.",
        ),
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column("session_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "state",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default="{}",
            nullable=False,
            comment="Session-scoped state; NUL and lone surrogates escaped as U+001A and four hex.",
        ),
        sa.Column(
            "memory_position",
            sa.BigInteger(),
            nullable=True,
            comment="Where the session's next memory goes; NULL before its first.",
        ),
        sa.Column(
            "invocation_holder",
            sa.UUID(as_uuid=False),
            nullable=True,
            comment="Token of the queued invocation that runs or ran last; its appends compare it.",
        ),
        sa.Column(
            "invocation_expires_at",
            postgresql.TIMESTAMP(timezone=True),
            nullable=True,
            comment="When another may take its place; NULL if none runs. In no index.",
        ),
        sa.Column(
            "invocation_lease_s",
            sa.REAL(),
            nullable=True,
            comment="How long its lease is, in seconds, whatever the clock says since.",
        ),
        sa.Column(
            "initial_state",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="Its own state before the first event, written as state is; NULL is none.",
        ),
        sa.Column(
            "watched_until",
            postgresql.TIMESTAMP(timezone=True),
            nullable=True,
            comment="Until when appends tell the listeners; NULL is nobody. In no index.",
        ),
        sa.Column(
            "ttl",
            postgresql.INTERVAL(),
            nullable=True,
            comment="How long it lives after each append; NULL if none renews it.",
        ),
        sa.Column(
            "expires",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Whether it ever ends by itself; never changes, so appends stay HOT.",
        ),
        sa.PrimaryKeyConstraint("app_name", "user_id", "session_id", name="sessions_pkey"),
        sa.CheckConstraint("settled_at = updated_at", name="sessions_settled_at_check"),
        schema=schema,
        comment="One row per ADK session.",
    )
    op.create_index(
        "sessions_created_at_idx",
        "sessions",
        ["app_name", "created_at", "user_id", "session_id"],
        unique=False,
        schema=schema,
    )
    op.create_index(
        "sessions_active_idx",
        "sessions",
        ["app_name", "user_id"],
        unique=False,
        schema=schema,
        postgresql_where=sa.text("settled_at IS NULL"),
    )
    op.create_index(
        "sessions_settled_at_idx",
        "sessions",
        ["app_name", "user_id", "settled_at", "session_id"],
        unique=False,
        schema=schema,
        postgresql_where=sa.text("settled_at IS NOT NULL"),
    )
    op.create_index(
        "sessions_expires_idx",
        "sessions",
        ["app_name", "user_id", "session_id"],
        unique=False,
        schema=schema,
        postgresql_where=sa.text("expires"),
    )
    op.create_table(
        "tasks",
        sa.Column(
            "revision",
            sa.BigInteger(),
            server_default="1",
            nullable=False,
            comment="Number of times it was saved; A2A's version of the task.",
        ),
        sa.Column(
            "revision_token",
            sa.UUID(as_uuid=False),
            server_default=sa.text("gen_random_uuid()"),
            nullable=False,
            comment="The revision's own: a save that is repeated is known by it.",
        ),
        sa.Column(
            "payload_revision",
            sa.BigInteger(),
            server_default="1",
            nullable=False,
            comment="The revision that the payload is of; later ones are in task_events.",
        ),
        sa.Column(
            "created_at",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column(
            "status_at",
            postgresql.TIMESTAMP(timezone=True),
            nullable=True,
            comment="The timestamp of its status, by which tasks are listed; NULL if it has none.",
        ),
        sa.Column(
            "ends_at",
            postgresql.TIMESTAMP(timezone=True),
            nullable=True,
            comment="When it ended, or will be taken for ended unless its process renews this; NULL "
            "while it waits for input.",
        ),
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column("task_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "session_id",
            sa.Text(collation="C"),
            nullable=False,
            comment="The task's context. No foreign key: a task comes before its session.",
        ),
        sa.Column(
            "state",
            sa.Text(collation="C"),
            nullable=False,
            comment="The name of a TaskState of A2A.",
        ),
        sa.Column(
            "payload",
            postgresql.JSON(astext_type=sa.Text()),
            nullable=False,
            comment="The a2a Task as ProtoJSON.",
        ),
        sa.PrimaryKeyConstraint("app_name", "user_id", "task_id", name="tasks_pkey"),
        schema=schema,
        comment="Tasks of A2A: what other agents asked of an app, and what it answered.",
    )
    op.create_index(
        "tasks_session_idx",
        "tasks",
        ["session_id", "app_name", "user_id"],
        unique=False,
        schema=schema,
    )
    op.create_index(
        "tasks_ends_at_idx",
        "tasks",
        ["ends_at"],
        unique=False,
        schema=schema,
        postgresql_where=sa.text("ends_at IS NOT NULL"),
    )
    op.create_index(
        "tasks_anonymous_idx",
        "tasks",
        ["task_id", "app_name"],
        unique=False,
        schema=schema,
        postgresql_where=sa.text("user_id = 'A2A_USER_' || session_id"),
    )
    op.create_table(
        "task_events",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column("task_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "revision",
            sa.BigInteger(),
            nullable=False,
            comment="The task's, which the event made.",
        ),
        sa.Column(
            "session_id",
            sa.Text(collation="C"),
            nullable=False,
            comment="As of the task.",
        ),
        sa.Column(
            "payload",
            postgresql.JSON(astext_type=sa.Text()),
            nullable=False,
            comment="The event as ProtoJSON of an a2a StreamResponse: a status, or a part of a result.",
        ),
        sa.PrimaryKeyConstraint(
            "app_name", "user_id", "task_id", "revision", name="task_events_pkey"
        ),
        schema=schema,
        comment="What changed a task since its payload was written.",
    )
    op.create_table(
        "artifacts",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "session_id",
            sa.Text(collation="C"),
            nullable=False,
            comment="The session that the file belongs to; '' if it is the user's.",
        ),
        sa.Column(
            "name",
            sa.Text(collation="C"),
            nullable=False,
            comment="The file's name; a user's begins with 'user:'.",
        ),
        sa.Column(
            "version",
            sa.Integer(),
            nullable=False,
            comment="From 0 on, in the order of saving.",
        ),
        sa.Column(
            "artifact_id",
            sa.UUID(as_uuid=False),
            nullable=False,
            comment="This version's own, made by who saved it: a save that is repeated is known by it.",
        ),
        sa.Column(
            "part",
            postgresql.JSON(astext_type=sa.Text()),
            nullable=False,
            comment="google.genai types.Part as JSON text, without its bytes or its text.",
        ),
        sa.Column("mime_type", sa.Text(), nullable=True),
        sa.Column(
            "custom_metadata",
            postgresql.JSON(astext_type=sa.Text()),
            nullable=False,
            comment="An object, given with the file.",
        ),
        sa.Column(
            "size",
            sa.BigInteger(),
            nullable=False,
            comment="Bytes of the file, or of its text as UTF-8.",
        ),
        sa.Column(
            "location",
            sa.Text(),
            nullable=True,
            comment="Where in the object store its bytes are; NULL if they are in artifact_chunks.",
        ),
        sa.Column(
            "created_at",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "location IS NULL OR location ~ '^[0-9]{8}/[0-9a-f]{64}$' AND right(location, 64) ="
            " encode(sha256(convert_to(length(app_name)::text || ':' || app_name || user_id"
            " || artifact_id::text, 'UTF8')), 'hex')",
            name="artifacts_location_check",
        ),
        sa.PrimaryKeyConstraint(
            "app_name", "user_id", "session_id", "name", "version", name="artifacts_pkey"
        ),
        sa.UniqueConstraint("artifact_id", "app_name", "user_id", name="artifacts_artifact_id_key"),
        schema=schema,
        comment="The versions of files that agents save. No foreign key: any session may have files; a stored session's go with it, by a trigger.",
    )
    op.create_index(
        "artifacts_location_key",
        "artifacts",
        ["location", "app_name", "user_id"],
        unique=True,
        schema=schema,
        postgresql_where=sa.text("location IS NOT NULL"),
    )
    op.create_table(
        "artifact_uploads",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "session_id",
            sa.Text(collation="C"),
            nullable=False,
            comment="As of the artifact that it becomes.",
        ),
        sa.Column("artifact_id", sa.UUID(as_uuid=False), nullable=False),
        sa.Column(
            "location",
            sa.Text(),
            nullable=True,
            comment="Where its object is to be, if it gets one.",
        ),
        sa.Column(
            "began_at",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("app_name", "user_id", "artifact_id", name="artifact_uploads_pkey"),
        schema=schema,
        comment="Files that are being uploaded. One whose person or session is erased is not saved.",
    )
    op.create_table(
        "artifact_removals",
        sa.Column(
            "location",
            sa.Text(collation="C"),
            nullable=False,
            comment="Where in the object store bytes of a deleted artifact are; a random name.",
        ),
        sa.Column(
            "removed_at",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("location", name="artifact_removals_pkey"),
        schema=schema,
        comment="Objects whose artifacts were deleted, until they are removed; a trigger notes them.",
    )
    op.create_table(
        "artifact_claims",
        sa.Column(
            "token",
            sa.UUID(as_uuid=False),
            nullable=False,
            comment="Written into the folder of the object store; a copy of this database lacks it.",
        ),
        sa.Column(
            "claimed_at",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column(
            "installation",
            sa.Text(),
            nullable=False,
            comment="The server's system identifier and the database's oid when it was claimed: a copy has others.",
        ),
        sa.PrimaryKeyConstraint("token", name="artifact_claims_pkey"),
        schema=schema,
        comment="By which this database knows that the folder of the object store is its own.",
    )
    op.create_table(
        "artifact_chunks",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column("artifact_id", sa.UUID(as_uuid=False), nullable=False),
        sa.Column(
            "chunk",
            sa.Integer(),
            nullable=False,
            comment="From 0 on, in the order of the bytes.",
        ),
        sa.Column(
            "data",
            postgresql.BYTEA(),
            nullable=False,
            comment="262,144 bytes, the last one fewer.",
        ),
        sa.ForeignKeyConstraint(
            ["artifact_id", "app_name", "user_id"],
            [
                f"{schema}.artifacts.artifact_id",
                f"{schema}.artifacts.app_name",
                f"{schema}.artifacts.user_id",
            ],
            name="artifact_chunks_artifact_fkey",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "app_name", "user_id", "artifact_id", "chunk", name="artifact_chunks_pkey"
        ),
        schema=schema,
        comment="The bytes of files.",
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
            "updated_at",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("app_name", "user_id", name="user_states_pkey"),
        schema=schema,
        comment="State shared by all sessions of a user; outlives them.",
    )
    op.create_table(
        "app_settings",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "model_id",
            sa.SmallInteger(),
            nullable=True,
            comment="The active embedding model: the one whose vectors searches compare.",
        ),
        sa.Column(
            "text_search_config",
            sa.Text(),
            nullable=True,
            comment="Text search configuration of all the app's words; NULL chooses by script.",
        ),
        sa.Column(
            "extract_facts",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Whether new turns wait for a worker that draws facts from them.",
        ),
        sa.Column(
            "updated_at",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["model_id"], [f"{schema}.embedding_models.model_id"], name="app_settings_model_fkey"
        ),
        sa.PrimaryKeyConstraint("app_name", name="app_settings_pkey"),
        schema=schema,
        comment="What holds for the memory of a whole app, in every process that serves it.",
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
        sa.Column(
            "revision_token",
            sa.UUID(as_uuid=False),
            server_default=sa.text("gen_random_uuid()"),
            nullable=False,
            comment="The revision's own: its number may come again after a failover, this does not.",
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
        "invocation_waiters",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column("session_id", sa.Text(collation="C"), nullable=False),
        sa.Column("holder", sa.UUID(as_uuid=False), nullable=False, comment="Token of who waits."),
        sa.Column(
            "since",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Who comes first.",
        ),
        sa.Column(
            "seen_at",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it last asked; who stopped asking is passed over.",
        ),
        sa.ForeignKeyConstraint(
            ["app_name", "user_id", "session_id"],
            [
                f"{schema}.sessions.app_name",
                f"{schema}.sessions.user_id",
                f"{schema}.sessions.session_id",
            ],
            name="invocation_waiters_session_fkey",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "app_name", "user_id", "session_id", "holder", name="invocation_waiters_pkey"
        ),
        schema=schema,
        comment="Invocations that wait for their turn in a session.",
    )
    op.create_table(
        "invocation_results",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column("session_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "idempotency_key",
            sa.Text(collation="C"),
            nullable=False,
            comment="The caller's own; a request that is retried has the same.",
        ),
        sa.Column(
            "holder", sa.UUID(as_uuid=False), nullable=False, comment="Token of who left it."
        ),
        sa.Column(
            "result",
            postgresql.JSON(astext_type=sa.Text()),
            nullable=False,
            comment="What the invocation left, as JSON text.",
        ),
        sa.Column(
            "expires_at",
            postgresql.TIMESTAMP(timezone=True),
            nullable=False,
            comment="When the key may run once more.",
        ),
        sa.ForeignKeyConstraint(
            ["app_name", "user_id", "session_id"],
            [
                f"{schema}.sessions.app_name",
                f"{schema}.sessions.user_id",
                f"{schema}.sessions.session_id",
            ],
            name="invocation_results_session_fkey",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "app_name", "user_id", "session_id", "idempotency_key", name="invocation_results_pkey"
        ),
        schema=schema,
        comment="Invocations with an idempotency key that have finished.",
    )
    op.create_index(
        "invocation_results_expires_at_idx",
        "invocation_results",
        ["expires_at"],
        unique=False,
        schema=schema,
    )
    op.create_table(
        "memory_jobs",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("work", sa.Text(), nullable=False, comment="embed, or extract (facts)."),
        sa.Column(
            "created_at",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column(
            "due_at",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="From when on it is to be tried (again).",
        ),
        sa.Column(
            "lease_expires_at",
            postgresql.TIMESTAMP(timezone=True),
            nullable=True,
            comment="Until when a worker has claimed it; one that is gone claims nothing for good.",
        ),
        sa.Column(
            "claim",
            sa.UUID(as_uuid=False),
            nullable=True,
            comment="The last claim: one that is asked for again, as its answer was lost, is the same.",
        ),
        sa.Column(
            "attempts",
            sa.SmallInteger(),
            server_default="0",
            nullable=False,
            comment="How often it was claimed.",
        ),
        sa.Column("error", sa.Text(), nullable=True, comment="Why the last attempt failed."),
        sa.Column(
            "dead",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Given up: waits for somebody to fix the cause and revive it.",
        ),
        sa.ForeignKeyConstraint(
            ["app_name", "user_id", "position"],
            [
                f"{schema}.memories.app_name",
                f"{schema}.memories.user_id",
                f"{schema}.memories.position",
            ],
            name="memory_jobs_memory_fkey",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("app_name", "user_id", "position", "work", name="memory_jobs_pkey"),
        schema=schema,
        comment="What is still to be done with memories: they are committed and found by their words.",
    )
    op.create_index(
        "memory_jobs_work_idx",
        "memory_jobs",
        ["work", "app_name", "user_id", "position"],
        unique=False,
        schema=schema,
        postgresql_where=sa.text("NOT dead"),
    )
    op.create_table(
        "memory_lexemes",
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column(
            "frequency",
            sa.SmallInteger(),
            nullable=False,
            comment="Occurrences in the memory's own body; counts for its neighbours too, by weight.",
        ),
        sa.Column(
            "memory_length",
            sa.Integer(),
            nullable=False,
            comment="The memory's length: a long one lends its neighbours less of each word.",
        ),
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column("lexeme", sa.Text(collation="C"), nullable=False),
        sa.PrimaryKeyConstraint(
            "app_name",
            "user_id",
            "lexeme",
            "position",
            name="memory_lexemes_pkey",
            postgresql_include=["frequency", "memory_length"],
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
        "memory_provenance",
        sa.Column("app_name", sa.Text(collation="C"), nullable=False),
        sa.Column("user_id", sa.Text(collation="C"), nullable=False),
        sa.Column(
            "memory_id", sa.Text(collation="C"), nullable=False, comment="A fact or summary."
        ),
        sa.Column(
            "origin_id",
            sa.Text(collation="C"),
            nullable=False,
            comment="A memory that it was drawn from.",
        ),
        sa.ForeignKeyConstraint(
            ["memory_id", "app_name", "user_id"],
            [
                f"{schema}.memories.memory_id",
                f"{schema}.memories.app_name",
                f"{schema}.memories.user_id",
            ],
            name="memory_provenance_memory_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["origin_id", "app_name", "user_id"],
            [
                f"{schema}.memories.memory_id",
                f"{schema}.memories.app_name",
                f"{schema}.memories.user_id",
            ],
            name="memory_provenance_origin_fkey",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "app_name", "user_id", "memory_id", "origin_id", name="memory_provenance_pkey"
        ),
        schema=schema,
        comment="What facts and summaries were drawn from; they go when one of these goes.",
    )
    op.create_index(
        "memory_provenance_origin_idx",
        "memory_provenance",
        ["origin_id", "app_name", "user_id"],
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
            "passage",
            sa.SmallInteger(),
            server_default="0",
            nullable=False,
            comment="Number of the passage, from 0; a memory that is embedded whole has that one only.",
        ),
        sa.Column(
            "span",
            postgresql.INT4RANGE(),
            nullable=True,
            comment="Which characters of the memory's text the passage has; NULL is all.",
        ),
        sa.Column(
            "embedding",
            HALFVEC(),
            nullable=True,
            comment="The vector, up to 1,024 dimensions; memory_vectors_model_idx covers it.",
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
            "position",
            "passage",
            "model_id",
            name="memory_vectors_pkey",
        ),
        schema=schema,
        comment="One vector per memory and model; of a long memory one per passage.",
    )
    op.create_index(
        "memory_vectors_model_idx",
        "memory_vectors",
        ["model_id", "app_name", "user_id", "approximate"],
        schema=schema,
        postgresql_include=["position", "passage", "span", "embedding", "bits"],
    )

    # A memory's words go with it, as by a foreign key, whose check of each word written is dear.
    op.execute(
        f"""
        CREATE FUNCTION "{schema}".delete_memory_lexemes() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            EXECUTE format(
                'DELETE FROM %I.memory_lexemes'
                ' WHERE position = $1 AND app_name = $2 AND user_id = $3', TG_TABLE_SCHEMA
            ) USING OLD.position, OLD.app_name, OLD.user_id;
            RETURN NULL;
        END
        $$
        """  # noqa: S608 - a schema is no parameter
    )
    op.execute(
        f'CREATE TRIGGER memories_delete_lexemes AFTER DELETE ON "{schema}".memories '
        f'FOR EACH ROW EXECUTE FUNCTION "{schema}".delete_memory_lexemes()'
    )
    # No foreign key, since a session that is stored elsewhere has files and tasks here, too. A trigger
    # sees what was saved while the deletion waited for it, which the deleting statement would not.
    op.execute(
        f"""
        CREATE FUNCTION "{schema}".delete_session_rows() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE
            place text;
        BEGIN
            IF TG_TABLE_NAME = 'sessions' THEN  -- as for a file; a part cannot write to all nodes
                EXECUTE format(
                    'INSERT INTO %1$I.artifact_removals (location)'
                    ' SELECT location FROM %1$I.artifact_uploads WHERE location IS NOT NULL'
                    ' AND app_name = $1 AND user_id = $2 AND session_id = $3'
                    ' ON CONFLICT DO NOTHING', TG_TABLE_SCHEMA
                ) USING OLD.app_name, OLD.user_id, OLD.session_id;
            END IF;
            FOREACH place IN ARRAY ARRAY['artifacts', 'artifact_uploads', 'tasks'] LOOP
                EXECUTE format(
                    'DELETE FROM %I.%I WHERE app_name = $1 AND user_id = $2 AND session_id = $3',
                    TG_TABLE_SCHEMA, place
                ) USING OLD.app_name, OLD.user_id, OLD.session_id;
            END LOOP;
            RETURN NULL;
        END
        $$
        """  # noqa: S608 - a schema is no parameter
    )
    op.execute(
        f'CREATE TRIGGER sessions_delete_rows AFTER DELETE ON "{schema}".sessions '
        f'FOR EACH ROW EXECUTE FUNCTION "{schema}".delete_session_rows()'
    )
    op.execute(
        f"""
        CREATE FUNCTION "{schema}".delete_task_events() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            EXECUTE format(
                'DELETE FROM %I.task_events WHERE app_name = $1 AND user_id = $2 AND task_id = $3',
                TG_TABLE_SCHEMA
            ) USING OLD.app_name, OLD.user_id, OLD.task_id;
            RETURN NULL;
        END
        $$
        """  # noqa: S608 - a schema is no parameter
    )
    op.execute(
        f'CREATE TRIGGER tasks_delete_events AFTER DELETE ON "{schema}".tasks '
        f'FOR EACH ROW EXECUTE FUNCTION "{schema}".delete_task_events()'
    )
    op.execute(
        f"""
        CREATE FUNCTION "{schema}".note_artifact_removal() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            EXECUTE format(
                'INSERT INTO %I.artifact_removals (location) VALUES ($1) ON CONFLICT DO NOTHING',
                TG_TABLE_SCHEMA
            ) USING OLD.location;
            RETURN NULL;
        END
        $$
        """  # noqa: S608 - a schema is no parameter
    )
    op.execute(
        f'CREATE TRIGGER artifacts_note_removal AFTER DELETE ON "{schema}".artifacts FOR EACH ROW '
        f'WHEN (OLD.location IS NOT NULL) EXECUTE FUNCTION "{schema}".note_artifact_removal()'
    )
    for name in FUNCTIONS:
        op.execute(migrations.function(name, schema))
    # Most files are compressed already.
    op.execute(f'ALTER TABLE "{schema}".artifact_chunks ALTER data SET STORAGE EXTERNAL')
    # Room on the page for the next version of a row that every append rewrites (HOT).
    for table in ("sessions", "app_states", "user_states", "memory_jobs", "tasks"):
        op.execute(f'ALTER TABLE "{schema}".{table} SET (fillfactor = 80)')
    # Index-only scans need the visibility map soon after an ingest.
    for table in ("memories", "memory_lexemes", "memory_vectors"):
        op.execute(
            f'ALTER TABLE "{schema}".{table} SET (autovacuum_vacuum_insert_scale_factor = 0.02)'
        )
        # A plan made for any user must suit a small one next to a large one: by the covering index
        # for all that they have, and by the key for one row. So each has fifty rows, or very few.
        # With it Postgres also keeps the plan, and making it takes longer than a small search.
        distinct = 100_000 if table == "memory_lexemes" else -0.02
        op.execute(f'ALTER TABLE "{schema}".{table} ALTER user_id SET (n_distinct = {distinct})')
    # In line, so that the covering index can hold them; the long ones out of line, uncompressed.
    op.execute(
        f'ALTER TABLE "{schema}".memory_vectors ALTER embedding SET STORAGE PLAIN, '
        "ALTER bits SET STORAGE PLAIN, ALTER large SET STORAGE EXTERNAL"
    )


def downgrade() -> None:
    schema = op.get_context().version_table_schema
    for name in FUNCTIONS:
        # With the triggers that `adkpg db distribute` makes.
        op.execute(f'DROP FUNCTION "{schema}".{name} CASCADE')
    op.drop_index("memory_vectors_model_idx", table_name="memory_vectors", schema=schema)
    op.drop_table("memory_vectors", schema=schema)
    op.drop_index("memory_provenance_origin_idx", table_name="memory_provenance", schema=schema)
    op.drop_table("memory_provenance", schema=schema)
    op.drop_index("memory_lexemes_position_idx", table_name="memory_lexemes", schema=schema)
    op.drop_table("memory_lexemes", schema=schema)
    op.drop_index(
        "memory_jobs_work_idx",
        table_name="memory_jobs",
        schema=schema,
        postgresql_where=sa.text("NOT dead"),
    )
    op.drop_table("memory_jobs", schema=schema)
    op.drop_index(
        "invocation_results_expires_at_idx", table_name="invocation_results", schema=schema
    )
    op.drop_table("invocation_results", schema=schema)
    op.drop_table("invocation_waiters", schema=schema)
    op.drop_table("events", schema=schema)
    op.drop_table("approximate_scopes", schema=schema)
    op.drop_table("app_settings", schema=schema)
    op.drop_table("user_states", schema=schema)
    op.drop_table("task_events", schema=schema)
    op.drop_index(
        "tasks_anonymous_idx",
        table_name="tasks",
        schema=schema,
        postgresql_where=sa.text("user_id = 'A2A_USER_' || session_id"),
    )
    op.drop_index(
        "tasks_ends_at_idx",
        table_name="tasks",
        schema=schema,
        postgresql_where=sa.text("ends_at IS NOT NULL"),
    )
    op.drop_index("tasks_session_idx", table_name="tasks", schema=schema)
    op.drop_table("tasks", schema=schema)
    op.execute(f'DROP FUNCTION "{schema}".delete_task_events()')
    op.drop_table("artifact_chunks", schema=schema)
    op.drop_index(
        "artifacts_location_key",
        table_name="artifacts",
        schema=schema,
        postgresql_where=sa.text("location IS NOT NULL"),
    )
    op.drop_table("artifact_uploads", schema=schema)
    op.drop_table("artifacts", schema=schema)
    op.execute(f'DROP FUNCTION "{schema}".note_artifact_removal()')
    op.drop_table("artifact_claims", schema=schema)
    op.drop_table("artifact_removals", schema=schema)
    op.drop_index(
        "sessions_expires_idx",
        table_name="sessions",
        schema=schema,
        postgresql_where=sa.text("expires"),
    )
    op.drop_index("sessions_created_at_idx", table_name="sessions", schema=schema)
    op.drop_table("sessions", schema=schema)
    op.execute(f'DROP FUNCTION "{schema}".delete_session_rows()')
    op.drop_table("memory_tombstones", schema=schema)
    op.drop_table("saved_questions", schema=schema)
    op.drop_index("audit_changed_at_idx", table_name="audit", schema=schema)
    op.drop_table("audit", schema=schema)
    op.drop_index(
        "memories_invocation_idx",
        table_name="memories",
        schema=schema,
        postgresql_where=sa.text("invocation_id IS NOT NULL"),
    )
    op.drop_index(
        "memories_kind_idx",
        table_name="memories",
        schema=schema,
        postgresql_where=sa.text("kind IN ('fact', 'summary')"),
    )
    op.drop_index(
        "memories_source_idx",
        table_name="memories",
        schema=schema,
        postgresql_where=sa.text("source IS NOT NULL"),
    )
    op.drop_index(
        "memories_ended_idx",
        table_name="memories",
        schema=schema,
        postgresql_include=["position"],
        postgresql_where=sa.text("expires_at IS NOT NULL"),
    )
    op.drop_index(
        "memories_expires_at_idx",
        table_name="memories",
        schema=schema,
        postgresql_where=sa.text("expires_at IS NOT NULL AND superseded_by IS NULL"),
    )
    op.drop_table("memories", schema=schema)
    op.execute(f'DROP FUNCTION "{schema}".delete_memory_lexemes()')
    op.drop_table("embedding_models", schema=schema)
    op.drop_table("app_states", schema=schema)
