"""SharedDatabases: one `Database` per URL."""

import threading
from weakref import WeakValueDictionary

from adkpg.database import Database
from adkpg.settings import Settings


class SharedDatabases:
    """Gives everyone who asks for one URL the same `Database`, for as long as somebody uses it.

    It holds weak references only: a Database lives and dies with the services made from it. May
    be asked from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._databases: WeakValueDictionary[tuple[str, Settings], Database] = WeakValueDictionary()

    def get(self, url: str) -> Database:
        """Returns the Database of a URL, and makes it the first time; no I/O.

        The environment's settings belong to the key: ``adkpg://`` is another database once
        ``ADKPG_DATABASE_URL`` is another.

        Raises:
          ConfigurationError: No database is named, or it cannot be read.
        """
        key = (url.strip(), Settings())
        with self._lock:
            database = self._databases.get(key)
            if database is None:
                database = self._databases[key] = Database(key[0], settings=key[1])
        return database
