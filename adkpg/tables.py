"""The tables: the single truth that statements are built from and that Alembic compares against.

Keys are natural. Every table that holds a person's data has a primary key that begins with
``app_name, user_id``, and so has every unique and foreign key. So isolation is visible in each
statement, erasing a person is one predicate, and the tables can be distributed by ``user_id``. Text
keys are ``COLLATE "C"``: compared by bytes, the same on every machine.

The schema is named ``adkpg`` here; `Database` translates it to the configured name. Storage
parameters (fillfactor, autovacuum, in-line vectors) are set by the migrations alone: SQLAlchemy 2.0
knows none for tables.

The functions are the writes that a person waits for, each one call. Their texts lie next to
the migrations (``alembic/functions``), a file for each, and are never edited once they were
released: the next version has a name of its own, and stands next to this one until no client calls
it.
"""

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    false,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import (
    BIT,
    BYTEA,
    INT4RANGE,
    INTERVAL,
    JSON,
    JSONB,
    REAL,
    TIMESTAMP,
    UUID,
)

SCHEMA = "adkpg"
"""The name that stands for the configured Postgres schema in every statement."""

INLINE_DIMENSIONS = 1_024
"""Longest vector kept whole in the covering index.

A B-tree entry holds 2,704 bytes, so app and user have 600 left.
"""

MAX_DIMENSIONS = 4_000
"""Longest vector stored: pgvector's HNSW limit for ``halfvec`` (pgvector README, HNSW)."""

EVENT_ID_KEY = "events_event_id_key"
"""Unique constraint for redelivery: one event id is stored once in a session."""

MEMORY_EVENT_KEY = "memories_event_id_key"
"""Unique constraint for repeated ingests: one event is remembered once."""

metadata = MetaData(schema=SCHEMA)

_TIME = TIMESTAMP(timezone=True)
_NOW = func.now()


def _key(name: str, comment: str | None = None, *, nullable: bool = False) -> Column[str]:
    return Column(name, Text(collation="C"), nullable=nullable, comment=comment)


sessions = Table(
    "sessions",
    metadata,
    # Of fixed length first, so that a listing finds the times without reading the texts.
    Column(
        "incarnation",
        UUID(as_uuid=False),
        nullable=False,
        server_default=text("gen_random_uuid()"),
        comment="Tells this session from one deleted and created again under the same id.",
    ),
    Column(
        "revision",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="Number of events ever appended; the seq of the last one.",
    ),
    Column(
        "revision_token",
        UUID(as_uuid=False),
        nullable=True,
        comment="The last event's, if an append of this session made it; NULL: ask the event.",
    ),
    Column(
        "payload_bytes",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="Bytes of the payloads ever appended; a small session is read without measuring.",
    ),
    Column("created_at", _TIME, nullable=False, server_default=_NOW),
    Column(
        "updated_at",
        _TIME,
        nullable=False,
        server_default=_NOW,
        comment="Timestamp of the last event. In no index, so that appends stay HOT.",
    ),
    Column(
        "settled_at",
        _TIME,
        nullable=True,
        comment="The same of a settled session, for an index; NULL while it is active.",
    ),
    Column(
        "expires_at",
        _TIME,
        nullable=True,
        comment="From when on nobody sees it; NULL is never. In no index: appends renew it.",
    ),
    _key("app_name"),
    _key("user_id"),
    _key("session_id"),
    Column(
        "state",
        JSONB,
        nullable=False,
        server_default="{}",
        comment="Session-scoped state; NUL and lone surrogates escaped as U+001A and four hex.",
    ),
    Column(
        "memory_position",
        BigInteger,
        nullable=True,
        comment="Where the session's next memory goes; NULL before its first.",
    ),
    Column(
        "invocation_holder",
        UUID(as_uuid=False),
        nullable=True,
        comment="Token of the queued invocation that runs or ran last; its appends compare it.",
    ),
    Column(
        "invocation_expires_at",
        _TIME,
        nullable=True,
        comment="When another may take its place; NULL if none runs. In no index.",
    ),
    Column(
        "invocation_lease_s",
        REAL,
        nullable=True,
        comment="How long its lease is, in seconds, whatever the clock says since.",
    ),
    Column(
        "initial_state",
        JSONB,
        nullable=True,
        comment="Its own state before the first event, written as state is; NULL is none.",
    ),
    Column(
        "watched_until",
        _TIME,
        nullable=True,
        comment="Until when appends tell the listeners; NULL is nobody. In no index.",
    ),
    Column(
        "ttl",
        INTERVAL,
        nullable=True,
        comment="How long it lives after each append; NULL if none renews it.",
    ),
    Column(
        "expires",
        Boolean,
        nullable=False,
        server_default=false(),
        comment="Whether it ever ends by itself; never changes, so appends stay HOT.",
    ),
    PrimaryKeyConstraint("app_name", "user_id", "session_id", name="sessions_pkey"),
    CheckConstraint("settled_at = updated_at", name="sessions_settled_at_check"),
    Index("sessions_created_at_idx", "app_name", "created_at", "user_id", "session_id"),
    # A user's sessions by their last update: the few active ones are sorted, the others in order.
    Index(
        "sessions_active_idx", "app_name", "user_id", postgresql_where=text("settled_at IS NULL")
    ),
    Index(
        "sessions_settled_at_idx",
        "app_name",
        "user_id",
        "settled_at",
        "session_id",
        postgresql_where=text("settled_at IS NOT NULL"),
    ),
    # What ends by itself, in the order of the key: the sweep looks at each of them.
    Index(
        "sessions_expires_idx",
        "app_name",
        "user_id",
        "session_id",
        postgresql_where=text("expires"),
    ),
    comment="One row per ADK session.",
)


def _session_fkey(name: str) -> ForeignKeyConstraint:
    return ForeignKeyConstraint(
        ["app_name", "user_id", "session_id"],
        [sessions.c.app_name, sessions.c.user_id, sessions.c.session_id],
        name=name,
        ondelete="CASCADE",
    )


events = Table(
    "events",
    metadata,
    _key("app_name"),
    _key("user_id"),
    _key("session_id"),
    Column(
        "seq",
        BigInteger,
        nullable=False,
        comment="Append order within the session, from 1; the revision this event made.",
    ),
    Column(
        "revision_token",
        UUID(as_uuid=False),
        nullable=False,
        server_default=text("gen_random_uuid()"),
        comment="The revision's own: its number may come again after a failover, this does not.",
    ),
    _key("event_id"),
    Column(
        "timestamp",
        _TIME,
        nullable=False,
        comment="The event's own timestamp, clamped to the calendar; exact in the payload.",
    ),
    Column(
        "payload",
        JSON,
        nullable=False,
        comment="The whole ADK event as JSON text, as it was written (NUL escapes included).",
    ),
    PrimaryKeyConstraint("app_name", "user_id", "session_id", "seq", name="events_pkey"),
    UniqueConstraint("app_name", "user_id", "session_id", "event_id", name=EVENT_ID_KEY),
    _session_fkey("events_session_fkey"),
    comment="The events of a session, immutable once appended.",
)


invocation_waiters = Table(
    "invocation_waiters",
    metadata,
    _key("app_name"),
    _key("user_id"),
    _key("session_id"),
    Column("holder", UUID(as_uuid=False), nullable=False, comment="Token of who waits."),
    Column("since", _TIME, nullable=False, server_default=_NOW, comment="Who comes first."),
    Column(
        "seen_at",
        _TIME,
        nullable=False,
        server_default=_NOW,
        comment="When it last asked; who stopped asking is passed over.",
    ),
    PrimaryKeyConstraint(
        "app_name", "user_id", "session_id", "holder", name="invocation_waiters_pkey"
    ),
    _session_fkey("invocation_waiters_session_fkey"),
    comment="Invocations that wait for their turn in a session.",
)

invocation_results = Table(
    "invocation_results",
    metadata,
    _key("app_name"),
    _key("user_id"),
    _key("session_id"),
    _key("idempotency_key", "The caller's own; a request that is retried has the same."),
    Column("holder", UUID(as_uuid=False), nullable=False, comment="Token of who left it."),
    Column("result", JSON, nullable=False, comment="What the invocation left, as JSON text."),
    Column("expires_at", _TIME, nullable=False, comment="When the key may run once more."),
    PrimaryKeyConstraint(
        "app_name", "user_id", "session_id", "idempotency_key", name="invocation_results_pkey"
    ),
    _session_fkey("invocation_results_session_fkey"),
    Index("invocation_results_expires_at_idx", "expires_at"),
    comment="Invocations with an idempotency key that have finished.",
)

app_states = Table(
    "app_states",
    metadata,
    _key("app_name"),
    Column("state", JSONB, nullable=False, comment="Keys without the 'app:' prefix."),
    Column(
        "writers",
        JSONB,
        nullable=False,
        server_default=text("'{}'"),
        comment="By key: the group of users, of 256, that one who wrote it is in; null is the app.",
    ),
    Column("updated_at", _TIME, nullable=False, server_default=_NOW),
    PrimaryKeyConstraint("app_name", name="app_states_pkey"),
    comment="State shared by all users of an app.",
)

user_states = Table(
    "user_states",
    metadata,
    _key("app_name"),
    _key("user_id"),
    Column("state", JSONB, nullable=False, comment="Keys without the 'user:' prefix."),
    Column("updated_at", _TIME, nullable=False, server_default=_NOW),
    PrimaryKeyConstraint("app_name", "user_id", name="user_states_pkey"),
    comment="State shared by all sessions of a user; outlives them.",
)

embedding_models = Table(
    "embedding_models",
    metadata,
    Column("model_id", SmallInteger, Identity(always=True), nullable=False),
    Column("name", Text(collation="C"), nullable=False),
    Column("dimensions", Integer, nullable=False),
    Column("created_at", _TIME, nullable=False, server_default=_NOW),
    PrimaryKeyConstraint("model_id", name="embedding_models_pkey"),
    UniqueConstraint("name", "dimensions", name="embedding_models_name_key"),
    comment="The models whose vectors are stored; vectors of two models are never compared.",
)

app_settings = Table(
    "app_settings",
    metadata,
    _key("app_name"),
    Column(
        "model_id",
        SmallInteger,
        nullable=True,
        comment="The active embedding model: the one whose vectors searches compare.",
    ),
    Column(
        "text_search_config",
        Text,
        nullable=True,
        comment="Text search configuration of all the app's words; NULL chooses by script.",
    ),
    Column(
        "extract_facts",
        Boolean,
        nullable=False,
        server_default=false(),
        comment="Whether new turns wait for a worker that draws facts from them.",
    ),
    Column("updated_at", _TIME, nullable=False, server_default=_NOW),
    PrimaryKeyConstraint("app_name", name="app_settings_pkey"),
    ForeignKeyConstraint(
        ["model_id"], [embedding_models.c.model_id], name="app_settings_model_fkey"
    ),
    comment="What holds for the memory of a whole app, in every process that serves it.",
)

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

memories = Table(
    "memories",
    metadata,
    # Of fixed length first: rows without gaps, whose times are found without reading their texts.
    Column(
        "position",
        BigInteger,
        nullable=False,
        comment="Place in the user's history: neighbouring turns of a session are consecutive, "
        "everything else is far apart (each session has a block of its own). Negative in the "
        "app-wide scope, so that a place names one memory in a search of both.",
    ),
    Column("timestamp", _TIME, nullable=False, comment="When it was said."),
    Column("created_at", _TIME, nullable=False, server_default=_NOW),
    Column("length", Integer, nullable=False, comment="Number of lexemes in the body."),
    Column(
        "importance",
        REAL,
        nullable=False,
        server_default="0.5",
        comment="From 0 to 1; a factor of its score.",
    ),
    Column(
        "speech",
        SmallInteger,
        Computed(_SPEECH, persisted=True),
        nullable=False,
        comment="0: no turn; 1: a turn that tells; 2: one that ends in a question; 3: one that "
        "only says that it was noted, or that nothing is known.",
    ),
    _key("app_name"),
    _key("user_id"),
    _key("memory_id"),
    Column(
        "kind",
        Text,
        nullable=False,
        comment="turn (of an event), note (added directly), document, fact or summary.",
    ),
    _key(
        "session_id",
        "The session the memory came from; '' if none. No foreign key: it outlives it.",
    ),
    _key("event_id", "The ADK event it came from; NULL if it was added directly.", nullable=True),
    _key("invocation_id", "The agent's run that it was said in; NULL if unknown.", nullable=True),
    Column("author", Text, nullable=True),
    Column(
        "content",
        JSON,
        nullable=True,
        comment="google.genai types.Content as JSON text; NULL if it is one text, which author and "
        "body tell, and their role.",
    ),
    Column("body", Text, nullable=False, comment="'author: text', what is searched and embedded."),
    Column(
        "custom_metadata",
        JSONB,
        nullable=True,
        comment="An object; NUL and lone surrogates escaped as U+001A and four hex.",
    ),
    _key("source", "The file a document came from; NULL for everything else.", nullable=True),
    Column(
        "artifacts",
        JSONB,
        nullable=True,
        comment="Names and versions of the artifacts that its event saved.",
    ),
    Column("topics", JSONB, nullable=False, server_default="[]", comment="An array of texts."),
    Column(
        "expires_at",
        _TIME,
        nullable=True,
        comment="From when on it is not recalled, nor its words; NULL is never.",
    ),
    _key("superseded_by", "The memory_id of the fact that replaced this one.", nullable=True),
    Column(
        "extracted_at",
        _TIME,
        nullable=True,
        comment="When facts were last drawn from this turn, if any; NULL is not yet.",
    ),
    Column(
        "digest", Text, nullable=False, comment="Hash of what was given; equal means unchanged."
    ),
    PrimaryKeyConstraint(
        "app_name",
        "user_id",
        "position",
        name="memories_pkey",
        postgresql_include=["length", "speech", "timestamp", "expires_at"],
    ),
    # What they alone know comes first: with the primary key's first columns, the planner would take
    # them for its equals before the first ANALYZE, and read all of a user to find one position.
    UniqueConstraint("memory_id", "app_name", "user_id", name="memories_memory_id_key"),
    UniqueConstraint("session_id", "app_name", "user_id", "event_id", name=MEMORY_EVENT_KEY),
    # Partial, and what is rare comes first, for the same reason. Superseded facts have expired, and
    # are kept.
    Index(
        "memories_expires_at_idx",
        "expires_at",
        "app_name",
        "user_id",
        "position",
        postgresql_where=text("expires_at IS NOT NULL AND superseded_by IS NULL"),
    ),
    # A search leaves out those of its scopes that have ended, superseded ones too.
    Index(
        "memories_ended_idx",
        "user_id",
        "app_name",
        "expires_at",
        postgresql_include=["position"],
        postgresql_where=text("expires_at IS NOT NULL"),
    ),
    Index(
        "memories_source_idx",
        "source",
        "app_name",
        "user_id",
        postgresql_where=text("source IS NOT NULL"),
    ),
    # A search leaves out what is said in the invocation that asks.
    Index(
        "memories_invocation_idx",
        "invocation_id",
        "app_name",
        "user_id",
        postgresql_where=text("invocation_id IS NOT NULL"),
    ),
    # A person's facts and a session's summary, without reading all that was ever said.
    Index(
        "memories_kind_idx",
        "kind",
        "app_name",
        "user_id",
        postgresql_where=text("kind IN ('fact', 'summary')"),
    ),
    info={"app_wide": True},
    comment="What is remembered of a user, one row per turn, note, fact or piece of a document.",
)

_MEMORY_KEY = [memories.c.app_name, memories.c.user_id, memories.c.position]

memory_lexemes = Table(
    "memory_lexemes",
    metadata,
    # Of fixed length first: no gap before it in any of the many rows.
    Column("position", BigInteger, nullable=False),
    Column(
        "frequency",
        SmallInteger,
        nullable=False,
        comment="Occurrences in the memory's own body; counts for its neighbours too, by weight.",
    ),
    Column(
        "memory_length",
        Integer,
        nullable=False,
        comment="The memory's length: a long one lends its neighbours less of each word.",
    ),
    _key("app_name"),
    _key("user_id"),
    _key("lexeme"),
    PrimaryKeyConstraint(
        "app_name",
        "user_id",
        "lexeme",
        "position",
        name="memory_lexemes_pkey",
        postgresql_include=["frequency", "memory_length"],
    ),
    # No foreign key: its check of each word took as long as writing it. The migrations' trigger
    # `memories_delete_lexemes` does what ON DELETE CASCADE would, and words are only ever written
    # by the statement that writes their memory.
    # Position first, as with the keys of memories: no search for a word must choose it.
    Index("memory_lexemes_position_idx", "position", "app_name", "user_id"),
    info={"app_wide": True},
    comment="Postings: which words a memory holds. A memory's words go when it goes.",
)

memory_vectors = Table(
    "memory_vectors",
    metadata,
    _key("app_name"),
    _key("user_id"),
    Column("model_id", SmallInteger, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column(
        "passage",
        SmallInteger,
        nullable=False,
        server_default="0",
        comment="Number of the passage, from 0; a memory that is embedded whole has that one only.",
    ),
    Column(
        "span",
        INT4RANGE,
        nullable=True,
        comment="Which characters of the memory's text the passage has; NULL is all.",
    ),
    Column(
        "embedding",
        HALFVEC(),
        nullable=True,
        comment="The vector, up to 1,024 dimensions; memory_vectors_model_idx covers it.",
    ),
    Column(
        "bits", BIT(varying=True), nullable=True, comment="Signs of a longer vector: first pass."
    ),
    Column("large", HALFVEC(), nullable=True, comment="The longer vector itself: second pass."),
    Column(
        "approximate",
        Boolean,
        nullable=False,
        server_default=false(),
        comment="Whether the HNSW index holds it: only in scopes too large for an exact answer.",
    ),
    # The model comes last, so that the foreign key finds a memory's vectors without an index of its
    # own. A user has vectors of two models only while an app moves from one to the other.
    PrimaryKeyConstraint(
        "app_name",
        "user_id",
        "position",
        "passage",
        "model_id",
        name="memory_vectors_pkey",
    ),
    ForeignKeyConstraint(
        ["app_name", "user_id", "position"],
        _MEMORY_KEY,
        name="memory_vectors_memory_fkey",
        ondelete="CASCADE",
    ),
    ForeignKeyConstraint(
        ["model_id"], [embedding_models.c.model_id], name="memory_vectors_model_fkey"
    ),
    # All that a search reads of a user, side by side. The keys of a user's vectors are equal, since
    # Postgres leaves a page of equal keys full when it splits it, and half empty one whose keys
    # ascend between others. The model comes first for the reason that memories_memory_id_key has.
    Index(
        "memory_vectors_model_idx",
        "model_id",
        "app_name",
        "user_id",
        "approximate",
        postgresql_include=["position", "passage", "span", "embedding", "bits"],
    ),
    info={"app_wide": True},
    comment="One vector per memory and model; of a long memory one per passage.",
)

memory_jobs = Table(
    "memory_jobs",
    metadata,
    _key("app_name"),
    _key("user_id"),
    Column("position", BigInteger, nullable=False),
    Column("work", Text, nullable=False, comment="embed, or extract (facts)."),
    Column("created_at", _TIME, nullable=False, server_default=_NOW),
    Column(
        "due_at",
        _TIME,
        nullable=False,
        server_default=_NOW,
        comment="From when on it is to be tried (again).",
    ),
    Column(
        "lease_expires_at",
        _TIME,
        nullable=True,
        comment="Until when a worker has claimed it; one that is gone claims nothing for good.",
    ),
    Column(
        "claim",
        UUID(as_uuid=False),
        nullable=True,
        comment="The last claim: one that is asked for again, as its answer was lost, is the same.",
    ),
    Column(
        "attempts",
        SmallInteger,
        nullable=False,
        server_default="0",
        comment="How often it was claimed.",
    ),
    Column("error", Text, nullable=True, comment="Why the last attempt failed."),
    Column(
        "dead",
        Boolean,
        nullable=False,
        server_default=false(),
        comment="Given up: waits for somebody to fix the cause and revive it.",
    ),
    PrimaryKeyConstraint("app_name", "user_id", "position", "work", name="memory_jobs_pkey"),
    ForeignKeyConstraint(
        ["app_name", "user_id", "position"],
        _MEMORY_KEY,
        name="memory_jobs_memory_fkey",
        ondelete="CASCADE",
    ),
    # Users with work, and a user's work, are found in this order: no backlog is ever sorted.
    Index(
        "memory_jobs_work_idx",
        "work",
        "app_name",
        "user_id",
        "position",
        postgresql_where=text("NOT dead"),
    ),
    comment="What is still to be done with memories: they are committed and found by their words.",
)

memory_provenance = Table(
    "memory_provenance",
    metadata,
    _key("app_name"),
    _key("user_id"),
    _key("memory_id", "A fact or summary."),
    _key("origin_id", "A memory that it was drawn from."),
    PrimaryKeyConstraint(
        "app_name", "user_id", "memory_id", "origin_id", name="memory_provenance_pkey"
    ),
    ForeignKeyConstraint(
        ["memory_id", "app_name", "user_id"],
        [memories.c.memory_id, memories.c.app_name, memories.c.user_id],
        name="memory_provenance_memory_fkey",
        ondelete="CASCADE",
    ),
    ForeignKeyConstraint(
        ["origin_id", "app_name", "user_id"],
        [memories.c.memory_id, memories.c.app_name, memories.c.user_id],
        name="memory_provenance_origin_fkey",
        ondelete="CASCADE",
    ),
    Index("memory_provenance_origin_idx", "origin_id", "app_name", "user_id"),
    comment="What facts and summaries were drawn from; they go when one of these goes.",
)

approximate_scopes = Table(
    "approximate_scopes",
    metadata,
    _key("app_name"),
    _key("user_id"),
    Column("model_id", SmallInteger, nullable=False),
    Column(
        "ready",
        Boolean,
        nullable=False,
        server_default=false(),
        comment="Whether all its vectors are in the index, so that searches may use it.",
    ),
    PrimaryKeyConstraint("app_name", "user_id", "model_id", name="approximate_scopes_pkey"),
    ForeignKeyConstraint(
        ["model_id"], [embedding_models.c.model_id], name="approximate_scopes_model_fkey"
    ),
    info={"app_wide": True},
    comment="Users with too many memories for an exact answer; the HNSW index holds theirs alone.",
)

memory_tombstones = Table(
    "memory_tombstones",
    metadata,
    _key("app_name"),
    _key("user_id"),
    _key("session_id"),
    _key("event_id"),
    Column(
        "needed_at",
        _TIME,
        nullable=False,
        server_default=_NOW,
        comment="When it was last known to be needed: its memory or session was deleted, its event "
        "was given to memory again, or found to be stored still.",
    ),
    PrimaryKeyConstraint(
        "app_name", "user_id", "session_id", "event_id", name="memory_tombstones_pkey"
    ),
    Index("memory_tombstones_needed_at_idx", "needed_at"),
    comment="Deleted memories of events, so that re-adding their session does not bring them back.",
)

tasks = Table(
    "tasks",
    metadata,
    # Of fixed length first, so that a listing finds them without reading the texts.
    Column(
        "revision",
        BigInteger,
        nullable=False,
        server_default="1",
        comment="Number of times it was saved; A2A's version of the task.",
    ),
    Column(
        "revision_token",
        UUID(as_uuid=False),
        nullable=False,
        server_default=text("gen_random_uuid()"),
        comment="The revision's own: a save that is repeated is known by it.",
    ),
    Column(
        "payload_revision",
        BigInteger,
        nullable=False,
        server_default="1",
        comment="The revision that the payload is of; later ones are in task_events.",
    ),
    Column("created_at", _TIME, nullable=False, server_default=_NOW),
    Column("updated_at", _TIME, nullable=False, server_default=_NOW),
    Column(
        "status_at",
        _TIME,
        nullable=True,
        comment="The timestamp of its status, by which tasks are listed; NULL if it has none.",
    ),
    Column(
        "ends_at",
        _TIME,
        nullable=True,
        comment="When it ended, or will be taken for ended unless its process renews this; NULL "
        "while it waits for input.",
    ),
    _key("app_name"),
    _key("user_id"),
    _key("task_id"),
    _key("session_id", "The task's context. No foreign key: a task comes before its session."),
    _key("state", "The name of a TaskState of A2A."),
    Column("payload", JSON, nullable=False, comment="The a2a Task as ProtoJSON."),
    PrimaryKeyConstraint("app_name", "user_id", "task_id", name="tasks_pkey"),
    Index("tasks_session_idx", "session_id", "app_name", "user_id"),
    Index("tasks_ends_at_idx", "ends_at", postgresql_where=text("ends_at IS NOT NULL")),
    # Those of callers without a name, who ask by the task's id alone.
    Index(
        "tasks_anonymous_idx",
        "task_id",
        "app_name",
        postgresql_where=text("user_id = 'A2A_USER_' || session_id"),
    ),
    comment="Tasks of A2A: what other agents asked of an app, and what it answered.",
)

task_events = Table(
    "task_events",
    metadata,
    _key("app_name"),
    _key("user_id"),
    _key("task_id"),
    Column("revision", BigInteger, nullable=False, comment="The task's, which the event made."),
    _key("session_id", "As of the task."),
    Column(
        "payload",
        JSON,
        nullable=False,
        comment="The event as ProtoJSON of an a2a StreamResponse: a status, or a part of a result.",
    ),
    PrimaryKeyConstraint("app_name", "user_id", "task_id", "revision", name="task_events_pkey"),
    # No foreign key, whose check takes as long as the event, and which an import would have to
    # mind. The trigger `tasks_delete_events` does what ON DELETE CASCADE would.
    comment="What changed a task since its payload was written.",
)
task_events.add_is_dependent_on(tasks)  # in the order of tables

artifacts = Table(
    "artifacts",
    metadata,
    _key("app_name"),
    _key("user_id"),
    _key("session_id", "The session that the file belongs to; '' if it is the user's."),
    _key("name", "The file's name; a user's begins with 'user:'."),
    Column("version", Integer, nullable=False, comment="From 0 on, in the order of saving."),
    Column(
        "artifact_id",
        UUID(as_uuid=False),
        nullable=False,
        comment="This version's own, made by who saved it: a save that is repeated is known by it.",
    ),
    Column(
        "part",
        JSON,
        nullable=False,
        comment="google.genai types.Part as JSON text, without its bytes or its text.",
    ),
    Column("mime_type", Text, nullable=True),
    Column("custom_metadata", JSON, nullable=False, comment="An object, given with the file."),
    Column(
        "size", BigInteger, nullable=False, comment="Bytes of the file, or of its text as UTF-8."
    ),
    Column(
        "location",
        Text,
        nullable=True,
        comment="Where in the object store its bytes are; NULL if they are in artifact_chunks.",
    ),
    Column("created_at", _TIME, nullable=False, server_default=_NOW),
    # Of a day and of what only this row has, so no row can name another's object, or anything else.
    CheckConstraint(
        "location IS NULL OR location ~ '^[0-9]{8}/[0-9a-f]{64}$' AND right(location, 64) ="
        " encode(sha256(convert_to(length(app_name)::text || ':' || app_name || user_id"
        " || artifact_id::text, 'UTF8')), 'hex')",
        name="artifacts_location_check",
    ),
    PrimaryKeyConstraint(
        "app_name", "user_id", "session_id", "name", "version", name="artifacts_pkey"
    ),
    # What it alone knows comes first, as with the keys of memories.
    UniqueConstraint("artifact_id", "app_name", "user_id", name="artifacts_artifact_id_key"),
    Index(
        "artifacts_location_key",
        "location",
        "app_name",
        "user_id",
        unique=True,
        postgresql_where=text("location IS NOT NULL"),
    ),
    comment="The versions of files that agents save. No foreign key: any session may have files; "
    "a stored session's go with it, by a trigger.",
)
artifacts.add_is_dependent_on(sessions)  # by that trigger

artifact_chunks = Table(
    "artifact_chunks",
    metadata,
    _key("app_name"),
    _key("user_id"),
    Column("artifact_id", UUID(as_uuid=False), nullable=False),
    Column("chunk", Integer, nullable=False, comment="From 0 on, in the order of the bytes."),
    Column("data", BYTEA, nullable=False, comment="262,144 bytes, the last one fewer."),
    PrimaryKeyConstraint(
        "app_name", "user_id", "artifact_id", "chunk", name="artifact_chunks_pkey"
    ),
    ForeignKeyConstraint(
        ["artifact_id", "app_name", "user_id"],
        [artifacts.c.artifact_id, artifacts.c.app_name, artifacts.c.user_id],
        name="artifact_chunks_artifact_fkey",
        ondelete="CASCADE",
    ),
    comment="The bytes of files.",
)

artifact_uploads = Table(
    "artifact_uploads",
    metadata,
    _key("app_name"),
    _key("user_id"),
    _key("session_id", "As of the artifact that it becomes."),
    Column("artifact_id", UUID(as_uuid=False), nullable=False),
    Column("location", Text, nullable=True, comment="Where its object is to be, if it gets one."),
    Column("began_at", _TIME, nullable=False, server_default=_NOW),
    PrimaryKeyConstraint("app_name", "user_id", "artifact_id", name="artifact_uploads_pkey"),
    comment="Files that are being uploaded. One whose person or session is erased is not saved.",
)
artifact_uploads.add_is_dependent_on(sessions)  # by that trigger

artifact_removals = Table(
    "artifact_removals",
    metadata,
    Column(
        "location",
        Text(collation="C"),
        nullable=False,
        comment="Where in the object store bytes of a deleted artifact are; a random name.",
    ),
    Column("removed_at", _TIME, nullable=False, server_default=_NOW),
    PrimaryKeyConstraint("location", name="artifact_removals_pkey"),
    comment="Objects whose artifacts were deleted, until they are removed; a trigger notes them.",
)

artifact_claims = Table(
    "artifact_claims",
    metadata,
    Column(
        "token",
        UUID(as_uuid=False),
        nullable=False,
        comment="Written into the folder of the object store; a copy of this database lacks it.",
    ),
    Column("claimed_at", _TIME, nullable=False, server_default=_NOW),
    Column(
        "installation",
        Text,
        nullable=False,
        comment="The server's system identifier and the database's oid when it was claimed: a copy "
        "has others.",
    ),
    PrimaryKeyConstraint("token", name="artifact_claims_pkey"),
    comment="By which this database knows that the folder of the object store is its own.",
)

audit = Table(
    "audit",
    metadata,
    _key("app_name"),
    _key(
        "user_id", "Whom it was about; of a person who was forgotten, the reserved id of the app."
    ),
    Column("audit_id", UUID(as_uuid=False), nullable=False),
    Column("changed_at", _TIME, nullable=False, server_default=_NOW),
    Column("actor", Text, nullable=False, comment="Who did it, as the console knows them."),
    Column("action", Text, nullable=False, comment="What was done, such as delete_memory."),
    Column("subject", Text, nullable=True, comment="Which memory or session; NULL if it is all."),
    Column("outcome", Text, nullable=False, comment="begun, done, or the error that ended it."),
    PrimaryKeyConstraint("app_name", "user_id", "audit_id", name="audit_pkey"),
    Index("audit_changed_at_idx", "changed_at"),
    comment="What people changed by hand, who and when; a person's goes when they are forgotten.",
)

saved_questions = Table(
    "saved_questions",
    metadata,
    _key("app_name"),
    _key("user_id"),
    Column("question_id", UUID(as_uuid=False), nullable=False),
    Column("question", Text, nullable=False),
    Column(
        "evidence",
        JSONB,
        nullable=False,
        info={"in_lines": list[str]},
        comment="An array of the ids of the memories that answer it; an empty one: nothing does.",
    ),
    Column("created_at", _TIME, nullable=False, server_default=_NOW),
    PrimaryKeyConstraint("app_name", "user_id", "question_id", name="saved_questions_pkey"),
    comment="Questions of a team about a person's memories, by which recall is measured.",
)

DISTRIBUTED = (
    "append_event_1",
    "at_part_1",
    "create_session_1",
    "ingest_turns_1",
    "merge_states_1",
)
"""Those that run on the node of their argument `user_id`, where tables are distributed."""

GUARD = "require_part"
"""The trigger of each table that is distributed."""

TRIGGERED = (
    "delete_memory_lexemes",
    "delete_session_rows",
    "delete_task_events",
    "note_artifact_removal",
)
"""The functions that triggers call."""

FUNCTIONS = (
    *DISTRIBUTED,
    "select_prepared_1",
    "write_memories_1",
    # What they are made of.
    "enter_1",
    "leave_1",
    "merge_app_state_1",
    "merge_user_state_1",
    "of_part_1",
    "require_part_1",
)
"""All that are in files of their own; no name has two signatures."""

EVERY = "every"
"""How the names of policies begin that let the owner and workers at all users' rows."""

REGISTER = "adkpg_version"
"""The table of the revision, whose policies of that name say who is admitted to every scope."""
