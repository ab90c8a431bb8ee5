-- Ends a call that is not where its user's part of the tables is, so that it is made anew; and the server process
-- that the client asked, on whichever node: it may not hear of the move any more, and a pooler would keep it.
CREATE FUNCTION {schema}.leave_1() RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
    sender CONSTANT text := substring(
        current_setting('application_name') FROM '^citus_internal gpid=(\d+)'
    );
BEGIN
    -- The role that logged in may end the process; a role that was set since may not.
    PERFORM set_config('role', 'none', true);
    IF sender IS NULL THEN
        PERFORM pg_terminate_backend(pg_backend_pid());
    ELSE
        PERFORM pg_terminate_backend(sender::bigint);
    END IF;
    RAISE EXCEPTION 'the part of this user has moved to another node' USING ERRCODE = 'ADK06';
END
$body$
