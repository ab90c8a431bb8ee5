-- The session and memory statements that write, as functions of plain statements one after another:
-- no INSERT inside a WITH. Only benchmarks/scripts/writes.py uses them.
CREATE SCHEMA tried;

CREATE TYPE tried.created AS (incarnation text, revision bigint, revision_token text, updated_at timestamptz, state text, app_state text, user_state text);
CREATE TYPE tried.appended AS (revision bigint, revision_token text, updated_at timestamptz, found_incarnation text, found_revision bigint, stored_seq bigint, stored_payload text);

CREATE FUNCTION tried.merge_app(a text, delta text) RETURNS text LANGUAGE sql AS $$
  INSERT INTO adkpg.app_states AS x (app_name, state) VALUES (a, delta::jsonb)
  ON CONFLICT (app_name) DO UPDATE SET state = x.state || excluded.state, updated_at = now() RETURNING state::text
$$;

CREATE FUNCTION tried.merge_user(a text, u text, delta text) RETURNS text LANGUAGE sql AS $$
  INSERT INTO adkpg.user_states AS x (app_name, user_id, state) VALUES (a, u, delta::jsonb)
  ON CONFLICT (app_name, user_id) DO UPDATE SET state = x.state || excluded.state, updated_at = now() RETURNING state::text
$$;

CREATE FUNCTION tried.create_session(a text, u text, s text, session_state text, app_delta text, user_delta text, at timestamptz)
RETURNS tried.created LANGUAGE plpgsql AS $$
DECLARE r tried.created;
BEGIN
  INSERT INTO adkpg.sessions AS x (app_name, user_id, session_id, state, created_at, updated_at)
  VALUES (a, u, s, session_state::jsonb, at, at) ON CONFLICT DO NOTHING
  RETURNING x.incarnation::text, x.revision, x.updated_at, x.state::text INTO r.incarnation, r.revision, r.updated_at, r.state;
  IF NOT FOUND THEN RETURN NULL; END IF;
  IF app_delta IS NOT NULL THEN r.app_state := tried.merge_app(a, app_delta);
  ELSE SELECT state::text INTO r.app_state FROM adkpg.app_states WHERE app_name = a; END IF;
  IF user_delta IS NOT NULL THEN r.user_state := tried.merge_user(a, u, user_delta);
  ELSE SELECT state::text INTO r.user_state FROM adkpg.user_states WHERE app_name = a AND user_id = u; END IF;
  RETURN r;
END $$;

CREATE FUNCTION tried.write_memories(a text, u text, config text, first bigint, given json) RETURNS void LANGUAGE plpgsql AS $$
DECLARE own text; extract boolean; cfg regconfig; said tsvector; dated tsvector; m record; place bigint := first;
BEGIN
  SELECT x.text_search_config, x.extract_facts INTO own, extract FROM adkpg.app_settings x WHERE x.app_name = a;
  FOR m IN SELECT * FROM json_to_recordset(given) AS x(
    memory_id text, kind text, session_id text, event_id text, invocation_id text, author text, "timestamp" timestamptz, content text, body text,
    custom_metadata text, source text, artifacts text, topics text, importance real, expires_at timestamptz, digest text, words text, script text)
  LOOP
    cfg := coalesce(own, m.script, config)::regconfig;
    said := to_tsvector(cfg, m.words);
    dated := to_tsvector(cfg, to_char(timezone('UTC', m."timestamp"), 'FMDD FMMonth YYYY'));
    INSERT INTO adkpg.memories (app_name, user_id, position, memory_id, kind, session_id, event_id, invocation_id, author, "timestamp", content, body,
      length, custom_metadata, source, artifacts, topics, importance, expires_at, digest)
    VALUES (a, u, place, m.memory_id, m.kind, m.session_id, m.event_id, m.invocation_id, m.author, m."timestamp", m.content::json, m.body,
      (SELECT coalesce(sum(cardinality(w.positions)), 0) FROM unnest(said) w), m.custom_metadata::jsonb, m.source, m.artifacts::jsonb, m.topics::jsonb,
      m.importance, m.expires_at, m.digest)
    ON CONFLICT ON CONSTRAINT memories_event_id_key DO NOTHING;
    IF FOUND THEN
      INSERT INTO adkpg.memory_lexemes (app_name, user_id, lexeme, position, frequency, date_frequency)
      SELECT a, u, w.lexeme, place, cardinality(array_positions(w.weights, 'A')), cardinality(array_positions(w.weights, 'B'))
        FROM unnest(setweight(said, 'A') || setweight(dated, 'B')) w WHERE octet_length(w.lexeme) <= 512;
      INSERT INTO adkpg.memory_jobs (app_name, user_id, position, task) VALUES (a, u, place, 'embed');
      IF extract AND m.kind = 'turn' THEN
        INSERT INTO adkpg.memory_jobs (app_name, user_id, position, task) VALUES (a, u, place, 'extract');
      END IF;
    END IF;
    place := place + 1;
  END LOOP;
END $$;

CREATE FUNCTION tried.append_event(
  a text, u text, s text, ev text, at timestamptz, body text, session_delta text, app_delta text, user_delta text, inc text, rev bigint, tok text,
  block bigint, memories text, config text)
RETURNS tried.appended LANGUAGE plpgsql AS $$
DECLARE r tried.appended; place bigint;
BEGIN
  SELECT e.seq, e.payload::text INTO r.stored_seq, r.stored_payload FROM adkpg.events e
   WHERE e.app_name = a AND e.user_id = u AND e.session_id = s AND e.event_id = ev;
  IF NOT FOUND THEN
    UPDATE adkpg.sessions x SET revision = x.revision + 1, updated_at = at,
           state = CASE WHEN session_delta IS NULL THEN x.state ELSE x.state || session_delta::jsonb END,
           memory_position = CASE WHEN memories IS NULL THEN x.memory_position ELSE coalesce(x.memory_position, block) + 1 END
     WHERE x.app_name = a AND x.user_id = u AND x.session_id = s AND x.incarnation = inc::uuid AND x.revision = rev
       AND ((SELECT e.revision_token FROM adkpg.events e
              WHERE e.app_name = a AND e.user_id = u AND e.session_id = s AND e.seq = rev) = tok::uuid) IS NOT FALSE
    RETURNING x.revision, x.updated_at, x.memory_position INTO r.revision, r.updated_at, place;
    IF FOUND THEN
      IF app_delta IS NOT NULL THEN PERFORM tried.merge_app(a, app_delta); END IF;
      IF user_delta IS NOT NULL THEN PERFORM tried.merge_user(a, u, user_delta); END IF;
      INSERT INTO adkpg.events (app_name, user_id, session_id, seq, event_id, timestamp, payload)
      VALUES (a, u, s, r.revision, ev, at, body::json) RETURNING revision_token::text INTO r.revision_token;
      IF memories IS NOT NULL AND NOT EXISTS (SELECT FROM adkpg.memory_tombstones t
           WHERE t.app_name = a AND t.user_id = u AND t.session_id = s AND t.event_id = ev) THEN
        PERFORM tried.write_memories(a, u, config, place - 1, memories::json);
      END IF;
      r.found_incarnation := inc; r.found_revision := rev;
      RETURN r;
    END IF;
  END IF;
  -- Only now, after waiting for the row: the other delivery of the same event may have come first.
  SELECT e.seq, e.payload::text INTO r.stored_seq, r.stored_payload FROM adkpg.events e
   WHERE e.app_name = a AND e.user_id = u AND e.session_id = s AND e.event_id = ev;
  SELECT x.incarnation::text, x.revision INTO r.found_incarnation, r.found_revision FROM adkpg.sessions x
   WHERE x.app_name = a AND x.user_id = u AND x.session_id = s;
  RETURN r;
END $$;

-- What add_events_to_memory does: new events go after those the session has, known and deleted ones stay away.
CREATE FUNCTION tried.ingest(a text, u text, s text, config text, block bigint, memories text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE kept bigint; first bigint; wanted json; n int;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(jsonb_build_array(a, u, s)::text, 0));
  SELECT x.memory_position INTO kept FROM adkpg.sessions x WHERE x.app_name = a AND x.user_id = u AND x.session_id = s FOR NO KEY UPDATE;
  SELECT coalesce(kept, max(m.position) + 1, block) INTO first FROM adkpg.memories m
   WHERE m.app_name = a AND m.user_id = u AND m.session_id = s AND m.event_id IS NOT NULL;
  SELECT json_agg(g.given ORDER BY g.i), count(*) INTO wanted, n FROM json_array_elements(memories::json) WITH ORDINALITY g(given, i)
   WHERE NOT EXISTS (SELECT FROM adkpg.memories m WHERE m.app_name = a AND m.user_id = u AND m.session_id = s AND m.event_id = g.given ->> 'event_id')
     AND NOT EXISTS (SELECT FROM adkpg.memory_tombstones t WHERE t.app_name = a AND t.user_id = u AND t.session_id = s AND t.event_id = g.given ->> 'event_id');
  IF n > 0 THEN
    PERFORM tried.write_memories(a, u, config, first, wanted);
    UPDATE adkpg.sessions x SET memory_position = first + n WHERE x.app_name = a AND x.user_id = u AND x.session_id = s;
  END IF;
  RETURN n;
END $$;
