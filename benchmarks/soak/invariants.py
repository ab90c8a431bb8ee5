"""Invariants that the tables must show when everybody has gone, each as a query that finds none."""

import asyncpg

QUERIES = {
    "sessions whose revision is not the number of their events": """
        SELECT count(*) FROM adkpg.sessions s
        WHERE revision <> (SELECT count(*) FROM adkpg.events e
                           WHERE (e.app_name, e.user_id, e.session_id)
                               = (s.app_name, s.user_id, s.session_id))""",
    "sessions whose last event has another number than their revision": """
        SELECT count(*) FROM adkpg.sessions s
        WHERE revision <> (SELECT coalesce(max(seq), 0) FROM adkpg.events e
                           WHERE (e.app_name, e.user_id, e.session_id)
                               = (s.app_name, s.user_id, s.session_id))""",
    "events that are neither remembered nor marked as deleted from memory": """
        SELECT count(*) FROM adkpg.events e
        WHERE NOT EXISTS (SELECT FROM adkpg.memories m
                          WHERE (m.app_name, m.user_id, m.session_id, m.event_id)
                              = (e.app_name, e.user_id, e.session_id, e.event_id))
          AND NOT EXISTS (SELECT FROM adkpg.memory_tombstones t
                          WHERE (t.app_name, t.user_id, t.session_id, t.event_id)
                              = (e.app_name, e.user_id, e.session_id, e.event_id))""",
    "memories that are marked as deleted": """
        SELECT count(*) FROM adkpg.memories m JOIN adkpg.memory_tombstones t
            USING (app_name, user_id, session_id, event_id)""",
    "memories of stored sessions without their event": """
        SELECT count(*) FROM adkpg.memories m
        JOIN adkpg.sessions USING (app_name, user_id, session_id)
        WHERE NOT EXISTS (SELECT FROM adkpg.events e
                          WHERE (e.app_name, e.user_id, e.session_id, e.event_id)
                              = (m.app_name, m.user_id, m.session_id, m.event_id))""",
    "words without their memory": """
        SELECT count(*) FROM adkpg.memory_lexemes l
        WHERE NOT EXISTS (SELECT FROM adkpg.memories m
                          WHERE (m.app_name, m.user_id, m.position)
                              = (l.app_name, l.user_id, l.position))""",
    "memories without their words": """
        SELECT count(*) FROM adkpg.memories m
        WHERE NOT EXISTS (SELECT FROM adkpg.memory_lexemes l
                          WHERE (m.app_name, m.user_id, m.position)
                              = (l.app_name, l.user_id, l.position))""",
    "jobs that nobody did": "SELECT count(*) FROM adkpg.memory_jobs",
    "connections that clients left": """
        SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
            AND pid <> pg_backend_pid() AND backend_type = 'client backend'""",
    "advisory locks that clients left": "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'",
    "prepared transactions": "SELECT count(*) FROM pg_prepared_xacts",
}


async def broken(connection: asyncpg.Connection) -> list[str]:
    """Returns a sentence for each that does not hold."""
    found = []
    for what, query in QUERIES.items():
        if count := await connection.fetchval(query):
            found.append(f"{count} {what}")
    return found
