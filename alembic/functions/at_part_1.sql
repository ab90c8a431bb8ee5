-- Runs a statement about one user where Citus has distributed the tables: on the node that has the user, on
-- the user's part of the tables.
CREATE FUNCTION {schema}.at_part_1(
    user_id text,
    name text,
    statement text,
    arguments text[],
    written text[],  -- tables; NULL if the statement only reads
    home text
) RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_variable
DECLARE
    part bigint;
BEGIN
    {find_tables}
    IF written IS NOT NULL THEN
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            -- After waiting for a part that moves it must see where that is now.
            RAISE EXCEPTION 'this write needs READ COMMITTED' USING ERRCODE = '40001';
        END IF;
        -- As a write that Citus sees it waits for who has locked a table on all nodes.
        PERFORM lock_relation_if_exists(concat_ws('.', home, t), 'ROW EXCLUSIVE')
           FROM unnest(written) t;
        -- Concerns no row; as a write that Citus sees, it keeps the part where it is until the end of the
        -- transaction.
        DELETE FROM user_states s
         WHERE s.app_name = '' AND s.user_id = user_id AND octet_length(s.user_id) < 0;
    END IF;
    SELECT p.shardid INTO part
      FROM pg_dist_placement p JOIN pg_dist_local_group USING (groupid)
     WHERE p.shardid = get_shard_id_for_distribution_column('sessions'::regclass, user_id);
    IF part IS NULL THEN
        -- The one that sent it here did not know of a move. Or it is this server process, which runs what
        -- it cannot send: after an error Citus may do that for ever (recursivePlanningDepth).
        PERFORM leave_1();
    END IF;
    -- As the client reads bytes and numbers in JSON, whatever is the default.
    PERFORM set_config('bytea_output', 'hex', true), set_config('extra_float_digits', '1', true);
    RETURN select_prepared_1(
        concat_ws('_', name, part), statement, arguments, NULL, home, part
    );
END
$body$
