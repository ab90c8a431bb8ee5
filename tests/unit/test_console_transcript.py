"""The console's transcript marks what a later event took back or stands for."""

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.sessions.session import Session
from google.genai.types import Content
from hypothesis import given
from hypothesis import strategies as st

from adkpg.tooling.console.transcript import marked_since, steps_of

TIMES = st.integers(0, 9)
EVENTS = st.lists(
    st.builds(
        lambda own, time, rewinds, stands: Event(
            author="user",
            invocation_id=own,
            timestamp=float(time),
            actions=EventActions(
                rewind_before_invocation_id=rewinds,
                compaction=stands
                and EventCompaction(
                    start_timestamp=stands[0],
                    end_timestamp=stands[1],
                    compacted_content=Content(),
                ),
            ),
        ),
        st.sampled_from(["", "a", "b", "c"]),
        TIMES,
        st.none() | st.sampled_from(["a", "b", "c", "d"]),
        st.none() | st.tuples(TIMES, TIMES),
    ),
    max_size=12,
)


def marks(events: list[Event]) -> list[tuple[bool, bool]]:
    """Of each event whether it was taken back, and whether another one stands for it."""
    taken: set[int] = set()
    replaced: set[int] = set()
    for place, event in enumerate(events):
        before = range(place)
        first = event.actions.rewind_before_invocation_id
        begins = [n for n in before if first and events[n].invocation_id == first]
        taken.update(range(begins[0], place) if begins else ())
        if one := event.actions.compaction:
            replaced.update(
                n
                for n in before
                if one.start_timestamp <= events[n].timestamp <= one.end_timestamp
                and events[n].actions.compaction is None
            )
    return [(n in taken, n in replaced) for n in range(len(events))]


@given(EVENTS, st.integers(0, 12))
def test_marks_are_of_what_a_later_event_names(events: list[Event], known: int) -> None:
    session = Session(id="s", app_name="a", user_id="u", events=events)
    steps = steps_of(session, {}, shown=range(len(events)))
    now, then = marks(events), marks(events[:known])
    assert [(step.rewound, step.compacted) for step in steps] == now
    changed = {place for place, mark in enumerate(then) if mark != now[place]}
    assert marked_since(session, known=known) == changed
