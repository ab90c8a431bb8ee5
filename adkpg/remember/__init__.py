"""The policy of what may become memory, one for each Database, and its redactor."""
