-- Writes what is one user's by a single statement that Citus does not see, on the node that has the user;
-- otherwise like select_prepared_1, which it calls. The first of the tables are those that are written to.
--
-- A statement with an INSERT inside a WITH is one that Citus runs step by step, each on all nodes: it is no
-- longer of one snapshot, and fails while any node is away.
CREATE FUNCTION {schema}.write_prepared_1(
    app_name text,
    user_id text,
    name text,
    statement text,
    tables text[],
    arguments text[],
    written integer,
    scope text[],
    home text
) RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_variable
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        -- After waiting for a part that moves it must see where that is now.
        RAISE EXCEPTION 'this write needs READ COMMITTED' USING ERRCODE = '40001';
    END IF;
    {find_tables}
    -- As any write that Citus sees it waits for who has locked a table on all nodes.
    PERFORM lock_relation_if_exists(t, CASE
        WHEN n <= written THEN 'ROW EXCLUSIVE'
        WHEN statement ~ '\mFOR (NO KEY UPDATE|UPDATE|SHARE|KEY SHARE)\M' THEN 'ROW SHARE'
        ELSE 'ACCESS SHARE'
    END) FROM unnest(tables) WITH ORDINALITY u (t, n) ORDER BY n;
    -- Concerns no row; as a write that Citus sees, it keeps the part where it is until the end of the
    -- transaction.
    DELETE FROM user_states s
     WHERE s.app_name = app_name AND s.user_id = user_id AND octet_length(s.user_id) < 0;
    PERFORM require_part_1(user_id, false, on_node => true);
    RETURN select_prepared_1(
        app_name, user_id, name, statement, tables, arguments, scope, home
    );
END
$body$
