"""Migrating: the schema from revision to revision, by Alembic."""
