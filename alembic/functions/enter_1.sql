-- Enters the scope of an app and a user for the transaction, or of everybody, if none are named.
CREATE FUNCTION {schema}.enter_1(scope text[]) RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
    IF cardinality(scope) = 0 THEN
        PERFORM enter_every_scope();
    ELSE
        PERFORM enter_scope(scope[1], scope[2]);
    END IF;
END
$body$
