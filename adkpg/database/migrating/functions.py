"""The text of the functions in the database, as a migration creates them.

A function is a file of SQL in which a line in braces stands for other lines: they are text there,
since a call would cost each write.

``{find_tables}``
    Finds the tables by their names.
``{require_part}``
    After the first write of a person's rows: on a cluster, ends this server process if it wrote
    elsewhere than the catalogs say. From then on ``in_part`` says that the person is on this node.
``{in_part}`` ... ``{end}``
    The lines twice: where ``in_part`` is true, each statement in double brackets names the parts
    of the tables that have the person, past Citus, which may still take one for being where it was,
    and plans such statements anew by itself; else the tables. A variable in it has a colon before
    it.
"""

import re
from pathlib import Path
from textwrap import dedent, indent

from adkpg.tables import metadata

_FIND_TABLES = """\
-- Tables are found where the caller says that they are, since a schema can be renamed; and not
-- among those that another client of a pooler left in pg_temp.
IF strpos(current_setting('search_path'), home || ',') <> 1
   OR right(current_setting('search_path'), 7) <> 'pg_temp' THEN
    PERFORM set_config('search_path', concat_ws(
        ', ', home, nullif(current_setting('search_path'), ''), 'pg_temp'
    ), true);
END IF;"""
_REQUIRE_PART = """\
IF NOT has_written AND current_setting('citus.version', true) IS NOT NULL THEN
    in_part := require_part_1(user_id, true);
END IF;"""
_PIECES = {"find_tables": _FIND_TABLES, "require_part": _REQUIRE_PART}

_LINE = re.compile(rf"^( *)\{{({'|'.join(_PIECES)})\}}$", re.MULTILINE)
_BLOCK = re.compile(r"^( *)\{in_part\}\n(.*?)^ *\{end\}$", re.MULTILINE | re.DOTALL)
_STATEMENT = re.compile(r"\[\[(\n.*?) *\]\]", re.DOTALL)
_VARIABLE = re.compile(r'(?<!:):("?[a-z]\w*"?)')
_TABLES = "|".join(each.name for each in metadata.sorted_tables)
_TABLE = re.compile(rf"\b(INTO|UPDATE|FROM|JOIN) ({_TABLES})\b")
_CONSTRAINT = re.compile(r"\bON CONSTRAINT (\w+)")


def text(place: Path, name: str, schema: str) -> str:
    """Returns the SQL that creates one of `adkpg.tables.FUNCTIONS` in a schema.

    Args:
      place: The folder of the files.
      name: The function's.
      schema: Unquoted.
    """
    written = (place / f"{name}.sql").read_text("utf-8")
    written = _LINE.sub(lambda at: indent(_PIECES[at[2]], at[1]), written)
    written = _BLOCK.sub(lambda at: indent(_in_part_or_not(dedent(at[2])), at[1]), written)
    return written.replace("{schema}", f'"{schema}"')


def _in_part_or_not(lines: str) -> str:
    there = _STATEMENT.sub(lambda found: _of_parts(found[1]), lines)
    here = _STATEMENT.sub(lambda found: _VARIABLE.sub(r"\1", found[1]), lines)
    tab = " " * 4
    return f"IF in_part THEN\n{indent(there, tab)}ELSE\n{indent(here, tab)}END IF;"


def _of_parts(statement: str) -> str:
    """What runs a statement with the names of the parts: those of tables and a number."""
    variables = list(dict.fromkeys(_VARIABLE.findall(statement)))
    tables: list[str] = []

    def part(found: re.Match[str]) -> str:
        if found[2] not in tables:
            tables.append(found[2])
        return f"{found[1]} {found[2]}_%{tables.index(found[2]) + 1}$s"

    statement = statement.replace("%", "%%")
    statement = _TABLE.sub(part, statement)
    statement = _CONSTRAINT.sub(r"ON CONSTRAINT \1_%1$s", statement)
    statement = _VARIABLE.sub(lambda found: f"${variables.index(found[1]) + 1}", statement)
    numbers = [f"get_shard_id_for_distribution_column('{each}', user_id)" for each in tables]
    return (
        f"EXECUTE format($part${statement}$part$,\n{', '.join(numbers)})"
        f" USING {', '.join(variables)}"
    )
