-- name: select_session
-- The token of a revision is read in the order of the primary key: before a first ANALYZE Postgres
-- finds the index of event ids as good, and reads all of them. A state's version is the xmin of its
-- row: each change makes another one, the same on standbys.
SELECT s.user_id, s.session_id, s.incarnation::text, s.revision, s.updated_at, (
    SELECT CASE WHEN e.seq = s.revision THEN e.revision_token::text END
    FROM {schema}.events AS e
    WHERE e.app_name = s.app_name AND e.user_id = s.user_id AND e.session_id = s.session_id
      AND e.seq >= s.revision
    ORDER BY e.seq
    LIMIT 1
  ) AS revision_token,
  s.state::text, a.state::text AS app_state, u.state::text AS user_state,
  a.xmin::text::bigint AS app_state_version, u.xmin::text::bigint AS user_state_version,
  array(
    SELECT e.payload::text
    FROM {schema}.events AS e
    WHERE e.app_name = :app_name AND e.user_id = :user_id AND e.session_id = :session_id
      AND e.timestamp >= coalesce(:after::timestamptz, '-infinity')
      AND e.seq < coalesce(page.next_seq, 9223372036854775807)
    ORDER BY e.seq
  ) AS payloads,
  page.next_seq
FROM {schema}.sessions AS s
LEFT JOIN {schema}.app_states AS a ON a.app_name = :app_name
LEFT JOIN {schema}.user_states AS u ON u.app_name = :app_name AND u.user_id = :user_id
CROSS JOIN LATERAL (
  -- Most sessions are small by the count that appends keep, and nothing of theirs is measured.
  SELECT CASE
    WHEN s.payload_bytes NOT BETWEEN s.revision AND {page_bytes} - {event_bytes} * s.revision THEN (
      SELECT min(measured.seq)
      FROM (
        -- As they are stored, which is compressed: none is unpacked to be measured, nor kept.
        SELECT e.seq, sum(pg_column_size(e.payload) + {event_bytes}) OVER (
          ORDER BY e.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before
        FROM {schema}.events AS e
        WHERE e.app_name = :app_name AND e.user_id = :user_id AND e.session_id = :session_id
          AND e.timestamp >= coalesce(:after::timestamptz, '-infinity')
        ORDER BY e.seq
        LIMIT {page_events} + 1
      ) AS measured
      WHERE measured.before >= {page_bytes}
    )
  END AS next_seq
  -- Else it would be worked out for each use.
  OFFSET 0
) AS page
WHERE s.app_name = :app_name AND s.user_id = :user_id AND s.session_id = :session_id
  AND (s.expires_at IS NULL OR s.expires_at > now());

-- name: select_recent_session
SELECT s.user_id, s.session_id, s.incarnation::text, s.revision, s.updated_at, (
    SELECT CASE WHEN e.seq = s.revision THEN e.revision_token::text END
    FROM {schema}.events AS e
    WHERE e.app_name = s.app_name AND e.user_id = s.user_id AND e.session_id = s.session_id
      AND e.seq >= s.revision
    ORDER BY e.seq
    LIMIT 1
  ) AS revision_token,
  s.state::text, a.state::text AS app_state, u.state::text AS user_state,
  a.xmin::text::bigint AS app_state_version, u.xmin::text::bigint AS user_state_version,
  array(
    SELECT e.payload::text
    FROM (
      SELECT e.seq, e.payload
      FROM {schema}.events AS e
      WHERE e.app_name = :app_name AND e.user_id = :user_id AND e.session_id = :session_id
        AND e.timestamp >= coalesce(:after::timestamptz, '-infinity')
      ORDER BY e.seq DESC
      LIMIT :limit
    ) AS e
    WHERE e.seq < coalesce(page.next_seq, 9223372036854775807)
    ORDER BY e.seq
  ) AS payloads,
  page.next_seq
FROM {schema}.sessions AS s
LEFT JOIN {schema}.app_states AS a ON a.app_name = :app_name
LEFT JOIN {schema}.user_states AS u ON u.app_name = :app_name AND u.user_id = :user_id
CROSS JOIN LATERAL (
  SELECT CASE
    WHEN s.payload_bytes NOT BETWEEN s.revision AND {page_bytes} - {event_bytes} * s.revision THEN (
      SELECT min(measured.seq)
      FROM (
        SELECT e.seq, sum(pg_column_size(e.payload) + {event_bytes}) OVER (
          ORDER BY e.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before
        FROM (
          SELECT e.seq, e.payload
          FROM {schema}.events AS e
          WHERE e.app_name = :app_name AND e.user_id = :user_id AND e.session_id = :session_id
            AND e.timestamp >= coalesce(:after::timestamptz, '-infinity')
          ORDER BY e.seq DESC
          LIMIT :limit
        ) AS e
        ORDER BY e.seq
        LIMIT {page_events} + 1
      ) AS measured
      WHERE measured.before >= {page_bytes}
    )
  END AS next_seq
  OFFSET 0
) AS page
WHERE s.app_name = :app_name AND s.user_id = :user_id AND s.session_id = :session_id
  AND (s.expires_at IS NULL OR s.expires_at > now());

-- name: select_session_again
WITH known AS (
  SELECT s.incarnation = :incarnation::uuid AND (
      SELECT CASE WHEN e.seq = :revision THEN e.revision_token END
      FROM {schema}.events AS e
      WHERE e.app_name = :app_name AND e.user_id = :user_id AND e.session_id = :session_id
        AND e.seq >= :revision
      ORDER BY e.seq
      LIMIT 1
    ) = :revision_token::uuid AND (
      SELECT count(*)
      FROM {schema}.events AS e
      WHERE e.app_name = :app_name AND e.user_id = :user_id AND e.session_id = :session_id
        AND e.seq <= :revision
    ) = :count AS had
  FROM {schema}.sessions AS s
  WHERE s.app_name = :app_name AND s.user_id = :user_id AND s.session_id = :session_id
    AND (s.expires_at IS NULL OR s.expires_at > now())
)
SELECT s.user_id, s.session_id, s.incarnation::text, s.revision, s.updated_at, (
    SELECT CASE WHEN e.seq = s.revision THEN e.revision_token::text END
    FROM {schema}.events AS e
    WHERE e.app_name = s.app_name AND e.user_id = s.user_id AND e.session_id = s.session_id
      AND e.seq >= s.revision
    ORDER BY e.seq
    LIMIT 1
  ) AS revision_token,
  s.state::text, a.state::text AS app_state, u.state::text AS user_state,
  a.xmin::text::bigint AS app_state_version, u.xmin::text::bigint AS user_state_version,
  (SELECT had FROM known) AS had,
  array(
    SELECT e.payload::text
    FROM {schema}.events AS e
    WHERE e.app_name = :app_name AND e.user_id = :user_id AND e.session_id = :session_id
      AND e.seq > (SELECT CASE WHEN had THEN :revision ELSE 0 END FROM known)
      AND e.seq < coalesce(page.next_seq, 9223372036854775807)
    ORDER BY e.seq
  ) AS payloads,
  page.next_seq
FROM {schema}.sessions AS s
LEFT JOIN {schema}.app_states AS a ON a.app_name = :app_name
LEFT JOIN {schema}.user_states AS u ON u.app_name = :app_name AND u.user_id = :user_id
CROSS JOIN LATERAL (
  SELECT CASE
    WHEN s.payload_bytes NOT BETWEEN s.revision AND {page_bytes} - {event_bytes} * s.revision THEN (
      SELECT min(measured.seq)
      FROM (
        SELECT e.seq, sum(pg_column_size(e.payload) + {event_bytes}) OVER (
          ORDER BY e.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before
        FROM {schema}.events AS e
        WHERE e.app_name = :app_name AND e.user_id = :user_id AND e.session_id = :session_id
          AND e.seq > (SELECT CASE WHEN had THEN :revision ELSE 0 END FROM known)
        ORDER BY e.seq
        LIMIT {page_events} + 1
      ) AS measured
      WHERE measured.before >= {page_bytes}
    )
  END AS next_seq
  OFFSET 0
) AS page
WHERE s.app_name = :app_name AND s.user_id = :user_id AND s.session_id = :session_id
  AND (s.expires_at IS NULL OR s.expires_at > now());

-- name: select_further_events
SELECT array(
    SELECT e.payload::text
    FROM {schema}.events AS e
    WHERE e.app_name = :app_name AND e.user_id = :user_id AND e.session_id = :session_id
      AND e.seq >= :next_seq AND e.seq <= :revision
      AND e.timestamp >= coalesce(:after::timestamptz, '-infinity')
      AND e.seq < coalesce(page.next_seq, 9223372036854775807)
    ORDER BY e.seq
  ) AS payloads,
  page.next_seq
FROM {schema}.sessions AS s
CROSS JOIN LATERAL (
  SELECT CASE
    WHEN s.payload_bytes NOT BETWEEN s.revision AND {page_bytes} - {event_bytes} * s.revision THEN (
      SELECT min(measured.seq)
      FROM (
        SELECT e.seq, sum(pg_column_size(e.payload) + {event_bytes}) OVER (
          ORDER BY e.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before
        FROM {schema}.events AS e
        WHERE e.app_name = :app_name AND e.user_id = :user_id AND e.session_id = :session_id
          AND e.seq >= :next_seq AND e.seq <= :revision
          AND e.timestamp >= coalesce(:after::timestamptz, '-infinity')
        ORDER BY e.seq
        LIMIT {page_events} + 1
      ) AS measured
      WHERE measured.before >= {page_bytes}
    )
  END AS next_seq
  OFFSET 0
) AS page
WHERE s.app_name = :app_name AND s.user_id = :user_id AND s.session_id = :session_id
  AND (s.expires_at IS NULL OR s.expires_at > now())
  AND s.incarnation = :incarnation::uuid AND s.revision >= :revision
  -- The event of that revision has its token still; one that was deleted since contradicts no
  -- reader.
  AND ((
    SELECT CASE WHEN e.seq = :revision THEN e.revision_token END
    FROM {schema}.events AS e
    WHERE e.app_name = :app_name AND e.user_id = :user_id AND e.session_id = :session_id
      AND e.seq >= :revision
    ORDER BY e.seq
    LIMIT 1
  ) = :revision_token::uuid) IS NOT FALSE;

-- name: list_sessions
-- The active sessions, which are sorted, and the settled ones, which an index has in order.
--
-- States become text in the last step, and tokens are read there: below a limit, those that are not
-- on the page would too. With OFFSET 0 each state is measured once.
WITH page AS (
  (
    SELECT user_id, session_id, incarnation, revision, updated_at, created_at, state
    FROM {schema}.sessions
    WHERE app_name = :app_name AND user_id = :user_id AND settled_at IS NULL
      AND (expires_at IS NULL OR expires_at > now())
      AND (updated_at, session_id)
        < (coalesce(:after_time::timestamptz, 'infinity'), coalesce(:after_session_id, ''))
    ORDER BY updated_at DESC, session_id DESC
    LIMIT :limit
  )
  UNION ALL
  (
    SELECT user_id, session_id, incarnation, revision, updated_at, created_at, state
    FROM {schema}.sessions
    WHERE app_name = :app_name AND user_id = :user_id AND settled_at IS NOT NULL
      AND (expires_at IS NULL OR expires_at > now())
      AND (settled_at, session_id)
        < (coalesce(:after_time::timestamptz, 'infinity'), coalesce(:after_session_id, ''))
    ORDER BY settled_at DESC, session_id DESC
    LIMIT :limit
  )
  ORDER BY updated_at DESC, session_id DESC
  LIMIT :limit
),
sized AS (
  SELECT page.*, octet_length(page.state::text) + coalesce((
      SELECT octet_length(state::text) FROM {schema}.app_states WHERE app_name = :app_name
    ), 0) + coalesce((
      SELECT octet_length(state::text)
      FROM {schema}.user_states
      WHERE app_name = :app_name AND user_id = :user_id
    ), 0) AS size
  FROM page
  OFFSET 0
),
measured AS (
  SELECT *, row_number() OVER placed AS number,
    sum(size) OVER (placed ROWS UNBOUNDED PRECEDING) AS bytes, count(*) OVER () AS listed
  FROM sized
  WINDOW placed AS (ORDER BY updated_at DESC, session_id DESC)
)
SELECT m.user_id, m.session_id, m.incarnation::text, m.revision, m.updated_at, m.created_at, m.size,
  m.number, m.listed, (
    SELECT CASE WHEN e.seq = m.revision THEN e.revision_token::text END
    FROM {schema}.events AS e
    WHERE e.app_name = :app_name AND e.user_id = m.user_id AND e.session_id = m.session_id
      AND e.seq >= m.revision
    ORDER BY e.seq
    LIMIT 1
  ) AS revision_token,
  m.state::text, a.state::text AS app_state, a.xmin::text::bigint AS app_state_version,
  u.state::text AS user_state
FROM measured AS m
LEFT JOIN {schema}.app_states AS a ON a.app_name = :app_name AND m.number = 1
LEFT JOIN {schema}.user_states AS u
  ON u.app_name = :app_name AND u.user_id = :user_id AND m.number = 1
WHERE m.number = 1 OR m.bytes <= :most_bytes
ORDER BY m.number;

-- name: list_sessions_of_app
-- As `list_sessions`, of another page. The users are a step, because else a user's state would be
-- measured for each session.
WITH page AS (
  SELECT user_id, session_id, incarnation, revision, updated_at, created_at, state
  FROM {schema}.sessions
  WHERE app_name = :app_name AND (expires_at IS NULL OR expires_at > now())
  LIMIT :limit
),
users AS MATERIALIZED (
  SELECT each.user_id, (
      SELECT octet_length(u.state::text)
      FROM {schema}.user_states AS u
      WHERE u.app_name = :app_name AND u.user_id = each.user_id
    ) AS bytes
  FROM (SELECT DISTINCT user_id FROM page) AS each
),
sized AS (
  SELECT page.*, octet_length(page.state::text) + coalesce((
      SELECT octet_length(state::text) FROM {schema}.app_states WHERE app_name = :app_name
    ), 0) + coalesce(users.bytes, 0) AS size
  FROM page
  JOIN users ON users.user_id = page.user_id
  OFFSET 0
),
measured AS (
  SELECT *, row_number() OVER placed AS number,
    row_number() OVER own AS number_of_user,
    sum(size) OVER (placed ROWS UNBOUNDED PRECEDING) AS bytes, count(*) OVER () AS listed
  FROM sized
  WINDOW placed AS (ORDER BY updated_at DESC, user_id DESC, session_id DESC),
    own AS (PARTITION BY user_id ORDER BY updated_at DESC, session_id DESC)
)
SELECT m.user_id, m.session_id, m.incarnation::text, m.revision, m.updated_at, m.created_at, m.size,
  m.number, m.listed, (
    SELECT CASE WHEN e.seq = m.revision THEN e.revision_token::text END
    FROM {schema}.events AS e
    WHERE e.app_name = :app_name AND e.user_id = m.user_id AND e.session_id = m.session_id
      AND e.seq >= m.revision
    ORDER BY e.seq
    LIMIT 1
  ) AS revision_token,
  m.state::text, a.state::text AS app_state, a.xmin::text::bigint AS app_state_version,
  CASE WHEN m.number_of_user = 1 THEN (
    SELECT u.state::text
    FROM {schema}.user_states AS u
    WHERE u.app_name = :app_name AND u.user_id = m.user_id
  ) END AS user_state
FROM measured AS m
LEFT JOIN {schema}.app_states AS a ON a.app_name = :app_name AND m.number = 1
WHERE m.number = 1 OR m.bytes <= :most_bytes
ORDER BY m.number;

-- name: list_newest_sessions_of_app
-- As `list_sessions_of_app`, of another page.
WITH places AS MATERIALIZED (
  SELECT created_at, user_id, session_id
  FROM {schema}.sessions
  WHERE app_name = :app_name AND (expires_at IS NULL OR expires_at > now())
    AND (created_at, user_id, session_id) < (
      coalesce(:after_time::timestamptz, 'infinity'), coalesce(:after_user_id, ''),
      coalesce(:after_session_id, '')
    )
  ORDER BY created_at DESC, user_id DESC, session_id DESC
  LIMIT :limit
),
page AS (
  SELECT row.*
  FROM places
  CROSS JOIN LATERAL (
    SELECT s.user_id, s.session_id, s.incarnation, s.revision, s.updated_at, s.created_at, s.state
    FROM {schema}.sessions AS s
    WHERE s.app_name = :app_name AND s.user_id = places.user_id
      AND s.session_id = places.session_id
    -- Found by key: a limit that the planner does not know looks to it like a tenth of all.
    OFFSET 0
  ) AS row
),
users AS MATERIALIZED (
  SELECT each.user_id, (
      SELECT octet_length(u.state::text)
      FROM {schema}.user_states AS u
      WHERE u.app_name = :app_name AND u.user_id = each.user_id
    ) AS bytes
  FROM (SELECT DISTINCT user_id FROM page) AS each
),
sized AS (
  SELECT page.*, octet_length(page.state::text) + coalesce((
      SELECT octet_length(state::text) FROM {schema}.app_states WHERE app_name = :app_name
    ), 0) + coalesce(users.bytes, 0) AS size
  FROM page
  JOIN users ON users.user_id = page.user_id
  OFFSET 0
),
measured AS (
  SELECT *, row_number() OVER placed AS number,
    row_number() OVER own AS number_of_user,
    sum(size) OVER (placed ROWS UNBOUNDED PRECEDING) AS bytes, count(*) OVER () AS listed
  FROM sized
  WINDOW placed AS (ORDER BY created_at DESC, user_id DESC, session_id DESC),
    own AS (PARTITION BY user_id ORDER BY created_at DESC, session_id DESC)
)
SELECT m.user_id, m.session_id, m.incarnation::text, m.revision, m.updated_at, m.created_at, m.size,
  m.number, m.listed, (
    SELECT CASE WHEN e.seq = m.revision THEN e.revision_token::text END
    FROM {schema}.events AS e
    WHERE e.app_name = :app_name AND e.user_id = m.user_id AND e.session_id = m.session_id
      AND e.seq >= m.revision
    ORDER BY e.seq
    LIMIT 1
  ) AS revision_token,
  m.state::text, a.state::text AS app_state, a.xmin::text::bigint AS app_state_version,
  CASE WHEN m.number_of_user = 1 THEN (
    SELECT u.state::text
    FROM {schema}.user_states AS u
    WHERE u.app_name = :app_name AND u.user_id = m.user_id
  ) END AS user_state
FROM measured AS m
LEFT JOIN {schema}.app_states AS a ON a.app_name = :app_name AND m.number = 1
WHERE m.number = 1 OR m.bytes <= :most_bytes
ORDER BY m.number;

-- name: list_events_page
SELECT seq, payload::text
FROM {schema}.events
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id AND seq > :after_seq
  AND EXISTS (
    SELECT FROM {schema}.sessions
    WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
      AND (expires_at IS NULL OR expires_at > now())
  )
ORDER BY seq
LIMIT :limit;

-- name: select_user_state
SELECT state::text
FROM {schema}.user_states
WHERE app_name = :app_name AND user_id = :user_id;
