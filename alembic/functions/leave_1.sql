-- Ends a call that is not where its user's part of the tables is, so that it is made anew; and the server process
-- of the client who made it: this one, or by_sender the one that sent it here. A pooler would keep it for an hour.
CREATE FUNCTION {schema}.leave_1(by_sender boolean) RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
    sender CONSTANT text := substring(
        current_setting('application_name') FROM '^citus_internal gpid=(\d+)'
    );
BEGIN
    -- Whoever logged in may end it, and perhaps not a role that was set since.
    PERFORM set_config('role', 'none', true);
    IF sender IS NULL THEN
        PERFORM pg_terminate_backend(pg_backend_pid());
    ELSIF by_sender THEN
        PERFORM pg_terminate_backend(sender::bigint);
    END IF;
    RAISE EXCEPTION 'the part of this user has moved to another node' USING ERRCODE = 'ADK06';
END
$body$
