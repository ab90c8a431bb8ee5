-- create_session_1 with a delta of the app's state, which is a row of no user: where tables are
-- distributed this one runs on the node that it is sent to, in one transaction of several nodes.
CREATE FUNCTION {schema}.create_session_with_app_1(
    app_name text,
    user_id text,
    session_id text,
    incarnation text,
    session_state text,
    initial_state text,
    app_delta text,
    user_delta text,
    state_limit integer,
    writer_limit integer,
    "timestamp" timestamptz,
    ttl interval,
    expires_at timestamptz,
    scope text[],
    home text
) RETURNS text[] LANGUAGE plpgsql AS $body$
BEGIN
    {find_tables}
    RETURN create_session_1(
        app_name, user_id, session_id, incarnation, session_state, initial_state, app_delta,
        user_delta, state_limit, writer_limit, "timestamp", ttl, expires_at, scope, home
    );
END
$body$
