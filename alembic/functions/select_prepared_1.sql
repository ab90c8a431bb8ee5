-- Answers a SELECT about one user by a prepared statement of this server process, made at its first use
-- and kept for all clients that come to it. The statement returns its rows as one JSON array of objects.
--
-- For long statements, where those that clients prepare do not last: behind a pooler that loses them,
-- and on a cluster, whose nodes plan what they are sent anew. Planning such a statement takes several
-- times as long as running it.
-- The name stands for the statement's text. With tables the statement is a format, in which %1$s is the
-- place of the first of them: where the user's part is on this node, the part itself, which is planned
-- as any table is; else the table, and Citus finds the way.
CREATE FUNCTION {schema}.select_prepared_1(
    app_name text,
    user_id text,
    name text,
    statement text,
    tables text[],
    arguments text[],
    scope text[],
    home text
) RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_variable
DECLARE
    -- A server process keeps so many of ours: a search takes one to two megabytes, a write a tenth.
    kind CONSTANT text := left(name, 6);
    most_kept CONSTANT integer := CASE kind WHEN 'adkpw_' THEN 256 ELSE 32 END;
    part bigint;
    own_name text := name;
    places text[] := tables;
    call text;
    prepared text;
    answer text;
BEGIN
    IF scope IS NOT NULL THEN
        {find_tables}
        PERFORM enter_1(scope);
    END IF;
    IF tables IS NOT NULL THEN
        SELECT p.shardid INTO part
          FROM pg_dist_placement p JOIN pg_dist_local_group USING (groupid)
         WHERE p.shardid = get_shard_id_for_distribution_column(
             (home || '.sessions')::regclass, user_id
         );
        own_name := concat_ws('_', name, part);
    END IF;
    call := format('EXECUTE %I', own_name) || (
        SELECT coalesce('(' || string_agg(quote_nullable(a), ',') || ')', '')
          FROM unnest(arguments) a
    );
    BEGIN
        EXECUTE call INTO answer;
    EXCEPTION WHEN invalid_sql_statement_name THEN
        FOR prepared IN
            SELECT s.name FROM pg_prepared_statements s
             WHERE s.from_sql AND starts_with(s.name, kind)
             ORDER BY s.prepare_time DESC OFFSET most_kept - 1
        LOOP
            EXECUTE format('DEALLOCATE %I', prepared);
        END LOOP;
        IF part IS NOT NULL THEN
            places := ARRAY(
                SELECT shard_name(
                           t::regclass, get_shard_id_for_distribution_column(t::regclass, user_id)
                       )
                  FROM unnest(tables) WITH ORDINALITY u (t, n) ORDER BY u.n
            );
        END IF;
        EXECUTE format(
            'PREPARE %I AS %s', own_name,
            CASE WHEN tables IS NULL THEN statement ELSE format(statement, VARIADIC places) END
        );
        EXECUTE call INTO answer;
    END;
    RETURN answer;
END
$body$
