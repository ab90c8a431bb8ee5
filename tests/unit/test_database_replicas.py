"""What a process knows, and up to when standbys have all: no accepted answer is too old."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from adkpg.database import Database, Floor, Known, Need
from adkpg.database.replicas.horizon import History, Horizon, settled
from adkpg.database.replicas.known import Gone
from adkpg.database.replicas.replica import gone_from
from adkpg.errors import DatabaseUnavailable, InvalidInput
from adkpg.keys import APP_WIDE
from adkpg.outages.silence import Silence

APP = "app"
USERS = st.sampled_from(["ann", "ann", "ann", "bob"])
IDS = st.sampled_from(["s", "s", "s", "t"])
SERVERS = st.sampled_from([1.0, 1.0, 2.0])
HISTORY = History("cluster", "database", 1)
_STATES = 2  # so few that a state is often what it was before


@dataclass
class World:
    """All rows at a moment: versions only grow.

    Attributes:
      sessions: Incarnation and revision; None where it was deleted.
      states: By app or user.
      listed: By user: when any of their sessions was changed last.
      memories: By user.
    """

    sessions: dict[tuple[str, str], Floor | None] = field(default_factory=dict)
    states: dict[str, int] = field(default_factory=dict)
    listed: dict[str, int] = field(default_factory=dict)
    memories: dict[str, int] = field(default_factory=dict)

    def copy(self) -> "World":
        return World(dict(self.sessions), dict(self.states), dict(self.listed), dict(self.memories))

    def row(self, user: str, session_id: str) -> Mapping[str, Any] | None:
        floor = self.sessions.get((user, session_id))
        if floor is None:
            return None
        return {
            "incarnation": floor.incarnation,
            "revision": floor.revision,
            "revision_token": floor.token,
            "app_state": str(self.states.get("", 0) % _STATES),
            "user_state": str(self.states.get(user, 0) % _STATES),
        }


class Reading(RuleBasedStateMachine):
    """A primary whose log is a list of worlds, two standbys that replay it, and one process."""

    @initialize(most=st.sampled_from([1, 3, 8, 1_000]))
    def begin(self, most: int) -> None:
        self.time = 0.0
        self.log = [World()]
        self.replayed = {1.0: 0, 2.0: 0}
        self.known = Known(most, lambda: self.time)
        self.horizon = Horizon()
        # What was written or seen: by thing, the index in the log that shows it.
        self.seen: dict[tuple[str, ...], int] = {}
        self.accepted = 0

    def _change(self, **changes: Any) -> World:
        self.time += 1
        self.log.append(self.log[-1].copy())
        return self.log[-1]

    def _note(self, *things: tuple[str, ...], at: int | None = None) -> None:
        at = len(self.log) - 1 if at is None else at
        for thing in things:
            self.seen[thing] = max(self.seen.get(thing, 0), at)

    @rule(user=USERS, session_id=IDS, by_us=st.booleans(), state=st.booleans(), app=st.booleans())
    def append(self, user: str, session_id: str, by_us: bool, state: bool, app: bool) -> None:
        world = self._change()
        before = world.sessions.get((user, session_id))
        number = len(self.log)
        floor = (
            Floor(f"i{number}", 0, None)
            if before is None
            else Floor(before.incarnation, before.revision + 1, f"t{number}")
        )
        world.sessions[user, session_id] = floor
        world.listed[user] = number
        things: list[tuple[str, ...]] = [("session", user, session_id), ("listed", user)]
        for changed, of in ((state, user), (app, "")):
            if changed:
                world.states[of] = world.states.get(of, 0) + 1
                things.append(("state", of))
        if by_us:
            place = {"app_name": APP, "user_id": user, "session_id": session_id}
            self.known.wrote_session(place, floor, user=state, app=app)
            self._note(*things)

    @rule(user=USERS, session_id=IDS, by_us=st.booleans())
    def delete(self, user: str, session_id: str, by_us: bool) -> None:
        world = self._change()
        world.sessions[user, session_id] = None
        world.listed[user] = len(self.log)
        if by_us:
            self.known.wrote({"app_name": APP, "user_id": user})
            self._note(("session", user, session_id), ("listed", user))
            self.known.erased(APP, user, session_id)

    @rule(user=USERS, by_us=st.booleans())
    def remember(self, user: str, by_us: bool) -> None:
        world = self._change()
        world.memories[user] = len(self.log)
        if by_us:
            self.known.wrote({"app_name": APP, "user_id": user})
            self._note(("memories", user))

    @rule(by_us=st.booleans())
    def teach(self, by_us: bool) -> None:
        """Something for all users."""
        world = self._change()
        world.memories[APP_WIDE] = len(self.log)
        if by_us:
            self.known.wrote({"app_names": [APP], "user_ids": [APP_WIDE]})
            self._note(("memories", APP_WIDE))

    @rule(user=USERS)
    def forget(self, user: str) -> None:
        self.known.erased(APP, user, None)

    @rule(server=SERVERS, by=st.integers(1, 5), times=st.integers(1, 2))
    def replay(self, server: float, by: int, times: int) -> None:
        self.replayed[server] = min(self.replayed[server] + by * times, len(self.log) - 1)

    @rule(server=SERVERS, by=st.integers(0, 9))
    def look(self, server: float, by: int) -> None:
        self.horizon.primary_at(self.time, 100_000 * (len(self.log) - 1), HISTORY)
        self.replay(server, by, 1)
        self.horizon.met(server, HISTORY)
        self.horizon.replayed(server, 100_000 * self.replayed[server])

    @rule(user=USERS, session_id=IDS, meanwhile=st.booleans())
    def get_on_primary(self, user: str, session_id: str, meanwhile: bool) -> None:
        asked_at, row, at = self.time, self.log[-1].row(user, session_id), len(self.log) - 1
        if meanwhile:
            self.append(user, session_id, True, True, False)
        self.time += 1
        self.known.saw_session((APP, user, session_id), row, asked_at=asked_at, server=None)
        self._note(("session", user, session_id), at=at)
        if row is not None:
            self._note(("state", ""), ("state", user), at=at)

    @rule(
        user=USERS,
        session_id=IDS,
        server=SERVERS,
        by=st.integers(0, 1),
        meanwhile=st.lists(st.tuples(USERS, IDS, st.booleans(), st.booleans()), max_size=2),
        looks=st.booleans(),
    )
    def get_on_standby(
        self,
        user: str,
        session_id: str,
        server: float,
        by: int,
        meanwhile: list[tuple[str, str, bool, bool]],
        looks: bool,
    ) -> None:
        self.replay(server, by, 1)
        need = self.known.of_session(APP, user, session_id)
        newest, before = self.log[self.seen.get(("session", user, session_id), 0)], dict(self.seen)
        if looks:
            self.look(server, 0)
        reached = self.horizon.reached()
        for whose, which, state, app in meanwhile:
            self.append(whose, which, True, state, app)
        at = self.replayed[server]
        row = self.log[at].row(user, session_id)
        self.time += 1
        if not _above(need, row) or not need.shown_by(server, reached):
            return
        if row is not None and not need.states_shown(row, server, reached):
            return
        self.accepted += 1
        assert not _older(row, newest.row(user, session_id), at, before, (user, session_id))
        if row is not None:
            for of, name in (("", "app_state"), (user, "user_state")):
                last = before.get(("state", of), 0)
                alike = row[name] == str(self.log[last].states.get(of, 0) % _STATES)
                assert at >= last or alike
                assert self.log[at].states.get(of, 0) >= self.log[last].states.get(of, 0) or alike
        self.known.saw_session((APP, user, session_id), row, asked_at=need.known_at, server=server)
        self._note(("session", user, session_id), at=at)
        if row is not None:
            for of in ("", user):
                alike = self.seen.get(("state", of), 0) > at
                if not alike:
                    self._note(("state", of), at=at)

    @rule(user=USERS, server=SERVERS, by=st.integers(0, 1), meanwhile=st.booleans())
    def list_on_standby(self, user: str, server: float, by: int, meanwhile: bool) -> None:
        self.replay(server, by, 1)
        need = self.known.of_sessions(APP, user)
        if not need.shown_by(server, self.horizon.reached()):
            return
        at, asked_at = self.replayed[server], need.known_at
        world = self.log[at]
        last = self.seen.get(("listed", user), 0)
        assert world.listed.get(user, 0) >= self.log[last].listed.get(user, 0)
        for session_id in ("s", "t"):
            newest = self.log[self.seen.get(("session", user, session_id), 0)]
            assert not _older(
                world.row(user, session_id),
                newest.row(user, session_id),
                at,
                self.seen,
                (user, session_id),
            )
        if meanwhile:
            self.list_on_primary(user)
        self._listed(user, at, asked_at, server)

    @rule(server=SERVERS)
    def list_all_on_standby(self, server: float) -> None:
        need = self.known.of_sessions(APP, None)
        if not need.shown_by(server, self.horizon.reached()):
            return
        at = self.replayed[server]
        for user in ("ann", "bob"):
            last = self.seen.get(("listed", user), 0)
            assert self.log[at].listed.get(user, 0) >= self.log[last].listed.get(user, 0)
            self._note(("listed", user), *(("session", user, each) for each in ("s", "t")), at=at)
        answer = hash(repr(self.log[at]))
        self.time += 1
        self.known.saw((APP, None), 2, answer, asked_at=need.known_at, server=server)

    @rule(user=USERS)
    def list_on_primary(self, user: str) -> None:
        self._listed(user, len(self.log) - 1, self.time, None)

    def _listed(self, user: str, at: int, asked_at: float, server: float | None) -> None:
        self.time += 1
        world = self.log[at]
        rows = [(world.listed.get(user, 0), *(world.row(user, each) for each in ("s", "t")))]
        answer = hash(repr(rows))
        self.known.saw((APP, user), 1, answer, asked_at=asked_at, server=server)
        self._note(("listed", user), *(("session", user, each) for each in ("s", "t")), at=at)

    @rule(user=USERS, server=SERVERS)
    def search_on_standby(self, user: str, server: float) -> None:
        need = self.known.of_memories(APP, user)
        if need.shown_by(server, self.horizon.reached()):
            world = self.log[self.replayed[server]]
            for scope in (user, APP_WIDE):
                last = self.seen.get(("memories", scope), 0)
                assert world.memories.get(scope, 0) >= self.log[last].memories.get(scope, 0)

    @invariant()
    def is_bounded(self) -> None:
        assert len(self.known._answers) <= 5_000
        assert len(self.known._entries) <= self.known._most


def _above(need: Need, row: Mapping[str, Any] | None) -> bool:
    """What the statement compares."""
    if need.floor is None:
        return True
    return (
        row is not None
        and row["incarnation"] == need.floor.incarnation
        and row["revision"] >= need.floor.revision
    )


def _older(
    row: Mapping[str, Any] | None,
    newest: Mapping[str, Any] | None,
    at: int,
    seen: Mapping[tuple[str, ...], int],
    place: tuple[str, str],
) -> bool:
    """Whether an answer is from before the newest that was seen, and differs from it."""
    if at >= seen.get(("session", *place), 0):
        return False
    if row is None or newest is None:
        return (row is None) != (newest is None)
    return (row["incarnation"], row["revision"]) != (newest["incarnation"], newest["revision"])


TestReading = Reading.TestCase
TestReading.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)


def test_what_is_forgotten_is_asked_for_as_if_it_was_written_last() -> None:
    now = 0.0
    known, horizon = Known(2, lambda: now), Horizon()
    known.wrote({"app_name": APP, "user_id": "ann"})
    for number in range(5):
        now += 1
        known.wrote({"app_name": APP, "user_id": f"other{number}"})
    horizon.primary_at(0.5, 100, HISTORY)
    horizon.met(1.0, HISTORY)
    horizon.replayed(1.0, 100)
    assert not known.of_memories(APP, "ann").shown_by(1.0, horizon.reached())
    horizon.primary_at(now, 200, HISTORY)
    horizon.replayed(1.0, 200)
    assert known.of_memories(APP, "ann").shown_by(1.0, horizon.reached())


PLACE = {"app_name": APP, "user_id": "ann", "session_id": "s"}
KEY = (APP, "ann", "s")


def row_of(revision: int, *, user_state: str = "{}", incarnation: str = "i") -> dict[str, Any]:
    return {
        "incarnation": incarnation,
        "revision": revision,
        "revision_token": f"t{revision}",
        "app_state": "{}",
        "user_state": user_state,
    }


def test_what_was_asked_before_a_write_does_not_undo_what_is_known_of_it() -> None:
    known = Known(clock=iter(range(100)).__next__)
    asked_at = known.now()
    known.wrote_session(PLACE, Floor("i", 5, "t5"), user=True)
    known.saw_session(KEY, row_of(4), asked_at=asked_at, server=None)
    need = known.of_session(*KEY)
    assert need.floor == Floor("i", 5, "t5")
    assert need.states[1] is None, "the user's state is known by its moment still"
    known.wrote_session(PLACE, Floor("i", 4, "t4"))  # answers come in any order
    assert known.of_session(*KEY).floor == Floor("i", 5, "t5")


def test_the_primarys_word_counts_even_if_it_went_back() -> None:
    known = Known(clock=iter(range(100)).__next__)
    known.wrote_session(PLACE, Floor("i", 5, "t5"))
    known.saw_session(KEY, row_of(3), asked_at=known.now(), server=None)
    assert known.of_session(*KEY).floor == Floor("i", 3, "t3")


def test_events_that_are_gone_do_not_come_back_but_on_a_primary_that_went_back() -> None:
    known = Known(clock=iter(range(100)).__next__)
    for server in (None, 1.0):
        seen: dict[str, Any] = {"asked_at": known.now(), "server": server}
        known.saw_session(KEY, row_of(5), **seen, gone=Gone(3, whole=True))
        known.saw_session(KEY, row_of(5), **seen, gone=Gone(4, whole=False))
        known.saw_session(KEY, row_of(5), **seen)
        assert known.of_session(*KEY).gone == 3
    known.wrote_session(PLACE, Floor("i", 6, "t6"))
    assert known.of_session(*KEY).gone == 3
    asked_at = known.now()
    known.saw_session(KEY, row_of(6), asked_at=known.now(), server=None, gone=Gone(4, whole=True))
    known.saw_session(KEY, row_of(6), asked_at=asked_at, server=None, gone=Gone(3, whole=True))
    assert known.of_session(*KEY).gone == 4, "what was asked before it was known says nothing"
    known.saw_session(KEY, row_of(6), asked_at=known.now(), server=None, gone=Gone(3, whole=True))
    assert known.of_session(*KEY).gone == 3
    other = row_of(6, incarnation="another")
    known.saw_session(KEY, other, asked_at=known.now(), server=None, gone=Gone(0, whole=True))
    assert known.of_session(*KEY).gone == 0


@pytest.mark.parametrize(
    ("parameters", "row", "gone"),
    [
        ({"after": None, "limit": None}, {"payloads": ["a"]}, Gone(4, whole=True)),
        ({"after": None, "limit": 2}, {"payloads": ["a"]}, Gone(4, whole=True)),
        ({"after": None, "limit": 1}, {"payloads": ["a"]}, Gone(4, whole=False)),
        ({"after": 1, "limit": None}, {"payloads": ["a"]}, Gone(4, whole=False, filtered=True)),
        ({"after": 1, "limit": 1}, {"payloads": ["a"]}, Gone(4, whole=False)),
        ({"after": None, "limit": None}, {"payloads": ["a"], "next_seq": 4}, Gone(2, whole=True)),
        ({"after": None, "limit": 9}, {"payloads": ["a"], "next_seq": 4}, Gone(2, whole=False)),
        ({"count": 3}, {"payloads": ["a"], "had": True}, Gone(1, whole=True)),
        ({"count": 3}, {"payloads": ["a"], "had": None}, Gone(4, whole=True)),
        ({"whole": 9}, {"payloads": None, "outlines": ["a", "b"]}, Gone(3, whole=True)),
        ({"after": None, "limit": None}, {}, None),
    ],
)
def test_a_row_tells_how_many_events_it_is_without(
    parameters: dict[str, Any], row: dict[str, Any], gone: Gone | None
) -> None:
    assert gone_from(parameters, {"revision": 5, **row}) == gone


def test_what_events_after_a_time_were_seen_without_no_standby_shows_that_is_behind() -> None:
    known = Known(clock=iter(range(100)).__next__)

    def seen(events: int, server: float | None = None, revision: int = 5) -> None:
        gone = Gone(events, whole=False, filtered=True)
        row = row_of(revision)
        known.saw_session(KEY, row, asked_at=known.now(), server=server, gone=gone)

    known.saw_session(KEY, row_of(5), asked_at=known.now(), server=1.0, gone=Gone(2, whole=True))
    before = known.now()
    seen(2)
    assert known.of_session(*KEY).shown_by(1.0, {1.0: before}), "what is gone was known"
    seen(3)
    between = known.now()
    for need in (known.of_session(*KEY), known.of_sessions(APP, "ann")):
        assert not need.shown_by(1.0, {1.0: before})
        assert need.shown_by(1.0, {1.0: between})
    seen(3, revision=6)
    assert known.of_session(*KEY).shown_by(1.0, {1.0: between}), "an event came, and none went"
    seen(4, server=1.0, revision=6)
    assert known.of_session(*KEY).shown_by(1.0, {})
    assert not known.of_session(*KEY).shown_by(2.0, {2.0: between})


def test_a_state_that_is_again_what_it_was_is_not_taken_for_the_first_one() -> None:
    """Another standby shows what was between both."""
    known = Known(clock=iter(range(100)).__next__)
    known.saw_session(KEY, row_of(1, user_state="A"), asked_at=known.now(), server=None)
    between = known.now()
    known.saw_session(KEY, row_of(1, user_state="A"), asked_at=known.now(), server=None)
    need = known.of_session(*KEY)
    assert need.states_shown(row_of(1, user_state="A"), 1.0, {})
    assert not need.states_shown(row_of(1, user_state="B"), 1.0, {1.0: between})
    assert need.states_shown(row_of(1, user_state="B"), 1.0, {1.0: known.now()})


def test_a_standby_that_shows_the_same_state_proves_nothing_of_what_it_shows_next() -> None:
    known = Known(clock=iter(range(100)).__next__)
    known.saw_session(KEY, row_of(1, user_state="A"), asked_at=known.now(), server=None)
    known.saw_session(KEY, row_of(1, user_state="A"), asked_at=known.now(), server=1.0)
    assert not known.of_session(*KEY).states_shown(row_of(1, user_state="B"), 1.0, {})


def test_a_listing_shows_the_sessions_that_were_seen() -> None:
    known = Known(clock=iter(range(100)).__next__)
    before = known.now()
    known.saw_session(KEY, row_of(7), asked_at=known.now(), server=None)
    for user in ("ann", None):
        need = known.of_sessions(APP, user)
        assert not need.shown_by(1.0, {1.0: before})
        assert need.shown_by(1.0, {1.0: known.now()})


def test_a_session_that_was_gone_must_be_gone_where_it_is_read() -> None:
    known = Known(clock=iter(range(100)).__next__)
    before = known.now()
    known.saw_session(KEY, None, asked_at=known.now(), server=2.0)
    need = known.of_session(*KEY)
    assert need.shown_by(2.0, {})
    assert not need.shown_by(1.0, {1.0: before})


def test_forgetting_a_person_keeps_nothing_of_them_and_brings_nothing_back() -> None:
    known = Known(clock=iter(range(100)).__next__)
    known.wrote_session(PLACE, Floor("i", 5, "t5"), user=True, memory=True)
    before = known.now()
    known.erased(APP, "ann", None)
    assert "ann" not in repr(known._entries)
    assert not known.of_session(*KEY).shown_by(1.0, {1.0: before})


def test_a_standby_that_is_far_behind_still_finds_a_position_that_it_has_replayed() -> None:
    horizon = Horizon()
    for second in range(1_000):
        horizon.primary_at(float(second), 100 * second, HISTORY)
    horizon.met(1.0, HISTORY)
    horizon.replayed(1.0, 100 * 900)
    assert 850 <= horizon.reached()[1.0] <= 900
    horizon.replayed(1.0, 100 * 999)
    assert horizon.reached()[1.0] == 999


def test_a_standby_never_goes_back_and_a_restarted_one_is_another() -> None:
    horizon = Horizon()
    horizon.primary_at(1.0, 100, HISTORY)
    horizon.met(1.0, HISTORY)
    horizon.replayed(1.0, 100)
    horizon.primary_at(2.0, 200, HISTORY)
    horizon.replayed(1.0, 50)
    assert horizon.reached() == {1.0: 1.0}
    horizon.replayed(2.0, 200)
    assert 2.0 not in horizon.reached(), "nobody knows whose standby it is"
    horizon.met(2.0, HISTORY)
    horizon.replayed(2.0, 50)
    assert horizon.reached()[2.0] < 0


def test_a_standby_that_lost_what_it_showed_is_another_one_from_then_on() -> None:
    known, horizon = Known(clock=iter(range(100)).__next__), Horizon()
    horizon.primary_at(0.5, 100, HISTORY)
    horizon.met(1.0, HISTORY)
    horizon.replayed(1.0, 100)
    assert horizon.standings()[1.0].position == 100
    known.saw((APP, "ann"), 1, 7, asked_at=known.now(), server=horizon.number(1.0))
    assert known.of_sessions(APP, "ann").shown_by(horizon.number(1.0), horizon.reached())
    horizon.fell_back(1.0)
    assert horizon.reached() == {}
    again = horizon.number(1.0)
    assert horizon.met(again, HISTORY)
    horizon.replayed(again, 100)
    assert not known.of_sessions(APP, "ann").shown_by(again, horizon.reached())
    horizon.fell_back(1.0)
    assert horizon.number(1.0) not in (1.0, again)


def test_what_is_not_on_the_primarys_disk_counts_once_it_must_be_there() -> None:
    horizon = Horizon()
    horizon.met(1.0, HISTORY)
    horizon.primary_at(10.0, 300, HISTORY, flushed=200, flush_delay_s=0.6)
    assert horizon.met(1.0, HISTORY)
    horizon.replayed(1.0, 100)
    assert horizon.reached()[1.0] == -math.inf
    horizon.replayed(1.0, 200)
    assert horizon.reached()[1.0] == 9.4
    assert horizon.standings()[1.0].committed_at == 10.0
    horizon.replayed(1.0, 300)
    assert horizon.reached()[1.0] == 10.0


@pytest.mark.parametrize(
    "theirs",
    [HISTORY._replace(timeline=2), HISTORY._replace(cluster="c"), HISTORY._replace(database="d")],
)
def test_positions_of_another_history_tell_nothing(theirs: History) -> None:
    horizon = Horizon()
    horizon.primary_at(1.0, 100, HISTORY)
    assert not horizon.met(1.0, theirs)
    horizon.replayed(1.0, 1_000)
    assert horizon.reached() == {}
    assert horizon.met(1.0, HISTORY)
    horizon.replayed(1.0, 1_000)
    horizon.primary_at(2.0, 100, theirs)  # a standby took over
    assert horizon.reached() == {}


def test_after_a_failover_that_lost_a_session_nothing_is_read_by_what_was_known() -> None:
    known = Known(clock=iter(range(100)).__next__)
    known.wrote_session(PLACE, Floor("i", 5, "t5"))
    before = known.now()
    known.saw_session(KEY, row_of(3), asked_at=known.now(), server=None)
    for need in (
        known.of_session(*KEY),
        known.of_memories(APP, "ben"),
        known.of_sessions("b", "c"),
    ):
        assert not need.shown_by(1.0, {1.0: before})
        assert need.shown_by(1.0, {1.0: known.now()})


def test_an_answer_that_was_seen_is_behind_no_other_standby() -> None:
    known = Known(clock=iter(range(100)).__next__)
    for scope in ((APP, "ann"), (APP, None)):
        before = known.now()
        known.saw(scope, 1, 7, asked_at=before, server=1.0)
        for need in (known.of_session(*KEY), known.of_sessions(APP, "ann")):
            assert need.shown_by(1.0, {1.0: before}), "it shows what it showed"
            assert not need.shown_by(2.0, {2.0: before})
        after = known.now()
        known.saw(scope, 1, 7, asked_at=after, server=2.0)
        assert known.of_session(*KEY).shown_by(2.0, {2.0: after}), "it was no news"
        assert not known.of_sessions(APP, None).shown_by(2.0, {2.0: before})
        known.erased(APP, "ann", None)
        assert "ann" not in repr(known._answers)


@pytest.mark.parametrize("header", [24, 40])
def test_a_page_header_behind_the_last_record_is_never_waited_for(header: int) -> None:
    assert settled(5 * 8192 + header) == 5 * 8192
    assert settled(5 * 8192 + 48) == 5 * 8192 + 48


def test_what_is_wrong_with_a_call_keeps_nobody_else_from_the_standby() -> None:
    database = Database("postgresql://primary/agents", read_url="postgresql://standby/agents")
    replica = database.run.replica
    assert replica is not None
    permit = replica._breaker.admit(1.0)
    assert permit is not None
    assert replica.refused(InvalidInput("A number is out of range."), permit).reason == "refused"
    assert replica._breaker.pause_s() == 0
    assert replica.refused(DatabaseUnavailable("It is down."), permit).reason == "away"
    assert replica._breaker.pause_s() > 0


def test_who_gives_up_counts_from_the_last_answer_on() -> None:
    silence = Silence()
    assert not silence.lasted(8.0, 8.4)
    silence.broken(10.0)
    assert not silence.lasted(9.0, 10.4), "others were answered meanwhile"
    assert silence.lasted(10.4, 10.6), "in all"
    assert not silence.lasted(20.0, 20.1), "it counts anew"


def test_callers_who_wait_simultaneously_count_as_one() -> None:
    silence = Silence()
    assert not any(silence.lasted(1.0, 1.2 + each / 100) for each in range(20))
    assert silence.lasted(1.3, 1.6)
