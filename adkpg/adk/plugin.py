"""MemoryPlugin: every turn of a Runner becomes memory by itself."""

import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from google.adk.agents.invocation_context import InvocationContext
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.session import Session

from adkpg.remember.policy import RememberPolicy, policy_of_service, remembered_events

logger = logging.getLogger(__name__)

_TURNS_KEPT = 256


@dataclass(frozen=True)
class _Turn:
    """A turn that is not remembered yet; its session object holds the events so far."""

    memory: BaseMemoryService
    session: Session
    invocation_id: str
    ended: bool = False


class MemoryPlugin(BasePlugin):
    """Remembers each turn of a Runner when it ends, with the runner's memory service.

    Works with any ADK memory service, one with ``add_events_to_memory`` at best: it is given the
    turn's events that the policy lets pass, as it lets them pass, and the session's id. The policy
    of adkpg's `Database` holds in any case. Turns are added by event, so other ways of remembering
    alongside this one store nothing twice.

    Turns that end with an error or that the caller stops reading are remembered as far as they
    came. ADK does not report a turn whose task is cancelled, so it is remembered with the next turn
    of its session, or when the runner is closed. A memory service that fails costs the turn
    nothing: the error is logged, and the turn is tried again with the next ones, or when the runner
    is closed. Above 256 such turns the oldest is given up, with an error in the log. Turns that
    must survive the process too are remembered with the event itself, by
    ``Database(remember=policy)``.

    Args:
      policy: Which events are remembered, and how. None is the policy of the memory service's
        `Database`, or else the user's and the final answers' text.
      custom_metadata: Given to the memory service with each turn, such as ``{"ttl": "86400s"}``.
      name: The plugin's, unique in its Runner.
    """

    def __init__(
        self,
        policy: RememberPolicy | None = None,
        *,
        custom_metadata: Mapping[str, object] | None = None,
        name: str = "memory",
    ) -> None:
        super().__init__(name=name)
        self._policy = policy
        self._custom_metadata = custom_metadata
        self._turns: OrderedDict[str, _Turn] = OrderedDict()
        self._warned = False

    def __repr__(self) -> str:
        return f"MemoryPlugin({self._policy!r}, name={self.name!r})"

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Notes that a turn begins."""
        if (turn := _turn_of(invocation_context)) is not None:
            self._keep(turn)
        elif not self._warned:
            self._warned = True
            logger.warning(
                "The runner has no memory service, so plugin %r remembers nothing; give the Runner "
                "a memory_service.",
                self.name,
            )

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Remembers a turn that ended, or whose caller stopped reading."""
        await self._end(invocation_context)

    async def on_run_error_callback(
        self, *, invocation_context: InvocationContext, error: Exception
    ) -> None:
        """Remembers what there is of a turn that failed."""
        await self._end(invocation_context)

    async def close(self) -> None:
        """Remembers what is left of turns that were cancelled or could not be remembered."""
        for turn in list(self._turns.values()):
            if not await self._remember(turn):
                return

    async def _end(self, invocation_context: InvocationContext) -> None:
        turn = _turn_of(invocation_context, ended=True)
        if turn is None:
            return
        place = _place(turn.session)
        left = [
            each
            for each in self._turns.values()
            if each.invocation_id != turn.invocation_id
            and (each.ended or _place(each.session) == place)
        ]
        for each in (turn, *left):
            # A service that fails is asked again at the next turn, not for each turn that waits.
            if not await self._remember(each):
                return

    async def _remember(self, turn: _Turn) -> bool:
        """Returns whether a turn is in memory; else it is kept for later."""
        self._turns.pop(turn.invocation_id, None)
        done = False
        try:
            await self._add(turn)
            done = True
        except Exception:
            # Any memory service may stand here; the user's turn must not fail with it.
            logger.exception(
                "A turn of session %s could not be remembered yet (invocation %s).",
                turn.session.id,
                turn.invocation_id,
            )
        finally:
            if not done:  # cancelled, perhaps
                self._keep(replace(turn, ended=True))
        return done

    async def _add(self, turn: _Turn) -> None:
        session = turn.session
        policy = self._policy
        if policy is None and policy_of_service(turn.memory) is None:
            policy = RememberPolicy()
        own = [event for event in session.events if event.invocation_id == turn.invocation_id]
        events = remembered_events(policy, own)
        if not events:
            return
        try:
            await turn.memory.add_events_to_memory(
                app_name=session.app_name,
                user_id=session.user_id,
                events=events,
                session_id=session.id,
                custom_metadata=self._custom_metadata,
            )
        except NotImplementedError:
            # ADK's base method raises it: such a service knows whole sessions only, and may replace
            # what it has of one.
            events = remembered_events(policy, session.events)
            await turn.memory.add_session_to_memory(
                session.model_copy(update={"events": events, "state": {}})
            )

    def _keep(self, turn: _Turn) -> None:
        self._turns[turn.invocation_id] = turn
        while len(self._turns) > _TURNS_KEPT:
            _, dropped = self._turns.popitem(last=False)
            if dropped.ended:
                logger.error(
                    "A turn of session %s is not remembered: too many turns wait for the memory "
                    "service (invocation %s).",
                    dropped.session.id,
                    dropped.invocation_id,
                )


def _turn_of(context: InvocationContext, *, ended: bool = False) -> _Turn | None:
    if context.memory_service is None:
        return None
    return _Turn(context.memory_service, context.session, context.invocation_id, ended)


def _place(session: Session) -> tuple[str, str, str]:
    return session.app_name, session.user_id, session.id
