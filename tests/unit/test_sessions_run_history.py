"""What a run needs of a session: ADK makes the same of it as of the whole history."""

from typing import Any

import pytest
from google.adk.apps.compaction import (
    _latest_prompt_token_count,
)
from google.adk.events._rewind_events import _apply_rewinds
from google.adk.flows.llm_flows.context._contents import _get_contents, _get_current_turn_contents
from google.adk.runners import _find_active_task_scope
from google.adk.sessions.session import Session
from hypothesis import given
from hypothesis import strategies as st

from adkpg.sessions.run_history import outline
from adkpg.sessions.run_history.outline import Outline
from tests.fakes.adk_history import (
    AGENTS,
    STEPS,
    Story,
    compact,
    messages,
    part_of,
    pendings,
    tell,
    told,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL:UserWarning")


@given(STEPS)
def test_the_model_is_sent_what_the_whole_history_would_have_it_sent(
    steps: list[tuple[Any, ...]],
) -> None:
    story = told(steps)
    part = part_of(story.events)
    assert pendings(part) == pendings(story.events)
    scopes = (None, *(task for task, _ in story.tasks))
    for message in messages(story):
        for agent in AGENTS:
            for scope in scopes:
                builds = [_get_contents]
                if scope == message.isolation_scope:
                    builds.append(_get_current_turn_contents)
                for build in builds:
                    sent, as_of_whole = (
                        build(None, [*events, message], agent, isolation_scope=scope)
                        for events in (part, story.events)
                    )
                    assert sent == as_of_whole


@given(STEPS, st.integers(1, 3), st.integers(0, 2))
def test_the_next_summary_is_made_of_the_same_events(
    steps: list[tuple[Any, ...]], interval: int, overlap: int
) -> None:
    story = told(steps)
    assert (
        compact(part_of(story.events), interval, overlap)[1]
        == (compact(story.events, interval, overlap)[1])
    )


@given(STEPS)
def test_a_run_finds_its_task_its_tokens_and_its_last_event(steps: list[tuple[Any, ...]]) -> None:
    story = told(steps)
    part, live = part_of(story.events), _apply_rewinds(story.events)
    whole_session = Session(id="s", app_name="app", user_id="u", events=story.events)
    part_session = whole_session.model_copy(update={"events": part})
    assert _find_active_task_scope(part_session) == _find_active_task_scope(whole_session)
    for agent in ("", *AGENTS):
        assert _latest_prompt_token_count(part, agent_name=agent) == _latest_prompt_token_count(
            live, agent_name=agent
        )
    assert [event.id for event in part[-1:]] == [event.id for event in live[-1:]]
    kept = {event.invocation_id for event in part if not event.actions.compaction}
    for invocation in kept - {""}:
        of_part = [event.id for event in part if event.invocation_id == invocation]
        assert of_part == [event.id for event in live if event.invocation_id == invocation]


@given(STEPS, st.integers(1, 10))
def test_a_number_cuts_whole_invocations_off_what_has_no_summary(
    steps: list[tuple[Any, ...]], last: int
) -> None:
    story = told([step for step in steps if step[0] != "compact"])
    part, live = part_of(story.events, last), _apply_rewinds(story.events)
    ids = [event.id for event in live]
    kept = [event.id for event in part]
    window = {event.id for event in story.events[-last:]} & set(ids)
    assert window <= set(kept)
    assert kept == [each for each in ids if each in set(kept)]
    for agent in AGENTS:
        whole_prompt, prompt = (_get_contents(None, each, agent) for each in (live, part))
        rest = iter(whole_prompt)
        assert all(any(each == other for other in rest) for each in prompt)


def test_a_summarized_session_is_cut() -> None:
    """Of ended invocations before the last summary's, no more is left than the overlap."""
    story = Story()
    for _ in range(30):
        tell(story, "root", 1, "ends")
    story.events += compact(story.events, 10, 0)[0]
    part = part_of(story.events)
    assert len(part) == 2 * 4 + 1


@pytest.mark.parametrize("text", ['{"seq": 1, "size": 2, "raw": "{}"}', '{"seq": 1, "size": 2}'])
def test_an_event_without_anything_has_an_outline(text: str) -> None:
    assert outline.read(text) == Outline(1, 2)
