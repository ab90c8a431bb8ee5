"""Models: the embedding models whose vectors are stored, and the one each app is searched with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from adkpg.database import Database, Transaction
from adkpg.embedding.embedder import Embedder
from adkpg.errors import ConfigurationError, InvalidInput
from adkpg.keys import require_storable
from adkpg.memory.vectors.index import (
    build_index,
    drop_index,
    index_is_valid,
    require_droppable,
)
from adkpg.memory.vectors.vectors import registered, require_indexable
from adkpg.telemetry.calls import on, traced
from adkpg.tooling.models import statements
from adkpg.tooling.models.reembedding import Progress, Reembedded, Reembedding
from adkpg.tooling.models.switch import switch

_DROPPED_TOGETHER = 10_000


@dataclass(frozen=True)
class Coverage:
    """The share of an app that a model covers.

    Attributes:
      app_name: The app.
      active: Whether the app is searched with this model.
      vectors: How many of its memories have a vector.
      memories: How many memories it has, expired ones included.
    """

    app_name: str
    active: bool
    vectors: int
    memories: int


@dataclass(frozen=True)
class Model:
    """An embedding model that is registered.

    Attributes:
      name: As embedders name it.
      dimensions: Length of its vectors, 1 to 4,000.
      indexed: Whether it has an HNSW index, for users with very many memories.
      apps: Those that have its vectors or are searched with it, by name.
    """

    name: str
    dimensions: int
    indexed: bool
    apps: tuple[Coverage, ...]


@traced(
    list_models=on("embedding_models"),
    add=on("embedding_models"),
    index=on("memory_vectors"),
    activate=on("app_settings"),
    drop=on("embedding_models"),
    reembed=on("memory_vectors"),
)
class Models:
    """The embedding models of a database.

    Vectors of several models are stored side by side. Each app is searched with one, its active
    model, which the first embedding sets; vectors of others are never compared.

    Args:
      database: Where the memories are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def __repr__(self) -> str:
        return f"Models({self._database!r})"

    async def list_models(self) -> tuple[Model, ...]:
        """Returns all models, by name and dimensions; reads the keys of all memories.

        Raises:
          ScopeMissing: Row-level security is on, and the context's scope is not `every_scope`.
        """
        self._database.run.require_every_scope()
        found: dict[int, tuple[str, int]] = {}
        apps: dict[int, list[Coverage]] = {}
        for row in await self._database.run.fetch(
            statements.select_coverage(),
            timeout_s=self._database.settings.migration_timeout_s,
        ):
            model_id = row["model_id"]
            found[model_id] = (row["name"], row["dimensions"])
            apps.setdefault(model_id, [])
            if row["app_name"] is not None:
                apps[model_id].append(
                    Coverage(row["app_name"], row["active"], row["vectors"], row["memories"])
                )
        return tuple(
            [
                Model(
                    name,
                    dimensions,
                    bool(await index_is_valid(self._database, model_id)),
                    tuple(apps[model_id]),
                )
                for model_id, (name, dimensions) in found.items()
            ]
        )

    async def add(self, name: str, *, dimensions: int) -> None:
        """Registers a model; services do so by themselves when they store its first vector.

        Idempotent. A name may be registered with several dimensions; those are several models.

        Args:
          name: As the embedder names it.
          dimensions: Length of its vectors, 1 to 4,000.

        Raises:
          ConfigurationError: Postgres cannot index vectors of this length.
          InvalidInput: The name cannot be stored, or the length is not a whole number.
        """
        if isinstance(dimensions, bool) or not isinstance(dimensions, int):
            raise InvalidInput(f"dimensions={dimensions!r} is not a whole number; give 1 to 4000.")
        require_indexable(name, dimensions)
        require_storable(name=name)
        await registered(self._database, name, dimensions)

    async def index(self, name: str, *, dimensions: int | None = None) -> int:
        """Builds the HNSW index of a model for users above ``ADKPG_EXACT_LIMIT`` memories.

        Also before they have vectors of it, which then enter the index as they come. Idempotent.

        Args:
          name: The model's name.
          dimensions: Which of several models of that name.

        Returns:
          How many vectors were put into the index.

        Raises:
          ConfigurationError: There is no such model, this role may not build indexes, or a worker
            of a cluster is asked.
        """
        model_id, dimensions = await self._find(name, dimensions)
        return await build_index(self._database, model_id, dimensions, ahead=True)

    async def activate(
        self, name: str, *, app_name: str, dimensions: int | None = None, force: bool = False
    ) -> int:
        """Makes a model the one an app is searched with, in one transaction. Idempotent.

        Args:
          name: The model's name.
          app_name: The app, which may have no memories yet.
          dimensions: Which of several models of that name.
          force: Also if memories lack a vector of it; they are queued, and found by their words
            until a service or worker with this model has embedded them.

        Returns:
          How many memories lack a vector.

        Raises:
          ConfigurationError: There is no such model, or memories lack a vector of it.
          InvalidInput: The app's name cannot be stored.
        """
        require_storable(app_name=app_name)
        model_id, _ = await self._find(name, dimensions)
        _, missing = await switch(self._database, app_name, model_id, queue=force)
        if missing and not force:
            raise ConfigurationError(
                f"{missing} memories of app {app_name!r} have no vector of model {name!r}; make "
                "them by adkpg reembed, or give --force (force=True) to queue them."
            )
        return missing

    async def drop(self, name: str, *, dimensions: int | None = None) -> int:
        """Deletes a model with its vectors and its index.

        One that was interrupted is continued by the next. Other models are not touched.

        Args:
          name: The model's name.
          dimensions: Which of several models of that name.

        Returns:
          How many vectors were deleted.

        Raises:
          ConfigurationError: There is no such model, an app is searched with it, or it has an
            index that this role may not drop, or not through a worker of a cluster.
        """
        self._database.run.require_every_scope()
        model_id, _ = await self._find(name, dimensions)
        await require_droppable(self._database, model_id)
        timeout_s = self._database.settings.migration_timeout_s

        async def begin(transaction: Transaction) -> None:
            await _hold_inactive(transaction, model_id, name, timeout_s)
            await transaction.fetch(statements.delete_scopes(model_id=model_id))

        async def go_on(transaction: Transaction) -> list[Any]:
            await _hold_inactive(transaction, model_id, name, timeout_s)
            return await transaction.fetch(
                statements.delete_some_vectors(
                    model_id=model_id,
                    after_app=app_name,
                    after_user=user_id,
                    after_position=position,
                    after_passage=passage,
                    limit=_DROPPED_TOGETHER,
                ),
                timeout_s=timeout_s,
            )

        async def end(transaction: Transaction) -> int:
            await _hold_inactive(transaction, model_id, name, timeout_s)
            await transaction.fetch(statements.lock_model(model_id=model_id))
            (left,) = await transaction.fetch(
                statements.delete_vectors(model_id=model_id), timeout_s=timeout_s
            )
            await transaction.fetch(statements.delete_scopes(model_id=model_id))
            # The foreign key reads all vectors for some that are left.
            await transaction.fetch(statements.delete_model(model_id=model_id), timeout_s=timeout_s)
            return int(left["deleted"])

        await self._database.run.transact(begin)
        await drop_index(self._database, model_id)
        dropped = 0
        place: tuple[str, str, int, int] | None = ("", "", -(2**63), 0)
        while place is not None:
            app_name, user_id, position, passage = place
            rows = await self._database.run.transact(go_on)
            dropped += len(rows)
            place = tuple(rows[-1]) if rows else None
        return dropped + await self._database.run.transact(end)

    async def reembed(
        self,
        embedder: Embedder,
        *,
        app_name: str | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> Sequence[Reembedded]:
        """Gives every memory a vector of an embedder's model, then searches with that model.

        Online: until the switch, which is one transaction, searches answer from the model before,
        and memories come and change as ever. Run again after an interruption, it embeds what still
        lacks a vector. The vectors of the model before stay until `drop`.

        Args:
          embedder: The new model's.
          app_name: The app; None is all that there are, one after the other.
          progress: Is told after each batch.

        Returns:
          The outcome of each app.

        Raises:
          ModelError: The embedder failed, or refused some texts: that app is searched as
            before, and the vectors made so far stay.
          ConfigurationError: Postgres cannot index vectors of this length.
          InvalidInput: The app's name cannot be stored.
        """
        require_storable(app_name=app_name)
        require_indexable(embedder.model, embedder.dimensions)
        self._database.run.require_every_scope()
        apps = [app_name]
        if app_name is None:
            rows = await self._database.run.fetch(
                statements.select_apps(),
                timeout_s=self._database.settings.migration_timeout_s,
            )
            apps = [row["app_name"] for row in rows]
        return [
            await Reembedding(self._database, embedder, app, progress).run()
            for app in apps
            if app is not None
        ]

    async def _find(self, name: str, dimensions: int | None) -> tuple[int, int]:
        require_storable(name=name)
        rows = await self._database.run.fetch(statements.select_named(name=name))
        known = {row["dimensions"]: row["model_id"] for row in rows}
        if dimensions is None and len(known) == 1:
            (dimensions,) = known
        if dimensions is None and known:
            raise ConfigurationError(
                f"Model {name!r} is registered with dimensions {', '.join(map(str, known))}; say "
                "which are meant."
            )
        if dimensions is None or dimensions not in known:
            size = "" if dimensions is None else f" with {dimensions} dimensions"
            raise ConfigurationError(
                f"There is no model {name!r}{size}; adkpg models list shows those that there are."
            )
        return known[dimensions], dimensions


async def _hold_inactive(
    transaction: Transaction, model_id: int, name: str, timeout_s: float
) -> None:
    """Keeps a model from being activated, to the transaction's end."""
    await transaction.fetch(statements.hold_model(model_id=model_id), timeout_s=timeout_s)
    rows = await transaction.fetch(statements.select_active_apps(model_id=model_id))
    if rows:
        apps = ", ".join(repr(row["app_name"]) for row in rows)
        raise ConfigurationError(
            f"Model {name!r} is active in {apps}; change over to another by adkpg reembed first."
        )
