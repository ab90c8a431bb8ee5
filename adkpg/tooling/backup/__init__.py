"""Backups of adkpg's tables in pg_dump's format, and restoring them."""
