"""Port: what listens where a Postgres was to be, so that an error can say it."""

import asyncio
import ssl
import struct
from enum import Enum

_CONNECT_S = 1.0
_GREETING_S = 0.3  # a server that speaks first does so immediately
_ANSWER_S = 1.0

# https://www.postgresql.org/docs/current/protocol-message-formats.html
_SSL_REQUEST = struct.pack("!ii", 8, 80877103)
_GET = b"GET / HTTP/1.0\r\n\r\n"
_ALERT = b"\x15\x03"


class Listener(Enum):
    """What listens at a port."""

    NOBODY = "nothing"
    POSTGRES = "Postgres"
    HTTP = "an HTTP server"
    TLS = "a server that speaks TLS from the first byte on"
    SSH = "an SSH server"
    MYSQL = "a MySQL or MariaDB server"
    REDIS = "a Redis server"
    OTHER = "another kind of server"
    SILENT = "something that takes connections and says nothing"
    ENDING = "something that takes connections and ends them"


STRANGERS = frozenset(
    {
        Listener.HTTP,
        Listener.TLS,
        Listener.SSH,
        Listener.MYSQL,
        Listener.REDIS,
        Listener.OTHER,
    }
)
"""Those that will not be a Postgres in a moment either."""


async def listener_at(host: str, port: int) -> Listener:
    """Returns what listens at a TCP port; takes some four seconds at most, of one that is silent.

    Args:
      host: Its name or address.
      port: Its number.
    """
    try:
        found = await _said(host, port, _SSL_REQUEST)
        if found in (Listener.SILENT, Listener.ENDING):  # it may wait for an end of line
            asked = await _said(host, port, _GET)
            found = asked if asked in STRANGERS else found
        if found is Listener.ENDING and await _speaks_tls(host, port):
            found = Listener.TLS
    except (OSError, TimeoutError):
        return Listener.NOBODY
    return found


async def _said(host: str, port: int, question: bytes) -> Listener:
    async with asyncio.timeout(_CONNECT_S):
        reader, writer = await asyncio.open_connection(host, port)
    try:
        greeting = await _read(reader, _GREETING_S)
        if greeting is not None:
            return _greeted(greeting) if greeting else Listener.ENDING
        writer.write(question)
        answer = await _read(reader, _ANSWER_S)
    finally:
        writer.transport.abort()  # nothing is awaited: this may be a cancellation
    if answer is None:
        return Listener.SILENT
    if not answer:
        return Listener.ENDING
    if answer.startswith(b"HTTP/"):
        return Listener.HTTP
    if answer.startswith(_ALERT):
        return Listener.TLS
    if answer.startswith(b"-ERR"):
        return Listener.REDIS
    if question is _SSL_REQUEST and answer[:1] in (b"S", b"N", b"E"):
        return Listener.POSTGRES
    return Listener.OTHER


async def _read(reader: asyncio.StreamReader, wait_s: float) -> bytes | None:
    """Returns what comes first; empty if the other side ended, None if nothing came in time."""
    try:
        async with asyncio.timeout(wait_s):
            return await reader.read(64)
    except TimeoutError:
        return None
    except OSError:
        return b""


def _greeted(greeting: bytes) -> Listener:
    if greeting.startswith(b"SSH-"):
        return Listener.SSH
    # A packet of MySQL's: three bytes of length, number 0, then version 10 of the protocol, or an
    # error (255) that this host may not connect.
    if len(greeting) > 4 and greeting[3] == 0 and greeting[4] in (10, 255):
        return Listener.MYSQL
    return Listener.OTHER


async def _speaks_tls(host: str, port: int) -> bool:
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(_ANSWER_S):
            _, writer = await asyncio.open_connection(host, port, ssl=anybody)
    except ssl.SSLError as exc:  # an alert is an answer of TLS
        return "ALERT" in str(exc.reason)
    except (OSError, TimeoutError):
        return False
    writer.transport.abort()
    return True
