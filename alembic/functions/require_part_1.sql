-- Whether a person's part of the tables is on this node, of what Citus distributes; ends this server
-- process if it does not know that.
--
-- Citus loses the news of a move that comes while a process reads where all parts are, as it does at
-- first (LookupCitusTableCacheEntry marks what it has read as valid at its end). What that process
-- writes from then on goes to what the move left behind, and is gone. The catalogs say where the part
-- is, and the transaction's id says whether its first write (wrote) was here. What another node sent
-- here, though the part is not, is for the caller to repeat: that node did not know.
CREATE FUNCTION {schema}.require_part_1(
    user_id text,
    wrote boolean
) RETURNS boolean LANGUAGE plpgsql AS $body$
DECLARE
    is_here boolean;
BEGIN
    IF to_regclass('pg_catalog.pg_dist_partition') IS NULL THEN
        RETURN false;  -- Citus is loaded, for another database
    END IF;
    IF NOT EXISTS (
        SELECT FROM pg_dist_partition d WHERE d.logicalrelid = 'sessions'::regclass
    ) THEN
        RETURN false;  -- Citus has not distributed them
    END IF;
    is_here := EXISTS (
        SELECT FROM pg_dist_placement p JOIN pg_dist_local_group USING (groupid)
         WHERE p.shardid = get_shard_id_for_distribution_column('sessions'::regclass, user_id)
    );
    IF wrote AND is_here <> (pg_current_xact_id_if_assigned() IS NOT NULL) THEN
        PERFORM set_config('role', 'none', true);
        PERFORM pg_terminate_backend(pg_backend_pid());
    ELSIF NOT is_here AND current_setting('application_name') LIKE 'citus_internal gpid=%' THEN
        RAISE EXCEPTION 'the part of this user has just moved to another node' USING ERRCODE = 'ADK06';
    END IF;
    RETURN is_here;
END
$body$
