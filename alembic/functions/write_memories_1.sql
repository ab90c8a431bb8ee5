-- Writes memories with their words, and what is still to be done with them; returns their number.
--
-- Those of some events only, or all. One of an event that is stored already is left alone; the others
-- go side by side from the first place on, or each to its own position if that is NULL.
-- Words come from the text that the caller prepared, and from the written-out date, which counts
-- for the memory itself only.
CREATE FUNCTION {schema}.write_memories_1(
    app_name text,
    user_id text,
    memories text,
    config text,
    first bigint DEFAULT NULL,
    only_of text[] DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql AS $body$
#variable_conflict use_variable
DECLARE
    own text;
    extract_facts boolean;
    given record;
    place bigint;
    places bigint[] := '{}';
    turns bigint[] := '{}';
    marked tsvector[] := '{}';
BEGIN
    -- Reads the table of memories too, in which it locks no row: whoever changes the configuration
    -- of words holds it, and this statement takes its snapshot after it has waited for that one.
    SELECT a.text_search_config, a.extract_facts INTO own, extract_facts
      FROM {schema}.app_settings a LEFT JOIN (
          SELECT FROM {schema}.memories m
           WHERE m.app_name = app_name AND m.user_id = user_id AND m.position = first
             FOR KEY SHARE
      ) m ON true
     WHERE a.app_name = app_name;
    FOR given IN
        SELECT g.*, w.marked,
               (SELECT coalesce(sum(cardinality(l.positions)), 0) FROM unnest(w.said) l) AS length
          FROM json_to_recordset(memories::json) AS g (
                   position bigint, memory_id text, kind text, session_id text, event_id text,
                   invocation_id text, author text, "timestamp" timestamptz, content text,
                   body text, custom_metadata text, source text, artifacts text, topics text,
                   importance real, expires_at timestamptz, ttl_s double precision, digest text,
                   words text, script text
               )
         CROSS JOIN LATERAL (
             SELECT c.said, setweight(c.said, 'A') || setweight(c.dated, 'B') AS marked FROM (
                 SELECT to_tsvector(x.config, g.words) AS said,
                        to_tsvector(
                            x.config,
                            to_char(timezone('UTC', g."timestamp"), 'FMDD FMMonth YYYY')
                        ) AS dated
                   FROM (SELECT coalesce(own, g.script, config)::regconfig AS config) x OFFSET 0
             ) c OFFSET 0
         ) w
         WHERE only_of IS NULL OR g.event_id = ANY (only_of)
    LOOP
        place := coalesce(first + cardinality(places), given.position);
        INSERT INTO {schema}.memories (
            app_name, user_id, position, memory_id, kind, session_id, event_id, invocation_id,
            author, timestamp, content, body, length, custom_metadata, source, artifacts, topics,
            importance, expires_at, digest
        ) VALUES (
            app_name, user_id, place, given.memory_id, given.kind, given.session_id,
            given.event_id, given.invocation_id, given.author, given."timestamp",
            given.content::json, given.body, given.length, given.custom_metadata::jsonb,
            given.source, given.artifacts::jsonb, given.topics::jsonb, given.importance,
            coalesce(now() + make_interval(secs => given.ttl_s), given.expires_at), given.digest
        ) ON CONFLICT ON CONSTRAINT memories_event_id_key DO NOTHING;
        IF FOUND THEN
            places := places || place;
            marked := marked || given.marked;
            IF given.kind = 'turn' THEN
                turns := turns || place;
            END IF;
        END IF;
    END LOOP;
    INSERT INTO {schema}.memory_lexemes (
        app_name, user_id, lexeme, position, frequency, date_frequency
    ) SELECT app_name, user_id, w.lexeme, g.position,
             cardinality(array_positions(w.weights, 'A')),
             cardinality(array_positions(w.weights, 'B'))
        FROM unnest(places, marked) AS g (position, marked) CROSS JOIN LATERAL unnest(g.marked) w
       WHERE octet_length(w.lexeme) <= 512;  -- a key of app, user and lexeme must fit a B-tree entry
    INSERT INTO {schema}.memory_jobs (app_name, user_id, position, task)
    SELECT app_name, user_id, p, 'embed' FROM unnest(places) p;
    IF extract_facts THEN
        INSERT INTO {schema}.memory_jobs (app_name, user_id, position, task)
        SELECT app_name, user_id, p, 'extract' FROM unnest(turns) p;
    END IF;
    RETURN cardinality(places);
END
$body$
