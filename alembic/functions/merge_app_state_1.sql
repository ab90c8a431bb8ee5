-- Merges a delta into an app's state, which it locks to the end of the transaction; returns both.
CREATE FUNCTION {schema}.merge_app_state_1(
    app_name text,
    delta text,
    state_limit integer
) RETURNS jsonb LANGUAGE plpgsql AS $body$
#variable_conflict use_variable
DECLARE
    merged jsonb;
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
    INSERT INTO app_states AS s (app_name, state) VALUES (app_name, delta::jsonb)
    ON CONFLICT ON CONSTRAINT app_states_pkey
    DO UPDATE SET state = s.state || excluded.state, updated_at = excluded.updated_at
    RETURNING s.state INTO merged;
    IF pg_column_size(merged) > state_limit THEN
        RAISE EXCEPTION 'the state is larger than it may be' USING ERRCODE = 'ADK04';
    END IF;
    RETURN merged;
END
$body$
