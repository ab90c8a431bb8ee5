"""Listing sessions: what a list tells of each beside its page."""
