"""What of a conversation may become memory: one policy for each Database, and its redactor."""
