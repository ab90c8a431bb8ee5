-- Writes memories with their words, and what is still to be done with them.
--
-- Those of some events only, or all. They go side by side from the first place on, or each to its own
-- position if that is NULL; one of an event that is stored already is left alone, and its place stays
-- empty. Returns the number of places. A writer who embeds them at once claims that as it writes.
-- Words come from the text that the caller prepared.
CREATE FUNCTION {schema}.write_memories_1(
    app_name text,
    user_id text,
    memories text,
    config text,
    home text,
    first bigint DEFAULT NULL,
    only_of text[] DEFAULT NULL,
    claim uuid DEFAULT NULL,
    claimed_until timestamptz DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql AS $body$
#variable_conflict use_variable
DECLARE
    own text;
    extract_facts boolean;
    -- In parallel, for each memory that is given:
    positions bigint[];
    said tsvector[];
    lengths bigint[];
    -- Of those that were written:
    place bigint;
    kind text;
    places bigint[] := '{}';
    turns bigint[] := '{}';
BEGIN
    {find_tables}
    -- A call that changes the configuration of words holds the table. This statement locks no row: it waits
    -- for that call, so that the next statement's snapshot shows what it has changed.
    PERFORM FROM memories m
      WHERE m.app_name = app_name AND m.user_id = user_id AND m.position = first
        FOR KEY SHARE;
    SELECT a.text_search_config, a.extract_facts INTO own, extract_facts
      FROM app_settings a WHERE a.app_name = app_name;
    -- Both statements read the rows in the order of the array, which is what row_number() counts.
    SELECT array_agg(w.position), array_agg(w.said),
           array_agg((SELECT coalesce(sum(cardinality(l.positions)), 0) FROM unnest(w.said) l))
      INTO positions, said, lengths
      FROM (
          SELECT g.position, to_tsvector(g.config, g.words) AS said
            FROM (
                SELECT coalesce(first + row_number() OVER () - 1, g.position) AS position,
                       g.words,
                       coalesce(own, g.script, config)::regconfig AS config
                  FROM json_to_recordset(memories::json) AS g (
                           position bigint, event_id text, words text, script text
                       )
                 WHERE only_of IS NULL OR g.event_id = ANY (only_of)
            ) g OFFSET 0
      ) w;
    FOR place, kind IN
        INSERT INTO memories AS m (
            app_name, user_id, position, memory_id, kind, session_id, event_id, invocation_id,
            author, timestamp, content, body, length, custom_metadata, source, artifacts, topics,
            importance, expires_at, digest
        )
        SELECT app_name, user_id, positions[g.nth], g.memory_id, g.kind, g.session_id,
               g.event_id, g.invocation_id, g.author, g."timestamp", g.content::json, g.body,
               lengths[g.nth], g.custom_metadata::jsonb, g.source, g.artifacts::jsonb, g.topics::jsonb,
               g.importance, coalesce(now() + make_interval(secs => g.ttl_s), g.expires_at),
               g.digest
          FROM (
              SELECT g.*, row_number() OVER () AS nth
                FROM json_to_recordset(memories::json) AS g (
                         memory_id text, kind text, session_id text, event_id text,
                         invocation_id text, author text, "timestamp" timestamptz, content text,
                         body text, custom_metadata text, source text, artifacts text, topics text,
                         importance real, expires_at timestamptz, ttl_s double precision,
                         digest text
                     )
               WHERE only_of IS NULL OR g.event_id = ANY (only_of)
          ) g
        ON CONFLICT ON CONSTRAINT memories_event_id_key DO NOTHING
        RETURNING m.position, m.kind
    LOOP
        places := places || place;
        IF kind = 'turn' THEN
            turns := turns || place;
        END IF;
    END LOOP;
    -- A key of app, user and lexeme must fit a B-tree entry.
    INSERT INTO memory_lexemes (
        app_name, user_id, lexeme, position, frequency, memory_length
    ) SELECT app_name, user_id, w.lexeme, g.position, cardinality(w.positions), g.length
        FROM unnest(positions, said, lengths) AS g (position, said, length)
             CROSS JOIN LATERAL unnest(g.said) w
       WHERE g.position = ANY (places) AND octet_length(w.lexeme) <= 512
       -- As the index has them: neighbours' pages are found in the caches.
       ORDER BY w.lexeme COLLATE "C", g.position;
    INSERT INTO memory_jobs (
        app_name, user_id, position, work, claim, lease_expires_at, attempts
    ) SELECT app_name, user_id, p, 'embed',
             CASE WHEN claimed_until IS NOT NULL THEN claim END,
             claimed_until, (claimed_until IS NOT NULL)::integer
        FROM unnest(places) p;
    IF extract_facts THEN
        INSERT INTO memory_jobs (app_name, user_id, position, work)
        SELECT app_name, user_id, p, 'extract' FROM unnest(turns) p;
    END IF;
    RETURN coalesce(cardinality(positions), 0);
END
$body$
