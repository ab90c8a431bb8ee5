-- Merges a delta into a user's state, which it locks to the end of the transaction; returns both.
CREATE FUNCTION {schema}.merge_user_state_1(
    app_name text,
    user_id text,
    delta text,
    state_limit integer,
    in_part boolean DEFAULT false  -- the caller has found that the person is on this node
) RETURNS jsonb LANGUAGE plpgsql AS $body$
#variable_conflict use_variable
DECLARE
    has_written CONSTANT boolean := pg_current_xact_id_if_assigned() IS NOT NULL;
    merged jsonb;
BEGIN
    {in_part}
    [[
        INSERT INTO user_states AS s (app_name, user_id, state)
        VALUES (:app_name, :user_id, :delta::jsonb)
        ON CONFLICT ON CONSTRAINT user_states_pkey
        DO UPDATE SET state = s.state || excluded.state, updated_at = excluded.updated_at
        RETURNING s.state
    ]] INTO merged;
    {end}
    {require_part}
    IF pg_column_size(merged) > state_limit THEN
        RAISE EXCEPTION 'the state is larger than it may be' USING ERRCODE = 'ADK05';
    END IF;
    RETURN merged;
END
$body$
