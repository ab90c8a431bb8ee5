"""Spans and metrics that stay in memory."""

from functools import cache
from typing import Any
from urllib.parse import urlsplit

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

_SPANS = InMemorySpanExporter()
_METRICS = InMemoryMetricReader()


class Watched:
    """What was exported since the test began."""

    @property
    def all(self) -> list[ReadableSpan]:
        """adkpg's spans."""
        return [
            span
            for span in _SPANS.get_finished_spans()
            if span.instrumentation_scope is not None and span.instrumentation_scope.name == "adkpg"
        ]

    @property
    def calls(self) -> list[ReadableSpan]:
        """Those that are no part of another of adkpg's."""
        own = {span.context.span_id for span in self.all if span.context is not None}
        return [span for span in self.all if span.parent is None or span.parent.span_id not in own]

    def children(self, of: ReadableSpan) -> list[str]:
        return [span.name for span in self.all if span.parent == of.context]

    def answered_at(self, url: str) -> int:
        """How many calls the server with this URL answered; not of the default port."""
        port = urlsplit(url).port
        return sum((call.attributes or {}).get("server.port") == port for call in self.calls)

    def clear(self) -> None:
        _SPANS.clear()

    def points(self, name: str) -> list[Any]:
        """The points of a counter or histogram, since the process began."""
        return self.metrics().get(name, [])

    def metrics(self) -> dict[str, list[Any]]:
        """The points of adkpg's metrics; a gauge has them if it was set since it was last asked.

        ADK has metrics of its own, of which one has the name of one of ours.
        """
        data = _METRICS.get_metrics_data()
        return {
            metric.name: list(metric.data.data_points)
            for resource in (data.resource_metrics if data else [])
            for scope in resource.scope_metrics
            if scope.scope.name == "adkpg"
            for metric in scope.metrics
        }


@cache
def keep_in_memory() -> None:
    """Has all spans and metrics of this process kept, whoever was asked for them first.

    The API takes one provider for each process, and ADK's server sets its own.
    """
    spans, measures = trace.get_tracer_provider(), metrics.get_meter_provider()
    if not isinstance(spans, TracerProvider):
        spans = TracerProvider()
        trace.set_tracer_provider(spans)
    spans.add_span_processor(SimpleSpanProcessor(_SPANS))
    if not isinstance(measures, MeterProvider):
        measures = MeterProvider()
        metrics.set_meter_provider(measures)
    measures.add_metric_reader(_METRICS)
