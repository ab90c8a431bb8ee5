"""Upkeep: what is over goes, in bounded steps, so that no table grows by it."""
