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
