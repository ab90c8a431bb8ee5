-- name: select_position
SELECT s.incarnation::text, s.revision, (
    SELECT last.revision_token::text
    FROM (
      SELECT e.seq, e.revision_token
      FROM {schema}.events AS e
      WHERE e.app_name = s.app_name AND e.user_id = s.user_id AND e.session_id = s.session_id
        AND e.seq >= s.revision
      ORDER BY e.seq
      LIMIT 1
    ) AS last
    WHERE last.seq = s.revision
  ) AS revision_token,
  md5(jsonb_build_array(s.app_name, s.user_id, s.session_id, s.incarnation)::text) AS key
FROM {schema}.sessions AS s
WHERE s.app_name = :app_name AND s.user_id = :user_id AND s.session_id = :session_id
  AND (s.expires_at IS NULL OR s.expires_at > now());

-- name: keep_watched
UPDATE {schema}.sessions
SET watched_until = now() + interval '60 seconds'
WHERE app_name = :app_name AND user_id = :user_id AND session_id = :session_id
  AND (expires_at IS NULL OR expires_at > now())
  AND (watched_until IS NULL OR watched_until < now() + interval '30 seconds');

-- name: select_news
SELECT s.incarnation::text,
  coalesce(s.revision < :revision OR :revision_token::uuid <> there.revision_token, false)
    AS went_back,
  news.*
FROM {schema}.sessions AS s
LEFT JOIN (
  SELECT e.seq, e.revision_token::text AS revision_token, e.payload::text
  FROM {schema}.events AS e
  WHERE e.app_name = :app_name AND e.user_id = :user_id AND e.session_id = :session_id
    AND e.seq > :revision
  ORDER BY e.seq
  LIMIT :limit
) AS news ON true
LEFT JOIN (
  SELECT e.seq, e.revision_token
  FROM {schema}.events AS e
  WHERE e.app_name = :app_name AND e.user_id = :user_id AND e.session_id = :session_id
    AND e.seq >= :revision
  ORDER BY e.seq
  LIMIT 1
) AS there ON there.seq = :revision
WHERE s.app_name = :app_name AND s.user_id = :user_id AND s.session_id = :session_id
  AND (s.expires_at IS NULL OR s.expires_at > now())
ORDER BY news.seq;
