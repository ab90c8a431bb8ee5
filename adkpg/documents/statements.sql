-- name: select_pieces
SELECT memory_id, position, timestamp,
  -- As `records.plain_content` writes it, where the body says it all.
  coalesce(content::text, concat(
    '{"parts":[{"text":',
    to_json(substr(body, coalesce(length(author) + 3, 1)))::text,
    CASE
      WHEN author IS NULL THEN '}]}'
      WHEN author = 'user' THEN '}],"role":"user"}'
      ELSE '}],"role":"model"}'
    END
  )) AS content,
  digest
FROM {schema}.memories
WHERE app_name = :app_name AND user_id = :user_id AND source = :source AND kind = 'document'
ORDER BY position;

-- name: list_sources
SELECT source, count(*) AS chunks, max(timestamp) AS time
FROM {schema}.memories
WHERE app_name = :app_name AND user_id = :user_id AND source > :after AND kind = 'document'
  AND (expires_at IS NULL OR expires_at > now())
GROUP BY source
ORDER BY source
LIMIT :limit;
