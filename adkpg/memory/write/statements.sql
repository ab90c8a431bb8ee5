-- name: give_way
-- The conditions say whose server is meant.
SELECT set_config('lock_timeout', '200ms', true) AS lock_timeout
WHERE :app_name::text IS NOT NULL AND :user_id::text IS NOT NULL;

-- name: lock_session
SELECT
  -- Waits for a call that forgets the person, and makes it wait.
  pg_advisory_xact_lock_shared(
    hashtextextended(jsonb_build_array(:app_name::text, :user_id::text)::text, 0)
  ) AS person,
  pg_advisory_xact_lock(
    hashtextextended(
      jsonb_build_array(:app_name::text, :user_id::text, :session_id::text)::text, 0
    )
  ) AS session;

-- name: lock_person
SELECT pg_advisory_xact_lock(
  hashtextextended(jsonb_build_array(:app_name::text, :user_id::text)::text, 0)
) AS person;

-- name: lock_stored_session
SELECT memory_position
FROM {schema}.sessions
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
FOR NO KEY UPDATE;

-- name: place_next_memory
UPDATE {schema}.sessions
SET memory_position = :position
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id;

-- name: select_known_events
WITH renewed AS (
  -- Marks of deleted memories stay for as long as callers give their events to memory. They are
  -- renewed once an hour at most, because the shortest useful time that they stay is days.
  UPDATE {schema}.memory_tombstones
  SET needed_at = now()
  WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
    AND event_id = ANY (:event_ids) AND needed_at < now() - interval '1 hour'
),
known AS (
  SELECT event_id
  FROM {schema}.memories
  WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
    AND event_id = ANY (:event_ids)
  UNION ALL
  SELECT event_id
  FROM {schema}.memory_tombstones
  WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
    AND event_id = ANY (:event_ids)
)
SELECT event_id FROM known;

-- name: select_last_position
-- One of them tells where they are: the others are its neighbours, within reach of their number.
WITH one AS (
  SELECT stored.position
  FROM (
    -- In the order of their own key, as select_session_memories reads them.
    SELECT position
    FROM {schema}.memories
    WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
      AND event_id IS NOT NULL
    ORDER BY event_id
    OFFSET 0
  ) AS stored
  LIMIT 1
)
SELECT position
FROM {schema}.memories
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
  AND event_id IS NOT NULL
  AND position >= (SELECT one.position FROM one)
  AND position < (SELECT one.position + (1 << 24) FROM one)
ORDER BY position DESC
LIMIT 1;

-- name: select_session_memories
SELECT stored.event_id, stored.position, stored.memory_id, stored.digest, EXISTS (
    SELECT
    FROM {schema}.events AS e
    WHERE e.app_name = :app_name AND e.user_id = :user_id AND e.session_id = :session_id
      AND e.event_id = stored.event_id
  ) AS in_session
FROM (
  SELECT event_id, position, memory_id, digest
  FROM {schema}.memories
  WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
    AND event_id IS NOT NULL
  -- In the order of their own key, which OFFSET 0 keeps, for users with few memories or many. The
  -- planner takes every user for small, and may prefer to read all that one has.
  ORDER BY event_id
  OFFSET 0
) AS stored
ORDER BY stored.position;

-- name: select_differences
WITH renewed AS (
  -- As select_known_events does.
  UPDATE {schema}.memory_tombstones
  SET needed_at = now()
  WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
    AND event_id = ANY (:event_ids) AND needed_at < now() - interval '1 hour'
),
stored AS (
  -- As select_session_memories reads them.
  SELECT event_id, position, memory_id, digest
  FROM {schema}.memories
  WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
    AND event_id IS NOT NULL
  ORDER BY event_id
  OFFSET 0
),
wanted AS (
  SELECT given.event_id, given.digest, given.number
  FROM unnest(:event_ids::text[], :digests::text[])
    WITH ORDINALITY AS given (event_id, digest, number)
  WHERE NOT EXISTS (
    SELECT
    FROM {schema}.memory_tombstones AS t
    WHERE t.app_name = :app_name AND t.user_id = :user_id AND t.session_id = :session_id
      AND t.event_id = given.event_id
  )
),
compared AS (
  SELECT coalesce(s.event_id, w.event_id) AS event_id, s.position, s.memory_id, s.digest, w.number,
    s.digest = w.digest AS same,
    -- Only events that were not given are looked up.
    CASE
      WHEN w.number IS NOT NULL THEN true
      ELSE EXISTS (
        SELECT
        FROM {schema}.events AS e
        WHERE e.app_name = :app_name AND e.user_id = :user_id AND e.session_id = :session_id
          AND e.event_id = s.event_id
      )
    END AS in_session
  FROM stored AS s
  FULL JOIN wanted AS w ON s.event_id = w.event_id
),
staying AS (
  SELECT position, number, lag(position) OVER (ORDER BY number) AS before
  FROM compared
  WHERE position IS NOT NULL AND number IS NOT NULL
),
answer AS (
  SELECT event_id, position, memory_id, digest, in_session
  FROM compared
  WHERE NOT in_session OR position IS NULL OR NOT same
  UNION ALL
  SELECT NULL, (SELECT max(position) FROM compared WHERE in_session), NULL, NULL,
    (SELECT coalesce(bool_and(position > before), true) FROM staying)
    AND coalesce(
      (SELECT min(number) FROM compared WHERE position IS NULL)
        > (SELECT max(number) FROM staying),
      true
    )
)
SELECT event_id, position, memory_id, digest, in_session
FROM answer
ORDER BY position;

-- name: select_tombstones
SELECT event_id
FROM {schema}.memory_tombstones
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id;

-- name: select_by_ids
SELECT memory_id, position, session_id, event_id, digest
FROM {schema}.memories
WHERE app_name = :app_name AND user_id = :user_id AND memory_id = ANY (:memory_ids);

-- name: select_same
WITH asked AS MATERIALIZED (
  SELECT author, artifacts IS NULL AS bare, expires_at IS NULL OR expires_at > now() AS live,
    -- A form that texts which say the same have in common, whatever the database's locale, and
    -- wider than `duplicates.normal`: once decomposed, the ASCII characters in lower case and a
    -- mark for each other one, without those that may come and go. What a text begins with has
    -- the beginning of its form.
    regexp_replace(
      regexp_replace(lower(normalize(body, NFD) COLLATE "C"), :ignored, '', 'g'),
      '[^!-~]', '?', 'g'
    ) AS said
  FROM {schema}.memories
  WHERE app_name = :app_name AND user_id = :user_id AND memory_id = :memory_id
)
SELECT m.memory_id, m.kind, m.session_id, m.event_id, m.author, m.timestamp,
  m.content::text AS content, CASE WHEN m.content IS NULL THEN m.body END AS body,
  m.custom_metadata::text AS custom_metadata, m.source, m.artifacts::text AS artifacts,
  CASE WHEN jsonb_array_length(m.topics) > 0 THEN m.topics::text END AS topics,
  m.importance::float8 AS importance, m.expires_at, m.superseded_by, m.position
FROM {schema}.memories AS m
CROSS JOIN asked AS a
WHERE m.app_name = :app_name AND m.user_id = :user_id
  AND (
    m.memory_id = :memory_id
    OR a.live AND (m.expires_at IS NULL OR m.expires_at > now())
      AND m.author IS NOT DISTINCT FROM a.author
      AND CASE
        WHEN a.bare AND m.artifacts IS NULL THEN
          -- What a text begins with tells most others apart, at less cost.
          starts_with(
            a.said,
            regexp_replace(
              regexp_replace(
                lower(normalize(left(m.body, 48), NFD) COLLATE "C"), :ignored, '', 'g'
              ),
              '[^!-~]', '?', 'g'
            )
          )
          AND a.said = regexp_replace(
            regexp_replace(lower(normalize(m.body, NFD) COLLATE "C"), :ignored, '', 'g'),
            '[^!-~]', '?', 'g'
          )
        -- The names of artifacts are part of the body, in any order.
        ELSE NOT a.bare AND m.artifacts IS NOT NULL
      END
  )
ORDER BY m.position;

-- name: lock_same
-- As select_same reads them.
WITH asked AS MATERIALIZED (
  SELECT author, artifacts IS NULL AS bare, expires_at IS NULL OR expires_at > now() AS live,
    regexp_replace(
      regexp_replace(lower(normalize(body, NFD) COLLATE "C"), :ignored, '', 'g'),
      '[^!-~]', '?', 'g'
    ) AS said
  FROM {schema}.memories
  WHERE app_name = :app_name AND user_id = :user_id AND memory_id = :memory_id
)
SELECT m.memory_id, m.kind, m.session_id, m.event_id, m.author, m.timestamp,
  m.content::text AS content, CASE WHEN m.content IS NULL THEN m.body END AS body,
  m.custom_metadata::text AS custom_metadata, m.source, m.artifacts::text AS artifacts,
  CASE WHEN jsonb_array_length(m.topics) > 0 THEN m.topics::text END AS topics,
  m.importance::float8 AS importance, m.expires_at, m.superseded_by, m.position
FROM {schema}.memories AS m
CROSS JOIN asked AS a
WHERE m.app_name = :app_name AND m.user_id = :user_id
  AND (
    m.memory_id = :memory_id
    OR a.live AND (m.expires_at IS NULL OR m.expires_at > now())
      AND m.author IS NOT DISTINCT FROM a.author
      AND CASE
        WHEN a.bare AND m.artifacts IS NULL THEN
          starts_with(
            a.said,
            regexp_replace(
              regexp_replace(
                lower(normalize(left(m.body, 48), NFD) COLLATE "C"), :ignored, '', 'g'
              ),
              '[^!-~]', '?', 'g'
            )
          )
          AND a.said = regexp_replace(
            regexp_replace(lower(normalize(m.body, NFD) COLLATE "C"), :ignored, '', 'g'),
            '[^!-~]', '?', 'g'
          )
        ELSE NOT a.bare AND m.artifacts IS NOT NULL
      END
  )
ORDER BY m.position
FOR UPDATE OF m;

-- name: lock_positions
SELECT position
FROM {schema}.memories
WHERE app_name = :app_name AND user_id = :user_id AND position = ANY (:positions)
ORDER BY position
FOR UPDATE;

-- name: update_attributes
UPDATE {schema}.memories AS m
SET custom_metadata = given.custom_metadata::jsonb, topics = given.topics::jsonb,
  importance = given.importance, digest = given.digest,
  expires_at = coalesce(now() + make_interval(secs => given.ttl_s), given.expires_at)
FROM json_to_recordset(:memories::json) AS given (
  position bigint, custom_metadata text, topics text, importance real, expires_at timestamptz,
  ttl_s double precision, digest text
)
WHERE m.app_name = :app_name AND m.user_id = :user_id AND m.position = given.position
  -- The join reads no others of their user.
  AND m.position = ANY (:positions);

-- name: delete_positions
WITH chosen AS (
  SELECT m.app_name, m.user_id, m.memory_id
  FROM {schema}.memories AS m
  WHERE m.app_name = :app_name AND m.user_id = :user_id AND m.position = ANY (:positions)
  ORDER BY m.position
  FOR UPDATE
),
drawn AS (
  SELECT m.app_name, m.user_id, m.memory_id
  FROM {schema}.memory_provenance AS p
  JOIN chosen AS c
    ON p.origin_id = c.memory_id AND p.app_name = c.app_name AND p.user_id = c.user_id
  JOIN {schema}.memories AS m
    ON m.memory_id = p.memory_id AND m.app_name = p.app_name AND m.user_id = p.user_id
  -- Locked in one order, too, because two sources may share facts.
  ORDER BY m.position
  FOR UPDATE OF m
),
gone AS (
  SELECT app_name, user_id, memory_id FROM chosen
  UNION ALL
  SELECT app_name, user_id, memory_id FROM drawn
),
erased AS (
  -- Words, vectors and jobs go with their memory, by a trigger and foreign keys.
  DELETE FROM {schema}.memories AS m
  USING gone
  WHERE m.memory_id = gone.memory_id AND m.app_name = gone.app_name AND m.user_id = gone.user_id
  RETURNING m.memory_id
)
SELECT count(*) AS erased FROM erased;

-- name: move_positions
-- Foreign keys are checked at its end, when parents and children have moved alike. So none needs ON
-- UPDATE CASCADE, which tables distributed by user could not have.
WITH given AS MATERIALIZED (
  SELECT places.origin, places.target
  FROM unnest(:froms::bigint[], :tos::bigint[]) AS places (origin, target)
),
moved_lexemes AS (
  UPDATE {schema}.memory_lexemes AS l
  SET position = given.target
  FROM given
  WHERE l.app_name = :app_name AND l.user_id = :user_id AND l.position = given.origin
),
moved_vectors AS (
  UPDATE {schema}.memory_vectors AS v
  SET position = given.target
  FROM given
  WHERE v.app_name = :app_name AND v.user_id = :user_id AND v.position = given.origin
),
moved_jobs AS (
  UPDATE {schema}.memory_jobs AS j
  SET position = given.target
  FROM given
  WHERE j.app_name = :app_name AND j.user_id = :user_id AND j.position = given.origin
),
moved AS (
  UPDATE {schema}.memories AS m
  SET position = given.target
  FROM given
  WHERE m.app_name = :app_name AND m.user_id = :user_id AND m.position = given.origin
  RETURNING m.position
)
SELECT count(*) AS moved FROM moved;

-- name: ingest_turns
SELECT {schema}.ingest_turns_1(
  :app_name, :user_id, :session_id, :whole, :event_ids, :digests, :given_ids, :memories, :config,
  :place, :model_id, :claim, :lease_s, :scope, '{schema}'
) AS answer;

-- name: insert_memories
SELECT {schema}.write_memories_1(:app_name, :user_id, :memories, :config, '{schema}') AS answer;

-- name: rewrite_memories
WITH given AS (
  SELECT g.position, g.kind, g.author, g.timestamp, g.content, g.body, g.source, g.artifacts,
    g.digest,
    to_tsvector(
      -- The app's own configuration, else the script's, else the one that is set.
      coalesce(
        (SELECT text_search_config FROM {schema}.app_settings WHERE app_name = :app_name),
        g.script, :config
      )::regconfig,
      g.words
    ) AS words
  FROM json_to_recordset(:memories::json) AS g (
    position bigint, kind text, author text, timestamp timestamptz, content text, body text,
    source text, artifacts text, digest text, words text, script text
  )
),
rewritten AS (
  UPDATE {schema}.memories AS m
  SET kind = given.kind, author = given.author, timestamp = given.timestamp,
    content = given.content::json, body = given.body, source = given.source,
    artifacts = given.artifacts::jsonb, digest = given.digest, extracted_at = NULL,
    length = (
      SELECT coalesce(sum(cardinality(word.positions)), 0) FROM unnest(given.words) AS word
    )
  FROM given
  WHERE m.app_name = :app_name AND m.user_id = :user_id AND m.position = given.position
    -- The join reads no others of their user.
    AND m.position = ANY (:positions)
  RETURNING m.app_name, m.user_id, m.position, m.kind, m.length
),
posted AS (
  INSERT INTO {schema}.memory_lexemes (
    app_name, user_id, lexeme, position, frequency, memory_length
  )
  SELECT r.app_name, r.user_id, word.lexeme, r.position, cardinality(word.positions), r.length
  FROM rewritten AS r
  JOIN given ON given.position = r.position
  CROSS JOIN LATERAL unnest(given.words) AS word
  -- A key of app, user and lexeme must fit a B-tree entry.
  WHERE octet_length(word.lexeme) <= 512
  -- As the index has them: neighbours' pages are found in the caches.
  ORDER BY r.app_name, r.user_id, word.lexeme COLLATE "C", r.position
),
queued AS (
  INSERT INTO {schema}.memory_jobs (app_name, user_id, position, work)
  SELECT r.app_name, r.user_id, r.position, works.work
  FROM rewritten AS r
  CROSS JOIN (VALUES ('embed'), ('extract')) AS works (work)
  WHERE works.work = 'embed'
    -- Facts are drawn from turns, if the app wants them.
    OR r.kind = 'turn' AND EXISTS (
      SELECT FROM {schema}.app_settings WHERE app_name = :app_name AND extract_facts
    )
  ON CONFLICT (app_name, user_id, position, work) DO UPDATE
  SET due_at = excluded.due_at, lease_expires_at = NULL, attempts = 0, error = NULL, dead = false
)
SELECT count(*) AS written FROM rewritten;

-- name: forget_derived
WITH derived_lexemes AS (
  DELETE FROM {schema}.memory_lexemes
  WHERE app_name = :app_name AND user_id = :user_id AND position = ANY (:positions)
),
derived_vectors AS (
  DELETE FROM {schema}.memory_vectors
  WHERE app_name = :app_name AND user_id = :user_id AND position = ANY (:positions)
),
chosen AS (
  SELECT p.app_name, p.user_id, p.memory_id
  FROM {schema}.memory_provenance AS p
  JOIN {schema}.memories AS m
    ON m.memory_id = p.origin_id AND m.app_name = p.app_name AND m.user_id = p.user_id
  WHERE m.app_name = :app_name AND m.user_id = :user_id AND m.position = ANY (:positions)
),
drawn AS (
  SELECT m.app_name, m.user_id, m.memory_id
  FROM {schema}.memory_provenance AS p
  JOIN chosen AS c
    ON p.origin_id = c.memory_id AND p.app_name = c.app_name AND p.user_id = c.user_id
  JOIN {schema}.memories AS m
    ON m.memory_id = p.memory_id AND m.app_name = p.app_name AND m.user_id = p.user_id
  ORDER BY m.position
  FOR UPDATE OF m
),
gone AS (
  SELECT app_name, user_id, memory_id FROM chosen
  UNION ALL
  SELECT app_name, user_id, memory_id FROM drawn
),
erased AS (
  DELETE FROM {schema}.memories AS m
  USING gone
  WHERE m.memory_id = gone.memory_id AND m.app_name = gone.app_name AND m.user_id = gone.user_id
  RETURNING m.memory_id
)
SELECT count(*) AS erased FROM erased;

-- name: lock_free_positions
SELECT position
FROM {schema}.memories
WHERE app_name = :app_name AND user_id = :user_id AND position = ANY (:positions)
ORDER BY position
FOR UPDATE SKIP LOCKED;

-- name: erase_memories
-- `{which}` says which memories of a user, and `{marked}` whether marks of their events stay.
WITH chosen AS (
  SELECT m.app_name, m.user_id, m.memory_id, m.session_id, m.event_id
  FROM {schema}.memories AS m
  WHERE m.app_name = :app_name AND m.user_id = :user_id AND {which}
  ORDER BY m.position
  FOR UPDATE
),
tombstones AS (
  INSERT INTO {schema}.memory_tombstones (app_name, user_id, session_id, event_id)
  SELECT c.app_name, c.user_id, c.session_id, c.event_id
  FROM chosen AS c
  WHERE c.event_id IS NOT NULL AND {marked}
  ON CONFLICT DO NOTHING
),
drawn AS (
  SELECT m.app_name, m.user_id, m.memory_id
  FROM {schema}.memory_provenance AS p
  JOIN chosen AS c
    ON p.origin_id = c.memory_id AND p.app_name = c.app_name AND p.user_id = c.user_id
  JOIN {schema}.memories AS m
    ON m.memory_id = p.memory_id AND m.app_name = p.app_name AND m.user_id = p.user_id
  -- Locked in one order, too, because two sources may share facts.
  ORDER BY m.position
  FOR UPDATE OF m
),
gone AS (
  SELECT app_name, user_id, memory_id FROM chosen
  UNION ALL
  SELECT app_name, user_id, memory_id FROM drawn
),
erased AS (
  -- Words, vectors and jobs go with their memory, by a trigger and foreign keys.
  DELETE FROM {schema}.memories AS m
  USING gone
  WHERE m.memory_id = gone.memory_id AND m.app_name = gone.app_name AND m.user_id = gone.user_id
  RETURNING m.kind
)
SELECT kind, count(*) AS rows FROM erased GROUP BY kind;

-- name: end_derived
WITH held AS (
  SELECT m.memory_id
  FROM {schema}.memories AS m
  WHERE m.app_name = :app_name AND m.user_id = :user_id AND m.superseded_by IS NULL
    AND m.memory_id IN (
      SELECT p.memory_id
      FROM {schema}.memory_provenance AS p
      WHERE p.app_name = :app_name AND p.user_id = :user_id AND p.origin_id = ANY (:origins)
    )
  ORDER BY m.position
  FOR UPDATE
),
ends AS (
  SELECT p.memory_id, min(origin.expires_at) AS after,
    min(
      CASE WHEN given.memory_id IS NOT NULL THEN given.was ELSE origin.expires_at END
    ) AS before
  FROM {schema}.memory_provenance AS p
  JOIN {schema}.memories AS origin
    ON origin.app_name = :app_name AND origin.user_id = :user_id
    AND origin.memory_id = p.origin_id
  LEFT JOIN unnest(:origins::text[], :was::timestamptz[]) AS given (memory_id, was)
    ON given.memory_id = origin.memory_id
  WHERE p.app_name = :app_name AND p.user_id = :user_id
    AND p.memory_id IN (SELECT held.memory_id FROM held)
  GROUP BY p.memory_id
),
ended AS (
  UPDATE {schema}.memories AS m
  SET expires_at = CASE
      WHEN m.expires_at IS NOT NULL AND (ends.before IS NULL OR m.expires_at < ends.before)
        THEN least(m.expires_at, ends.after)
      ELSE ends.after
    END
  FROM ends
  WHERE m.app_name = :app_name AND m.user_id = :user_id AND m.memory_id = ends.memory_id
  RETURNING m.memory_id
)
SELECT count(*) AS ended FROM ended;
