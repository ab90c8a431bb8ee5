"""The check of a cluster's nodes: whether each answers, and is as the others are."""

from shlex import quote

from adkpg.database import Database
from adkpg.errors import DatabaseUnavailable
from adkpg.operations import catalog_statements as statements
from adkpg.operations.findings import Finding, Verdict
from adkpg.operations.nodes.measures import Row, answered

_SKEW_S = 1.0
_CURES = {
    "postgres": "apt-get install --only-upgrade 'postgresql-*'   # on every node",
    "citus": "ALTER EXTENSION citus UPDATE;   -- on every node",
    "pgvector": "ALTER EXTENSION vector UPDATE;   -- on every node",
}


async def nodes(database: Database) -> Finding:
    """Whether all nodes of the cluster answer, with the same versions and the same time."""
    verdict = Verdict("nodes")
    try:
        answers = await database.look(statements.select_nodes(), {})
    except DatabaseUnavailable as exc:
        # Whoever was asked answers, or this raises; so it waited for another one.
        await database.look(statements.select_clock(), {})
        verdict.add(
            "failure",
            f"the node that was asked waits for another: {exc}",
            "SELECT nodename, nodeport FROM pg_dist_node;   -- restart the one that hangs",
        )
        return verdict.finding("")
    found, away = answered(answers)
    for node, why in away.items():
        host, _, port = node.rpartition(":")
        verdict.add(
            "failure",
            f"{node} does not answer ({why}), and the rows of its users are nowhere else",
            f"pg_isready -h {quote(host)} -p {port}   # start it, if it is down",
        )
    compare({node: rows[0] for node, rows in found.items()}, verdict)
    return verdict.finding(f"{len(found)}, all of them answer, with the same versions and time")


def compare(told: dict[str, Row], verdict: Verdict) -> None:
    """Adds to a verdict in what the nodes that answered differ."""
    for what, cure in _CURES.items():
        versions: dict[str, list[str]] = {}
        for node, row in told.items():
            versions.setdefault(row[what] or "missing", []).append(node)
        if len(versions) > 1:
            each = "; ".join(f"{version} on {', '.join(on)}" for version, on in versions.items())
            verdict.add("warning", f"{what} is not the same everywhere: {each}", cure)
    clocks = sorted((row["clock_s"], node) for node, row in told.items())
    if clocks and (apart_s := clocks[-1][0] - clocks[0][0]) > _SKEW_S:
        verdict.add(
            "warning",
            f"the clock of {clocks[-1][1]} is {apart_s:.1f} s ahead of that of {clocks[0][1]}: "
            "expiry and the order of turns are off by as much",
            "timedatectl set-ntp true   # on every node",
        )
