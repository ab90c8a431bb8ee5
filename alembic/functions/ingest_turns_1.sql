-- Writes what a session's events are to be in memory, where only new ones come after those it has.
--
-- The given events are all of the session (whole), or come after what it has. Of some the memories
-- are given, too. Writers of one session's memories wait for each other: first for the session's
-- advisory lock, which there is whether the session is stored or not, then for its row.
-- Who has a model embeds the new ones at once: if it is the app's active one (model_id), their places
-- in the queue are claimed as they are written.
-- Returns NULL if more is to be done than to write new ones, and the caller has to plan it. Else JSON:
--   needed: the events whose memories are needed; some were not given, and nothing was written;
--   written: the events whose memories were written, side by side from the place `first` on;
--   claimed_until: when the claim lapses; null if the model is not the app's active one;
--   others: whether the user has memories without a vector that nobody has claimed.
CREATE FUNCTION {schema}.ingest_turns_1(
    app_name text,
    user_id text,
    session_id text,
    whole boolean,
    event_ids text[],
    digests text[],
    given_ids text[],
    memories text,
    config text,
    place bigint,
    model_id smallint,
    claim text,
    lease_s double precision,
    scope text[],
    home text
) RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_variable
DECLARE
    is_stored boolean;
    following bigint;
    first bigint;
    after bigint;
    known text[];
    new_ids text[];
    to_be_planned boolean := false;
    claimed_until timestamptz;
    others boolean;
BEGIN
    {find_tables}
    IF scope IS NOT NULL THEN
        PERFORM enter_1(scope);
    END IF;
    -- Waits for whoever forgets the person, and makes them wait.
    -- On the server that has the user, whichever runs this.
    PERFORM pg_advisory_xact_lock_shared(
                hashtextextended(jsonb_build_array(app_name, user_id)::text, 0)
            ),
            pg_advisory_xact_lock(
                hashtextextended(jsonb_build_array(app_name, user_id, session_id)::text, 0)
            )
       FROM (
           SELECT count(*) FROM sessions s
            WHERE s.app_name = app_name AND s.user_id = user_id AND s.session_id = ''
       ) x;
    SELECT s.memory_position INTO following FROM sessions s
     WHERE s.app_name = app_name AND s.user_id = user_id AND s.session_id = session_id
       FOR NO KEY UPDATE;
    is_stored := FOUND;
    -- Marks of deleted memories stay for as long as somebody gives their events to memory. They are
    -- renewed once an hour at most: the shortest useful time that they stay is days.
    UPDATE memory_tombstones t SET needed_at = now()
     WHERE t.app_name = app_name AND t.user_id = user_id AND t.session_id = session_id
       AND t.event_id = ANY (event_ids) AND t.needed_at < now() - interval '1 hour';
    SELECT coalesce(array_agg(t.event_id), '{}') INTO known FROM memory_tombstones t
     WHERE t.app_name = app_name AND t.user_id = user_id AND t.session_id = session_id
       AND t.event_id = ANY (event_ids);
    IF whole THEN
        WITH both_sides AS (
            SELECT m.event_id, m.position, g.number, m.digest = g.digest AS same
              FROM (
                  SELECT m.event_id, m.position, m.digest FROM memories m
                   WHERE m.app_name = app_name AND m.user_id = user_id
                     AND m.session_id = session_id AND m.event_id IS NOT NULL
                   ORDER BY m.event_id OFFSET 0  -- by their own key, not all that the user has
              ) m FULL JOIN (
                  SELECT g.event_id, g.digest, g.number
                    FROM unnest(event_ids, digests) WITH ORDINALITY g (event_id, digest, number)
                   WHERE g.event_id <> ALL (known)
              ) g ON m.event_id = g.event_id
        ), compared AS (
            SELECT b.*, lag(b.position) OVER (ORDER BY b.number) AS before
              FROM both_sides b WHERE b.position IS NOT NULL AND b.number IS NOT NULL
        )
        SELECT coalesce(
                   -- Another text, or another order.
                   (SELECT bool_or(NOT c.same OR c.position <= c.before) FROM compared c), false
               ) OR coalesce(
                   -- New ones before known ones.
                   (SELECT min(b.number) FROM both_sides b WHERE b.position IS NULL)
                       < (SELECT max(c.number) FROM compared c), false
               ) OR EXISTS (
                   -- Memories of events that the session has no more.
                   SELECT FROM both_sides b WHERE b.number IS NULL AND NOT EXISTS (
                       SELECT FROM events e
                        WHERE e.app_name = app_name AND e.user_id = user_id
                          AND e.session_id = session_id AND e.event_id = b.event_id
                   )
               ),
               (SELECT max(b.position) + 1 FROM both_sides b),
               known || ARRAY(SELECT c.event_id FROM compared c)
          INTO to_be_planned, first, known;
        IF to_be_planned THEN
            RETURN NULL;
        END IF;
        after := first;
    ELSE
        known := known || ARRAY(
            SELECT m.event_id FROM memories m
             WHERE m.app_name = app_name AND m.user_id = user_id AND m.session_id = session_id
               AND m.event_id = ANY (event_ids)
        );
        first := following;
    END IF;
    new_ids := ARRAY(SELECT unnest(event_ids) EXCEPT SELECT unnest(known));
    IF EXISTS (SELECT unnest(new_ids) EXCEPT SELECT unnest(given_ids)) THEN
        RETURN json_build_object('needed', new_ids)::text;
    END IF;
    IF model_id IS NOT NULL THEN
        SELECT now() + make_interval(secs => lease_s) INTO claimed_until FROM app_settings a
         WHERE a.app_name = app_name AND a.model_id = model_id;
        others := EXISTS (
            SELECT FROM memory_jobs j
             WHERE j.app_name = app_name AND j.user_id = user_id AND j.work = 'embed' AND NOT j.dead
               AND (j.lease_expires_at IS NULL OR j.lease_expires_at <= now())
        );
    END IF;
    IF first IS NULL AND NOT whole THEN
        -- One of them tells where they are: the others are its neighbours, within reach of their
        -- number.
        SELECT m.position INTO first FROM memories m
         WHERE m.app_name = app_name AND m.user_id = user_id AND m.session_id = session_id
           AND m.event_id IS NOT NULL
         ORDER BY m.event_id LIMIT 1;  -- in the order of their own key, not all that the user has
        SELECT m.position + 1 INTO first FROM memories m
         WHERE m.app_name = app_name AND m.user_id = user_id
           AND m.position >= first AND m.position < first + 16777216
           AND m.session_id = session_id AND m.event_id IS NOT NULL
         ORDER BY m.position DESC LIMIT 1;
    END IF;
    IF cardinality(new_ids) > 0 THEN
        first := coalesce(first, place);
        after := first + write_memories_1(
            app_name, user_id, memories, config, home, first, new_ids, claim::uuid, claimed_until
        );
    ELSIF NOT whole THEN
        after := following;
    END IF;
    IF is_stored AND after IS DISTINCT FROM following THEN
        UPDATE sessions s SET memory_position = after
         WHERE s.app_name = app_name AND s.user_id = user_id
           AND s.session_id = session_id;
    END IF;
    IF claimed_until IS NOT NULL AND cardinality(new_ids) = 0 THEN
        -- What this very claim wrote already: the answer was lost, and it is asked for again.
        SELECT array_agg(m.event_id), min(j.position),
               coalesce(min(j.lease_expires_at), claimed_until)
          INTO new_ids, first, claimed_until
          FROM memory_jobs j JOIN memories m
            ON m.app_name = j.app_name AND m.user_id = j.user_id AND m.position = j.position
         WHERE j.app_name = app_name AND j.user_id = user_id AND j.work = 'embed'
           AND j.claim = claim::uuid;
    END IF;
    RETURN json_build_object(
        'written', new_ids, 'first', first, 'claimed_until', claimed_until, 'others', others
    )::text;
END
$body$
