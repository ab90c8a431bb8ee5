-- Merges a delta into a user's state, which it locks to the end of the transaction; returns it.
CREATE FUNCTION {schema}.merge_user_state_1(
    app_name text,
    user_id text,
    delta text,
    state_limit integer
) RETURNS jsonb LANGUAGE plpgsql AS $body$
#variable_conflict use_variable
DECLARE
    merged jsonb;
BEGIN
    INSERT INTO user_states AS s (app_name, user_id, state)
    VALUES (app_name, user_id, delta::jsonb)
    ON CONFLICT ON CONSTRAINT user_states_pkey
    DO UPDATE SET state = s.state || excluded.state, updated_at = excluded.updated_at
    RETURNING s.state INTO merged;
    IF pg_column_size(merged) > state_limit THEN
        RAISE EXCEPTION 'the state is larger than it may be' USING ERRCODE = 'ADK05';
    END IF;
    RETURN merged;
END
$body$
