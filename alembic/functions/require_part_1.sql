-- Of a trigger that `adkpg db distribute` makes: refuses writes to a part of a table that is on another node now.
--
-- Citus loses the news of a move that comes while a server process reads where all parts are, as it does at
-- first (LookupCitusTableCacheEntry marks what it has read as valid at its end). What that process writes from
-- then on goes to what the move left behind, and would be gone. So each part looks into the catalog of its node
-- before every write.
CREATE FUNCTION {schema}.require_part_1() RETURNS trigger LANGUAGE plpgsql AS $body$
DECLARE
    part CONSTANT bigint := substring(TG_TABLE_NAME FROM '_(\d+)$');
BEGIN
    -- The tables themselves have none: as a dump has them, they are on one server.
    IF part IS NOT NULL AND NOT EXISTS (
        SELECT FROM pg_dist_placement p JOIN pg_dist_local_group USING (groupid)
         WHERE p.shardid = part
    ) THEN
        EXECUTE format('SELECT %I.leave_1()', TG_TABLE_SCHEMA);
    END IF;
    RETURN NULL;
END
$body$
