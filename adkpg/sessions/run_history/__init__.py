"""How much of a session's history a run of an agent loads: what it needs."""
