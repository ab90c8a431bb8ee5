"""Facts: what turns say of a person, drawn by an extractor, merged with what is known, audited."""
