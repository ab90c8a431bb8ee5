-- Merges a delta into an app's state, which it locks to the end of the transaction; returns it.
-- What one user wrote of it is limited, so that none takes the room of all: each key is noted with one of
-- 256 groups of users, which name no user. What the app itself wrote, without a user, has none.
CREATE FUNCTION {schema}.merge_app_state_1(
    app_name text,
    user_id text,
    delta text,
    state_limit integer,
    writer_limit integer
) RETURNS jsonb LANGUAGE plpgsql AS $body$
#variable_conflict use_variable
DECLARE
    merged jsonb;
    writer text := CASE WHEN user_id <> E'\x01app' THEN (hashtextextended(user_id, 0) & 255)::text END;
    noted jsonb := (SELECT jsonb_object_agg(k, writer) FROM jsonb_object_keys(delta::jsonb) k);
BEGIN
    -- Where tables are distributed each node has a copy, and Citus would let one write at a time into
    -- all of it. One at a time for each app is enough; the node of what the app knows keeps the turns.
    IF current_setting('citus.all_modifications_commutative', true) = 'off' THEN
        PERFORM pg_advisory_xact_lock(hashtextextended(app_name, 4172936))
           FROM (
               SELECT count(*) FROM user_states s
                WHERE s.app_name = app_name AND s.user_id = E'\x01app'
           ) x;
        PERFORM set_config('citus.all_modifications_commutative', 'on', true);
    END IF;
    INSERT INTO app_states AS s (app_name, state, writers)
    VALUES (app_name, delta::jsonb, coalesce(noted, '{}'))
    ON CONFLICT ON CONSTRAINT app_states_pkey
    DO UPDATE SET state = s.state || excluded.state, writers = s.writers || excluded.writers,
        updated_at = excluded.updated_at
    RETURNING s.state, s.writers INTO merged, noted;
    IF pg_column_size(merged) > state_limit THEN
        RAISE EXCEPTION 'the state is larger than it may be' USING ERRCODE = 'ADK04';
    END IF;
    IF writer_limit < (
        SELECT sum(octet_length(e.key) + octet_length(e.value::text)) FROM jsonb_each(merged) e
         WHERE noted ->> e.key = writer
    ) THEN
        RAISE EXCEPTION 'the user has written more of it than may be' USING ERRCODE = 'ADK07';
    END IF;
    RETURN merged;
END
$body$
