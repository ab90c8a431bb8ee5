-- append_event_1 of an event with a delta of the app's state, which is a row of no user: where tables are
-- distributed this one runs on the node that it is sent to, in one transaction of several nodes.
CREATE FUNCTION {schema}.append_event_with_app_1(
    app_name text,
    user_id text,
    session_id text,
    event_id text,
    "timestamp" timestamptz,
    payload text,
    session_delta text,
    app_delta text,
    user_delta text,
    state_limit integer,
    writer_limit integer,
    incarnation text,
    revision bigint,
    revision_token text,
    token text,
    merge boolean,
    holder text,
    place bigint,
    memories text,
    config text,
    scope text[],
    home text
) RETURNS bigint LANGUAGE plpgsql AS $body$
BEGIN
    {find_tables}
    RETURN append_event_1(
        app_name, user_id, session_id, event_id, "timestamp", payload, session_delta, app_delta,
        user_delta, state_limit, writer_limit, incarnation, revision, revision_token, token, merge, holder,
        place, memories, config, scope, home
    );
END
$body$
