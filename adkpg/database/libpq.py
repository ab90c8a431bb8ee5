"""The variables by which Postgres's own programs reach a database, instead of their arguments.

Every user of a machine can read a program's arguments; only its own user reads its environment.
"""

from urllib.parse import parse_qsl, unquote

from adkpg.database.address import Address

# Of libpq's options; the others of a URL are settings of the server.
_VARIABLES = {
    "host": "PGHOST",
    "port": "PGPORT",
    "dbname": "PGDATABASE",
    "database": "PGDATABASE",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "passfile": "PGPASSFILE",
    "application_name": "PGAPPNAME",
    "target_session_attrs": "PGTARGETSESSIONATTRS",
    "sslmode": "PGSSLMODE",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcrl": "PGSSLCRL",
    "sslcrldir": "PGSSLCRLDIR",
    "ssl_min_protocol_version": "PGSSLMINPROTOCOLVERSION",
    "ssl_max_protocol_version": "PGSSLMAXPROTOCOLVERSION",
    "krbsrvname": "PGKRBSRVNAME",
    "gsslib": "PGGSSLIB",
}

IGNORED = ("PGHOSTADDR", "PGSERVICE", "PGSERVICEFILE", "PGOPTIONS")
"""Variables that libpq reads and asyncpg does not: they may lead elsewhere."""


def environment(target: Address, password: str | None = None) -> dict[str, str]:
    """Returns libpq's variables for an address.

    Args:
      target: A server's; not ``embedded``.
      password: Instead of the address's own.
    """
    location, _, query = target.dsn.removeprefix("postgresql://").partition("?")
    userinfo, _, place = location.rpartition("@")
    hosts, _, database = place.partition("/")
    user, _, secret = userinfo.partition(":")
    servers = [
        host.rpartition(":") if _has_port(host) else (host, "", "") for host in _split(hosts)
    ]
    found = {
        "PGUSER": unquote(user),
        "PGPASSWORD": unquote(secret),
        "PGHOST": ",".join(unquote(host).strip("[]") for host, _, _ in servers),
        "PGDATABASE": unquote(database),
    }
    if any(port for _, _, port in servers):
        found["PGPORT"] = ",".join(port or "5432" for _, _, port in servers)
    found = {name: value for name, value in found.items() if value}
    settings = []
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in _VARIABLES:
            found.setdefault(_VARIABLES[name], value)
        elif name == "options":
            settings.append(value)
        else:
            settings.append(f"-c {name}={_escaped(value)}")
    if settings:
        found["PGOPTIONS"] = " ".join(settings)
    options = dict(target.options)
    if wanted := options.get("target_session_attrs"):
        found["PGTARGETSESSIONATTRS"] = wanted
    if timeout_s := options.get("timeout"):
        found["PGCONNECT_TIMEOUT"] = str(max(round(timeout_s), 1))
    if password is not None:
        found["PGPASSWORD"] = password
    return found


def _split(hosts: str) -> list[str]:
    return hosts.split(",") if hosts else []


def _has_port(host: str) -> bool:
    return ":" in host.rpartition("]")[2]


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")
