-- Inserts a session and merges the shared states that it starts with.
--
-- Returns the session's state, the app's and the user's, as they are then; NULL if it exists.
CREATE FUNCTION {schema}.create_session_1(
    app_name text,
    user_id text,
    session_id text,
    incarnation text,
    session_state text,
    initial_state text,
    app_delta text,
    user_delta text,
    state_limit integer,
    writer_limit integer,
    "timestamp" timestamptz,
    ttl interval,
    expires_at timestamptz,
    scope text[],
    home text
) RETURNS text[] LANGUAGE plpgsql AS $body$
#variable_conflict use_variable
DECLARE
    state jsonb := session_state;
    app_state jsonb;
    user_state jsonb;
    ends timestamptz := coalesce(now() + ttl, expires_at);
    bar timestamptz;
    settling text[];
BEGIN
    {find_tables}
    IF scope IS NOT NULL THEN
        PERFORM enter_1(scope);
    END IF;
    IF pg_column_size(state) > state_limit THEN
        RAISE EXCEPTION 'the state is larger than it may be' USING ERRCODE = 'ADK03';
    END IF;
    INSERT INTO sessions AS s (
        app_name, user_id, session_id, incarnation, state, initial_state, created_at, updated_at,
        ttl, expires_at, expires
    ) VALUES (
        app_name, user_id, session_id, incarnation::uuid, state, initial_state::jsonb,
        "timestamp", "timestamp", ttl, ends, ends IS NOT NULL
    ) ON CONFLICT ON CONSTRAINT sessions_pkey DO NOTHING;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF app_delta IS NULL OR user_delta IS NULL THEN
        SELECT (SELECT a.state FROM app_states a WHERE a.app_name = app_name),
               (SELECT u.state FROM user_states u
                 WHERE u.app_name = app_name AND u.user_id = user_id)
          INTO app_state, user_state;
    END IF;
    IF app_delta IS NOT NULL THEN
        app_state := merge_app_state_1(
            app_name, user_id, app_delta, state_limit, writer_limit
        );
    END IF;
    IF user_delta IS NOT NULL THEN
        user_state := merge_user_state_1(app_name, user_id, user_delta, state_limit);
    END IF;
    -- Of many sessions of a user those that were updated last stay active. One creation in 64 settles
    -- others, so that a listing finds them by an index; it waits for nobody who appends to one.
    IF hashtext(session_id) & 63 = 0 THEN
        SELECT s.updated_at INTO bar FROM sessions s
         WHERE s.app_name = app_name AND s.user_id = user_id AND s.settled_at IS NULL
         ORDER BY s.updated_at DESC OFFSET 127 LIMIT 1;
        IF FOUND THEN
            SELECT array_agg(old.session_id) INTO settling FROM (
                SELECT s.session_id FROM sessions s
                 WHERE s.app_name = app_name AND s.user_id = user_id AND s.settled_at IS NULL
                   AND s.updated_at < bar
                 LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED
            ) old;
            UPDATE sessions s SET settled_at = s.updated_at
             WHERE s.app_name = app_name AND s.user_id = user_id AND s.session_id = ANY (settling);
        END IF;
    END IF;
    RETURN ARRAY[state::text, app_state::text, user_state::text];
END
$body$
