"""Sessions as ADK writes them: turns, tools, tasks, rewinds, and summaries by ADK's compaction."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from google.adk.agents.llm_agent import Agent
from google.adk.apps.app import App, EventsCompactionConfig
from google.adk.apps.base_events_summarizer import BaseEventsSummarizer
from google.adk.apps.compaction import _run_compaction_for_sliding_window
from google.adk.events._rewind_events import _apply_rewinds
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session
from google.genai import types
from hypothesis import strategies as st

from adkpg import jsontext
from adkpg.sessions.run_history import outline
from adkpg.sessions.run_history.choice import needed
from adkpg.sessions.run_history.outline import Outline

AGENTS = ("root", "helper")


class Summarizer(BaseEventsSummarizer):
    """Remembers what it was given; a summary names the events that it stands for."""

    def __init__(self) -> None:
        self.given: list[list[str]] = []

    async def maybe_summarize_events(self, *, events: list[Event]) -> Event | None:
        self.given.append([event.id for event in events])
        text = "summary of " + " ".join(event.id for event in events)
        return Event(
            author="user",
            invocation_id=Event.new_id(),
            timestamp=events[-1].timestamp + 0.25,
            actions=EventActions(
                compaction=EventCompaction(
                    start_timestamp=events[0].timestamp,
                    end_timestamp=events[-1].timestamp,
                    compacted_content=types.Content(role="model", parts=[types.Part(text=text)]),
                )
            ),
        )


def compact(
    events: list[Event], interval: int, overlap: int
) -> tuple[list[Event], list[list[str]]]:
    """Returns the summary that ADK would append, and of which events it is made."""
    summarizer = Summarizer()
    config = EventsCompactionConfig(
        compaction_interval=interval, overlap_size=overlap, summarizer=summarizer
    )
    app = App(name="app", root_agent=Agent(name="root"), events_compaction_config=config)
    session = Session(id="s", app_name="app", user_id="u", events=list(events))

    async def summaries() -> list[Event]:
        found = _run_compaction_for_sliding_window(app, session, InMemorySessionService())
        return [event async for event in found]

    return asyncio.run(summaries()), summarizer.given


@dataclass
class Story:
    """A session as ADK writes one: turns, tools, tasks, rewinds, summaries."""

    events: list[Event] = field(default_factory=list)
    invocations: list[str] = field(default_factory=list)
    tasks: list[tuple[str, str]] = field(default_factory=list)  # call, invocation
    clock: float = 1000.0
    number: int = 0

    def next(self) -> int:
        self.number += 1
        return self.number

    def add(self, author: str, *parts: types.Part, invocation: str, **fields: Any) -> Event:
        self.clock += fields.pop("later", 1.0)
        content = None
        if parts:
            role = "user" if author == "user" or parts[0].function_response else "model"
            content = types.Content(role=role, parts=list(parts))
        event = Event(
            id=f"e{self.next()}",
            author=author,
            invocation_id=invocation,
            timestamp=self.clock,
            content=content,
            **fields,
        )
        self.events.append(event)
        return event

    def begin(self) -> str:
        invocation = f"i{self.next()}"
        self.invocations.append(invocation)
        self.add("user", said(f"question {invocation}"), invocation=invocation)
        return invocation


def said(text: str) -> types.Part:
    return types.Part(text=text)


def call(name: str, call_id: str, **args: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(id=call_id, name=name, args=args))


def response(name: str, call_id: str, **values: Any) -> types.Part:
    return types.Part(
        function_response=types.FunctionResponse(id=call_id, name=name, response=values)
    )


def tell(story: Story, agent: str, tools: int, fate: str) -> None:
    """One invocation: question, tool calls in parallel, an answer; or it stops on the way."""
    invocation = story.begin()
    if fate == "stops":
        return
    if tools:
        ids = [f"c{story.next()}" for _ in range(tools)]
        waits = {ids[-1]} if fate in ("waits", "asks") else None
        calls = [call("look", each) for each in ids]
        story.add(agent, *calls, invocation=invocation, long_running_tool_ids=waits)
        if fate == "breaks":
            return
        for each in ids if fate != "asks" else ids[:-1]:
            story.add(agent, response("look", each, found=each), invocation=invocation)
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=story.number)
    story.add(agent, said(f"answer {invocation}"), invocation=invocation, usage_metadata=usage)


def delegate(story: Story, fate: str) -> None:
    """A task in a scope of its own, which ends or waits for the user."""
    invocation = story.begin()
    task = f"t{story.next()}"
    story.add("root", call("helper", task, goal=task), invocation=invocation)
    scoped = {"invocation": invocation, "isolation_scope": task}
    story.add("helper", said(f"working on {task}"), **scoped)
    if fate in ("stops", "waits"):
        story.tasks.append((task, invocation))
        return
    finish = f"f{story.next()}"
    story.add("helper", call("finish_task", finish), **scoped)
    story.add("helper", response("finish_task", finish, result="Task completed."), **scoped)
    story.add("root", response("helper", task, done=True), invocation=invocation)
    story.add("root", said(f"{task} is done"), invocation=invocation)


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("turn"),
            st.sampled_from(AGENTS),
            st.integers(0, 2),
            st.sampled_from(["ends", "ends", "ends", "stops", "breaks", "waits", "asks"]),
        ),
        st.tuples(st.just("task"), st.sampled_from(["ends", "ends", "stops", "waits"])),
        st.tuples(st.just("answer"), st.integers(0, 9)),
        st.tuples(st.just("rewind"), st.integers(0, 9)),
        st.tuples(st.just("compact"), st.integers(1, 3), st.integers(0, 3)),
        st.tuples(st.just("state")),
    ),
    min_size=1,
    max_size=25,
)


def told(steps: list[tuple[Any, ...]]) -> Story:
    story = Story()
    for kind, *details in steps:
        if kind == "turn":
            tell(story, *details)
        elif kind == "task":
            delegate(story, *details)
        elif kind == "answer" and (waits := pendings(story.events)):
            waiting, invocation = waits[details[0] % len(waits)]
            story.add("user", response("look", waiting, late=True), invocation=invocation)
            story.add("root", said(f"late answer to {waiting}"), invocation=invocation)
        elif kind == "rewind" and story.invocations:
            target = story.invocations[-1 - details[0] % min(3, len(story.invocations))]
            actions = EventActions(rewind_before_invocation_id=target)
            story.add("user", invocation=f"r{story.next()}", actions=actions)
        elif kind == "compact":
            summaries, _ = compact(story.events, *details)
            for summary in summaries:
                summary.id = f"e{story.next()}"
                story.events.append(summary)
        elif kind == "state":
            story.add("root", invocation="", actions=EventActions(state_delta={"k": story.number}))
    live = {event.isolation_scope for event in _apply_rewinds(story.events)}
    story.tasks = [(task, invocation) for task, invocation in story.tasks if task in live]
    return story


def messages(story: Story) -> list[Event]:
    """What may be said next: a question, one to a task that waits, or an answer to a call."""
    waits = pendings(story.events)
    story = Story(clock=story.clock + 10, number=1_000, tasks=story.tasks)
    for scope, invocation in (("", "new"), *story.tasks):
        story.add("user", said("and?"), invocation=invocation, isolation_scope=scope or None)
    for waiting, invocation in waits:
        story.add("user", response("look", waiting, late=True), invocation=invocation)
    return story.events


def pendings(events: list[Event]) -> list[tuple[str, str]]:
    live = _apply_rewinds(events)
    return [
        (call_id, event.invocation_id)
        for event in live
        for call_id in sorted(event.long_running_tool_ids or ())
        if not any(
            each.author == "user" and call_id in {one.id for one in each.get_function_responses()}
            for each in live
        )
    ]


def outlines(events: list[Event]) -> list[Outline]:
    read = []
    for seq, event in enumerate(events, start=1):
        text = jsontext.write_event(event)
        row = jsontext.write({"seq": seq, "size": len(text), "raw": text})
        read.append(outline.read(row))
    return read


def part_of(events: list[Event], last: int | None = None) -> list[Event]:
    return [events[each.seq - 1] for each in needed(outlines(events), last=last)]
