"""Console: sessions, memories and searches in a browser, as an ASGI app to serve or to mount.

::

    app.mount("/console", create_console(database, token=os.environ["CONSOLE_TOKEN"]))

``adkpg console`` serves it. It needs ``adkpg[console]``.
"""

from adkpg.tooling.console.application import create_console

__all__ = ["create_console"]
