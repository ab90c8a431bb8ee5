-- Runs a statement on each part of the tables that this node has, where Citus has distributed them; returns the
-- rows of one after the other.
CREATE FUNCTION {schema}.at_each_part_1(name text, statement text, arguments text[], home text) RETURNS text
LANGUAGE plpgsql AS $body$
#variable_conflict use_variable
DECLARE
    part bigint;
    answers json[] := '{}';
BEGIN
    {find_tables}
    FOR part IN
        SELECT s.shardid FROM pg_dist_shard s JOIN pg_dist_placement USING (shardid)
          JOIN pg_dist_local_group USING (groupid)
         WHERE s.logicalrelid = 'sessions'::regclass
    LOOP
        answers := answers || select_prepared_1(
            concat_ws('_', name, part), statement, arguments, NULL, home, part
        )::json;
    END LOOP;
    RETURN (SELECT coalesce(json_agg(r), '[]') FROM unnest(answers) a, json_array_elements(a) r);
END
$body$
