"""Instruments: the tracer and the metrics, and whether anybody listens."""

import os

from opentelemetry import metrics, trace
from opentelemetry.metrics import _internal as metrics_state

_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10]
_UNKNOWN = object()
_TRACE, _METRICS = vars(trace), vars(metrics_state)

tracer = trace.get_tracer("adkpg")
_meter = metrics.get_meter("adkpg")

memory_duration = _meter.create_histogram(
    "gen_ai.client.operation.duration",
    unit="s",
    description="How long calls on memory take.",
    explicit_bucket_boundaries_advisory=_SECONDS,
)
database_duration = _meter.create_histogram(
    "db.client.operation.duration",
    unit="s",
    description="How long calls on sessions, files and everything else take.",
    explicit_bucket_boundaries_advisory=_SECONDS,
)
hits = _meter.create_histogram(
    "adkpg.search.hits",
    unit="{hit}",
    description="How many memories searches find.",
    explicit_bucket_boundaries_advisory=[0, 1, 2, 3, 5, 10, 20, 50, 100],
)
top_cosine = _meter.create_histogram(
    "adkpg.search.top_cosine",
    unit="1",
    description="The cosine of the nearest memory that a search finds.",
    explicit_bucket_boundaries_advisory=[0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1],
)
events = _meter.create_counter(
    "adkpg.events", unit="{event}", description="Events appended to sessions."
)
stale_appends = _meter.create_counter(
    "adkpg.stale_appends", unit="{append}", description="Appends to a session that had changed."
)
retries = _meter.create_counter(
    "adkpg.retries", unit="{retry}", description="Repetitions of a call while a fault passes."
)
fallbacks = _meter.create_counter(
    "adkpg.replica.fallbacks",
    unit="{read}",
    description="Reads that the primary answered, since the standby could not, and why.",
)
waiting = _meter.create_gauge(
    "adkpg.jobs.waiting", unit="{job}", description="Work of memories that is to be done."
)
oldest = _meter.create_gauge(
    "adkpg.jobs.oldest", unit="s", description="For how long the first of it has been waiting."
)
dead = _meter.create_gauge(
    "adkpg.jobs.dead",
    unit="{job}",
    description="Dead letters: work of memories that failed too often.",
)
connections = _meter.create_gauge(
    "db.client.connection.count", unit="{connection}", description="Connections of the pool."
)
most_connections = _meter.create_gauge(
    "db.client.connection.max", unit="{connection}", description="Most connections of the pool."
)

connection_wait = _meter.create_histogram(
    "db.client.connection.wait_time",
    unit="s",
    description="How long calls wait for a connection of the pool, or for a new one to open.",
    explicit_bucket_boundaries_advisory=_SECONDS,
)


def listened_to() -> bool:
    """Whether spans or metrics go anywhere: asked by every call, so it costs next to nothing.

    The API's own getters read the environment each time, which takes 2 % of an append. Where these
    names are gone, an exporter may listen.
    """
    return (
        _TRACE.get("_TRACER_PROVIDER", _UNKNOWN) is not None
        or _METRICS.get("_METER_PROVIDER", _UNKNOWN) is not None
    )


def shows_content() -> bool:
    """Whether questions and memories may be in spans, as ADK is told it for messages."""
    return os.environ.get(_CONTENT, "").strip().lower() in ("true", "1", "span_only")
