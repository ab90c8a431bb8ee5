"""A restore runs what makes adkpg's tables, and nothing else that a backup says."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adkpg.database.migrating import migrations
from adkpg.errors import ConfigurationError
from adkpg.tooling.backup.script import Script

(BODY,) = re.findall(r"(\$\w*\$)(.*)\1", migrations.function("enter_1", "adkpg"), re.DOTALL)
OWN = (
    "SET statement_timeout = 0;\n",
    "SELECT pg_catalog.set_config('search_path', '', false);\n",
    "\\restrict Abc123\n",
    "-- Name: sessions; Type: TABLE\n",
    "CREATE TABLE adkpg.sessions (\n    app_name character varying(512) NOT NULL,\n"
    "    state jsonb DEFAULT '{}'::jsonb NOT NULL,\n"
    "    CONSTRAINT a CHECK ((octet_length(state::text) > 0))\n);\n",
    "COMMENT ON TABLE adkpg.sessions IS 'It''s a table; with (brackets) -- and more';\n",
    "COPY adkpg.sessions (app_name) FROM stdin;\n\\! id\nCOPY x TO PROGRAM 'id';\n\\.\n",
    "CREATE INDEX memory_vectors_hnsw_1 ON adkpg.memory_vectors USING hnsw"
    " (((embedding)::public.halfvec(384)) public.halfvec_cosine_ops) WHERE (model_id = 1);\n",
    f"CREATE FUNCTION adkpg.enter_1(scope text[]) RETURNS void\n"
    f"    LANGUAGE plpgsql\n    AS $_${BODY[1]}$_$;\n",
    "CREATE TRIGGER t AFTER DELETE ON adkpg.memories FOR EACH ROW EXECUTE FUNCTION"
    " adkpg.delete_memory_lexemes();\n",
    "ALTER TABLE ONLY adkpg.events ADD CONSTRAINT e PRIMARY KEY (app_name, user_id);\n",
    "SELECT pg_catalog.setval('adkpg.embedding_models_model_id_seq', 7, true);\n",
)
HOSTILE = (
    "\\! id\n",
    "\\copy adkpg.sessions from program 'id'\n",
    "COPY (SELECT 1) TO PROGRAM 'id';\n",
    "COPY adkpg.sessions (app_name) FROM PROGRAM 'id';\n",
    "DO $$ BEGIN PERFORM 1; END $$;\n",
    "SELECT pg_catalog.pg_read_file('/etc/passwd');\n",
    "SET role = postgres;\n",
    "CREATE TABLE adkpg.zz (\n    i far.away,\n    j integer\n);\n",
    'CREATE TABLE adkpg.zz (i integer DEFAULT 0.5, j "far off".away);\n',
    "ALTER TABLE ONLY adkpg.events ADD CONSTRAINT e FOREIGN KEY (seq) REFERENCES public.zz(i);\n",
    "SET standard_conforming_strings = off;\n",
    "SET client_encoding = 'SJIS';\n",
    "SET search_path = evil;\n",
    "SET statement_timeout = 0; COPY (SELECT 1) TO PROGRAM 'id';\n",
    "SET statement_timeout = 0 -- ;\n; DROP TABLE adkpg.sessions;\n",
    "COMMENT ON TABLE adkpg.sessions IS ''; DROP TABLE adkpg.sessions;\n",
    "COMMENT ON TABLE adkpg.sessions IS E'\\''; DROP TABLE adkpg.sessions; --';\n",
    "COMMENT ON TABLE adkpg.sessions IS $a$'$a$; DROP TABLE adkpg.sessions; --';\n",
    "CREATE FUNCTION adkpg.evil(i integer) RETURNS integer\n    LANGUAGE plpgsql\n"
    "    AS $$ begin return i; end $$;\n",
    f"CREATE FUNCTION adkpg.enter_1(scope text[]) RETURNS void\n"
    f"    LANGUAGE plpgsql\n    AS $_${BODY[1]} $_$;\n",
    "CREATE FUNCTION adkpg.enter_1(scope text[]) RETURNS void\n    LANGUAGE sql\n"
    "    RETURN (SELECT pg_read_file('/etc/passwd'));\n",
    "CREATE FUNCTION adkpg.enter_1(scope text[] DEFAULT adkpg.evil()) RETURNS void\n"
    f"    LANGUAGE plpgsql\n    AS $_${BODY[1]}$_$;\n",
    "CREATE TABLE adkpg.zz (i integer DEFAULT adkpg.evil(1));\n",
    'CREATE TABLE adkpg.zz (i integer DEFAULT adkpg."Évil" (1));\n',
    "CREATE TABLE adkpg.zz (i xml GENERATED ALWAYS AS"
    " (query_to_xml('DROP TABLE x', true, true, '')) STORED);\n",
    "CREATE INDEX i ON adkpg.sessions USING btree (adkpg.evil(revision));\n",
    "CREATE TRIGGER t AFTER INSERT ON adkpg.sessions FOR EACH ROW EXECUTE FUNCTION adkpg.evil();\n",
    "CREATE RULE r AS ON INSERT TO adkpg.sessions DO ALSO SELECT 1;\n",
    "CREATE VIEW adkpg.v AS SELECT 1;\n",
    "CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION adkpg.evil();\n",
    "CREATE EXTENSION plpython3u;\n",
    "ALTER SYSTEM SET archive_command = 'id';\n",
    "CREATE TABLE adkpg.zz (i integer)",
)


def passed_on(*statements: str) -> bytes:
    script = Script("adkpg", runs=True)
    lines = "".join(statements).encode().splitlines(keepends=True)
    return b"".join(script.lines(lines, server_major=18))


def test_what_tables_of_adkpg_need_is_passed_on() -> None:
    assert passed_on(*OWN).decode() == "".join(OWN)


@pytest.mark.parametrize("statement", HOSTILE)
def test_anything_else_is_refused(statement: str) -> None:
    with pytest.raises(ConfigurationError, match="SQL that tables of adkpg do not need"):
        passed_on(*OWN, statement, *OWN)


@given(
    st.lists(st.sampled_from(OWN), max_size=4),
    st.sampled_from(HOSTILE),
    st.sampled_from(["", "\n", "-- a comment\n", " ", "\t"]),
)
def test_wherever_it_stands_and_whatever_is_before_it(
    before: list[str], statement: str, between: str
) -> None:
    with pytest.raises(ConfigurationError, match="SQL that tables of adkpg do not need"):
        passed_on(*before, between, statement)
