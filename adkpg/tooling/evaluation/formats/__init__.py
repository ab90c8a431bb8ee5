"""Formats of data sets, a loader each: JSON values to stores. Pure."""
