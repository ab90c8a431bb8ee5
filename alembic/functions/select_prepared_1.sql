-- Answers a statement by a prepared statement of this server process, made at its first use and kept for
-- all clients that come to it. The statement returns its rows as one JSON array of objects.
--
-- For statements where those that clients prepare do not last: planning a long one takes several times as
-- long as running it. The name stands for the statement's text. That of a part names no schema (of_part_1).
CREATE FUNCTION {schema}.select_prepared_1(
    name text,
    statement text,
    arguments text[],
    scope text[],
    home text,
    part bigint DEFAULT NULL
) RETURNS text LANGUAGE plpgsql AS $body$
#variable_conflict use_variable
DECLARE
    -- A server process keeps so many of ours: a search takes one to two megabytes, others a tenth.
    kind CONSTANT text := left(name, 6);
    most_kept CONSTANT integer := CASE kind WHEN 'adkpl_' THEN 32 ELSE 256 END;
    call CONSTANT text := format('EXECUTE %I', name) || (
        SELECT coalesce('(' || string_agg(quote_nullable(a), ',') || ')', '')
          FROM unnest(arguments) a
    );
    prepared text;
    answer text;
BEGIN
    IF scope IS NOT NULL THEN
        {find_tables}
        PERFORM enter_1(scope);
    END IF;
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
            statement := of_part_1(statement, part, home);
        END IF;
        EXECUTE format('PREPARE %I AS %s', name, statement);
        EXECUTE call INTO answer;
    END;
    RETURN answer;
END
$body$
