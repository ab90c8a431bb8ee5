"""Spans and metrics of OpenTelemetry, through the API that ADK requires; nothing without an SDK."""
