"""Functions of the database: the writes that a person waits for, each one call of plain statements.

Their texts lie next to the migrations (``alembic/functions``), a file for each, and are never
edited once they were released: the next version has a name of its own, and stands next to this one
until no client calls it.
"""

DISTRIBUTED = ("append_event_1", "create_session_1", "ingest_turns_1")
"""Those that run on the node of their second argument, the user, where tables are distributed."""

FUNCTIONS = (
    *DISTRIBUTED,
    # An app's state has no user; where tables are distributed, these run on the node that is asked.
    "append_event_with_app_1",
    "create_session_with_app_1",
    "merge_states_1",
    # What they are made of.
    "enter_1",
    "merge_app_state_1",
    "merge_user_state_1",
    "write_memories_1",
)
"""All of them; no name has two signatures."""
