"""What a process has seen, and until when standbys have all: no accepted answer is too old."""

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from adkpg.database import Database, Subject
from adkpg.database.replicas.horizon import History, Horizon, Standing, settled
from adkpg.database.replicas.replica import told_by
from adkpg.database.replicas.seen import Revision, Seen, Told
from adkpg.errors import DatabaseUnavailable, InvalidInput
from adkpg.keys import APP_WIDE
from adkpg.outages.health import Health
from adkpg.queries import Query
from adkpg.sessions import reading_statements
from tests.fakes.queries import statement_of

APP = "app"
NAMES = ("ann", "bob")
USERS = st.sampled_from(["ann", "ann", "ann", "bob"])
IDS = st.sampled_from(["s", "s", "s", "t"])
SERVERS = st.sampled_from([1.0, 1.0, 2.0])
HISTORY = History("cluster", "database", 1)


@dataclass
class World:
    """All rows at a moment: versions only grow.

    Attributes:
      things: By thing, the number of its last change: a session, a user's state (or the app's,
        whose user is empty), or memories.
      revisions: By user and session; None where it was deleted.
    """

    things: dict[tuple[str, ...], int] = field(default_factory=dict)
    revisions: dict[tuple[str, str], Revision | None] = field(default_factory=dict)

    def copy(self) -> "World":
        return World(dict(self.things), dict(self.revisions))


def sessions_of(user: str) -> list[tuple[str, ...]]:
    return [("session", user, each) for each in ("s", "t")]


class Reading(RuleBasedStateMachine):
    """A primary whose log is a list of worlds, two standbys that replay it, and one process."""

    @initialize(most=st.sampled_from([1, 3, 8, 1_000]))
    def begin(self, most: int) -> None:
        self.time = 0.0
        self.log = [World()]
        self.replayed = {1.0: 0, 2.0: 0}
        self.most = most
        self.seen = Seen(most, lambda: self.time)
        self.horizon = Horizon()
        # What was written or seen: by thing, the number of its change.
        self.known: dict[tuple[str, ...], int] = {}

    def _change(self, *things: tuple[str, ...]) -> World:
        self.time += 1
        self.log.append(self.log[-1].copy())
        self.log[-1].things |= dict.fromkeys(things, len(self.log))
        return self.log[-1]

    def _know(self, things: list[tuple[str, ...]], world: World) -> None:
        for thing in things:
            self.known[thing] = max(self.known.get(thing, 0), world.things.get(thing, 0))

    def _is_new_enough(self, things: list[tuple[str, ...]], world: World, known: Any) -> None:
        for thing in things:
            assert world.things.get(thing, 0) >= known.get(thing, 0), thing

    @rule(user=USERS, session_id=IDS, by_us=st.booleans(), state=st.booleans(), app=st.booleans())
    def append(self, user: str, session_id: str, by_us: bool, state: bool, app: bool) -> None:
        things: list[tuple[str, ...]] = [("session", user, session_id)]
        things += [("state", each) for each in [user] * state + [""] * app]
        world = self._change(*things)
        before = world.revisions.get((user, session_id))
        number = len(self.log)
        world.revisions[user, session_id] = (
            Revision(f"i{number}", 0, None)
            if before is None
            else Revision(before.incarnation, before.revision + 1, f"t{number}")
        )
        if by_us:
            delta = "{}" if app else None
            self.seen.wrote({"app_name": APP, "user_id": user, "app_delta": delta})
            self._know(things, world)

    @rule(user=USERS, session_id=IDS, by_us=st.booleans())
    def delete(self, user: str, session_id: str, by_us: bool) -> None:
        thing = ("session", user, session_id)
        world = self._change(thing)
        world.revisions[user, session_id] = None
        if by_us:
            self.seen.wrote({"app_name": APP, "user_id": user})
            self.seen.erased(APP, user, session_id)
            self._know([thing], world)

    @rule(user=st.sampled_from([*NAMES, APP_WIDE]), by_us=st.booleans())
    def remember(self, user: str, by_us: bool) -> None:
        world = self._change(("memories", user))
        if by_us:
            self.seen.wrote({"app_names": [APP], "user_ids": [user]})
            self._know([("memories", user)], world)

    @rule(user=USERS)
    def forget(self, user: str) -> None:
        self.seen.erased(APP, user, None)

    @rule(server=SERVERS, by=st.integers(1, 9))
    def replay(self, server: float, by: int) -> None:
        self.replayed[server] = min(self.replayed[server] + by, len(self.log) - 1)

    @rule(server=SERVERS, by=st.integers(0, 9), meanwhile=st.booleans(), us=st.booleans())
    def look(self, server: float, by: int, meanwhile: bool, us: bool) -> None:
        """The time is taken first, then the primary is asked, then the standby."""
        asked_at = self.time
        if meanwhile:
            self.append("ann", "s", us, True, True)
        self.horizon.primary_at(asked_at, 100_000 * (len(self.log) - 1), HISTORY)
        self.replay(server, by)
        self.horizon.met(server, HISTORY)
        self.horizon.replayed(server, 100_000 * self.replayed[server])

    def _answer(
        self, subject: Subject, world: World, *, stamped: bool
    ) -> tuple[Told, list[tuple[str, ...]]]:
        """What a world tells of a subject, and of which things."""
        versions: dict[str, int | None] = {"app_state_version": world.things.get(("state", ""))}
        if subject.session_id is None:
            users = NAMES if subject.user_id is None else (subject.user_id,)
            things = [thing for user in users for thing in sessions_of(user)]
            return Told(versions=versions), [*things, ("state", "")]
        user = str(subject.user_id)
        revision = world.revisions.get((user, subject.session_id))
        thing = ("session", user, subject.session_id)
        if revision is None:
            return Told(), [thing]
        versions["user_state_version"] = world.things.get(("state", user))
        stamp = revision if stamped else None
        told = Told("asked", stamp, revision, versions)
        return told, [thing, ("state", user), ("state", "")]

    subjects = st.one_of(
        st.builds(Subject, st.just(APP), USERS, IDS),
        st.builds(Subject, st.just(APP), st.sampled_from(["ann", "bob", None])),
    )
    changes = st.lists(st.tuples(USERS, IDS, st.booleans(), st.booleans()), max_size=2)

    @rule(subject=subjects, meanwhile=changes, stamped=st.booleans())
    def read_on_primary(
        self, subject: Subject, meanwhile: list[tuple[str, str, bool, bool]], stamped: bool
    ) -> None:
        need, asked_at, world = self.seen.need(subject), self.time, self.log[-1]
        for user, session_id, state, app in meanwhile:
            self.append(user, session_id, True, state, app)
        self.time += 1
        told, things = self._answer(subject, world, stamped=stamped)
        self.seen.saw(need, told, since=asked_at)
        self._know(things, world)

    @rule(
        subject=subjects,
        server=SERVERS,
        by=st.integers(0, 1),
        meanwhile=changes,
        theirs=st.booleans(),
        stamped=st.booleans(),
    )
    def read_on_standby(
        self,
        subject: Subject,
        server: float,
        by: int,
        meanwhile: list[tuple[str, str, bool, bool]],
        theirs: bool,
        stamped: bool,
    ) -> None:
        need, known = self.seen.need(subject), dict(self.known)
        standing = self.horizon.standings().get(server, Standing())
        for user, session_id, state, app in meanwhile:
            self.append(user, session_id, not theirs, state, app)
        self.replay(server, by)
        world = self.log[self.replayed[server]]
        self.time += 1
        if not need.met_by(server, standing.at) or standing.at == -math.inf:
            return
        told, things = self._answer(subject, world, stamped=stamped)
        if subject.session_id is not None and told.revision is None:
            return  # the primary is asked
        self._is_new_enough(things, world, known)
        self.seen.saw(need, told, since=need.at, server=server, reached_at=standing.at)
        self._know(things, world)

    @rule(user=USERS, server=SERVERS)
    def search_on_standby(self, user: str, server: float) -> None:
        need = self.seen.need(Subject(APP, user, memories=True))
        standing = self.horizon.standings().get(server, Standing())
        if need.met_by(server, standing.at) and standing.at > -math.inf:
            world = self.log[self.replayed[server]]
            things: list[tuple[str, ...]] = [("memories", each) for each in (user, APP_WIDE)]
            self._is_new_enough(things, world, self.known)

    @invariant()
    def is_bounded(self) -> None:
        assert len(self.seen._entries) <= self.most


TestReading = Reading.TestCase
TestReading.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)

ANN = Subject(APP, "ann")
SESSION = Subject(APP, "ann", "s")


def ticking() -> Seen:
    return Seen(clock=iter(range(1_000)).__next__)


def told(revision: int, *, incarnation: str = "i", token: str = "t", **versions: int) -> Told:
    of_session = Revision(incarnation, revision, f"{token}{revision}")
    return Told("asked", of_session, of_session, versions)


def see(seen: Seen, subject: Subject, answer: Told, **where: Any) -> bool:
    need = seen.need(subject)
    return seen.saw(need, answer, since=seen.now(), **where)


def needed_at(seen: Seen, subject: Subject) -> float:
    """Since when a server that has shown nothing must have all."""
    return max(sight.at for sight in seen.need(subject).sights)


def test_what_is_evicted_is_asked_for_as_if_it_was_written_last() -> None:
    now = 0.0
    seen = Seen(2, lambda: now)
    seen.wrote({"app_name": APP, "user_id": "ann"})
    for number in range(5):
        now += 1
        seen.wrote({"app_name": APP, "user_id": f"other{number}"})
    assert 0 < needed_at(seen, ANN) <= now


@pytest.mark.parametrize(
    ("parameters", "raised"),
    [
        ({"app_name": APP, "user_id": "ann"}, {ANN}),
        ({"app_name": APP, "user_id": "ann", "app_delta": "{}"}, {ANN, Subject(APP, "bob")}),
        ({"app_name": APP}, {ANN, Subject(APP, "bob")}),
        ({"app_names": [APP, "b"], "user_ids": ["ann", "bob"]}, {ANN, Subject("b", "bob")}),
        ({}, {ANN, Subject(APP, "bob"), Subject("b", "bob")}),
    ],
)
def test_a_write_raises_the_scopes_that_it_names(
    parameters: dict[str, Any], raised: set[Subject]
) -> None:
    seen = ticking()
    seen.wrote(parameters)
    asked = [ANN, Subject(APP, "bob"), Subject("b", "bob")]
    assert {each for each in asked if needed_at(seen, each) >= 0} == raised
    assert needed_at(seen, Subject(APP, None)) >= 0, "a whole app is of all users"


def test_an_answer_that_tells_what_was_told_raises_nothing() -> None:
    seen = ticking()
    assert see(seen, SESSION, told(5, app_state_version=1, user_state_version=2))
    at = needed_at(seen, SESSION)
    assert not see(seen, SESSION, told(5, app_state_version=1, user_state_version=2))
    assert needed_at(seen, SESSION) == at
    assert see(seen, SESSION, told(5, app_state_version=1, user_state_version=3))
    assert needed_at(seen, SESSION) > at
    assert needed_at(seen, Subject(APP, "bob")) < needed_at(seen, SESSION)
    assert see(seen, SESSION, told(5, app_state_version=2, user_state_version=3))
    assert needed_at(seen, Subject(APP, "bob")) == needed_at(seen, SESSION)


def test_an_answer_without_a_row_is_new_whenever_it_comes() -> None:
    seen = ticking()
    assert see(seen, SESSION, Told())
    assert see(seen, SESSION, Told())


def test_what_one_standby_showed_another_shows_after_a_later_look() -> None:
    seen = ticking()
    see(seen, SESSION, told(5), server=1.0)
    need = seen.need(SESSION)
    assert need.met_by(1.0, -math.inf), "it shows what it showed"
    assert not need.met_by(2.0, 0)
    assert need.met_by(2.0, need.at)


def test_of_two_that_answered_at_once_neither_shows_what_the_other_did() -> None:
    seen = ticking()
    need = seen.need(SESSION)
    seen.saw(need, told(5), since=need.at, server=1.0, reached_at=need.at)
    seen.saw(need, told(6), since=need.at, server=2.0, reached_at=need.at)
    for server in (1.0, 2.0):
        assert not seen.need(SESSION).met_by(server, need.at)


def test_an_answer_that_was_asked_for_before_takes_no_later_revision_back() -> None:
    seen = ticking()
    need = seen.need(SESSION)
    see(seen, SESSION, told(7), server=1.0)
    seen.saw(need, told(5), since=need.at, server=1.0)
    assert seen.need(SESSION).revision == Revision("i", 7, "t7")
    assert seen.lost_at == -math.inf


def test_the_primarys_word_counts_even_if_it_lost_what_was_seen() -> None:
    """Then nothing is read by what was known, whatever followed the old primary."""
    seen = ticking()
    see(seen, SESSION, told(5))
    before = seen.now()
    see(seen, SESSION, told(3))
    assert seen.need(SESSION).revision == Revision("i", 3, "t3")
    assert seen.lost_at > before
    for subject in (SESSION, Subject(APP, "ben", memories=True), Subject("b", "c")):
        assert not seen.need(subject).met_by(1.0, before)
        assert seen.need(subject).met_by(1.0, seen.now())


@pytest.mark.parametrize(
    ("known", "said", "lacks"),
    [
        (Revision("i", 5, "a"), Revision("i", 4, "b"), True),
        (Revision("i", 5, "a"), Revision("i", 5, "b"), True),
        (Revision("i", 5, "a"), Revision("i", 5, None), False),
        (Revision("i", 5, "a"), Revision("i", 6, "b"), False),
        (Revision("i", 5, "a"), Revision("j", 1, "b"), False),
    ],
)
def test_what_a_session_lacks_its_revision_tells(
    known: Revision, said: Revision, lacks: bool
) -> None:
    assert said.lacks(known) == lacks


def test_forgetting_a_person_keeps_nothing_of_them_and_brings_nothing_back() -> None:
    seen = ticking()
    see(seen, SESSION, told(5, app_state_version=1, user_state_version=2), server=1.0)
    before = seen.now()
    seen.erased(APP, "ann", None)
    assert "ann" not in repr(seen._entries)
    assert not seen.need(SESSION).met_by(1.0, before)


def row_of(**fields: Any) -> dict[str, Any]:
    of_session = {"incarnation": "i", "revision": 5, "revision_token": "t", "next_seq": None}
    return {**of_session, "app_state_version": 1, "user_state_version": None, **fields}


def test_fewer_events_of_the_same_revision_tell_something_new() -> None:
    whole = statement_of(reading_statements.select_session)
    again = statement_of(reading_statements.select_session_again)
    asked: dict[str, Any] = {"session_id": "s", "after": None, "limit": None, "count": 2}

    def stamp(statement: Any, row: dict[str, Any], **more: Any) -> Any:
        answer: Any = [row]
        found = told_by(SESSION, Query(statement, {**asked, **more}), answer)
        assert found is not None
        return found.question, found.stamp

    three = stamp(whole, row_of(payloads=["a", "b", "c"]))
    assert stamp(whole, row_of(payloads=["a", "b", "c"])) == three
    assert stamp(whole, row_of(payloads=["b", "c"])) != three
    assert stamp(whole, row_of(payloads=["a", "b", "c"]), limit=3) != three
    had = stamp(again, row_of(payloads=["c"], had=True))
    assert stamp(again, row_of(payloads=["a", "b", "c"], had=None)) == had


def at_of(horizon: Horizon, server: float) -> float:
    return horizon.standings()[server].at


def test_a_standby_that_is_far_behind_still_finds_a_position_that_it_has_replayed() -> None:
    horizon = Horizon()
    for second in range(1_000):
        horizon.primary_at(float(second), 100 * second, HISTORY)
    horizon.met(1.0, HISTORY)
    horizon.replayed(1.0, 100 * 900)
    assert 850 <= at_of(horizon, 1.0) <= 900
    horizon.replayed(1.0, 100 * 999)
    assert at_of(horizon, 1.0) == 999


def test_a_standby_never_goes_back_and_a_restarted_one_is_another() -> None:
    horizon = Horizon()
    horizon.primary_at(1.0, 100, HISTORY)
    horizon.met(1.0, HISTORY)
    horizon.replayed(1.0, 100)
    horizon.primary_at(2.0, 200, HISTORY)
    horizon.replayed(1.0, 50)
    assert at_of(horizon, 1.0) == 1.0
    horizon.replayed(2.0, 200)
    assert 2.0 not in horizon.standings(), "nobody knows whose standby it is"
    horizon.met(2.0, HISTORY)
    horizon.replayed(2.0, 50)
    assert at_of(horizon, 2.0) < 0


def test_a_standby_that_lost_what_it_showed_is_another_one_from_then_on() -> None:
    seen, horizon = ticking(), Horizon()
    horizon.primary_at(-0.5, 100, HISTORY)
    horizon.met(1.0, HISTORY)
    horizon.replayed(1.0, 100)
    assert horizon.standings()[1.0].position == 100
    see(seen, ANN, Told(), server=horizon.number(1.0))
    assert seen.need(ANN).met_by(horizon.number(1.0), at_of(horizon, horizon.number(1.0)))
    horizon.fell_back(1.0)
    assert horizon.standings() == {}
    again = horizon.number(1.0)
    assert horizon.met(again, HISTORY)
    horizon.replayed(again, 100)
    assert not seen.need(ANN).met_by(again, at_of(horizon, again))
    horizon.fell_back(1.0)
    assert horizon.number(1.0) not in (1.0, again)


def test_what_is_not_on_the_primarys_disk_counts_once_it_must_be_there() -> None:
    horizon = Horizon()
    horizon.met(1.0, HISTORY)
    horizon.primary_at(10.0, 300, HISTORY, flushed=200, flush_delay_s=0.6)
    assert horizon.met(1.0, HISTORY)
    horizon.replayed(1.0, 100)
    assert at_of(horizon, 1.0) == -math.inf
    horizon.replayed(1.0, 200)
    assert at_of(horizon, 1.0) == 9.4
    assert horizon.standings()[1.0].committed_at == 10.0
    horizon.replayed(1.0, 300)
    assert at_of(horizon, 1.0) == 10.0


@pytest.mark.parametrize(
    "theirs",
    [HISTORY._replace(timeline=2), HISTORY._replace(cluster="c"), HISTORY._replace(database="d")],
)
def test_positions_of_another_history_tell_nothing(theirs: History) -> None:
    horizon = Horizon()
    horizon.primary_at(1.0, 100, HISTORY)
    assert not horizon.met(1.0, theirs)
    horizon.replayed(1.0, 1_000)
    assert horizon.standings() == {}
    assert horizon.met(1.0, HISTORY)
    horizon.replayed(1.0, 1_000)
    horizon.primary_at(2.0, 100, theirs)  # a standby took over
    assert horizon.standings() == {}


@pytest.mark.parametrize("header", [24, 40])
def test_a_page_header_behind_the_last_record_is_never_waited_for(header: int) -> None:
    assert settled(5 * 8192 + header) == 5 * 8192
    assert settled(5 * 8192 + 48) == 5 * 8192 + 48


def test_what_is_wrong_with_a_call_keeps_no_other_call_from_the_standby() -> None:
    database = Database("postgresql://primary/agents", read_url="postgresql://standby/agents")
    replica = database.run.replica
    assert replica is not None
    standby = replica.standby
    permit = standby.health.admit(1.0)
    assert permit is not None
    assert standby.refused(InvalidInput("A number is out of range."), permit).reason == "refused"
    assert standby.health.pause_s() == 0
    assert standby.refused(DatabaseUnavailable("It is down."), permit).reason == "away"
    assert standby.health.pause_s() > 0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_who_gives_up_counts_from_the_last_answer_on() -> None:
    clock = Clock()
    health = Health(longest_pause_s=1.0, clock=clock)

    def gave_up(since: float, now: float) -> bool:
        clock.now = now
        return health.gave_up(since)

    assert not gave_up(8.0, 8.4)
    clock.now = 10.0
    health.spoke()
    assert not gave_up(9.0, 10.4), "others were answered meanwhile"
    assert gave_up(10.4, 10.6), "in all"
    assert not gave_up(20.0, 20.1), "it counts anew"
    health.spoke()
    assert not any(gave_up(21.0, 21.2 + each / 100) for each in range(20)), "they count as one"
    assert gave_up(21.3, 21.6)


def test_a_failure_is_said_once_of_each_cause_until_there_is_an_answer() -> None:
    clock = Clock()
    health = Health(longest_pause_s=1.0, clock=clock)

    def failed(cause: str) -> bool:
        clock.now += 10.0
        permit = health.admit(1.0)
        assert permit is not None
        return health.failed(permit, cause)

    assert [failed("a"), failed("a"), failed("b")] == [True, False, True]
    assert health.is_away(5.0)
    assert health.answered()
    assert not health.is_away(5.0)
    assert not health.answered()
    assert failed("b")
