"""Our own format: JSON Lines, as docs/export-format.md says."""
