-- Names in braces are the ranking's constants, and `{vector}`, the column of the model's vectors.
-- They are text, because then the planner of a kept plan knows them.

-- name: select_indexed
SELECT a.user_id
FROM {schema}.approximate_scopes AS a
WHERE a.app_name = :app_name AND a.user_id = ANY (ARRAY[:user_id, :also_user_id]) AND a.ready
  AND a.model_id = (
    SELECT model_id
    FROM {schema}.embedding_models
    WHERE name = :model AND dimensions = :dimensions
  );

-- name: select_waiting
SELECT EXISTS (
  SELECT
  FROM {schema}.memory_jobs
  WHERE app_name = :app_name AND user_id = ANY (ARRAY[:user_id, :also_user_id])
    AND work = 'embed' AND attempts = 0 AND error IS NULL
    AND created_at < now() - interval '1 minute'
) AS waiting;

-- name: select_neighbours
SELECT m.memory_id, m.kind, m.session_id, m.event_id, m.author, m.timestamp,
  CASE WHEN NOT size.cut THEN m.content::text END AS content,
  CASE WHEN m.content IS NULL OR size.cut THEN m.body END AS body,
  m.custom_metadata::text AS custom_metadata, m.source, m.artifacts::text AS artifacts,
  CASE WHEN jsonb_array_length(m.topics) > 0 THEN m.topics::text END AS topics,
  m.importance::float8 AS importance, m.expires_at, m.superseded_by, size.cut,
  given.position AS of_position
FROM unnest(:positions::bigint[]) AS given (position)
JOIN {schema}.memories AS m
  ON m.app_name = :app_name AND m.user_id = ANY (ARRAY[:user_id, :also_user_id])
  AND m.position BETWEEN given.position - :reach::bigint AND given.position + :reach::bigint
  AND m.position <> given.position
-- Its first half is known without reading the content. A long one may be short as it is stored.
CROSS JOIN LATERAL (
  SELECT coalesce(
    pg_column_size(m.content) > {content_limit} OR octet_length(m.content::text) > {content_limit},
    false
  ) AS cut
) AS size
WHERE (m.expires_at IS NULL OR m.expires_at > now())
  AND (:invocation_id::text IS NULL OR m.invocation_id IS DISTINCT FROM :invocation_id)
ORDER BY given.position, m.position;

-- name: select_found
WITH question AS MATERIALIZED (
  SELECT l2_normalize(:query_vector::vector)::halfvec AS vector
)
SELECT m.memory_id, m.kind, m.session_id, m.event_id, m.author, m.timestamp,
  CASE WHEN NOT size.cut THEN m.content::text END AS content,
  CASE WHEN m.content IS NULL OR size.cut THEN m.body END AS body,
  m.custom_metadata::text AS custom_metadata, m.source, m.artifacts::text AS artifacts,
  CASE WHEN jsonb_array_length(m.topics) > 0 THEN m.topics::text END AS topics,
  m.importance::float8 AS importance, m.expires_at, m.superseded_by, size.cut, m.position,
  CASE
    WHEN m.position >= 0 AND EXISTS (
      SELECT FROM {schema}.memory_provenance WHERE app_name = :app_name AND user_id = :user_id
    ) THEN ARRAY(
      SELECT ARRAY[fact.memory_id, fact.superseded_by]
      FROM {schema}.memory_provenance AS p
      JOIN {schema}.memories AS fact
        ON fact.memory_id = p.memory_id AND fact.app_name = p.app_name AND fact.user_id = p.user_id
      WHERE p.app_name = :app_name AND p.user_id = :user_id AND p.origin_id = m.memory_id
    )
  END AS drawn,
  -- A memory of as many characters as a passage has tokens has no passages. They are not
  -- aggregated: an aggregate is set up in each search, even if it never runs.
  CASE
    WHEN :model_id::integer IS NOT NULL AND length(m.body) > {passage_tokens} THEN ARRAY(
      SELECT ARRAY[
        lower(v.span), upper(v.span),
        -(coalesce(v.embedding, v.large) <#> (SELECT vector FROM question))
      ]
      FROM {schema}.memory_vectors AS v
      WHERE v.app_name = :app_name
        AND v.user_id = CASE WHEN m.position < 0 THEN {app_wide} ELSE :user_id END
        AND v.position = m.position AND (v.model_id = :model_id::integer) IS TRUE
        AND v.span IS NOT NULL
    )
  END AS parts
FROM {schema}.memories AS m
CROSS JOIN LATERAL (
  SELECT coalesce(
    pg_column_size(m.content) > {content_limit} OR octet_length(m.content::text) > {content_limit},
    false
  ) AS cut
) AS size
WHERE m.app_name = :app_name AND m.user_id = ANY (ARRAY[:user_id, :also_user_id])
  -- One walk along the key's index: a look-up of each place would take four times as long.
  AND m.position = ANY (ARRAY(SELECT unnest(:positions::bigint[])))
  AND (m.expires_at IS NULL OR m.expires_at > now())
  AND (:invocation_id::text IS NULL OR m.invocation_id IS DISTINCT FROM :invocation_id)
  AND (:after::timestamptz IS NULL OR m.timestamp >= :after)
  AND (:before::timestamptz IS NULL OR m.timestamp < :before)
  AND (:authors::text[] IS NULL OR m.author = ANY (:authors))
  AND (:session_ids::text[] IS NULL OR m.session_id = ANY (:session_ids))
  AND (:kinds::text[] IS NULL OR m.kind = ANY (:kinds))
  AND (:topics::text[] IS NULL OR m.topics ?| :topics)
  AND (:metadata::jsonb IS NULL OR m.custom_metadata @> :metadata);

-- What follows are the steps of `evidence`, of which each shape takes its own.
--
-- The planner's knowledge of a user is old or nothing. For a question of thousands of words, and
-- for memories that came after the last ANALYZE, it would expect one row, choose nested loops, and
-- take minutes. So joins are FULL where they need not be, because a nested loop cannot do one; a
-- place is looked up in a hash table, by `IN (…) IS TRUE`; and OFFSET 0 keeps the planner from
-- joining freely. The scopes are not one parameter: the planner would take it for ten users, and
-- never keep a plan.

-- name: dead
-- Where memories are not found, nor their words: they have expired, were superseded, or are of the
-- invocation that asks. A caller that names no invocation need not read them all.
dead AS MATERIALIZED (
  SELECT position
  FROM {schema}.memories
  WHERE app_name = :app_name AND user_id = ANY (ARRAY[:user_id, :also_user_id])
    AND (
      expires_at IS NOT NULL AND expires_at <= now()
      OR :invocation_id::text IS NOT NULL AND invocation_id = :invocation_id
    )
)

-- name: eligible
eligible AS MATERIALIZED (
  SELECT position
  FROM {schema}.memories
  WHERE app_name = :app_name AND user_id = ANY (ARRAY[:user_id, :also_user_id])
    AND (:after::timestamptz IS NULL OR timestamp >= :after)
    AND (:before::timestamptz IS NULL OR timestamp < :before)
    AND (:authors::text[] IS NULL OR author = ANY (:authors))
    AND (:topics::text[] IS NULL OR topics ?| :topics)
    AND (:metadata::jsonb IS NULL OR custom_metadata @> :metadata)
)

-- name: eligible_of_kinds
eligible AS MATERIALIZED (
  SELECT position
  FROM {schema}.memories
  WHERE app_name = :app_name AND user_id = ANY (ARRAY[:user_id, :also_user_id])
    AND kind = ANY (:kinds)
    AND (:after::timestamptz IS NULL OR timestamp >= :after)
    AND (:before::timestamptz IS NULL OR timestamp < :before)
    AND (:authors::text[] IS NULL OR author = ANY (:authors))
    AND (:topics::text[] IS NULL OR topics ?| :topics)
    AND (:metadata::jsonb IS NULL OR custom_metadata @> :metadata)
)

-- name: eligible_of_sessions
eligible AS MATERIALIZED (
  SELECT position
  FROM {schema}.memories
  WHERE app_name = :app_name AND user_id = ANY (ARRAY[:user_id, :also_user_id])
    AND session_id = ANY (:session_ids)
    AND (:kinds::text[] IS NULL OR kind = ANY (:kinds))
    AND (:after::timestamptz IS NULL OR timestamp >= :after)
    AND (:before::timestamptz IS NULL OR timestamp < :before)
    AND (:authors::text[] IS NULL OR author = ANY (:authors))
    AND (:topics::text[] IS NULL OR topics ?| :topics)
    AND (:metadata::jsonb IS NULL OR custom_metadata @> :metadata)
)

-- name: scope
-- How many live memories there are, and how long they are. A scope that is known is not counted,
-- because counting many memories takes most of a search's time. Sums are floats: a numeric's
-- average takes longer than all of the look at the index.
scope AS MATERIALIZED (
  SELECT coalesce(:known_size::float8, counted.size) AS size,
    coalesce(:known_mean_length::float8, counted.mean_length) AS mean_length
  FROM (
    SELECT count(*)::float8 AS size,
      greatest(sum(length)::float8 / nullif(count(*)::float8, 0), 1.0) AS mean_length
    FROM {schema}.memories
    WHERE :known_size::float8 IS NULL
      AND app_name = :app_name AND user_id = ANY (ARRAY[:user_id, :also_user_id])
      AND position NOT IN (SELECT position FROM dead)
  ) AS counted
)

-- name: asked
-- The question's words, numbered: a number is grouped by in less time than a text.
asked AS MATERIALIZED (
  SELECT lexeme COLLATE "C" AS lexeme, row_number() OVER () AS word
  FROM unnest(to_tsvector(
    coalesce(
      (SELECT text_search_config FROM {schema}.app_settings WHERE app_name = :app_name),
      :script,
      :config
    )::regconfig,
    :query
  ))
)

-- name: postings
-- A posting counts for the memory that it stands in and, by weight, for its neighbours, whose
-- positions are next to it. A long memory lends its neighbours less of each.
postings AS MATERIALIZED (
  SELECT asked.word, posting.*
  FROM asked
  CROSS JOIN LATERAL (
    SELECT position, frequency,
      frequency * CASE
        WHEN memory_length > {lends} * :wordiness::float8
        THEN {lends} * :wordiness::float8 / memory_length
        ELSE 1.0
      END AS lent
    FROM {schema}.memory_lexemes
    WHERE app_name = :app_name AND user_id = ANY (ARRAY[:user_id, :also_user_id])
      AND lexeme = asked.lexeme
      AND position NOT IN (SELECT position FROM dead)
    OFFSET 0
  ) AS posting
)

-- name: counted
-- The question's words that occur: how often, and whether they lead. A word of thousands of
-- memories tells little of any, and spreading it costs most.
counted AS MATERIALIZED (
  SELECT word, found_in::float8 AS found_in,
    sum(found_in) OVER (ORDER BY found_in, word) <= {leading_postings}
      OR row_number() OVER (ORDER BY found_in, word) = 1 AS leads
  FROM (SELECT word, count(*) AS found_in FROM postings GROUP BY word) AS counts
)

-- name: leading_words
-- What the words that lead count for each memory, their own and their neighbours'.
leading_words AS MATERIALIZED (
  SELECT p.word, p.position + s.shift AS position,
    sum(CASE WHEN s.shift = 0 THEN p.frequency ELSE p.lent END * s.share) AS weight
  FROM postings AS p
  CROSS JOIN (VALUES {spread}) AS s (shift, share)
  WHERE (p.word IN (SELECT word FROM counted WHERE leads)) IS TRUE
  GROUP BY p.word, p.position + s.shift
)

-- name: rarity
-- How many memories each word is in, and how many it touches, neighbours included; those of a word
-- that does not lead are not counted. `idf` is what it promises.
rarity AS MATERIALIZED (
  SELECT c.word, c.found_in, exact.touched,
    ln(
      1 + (greatest(scope.size - coalesce(exact.touched, c.found_in), 0) + 0.5)
        / (coalesce(exact.touched, c.found_in) + 0.5)
    ) AS idf
  FROM counted AS c
  FULL JOIN (
    SELECT word, count(*)::float8 AS touched FROM leading_words GROUP BY word
  ) AS exact ON exact.word = c.word
  CROSS JOIN scope
)

-- name: promising
-- The places where the words that touch them weigh most, of which some may hold nothing: a note has
-- no neighbours, and yet its words touch their places.
promising AS MATERIALIZED (
  SELECT w.position
  FROM {reached} AS w
  FULL JOIN rarity AS r ON r.word = w.word
  GROUP BY w.position
  ORDER BY sum(w.weight * r.idf / (w.weight + {k1})) DESC NULLS LAST, w.position DESC
  LIMIT greatest({promising}, {shifts} * :top_k::integer)
)

-- name: following_words
-- What the other words count for some places: most of their postings touch none of these.
following_words AS MATERIALIZED (
  SELECT p.word, around.position,
    sum(CASE WHEN around.shift = 0 THEN p.frequency ELSE p.lent END * around.share) AS weight
  FROM (
    SELECT places.position, places.position - s.shift AS source, s.shift, s.share
    FROM {places} AS places
    CROSS JOIN (VALUES {spread}) AS s (shift, share)
  ) AS around
  FULL JOIN postings AS p ON p.position = around.source
  WHERE (p.word IN (SELECT word FROM counted WHERE NOT leads)) IS TRUE
    AND coalesce(around.share, 0) > 0
  GROUP BY p.word, around.position
)

-- name: reached
-- With filters every word leads to what is eligible: what only a frequent word leads to must not be
-- hidden by rarer words of the rest.
reached AS MATERIALIZED (
  SELECT word, position, weight
  FROM leading_words
  WHERE (position IN (SELECT position FROM eligible)) IS TRUE
  UNION ALL
  SELECT word, position, weight FROM following_words
)

-- name: models
-- The embedder's model, the app's active one, and the one to compare. That is the embedder's,
-- unless it differs from the active one, which may be allowed. A step of its own, because each
-- mention of the two would look them up again.
models AS MATERIALIZED (
  SELECT (
      SELECT model_id
      FROM {schema}.embedding_models
      WHERE name = :model AND dimensions = :dimensions
    ) AS own,
    (SELECT model_id FROM {schema}.app_settings WHERE app_name = :app_name) AS active
),
model AS MATERIALIZED (
  SELECT active, CASE WHEN :inactive OR coalesce(active, own) = own THEN own END AS compared
  FROM models
),
-- Read once: in place, it would be read for every row once the plan is general.
question AS MATERIALIZED (
  SELECT l2_normalize(:query_vector::vector)::halfvec AS vector
)

-- name: nearest_passages
-- The negative inner product of unit vectors is their negative cosine, and quicker.
nearest_passages AS MATERIALIZED (
  SELECT position, {vector} <#> (SELECT vector FROM question) AS distance
  FROM {schema}.memory_vectors
  WHERE app_name = :app_name AND user_id = ANY (ARRAY[:user_id, :also_user_id])
    AND model_id = (SELECT compared FROM model)
    AND position NOT IN (SELECT position FROM dead)
    {among_eligible}
  ORDER BY {nearness}
  LIMIT :passages::integer
)

-- name: nearness
distance

-- name: nearness_of_large
-- Above 1,024 dimensions an index holds the sign bits; the best by those are compared whole.
bits <~> (SELECT binary_quantize(vector)::varbit FROM question)

-- name: cosines
-- A memory is as near as its nearest passage. It is crowded where the passages that were compared
-- are of few memories.
cosines AS MATERIALIZED (
  SELECT position, -min(distance) AS cosine FROM nearest_passages GROUP BY position
),
compared AS (
  SELECT EXISTS (SELECT FROM nearest_passages OFFSET :passages::integer - 1 LIMIT 1)
    AND (SELECT count(*) FROM cosines) < greatest({candidates}, :top_k::integer) AS crowded
)

-- name: cosines_of_index
-- The expression and the predicate of the HNSW index, and numbers where the planner sees them. The
-- index is walked only so far: among many other users' vectors it may find too few memories. Then
-- all scopes are answered exactly.
indexed AS MATERIALIZED (
  SELECT position,
    1 - ({vector}::halfvec({dimensions}) <=> (SELECT vector FROM question)) AS cosine
  FROM {schema}.memory_vectors
  WHERE app_name = :app_name AND user_id = ANY (:approximate_user_ids::text[])
    AND model_id = {model_id} AND approximate
    AND (SELECT compared FROM model) = {model_id}
    AND position NOT IN (SELECT position FROM dead)
  ORDER BY {vector}::halfvec({dimensions}) <=> (SELECT vector FROM question)
  LIMIT greatest({candidates}, :top_k::integer)
),
filled AS MATERIALIZED (
  SELECT count(*) >= greatest({candidates}, :top_k::integer) AS enough FROM indexed
),
exact_passages AS MATERIALIZED (
  SELECT position, {vector} <#> (SELECT vector FROM question) AS distance
  FROM {schema}.memory_vectors
  WHERE app_name = :app_name
    AND user_id = ANY (
      CASE
        WHEN (SELECT enough FROM filled) THEN :exact_user_ids::text[]
        ELSE ARRAY[:user_id, :also_user_id]
      END
    )
    AND model_id = (SELECT compared FROM model)
    AND position NOT IN (SELECT position FROM dead)
  ORDER BY {nearness}
  LIMIT :passages::integer
),
-- The index does not hold these yet.
fresh_passages AS MATERIALIZED (
  SELECT position, {vector} <#> (SELECT vector FROM question) AS distance
  FROM {schema}.memory_vectors
  WHERE app_name = :app_name
    AND user_id = ANY (
      CASE WHEN (SELECT enough FROM filled) THEN :approximate_user_ids::text[] ELSE '{}' END
    )
    AND NOT approximate
    AND model_id = (SELECT compared FROM model)
    AND position NOT IN (SELECT position FROM dead)
  ORDER BY {nearness}
  LIMIT :passages::integer
),
-- Of one memory's passages some may be in the index, and some fresh.
cosines AS MATERIALIZED (
  SELECT position, max(cosine) AS cosine
  FROM (
    SELECT position, cosine FROM indexed WHERE (SELECT enough FROM filled)
    UNION ALL
    SELECT position, -distance FROM exact_passages
    UNION ALL
    SELECT position, -distance FROM fresh_passages
  ) AS ways
  GROUP BY position
  ORDER BY cosine DESC
  LIMIT greatest({candidates}, :top_k::integer)
),
compared AS (SELECT false AS crowded)

-- name: nearest
nearest AS MATERIALIZED (
  SELECT position
  FROM cosines
  ORDER BY cosine DESC, position DESC
  LIMIT greatest({candidates}, :top_k::integer)
),
-- What cosines are usual, by the first memories of each scope: no more are read. A long document
-- has one voice, whatever passages it has.
usual AS MATERIALIZED (
  SELECT count(*) AS seen, avg(sample.cosine) AS mean_cosine, stddev_pop(sample.cosine) AS deviation
  FROM (SELECT DISTINCT unnest(ARRAY[:user_id, :also_user_id]) AS user_id) AS scopes
  CROSS JOIN LATERAL (
    SELECT -({vector} <#> (SELECT vector FROM question)) AS cosine
    FROM {schema}.memory_vectors
    WHERE app_name = :app_name AND user_id = scopes.user_id AND passage = 0
      AND model_id = (SELECT compared FROM model)
      AND position NOT IN (SELECT position FROM dead)
      {among_eligible}
    LIMIT {sampled}
  ) AS sample
)

-- name: dated
-- The memories of the times that the question names. The first day is that of the first turn.
first AS MATERIALIZED (
  SELECT date_trunc('day', min(timestamp), 'UTC') AS day
  FROM {schema}.memories
  WHERE app_name = :app_name AND user_id = ANY (ARRAY[:user_id, :also_user_id]) AND speech > 0
),
dated AS MATERIALIZED (
  SELECT position, count(*) OVER () <= {most_dated} AS candidate, count(*) OVER () AS total
  FROM {schema}.memories
  WHERE app_name = :app_name AND user_id = ANY (ARRAY[:user_id, :also_user_id])
    AND position NOT IN (SELECT position FROM dead)
    {among_eligible}
    AND (
      EXISTS (
        SELECT
        FROM unnest(:since::timestamptz[], :until::timestamptz[]) AS times (since, until)
        WHERE timestamp >= times.since AND timestamp < times.until
      )
      OR :first AND timestamp >= (SELECT day FROM first)
        AND timestamp < (SELECT day FROM first) + interval '1 day'
    )
)

-- name: among_eligible
AND (position IN (SELECT position FROM eligible)) IS TRUE

-- name: rated
-- What the ranking needs to know of the memories that were put forward, whatever the question is.
found AS MATERIALIZED (
  SELECT position FROM promising
  UNION
  SELECT position FROM nearest
  UNION
  SELECT position FROM dated WHERE candidate
),
seen AS MATERIALIZED (
  SELECT position, length, speech, (author = 'user') IS TRUE AS by_user,
    extract(epoch FROM now() - timestamp)::float8 AS age_s, importance::float8 AS importance
  FROM {schema}.memories
  WHERE app_name = :app_name AND user_id = ANY (ARRAY[:user_id, :also_user_id])
    AND position = ANY (ARRAY(SELECT position FROM found UNION SELECT position - 1 FROM found))
    AND position NOT IN (SELECT position FROM dead)
),
rated AS MATERIALIZED (
  SELECT seen.*,
    ((position - 1) IN (SELECT position FROM seen WHERE speech = {asking})) IS TRUE AS answers
  FROM seen
  WHERE (position IN (SELECT position FROM found)) IS TRUE
)

-- name: candidates
-- FULL, which is no nested loop; what is not rated is left out.
candidates AS (
  SELECT array_agg(r.position) AS positions, array_agg(r.length::float8) AS lengths,
    array_agg(r.speech) AS speeches, array_agg(r.answers) AS answer,
    array_agg(c.cosine) AS cosines,
    array_agg((r.position IN (SELECT position FROM dated)) IS TRUE) AS timely,
    array_agg(r.by_user) AS by_user, array_agg(r.age_s) AS ages_s,
    array_agg(r.importance) AS importances
  FROM rated AS r
  FULL JOIN cosines AS c ON c.position = r.position
  WHERE coalesce(r.length, -1) >= 0
)

-- name: candidates_of_index
-- An index names few memories; the others' cosines count, too. A place's sign says of which scope
-- it is, so one look-up does. The model is no equality that an index answers: before the first
-- ANALYZE the planner takes all vectors of a user and a model for one row, and would read them all.
candidates AS (
  SELECT array_agg(r.position) AS positions, array_agg(r.length::float8) AS lengths,
    array_agg(r.speech) AS speeches, array_agg(r.answers) AS answer,
    array_agg(coalesce(c.cosine, other.cosine)) AS cosines,
    array_agg((r.position IN (SELECT position FROM dated)) IS TRUE) AS timely,
    array_agg(r.by_user) AS by_user, array_agg(r.age_s) AS ages_s,
    array_agg(r.importance) AS importances
  FROM rated AS r
  FULL JOIN cosines AS c ON c.position = r.position
  LEFT JOIN LATERAL (
    SELECT max(-(v.{vector} <#> (SELECT vector FROM question))) AS cosine
    FROM {schema}.memory_vectors AS v
    WHERE c.cosine IS NULL
      AND v.app_name = :app_name
      AND v.user_id = CASE WHEN r.position < 0 THEN {app_wide} ELSE :user_id END
      AND v.position = r.position AND (v.model_id = (SELECT compared FROM model)) IS TRUE
    OFFSET 0
  ) AS other ON true
  WHERE coalesce(r.length, -1) >= 0
)

-- name: words
weights AS (
  SELECT array_agg(position) AS at, array_agg(word) AS word, array_agg(weight) AS weight
  FROM (
    SELECT position, word, weight FROM leading_words
    UNION ALL
    SELECT position, word, weight FROM following_words
  ) AS matched
  WHERE (position IN (SELECT position FROM rated)) IS TRUE
),
words AS (
  SELECT array_agg(a.lexeme) AS asked, array_agg(a.word) AS number,
    array_agg(r.found_in) AS found_in, array_agg(r.touched) AS touched
  FROM asked AS a
  LEFT JOIN rarity AS r ON r.word = a.word
)

-- name: no_words
promising AS (SELECT NULL::bigint AS position WHERE false),
scope AS (SELECT NULL::float8 AS size, NULL::float8 AS mean_length),
weights AS (SELECT NULL::bigint[] AS at, NULL::bigint[] AS word, NULL::float8[] AS weight),
words AS (
  SELECT NULL::text[] AS asked, NULL::bigint[] AS number, NULL::float8[] AS found_in,
    NULL::float8[] AS touched
)

-- name: no_vectors
model AS (SELECT NULL::smallint AS active, NULL::smallint AS compared),
cosines AS (SELECT NULL::bigint AS position, NULL::float8 AS cosine WHERE false),
nearest AS (SELECT NULL::bigint AS position WHERE false),
usual AS (SELECT NULL::bigint AS seen, NULL::float8 AS mean_cosine, NULL::float8 AS deviation),
compared AS (SELECT false AS crowded)

-- name: no_times
dated AS (
  SELECT NULL::bigint AS position, NULL::boolean AS candidate, NULL::bigint AS total WHERE false
)

-- name: evidence
SELECT candidates.*, scope.size, scope.mean_length, weights.*, words.*, usual.*,
  (SELECT max(total) FROM dated) AS of_time, (SELECT active FROM model) AS active_model,
  (SELECT compared FROM model) AS compared_model, compared.crowded
FROM candidates, scope, weights, words, usual, compared
