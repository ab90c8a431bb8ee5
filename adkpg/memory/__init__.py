"""Memory: what agents recall of a user, by words and by meaning, exact within the user's scope."""
