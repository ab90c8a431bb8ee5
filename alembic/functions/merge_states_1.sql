-- Merges deltas into the states that sessions share; a delta that is NULL is none.
--
-- Returns the app's state and the user's as they are then, each NULL where there was no delta.
CREATE FUNCTION {schema}.merge_states_1(
    app_name text,
    user_id text,
    app_delta text,
    user_delta text,
    state_limit integer,
    writer_limit integer,
    scope text[],
    home text
) RETURNS text[] LANGUAGE plpgsql AS $body$
DECLARE
    app_state jsonb;
    user_state jsonb;
BEGIN
    {find_tables}
    IF scope IS NOT NULL THEN
        PERFORM enter_1(scope);
    END IF;
    IF app_delta IS NOT NULL THEN
        app_state := merge_app_state_1(
            app_name, user_id, app_delta, state_limit, writer_limit
        );
    END IF;
    IF user_delta IS NOT NULL THEN
        user_state := merge_user_state_1(app_name, user_id, user_delta, state_limit);
    END IF;
    RETURN ARRAY[app_state::text, user_state::text];
END
$body$
