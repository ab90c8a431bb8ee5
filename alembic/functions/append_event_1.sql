-- Appends an event where the session is as expected and the event is new; else it writes nothing.
--
-- Locks are taken in the order of the lines: the session, the app's state, the user's, the memory.
-- Returns the session's new revision, which is the event's seq; NULL if it was not appended.
CREATE FUNCTION {schema}.append_event_1(
    app_name text,
    user_id text,
    session_id text,
    event_id text,
    "timestamp" timestamptz,
    payload text,
    session_delta text,
    app_delta text,
    user_delta text,
    state_limit integer,
    writer_limit integer,
    incarnation text,
    revision bigint,
    revision_token text,
    token text,
    merge boolean,
    holder text,
    place bigint,
    memories text,
    config text,
    scope text[],
    home text
) RETURNS bigint LANGUAGE plpgsql AS $body$
#variable_conflict use_variable
DECLARE
    -- Citus lets no STABLE function of a column into an UPDATE; timestamp + interval is IMMUTABLE.
    utc timestamp := timezone('UTC', now());
    own_token uuid := token::uuid;
    expected_incarnation uuid := incarnation::uuid;
    expected_token uuid := revision_token::uuid;
    size integer := octet_length(payload);
    is_as_expected boolean := false;
    seq bigint;
    following bigint;
    watched_until timestamptz;
    state jsonb;
    seen bigint;
    seen_token uuid;
    was_deleted boolean;
BEGIN
    {find_tables}
    IF scope IS NOT NULL THEN
        PERFORM enter_1(scope);
    END IF;
    IF session_delta IS NULL AND memories IS NULL AND holder IS NULL AND NOT merge THEN
        -- Most appends, by few expressions: Citus evaluates each anew, which takes longer than all else.
        -- Whom this does not find, the general one below may.
        UPDATE sessions s
           SET revision = s.revision + 1,
               revision_token = own_token,
               updated_at = "timestamp",
               settled_at = NULL,
               expires_at = coalesce(timezone('UTC', utc + s.ttl), s.expires_at),
               payload_bytes = s.payload_bytes + size
         WHERE s.app_name = app_name AND s.user_id = user_id AND s.session_id = session_id
           AND (s.expires_at IS NULL OR s.expires_at > now())
           AND s.incarnation = expected_incarnation
           AND s.revision = revision AND s.revision_token IS NOT DISTINCT FROM expected_token
        RETURNING s.revision, s.watched_until INTO seq, watched_until;
        is_as_expected := FOUND;
    END IF;
    IF NOT is_as_expected THEN
        UPDATE sessions s
           SET revision = s.revision + 1,
               revision_token = own_token,
               updated_at = "timestamp",
               settled_at = NULL,
               expires_at = coalesce(timezone('UTC', utc + s.ttl), s.expires_at),
               payload_bytes = s.payload_bytes + size,
               state = CASE
                   WHEN session_delta IS NULL THEN s.state
                   ELSE s.state || session_delta::jsonb
               END,
               memory_position = CASE
                   WHEN memories IS NULL THEN s.memory_position
                   ELSE coalesce(s.memory_position, place) + 1
               END
         WHERE s.app_name = app_name AND s.user_id = user_id AND s.session_id = session_id
           AND (s.expires_at IS NULL OR s.expires_at > now())
           AND s.incarnation = expected_incarnation
           AND (s.revision = revision OR merge AND s.revision > revision)
           AND (holder IS NULL
                OR s.invocation_holder = holder::uuid AND s.invocation_expires_at IS NOT NULL)
        RETURNING s.revision, s.memory_position - 1, s.watched_until,
                  CASE WHEN session_delta IS NOT NULL THEN s.state END
          INTO seq, following, watched_until, state;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
    END IF;
    IF NOT is_as_expected THEN
        -- Who fails the check looks at what is stored. The event of the revision that the caller has
        -- seen has its token still; one that was deleted since contradicts nobody.
        SELECT e.seq, e.revision_token INTO seen, seen_token FROM events e
         WHERE e.app_name = app_name AND e.user_id = user_id AND e.session_id = session_id
           AND e.seq >= revision
         -- In the order of the primary key: before a first ANALYZE Postgres finds the index of
         -- event ids as good, and reads all of them.
         ORDER BY e.seq LIMIT 1;
        IF seen = revision AND seen_token <> expected_token THEN
            RAISE EXCEPTION 'the event of this revision is another' USING ERRCODE = 'ADK02';
        END IF;
    END IF;
    IF session_delta IS NOT NULL AND pg_column_size(state) > state_limit THEN
        RAISE EXCEPTION 'the state is larger than it may be' USING ERRCODE = 'ADK03';
    END IF;
    -- As expressions, which take less than PERFORM: nobody needs what they return.
    IF app_delta IS NOT NULL THEN
        state := merge_app_state_1(
            app_name, user_id, app_delta, state_limit, writer_limit
        );
    END IF;
    IF user_delta IS NOT NULL THEN
        state := merge_user_state_1(app_name, user_id, user_delta, state_limit);
    END IF;
    INSERT INTO events (
        app_name, user_id, session_id, seq, revision_token, event_id, timestamp, payload
    ) VALUES (
        app_name, user_id, session_id, seq, own_token, event_id, "timestamp", payload::json
    ) ON CONFLICT ON CONSTRAINT events_event_id_key DO NOTHING;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the event was appended by another call' USING ERRCODE = 'ADK02';
    END IF;
    IF memories IS NOT NULL THEN
        -- A session that was deleted and created again may have events whose memories were deleted.
        SELECT true INTO was_deleted FROM memory_tombstones t
         WHERE t.app_name = app_name AND t.user_id = user_id
           AND t.session_id = session_id AND t.event_id = event_id;
        IF was_deleted IS NULL THEN
            following := write_memories_1(app_name, user_id, memories, config, home, following);
        END IF;
    END IF;
    IF watched_until > now() THEN
        -- Who may connect may listen: the incarnation keeps a guess from being checked.
        PERFORM pg_notify('adkpg', md5(
            jsonb_build_array(app_name, user_id, session_id, expected_incarnation)::text
        ));
    END IF;
    RETURN seq;
END
$body$
