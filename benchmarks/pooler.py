"""A PgBouncer in front of the server that is measured."""

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

CLIENTS = 8


@contextmanager
def pooled(program: str, url: str) -> Iterator[tuple[str, str]]:
    """Runs a PgBouncer in transaction mode; yields its version and the URL through it."""
    parts = urlsplit(url)
    folder = parse_qs(parts.query)["host"][0]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as directory:
        owner = os.stat(folder).st_uid
        configuration = Path(directory, "pgbouncer.ini")
        version = subprocess.check_output([program, "--version"], text=True).split()[1]
        several = "max_prepared_statements = 200" if version >= "1.21" else ""
        configuration.write_text(
            f"""[databases]
* = host={folder} port={parse_qs(parts.query).get("port", ["5432"])[0]}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {directory}/users
pool_mode = transaction
default_pool_size = {CLIENTS}
ignore_startup_parameters = extra_float_digits
{several}
"""
        )
        Path(directory, "users").write_text(f'"{parts.username}" ""\n')
        os.chmod(directory, 0o755)
        me = os.geteuid()
        running = subprocess.Popen(
            [program, "-q", str(configuration)],
            user=owner if me == 0 else None,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            while running.poll() is None:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    time.sleep(0.05)
            path = parts.path
            yield version, f"postgresql://{parts.username}@127.0.0.1:{port}{path}"
        finally:
            running.terminate()
            running.wait()
