"""Writing what was read elsewhere, as if it had been appended here."""
