-- Returns a statement with the names of parts instead of the tables': those beside a part of the sessions,
-- so that Postgres plans it as on one server: Citus plans anew what names its tables, in each call, and what
-- inserts inside a WITH it runs step by step, on all nodes.
CREATE FUNCTION {schema}.of_part_1(statement text, part bigint, home text) RETURNS text
LANGUAGE plpgsql AS $body$
DECLARE
    place CONSTANT text := '__schema_of_adkpg__';
    name text;
    its_part text;
BEGIN
    FOR name, its_part IN
        SELECT c.relname, shard_name(c.oid, s.shardid)
          FROM pg_dist_shard s JOIN pg_class c ON c.oid = s.logicalrelid
         WHERE c.relnamespace = home::regnamespace
           AND coalesce(s.shardminvalue = (  -- what each node has a copy of has none
               SELECT o.shardminvalue FROM pg_dist_shard o WHERE o.shardid = part
           ), true)
    LOOP
        statement := regexp_replace(
            statement, place || '\.' || name || '\M(?! AS |\()', its_part || ' AS ' || name, 'g'
        );
        statement := regexp_replace(statement, place || '\.' || name || '\M(?= AS )', its_part, 'g');
    END LOOP;
    RETURN replace(statement, place, home);
END
$body$
