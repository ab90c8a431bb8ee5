-- Whether a person's part of the tables is on this node; NULL if Citus has not distributed them. Ends this
-- server process if it does not know where parts are, or is not where it must be (on_node).
--
-- Citus loses the news of a move that comes while a process reads where all parts are, as it does at
-- first (LookupCitusTableCacheEntry marks what it has read as valid at its end). What that process
-- writes from then on goes to what the move left behind, and is gone. The catalogs say where the part
-- is, and the transaction's id says whether its first write (wrote) was here. What another node sent
-- here, though the part is not, is for the caller to repeat: that node did not know. What a client sent, and
-- this process not on, runs here though the part is elsewhere: after an error Citus may do that in a
-- process for ever (recursivePlanningDepth), and a pooler would keep it for an hour.
CREATE FUNCTION {schema}.require_part_1(
    user_id text,
    wrote boolean,
    on_node boolean DEFAULT false
) RETURNS boolean LANGUAGE plpgsql AS $body$
DECLARE
    is_here boolean;
    is_astray boolean;
BEGIN
    IF to_regclass('pg_catalog.pg_dist_partition') IS NULL THEN
        RETURN NULL;  -- Citus is loaded, for another database
    END IF;
    IF NOT EXISTS (
        SELECT FROM pg_dist_partition d WHERE d.logicalrelid = 'sessions'::regclass
    ) THEN
        RETURN NULL;
    END IF;
    is_here := EXISTS (
        SELECT FROM pg_dist_placement p JOIN pg_dist_local_group USING (groupid)
         WHERE p.shardid = get_shard_id_for_distribution_column('sessions'::regclass, user_id)
    );
    is_astray := wrote AND is_here <> (pg_current_xact_id_if_assigned() IS NOT NULL);
    IF NOT is_here AND NOT is_astray
       AND current_setting('application_name') LIKE 'citus_internal gpid=%' THEN
        RAISE EXCEPTION 'the part of this user has just moved to another node' USING ERRCODE = 'ADK06';
    END IF;
    IF is_astray OR on_node AND NOT is_here THEN
        -- Whoever logged in may end it, and perhaps not a role that was set since.
        PERFORM set_config('role', 'none', true);
        PERFORM pg_terminate_backend(pg_backend_pid());
    END IF;
    RETURN is_here;
END
$body$
