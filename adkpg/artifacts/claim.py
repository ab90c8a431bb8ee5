"""The claim: an object that says which database the folder of an object store belongs to.

A database that is copied with its settings, as staging is from production, names the original's
folder, and would remove from it what the copy does not have. So the folder holds a token that its
database issued. With the token the database notes its server and its own identity, so a copy by
dump or template is another database. A copy of the server's files is not. Therefore the token is
renewed at times, and such a copy does not know the later ones.
"""

from google.adk.platform import uuid as platform_uuid

from adkpg.artifacts import statements
from adkpg.artifacts.store import ObjectStore
from adkpg.database import Database
from adkpg.errors import ArtifactStoreError


async def hold(database: Database, store: ObjectStore, *, take_over: bool = False) -> None:
    """Claims the folder for this database, before anything is changed there; idempotent.

    Args:
      take_over: Claim a folder of another database, too.

    Raises:
      ArtifactStoreError: The folder is another database's, or the store refused.
    """
    found = await store.claim()
    while not take_over:
        row = None
        if found is not None:
            row = await database.run.fetch_one(statements.select_claim(token=found))
        if row is not None and row["own"]:
            if row["fresh"]:
                return
            break
        if found is None and (
            not await store.days() or await database.run.fetch(statements.select_own_claim())
        ):
            break
        before, found = found, await store.claim()
        if found == before:  # else a call beside this one renewed it in between
            raise ArtifactStoreError(
                "The folder that ADKPG_ARTIFACT_STORE names belongs to another database, of "
                "which this one may be a copy, so nothing is changed in it; name a folder of its "
                "own, or, if the other database is gone, run: adkpg db tidy --take-over-files"
            )
    token = platform_uuid.new_uuid()
    # The row is there first: what the folder holds is known to the database whatever fails.
    await database.run.fetch(statements.insert_claim(token=token))
    await store.write_claim(token)
    await database.run.fetch(statements.delete_claims(token=token))
