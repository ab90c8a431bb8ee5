"""Tests of adkpg.backup."""
