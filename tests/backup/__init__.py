"""Tests of adkpg.tooling.backup."""
