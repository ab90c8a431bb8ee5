"""Elsewhere: what an empty answer says of other users and apps, since --user or --app was wrong."""

from __future__ import annotations

import adkpg
from adkpg.terminal import printable

_SHOWN = 20


async def hint(database: adkpg.Database, app_name: str, user_id: str | None) -> str:
    """Returns sentences to add to an answer about memories; empty if nothing is to be added.

    Args:
      database: Where they are.
      app_name: The app that was named.
      user_id: The user; None if what the app knows for all of them was asked for.
    """
    from adkpg.operations.people import memories_of_users

    if user_id is None:
        found = await memories_of_users(database, app_name=app_name)
        if found.memories:
            users = "A user of it has" if found.users == 1 else f"{found.users:,} users of it have"
            count = "1 memory" if found.memories == 1 else f"{found.memories:,} memories"
            return f" {users} {count}; give --user for a person's."
    return await apps(database, app_name)


async def apps(database: adkpg.Database, app_name: str) -> str:
    """Returns a sentence that names the apps there are, if this one is not among them."""
    from adkpg.operations.people import app_names

    known = await app_names(database, most=_SHOWN + 1)
    if app_name in known:
        return ""
    if not known:
        return " Nothing is stored of any app."
    more = ", and others" if len(known) > _SHOWN else ""
    return f" There are these apps: {printable(', '.join(known[:_SHOWN]))}{more}."
