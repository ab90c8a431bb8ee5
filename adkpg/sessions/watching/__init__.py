"""Watching a session: its new events, from any process, as they come."""
