"""Act: what each of the demo's three processes does. Only the database joins them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.runners import Runner
from google.adk.sessions.session import Session
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.load_memory_tool import load_memory_tool
from google.adk.tools.preload_memory_tool import preload_memory_tool
from google.genai import types

import adkpg
from adkpg.database import Database
from adkpg.errors import SessionNotFound
from adkpg.memory.records import text_of
from adkpg.memory.service import PgVectorMemoryService
from adkpg.sessions.service import DatabaseSessionService
from adkpg.tooling.demo import line, rows
from adkpg.tooling.demo.agent import assistant
from adkpg.tooling.demo.line import Line
from adkpg.tooling.demo.rows import APP
from adkpg.tooling.demo.story import Question, Story

FIRST_SESSION = "monday"
NEXT_SESSION = "friday"
LAST_SESSION = "sunday"


@dataclass(frozen=True)
class Act:
    """One process's part: its own services, the story, and the user it is played for.

    Attributes:
      database: Open; closed by who made it.
      sessions: On that database, like the memory.
      memory: Remembers the first session.
      model: The one that speaks.
      story: The words that are told and asked.
      user_id: The demo's user.
    """

    database: Database
    sessions: DatabaseSessionService
    memory: PgVectorMemoryService
    model: BaseLlm
    story: Story
    user_id: str

    def play(self, number: int) -> AsyncIterator[Line]:
        """Plays act 1, 2 or 3 and yields what happens."""
        return (self.tell, self.resume, self.recall)[number - 1]()

    async def tell(self) -> AsyncIterator[Line]:
        """Migrates, begins a session in which the user tells things, and remembers it."""
        await self.database.upgrade()
        session = await self._begin(FIRST_SESSION, {"channel": "terminal"})
        yield line.Opened(session_id=session.id, stored_events=len(session.events))
        for text in self.story.told:
            async for happened in self._turn(FIRST_SESSION, text):
                yield happened
        session = await self._stored(FIRST_SESSION)
        yield line.State(values=session.state)
        scopes = {key.partition(":")[0] for key in session.state if ":" in key}
        yield line.Checked(
            claim="The session's, the user's and the app's state are stored; `temp:` is not.",
            held={"user", "app"} == scopes
            and {"channel", "last_answer"} <= set(session.state)
            and session.state["last_answer"] == text_of(session.events[-1].content),
        )
        await self.memory.add_session_to_memory(session)
        remembered = {
            table.table: table.count for table in await rows.count(self.database, self.user_id)
        }["memories"]
        yield line.Checked(
            claim=f"The {remembered} of the session's {len(session.events)} events that have text "
            "are remembered.",
            held=remembered >= len(self.story.told),
        )

    async def resume(self) -> AsyncIterator[Line]:
        """Resumes the session of act 1 by its id."""
        session = await self._stored(FIRST_SESSION)
        yield line.Opened(session_id=session.id, stored_events=len(session.events))
        for question in self.story.resumed:
            earlier = len((await self._stored(FIRST_SESSION)).events)
            received = 0
            async for happened in self._ask(FIRST_SESSION, question):
                if isinstance(happened, line.Requested):
                    received = max(received, happened.contents)
                yield happened
            yield line.Checked(
                claim=f"The model received the {earlier} earlier events.", held=received > earlier
            )

    async def recall(self) -> AsyncIterator[Line]:
        """Asks in new sessions, where only memory knows, through both of ADK's memory tools."""
        tools = ((NEXT_SESSION, load_memory_tool), (LAST_SESSION, preload_memory_tool))
        for session_id, tool in tools:
            session = await self._begin(session_id, {})
            yield line.Opened(session_id=session.id, stored_events=len(session.events))
            for question in self.story.asked:
                async for happened in self._ask(session_id, question, tool):
                    yield happened
        for question in self.story.asked:
            async for happened in self._search(question):
                yield happened
        for table in await rows.count(self.database, self.user_id):
            yield table

    async def _begin(self, session_id: str, state: dict[str, Any]) -> Session:
        shared = {"user:language": "English", "app:version": adkpg.__version__, "temp:begun": True}
        return await self.sessions.create_session(
            app_name=APP, user_id=self.user_id, session_id=session_id, state=state | shared
        )

    async def _stored(self, session_id: str) -> Session:
        session = await self.sessions.get_session(
            app_name=APP, user_id=self.user_id, session_id=session_id
        )
        if session is None:
            raise SessionNotFound(
                f"The session {session_id!r} of user {self.user_id!r} is gone; run the demo again."
            )
        return session

    async def _ask(
        self, session_id: str, question: Question, memory_tool: BaseTool | None = None
    ) -> AsyncIterator[Line]:
        answer = ""
        async for happened in self._turn(session_id, question.text, memory_tool):
            if isinstance(happened, line.Said):
                answer = happened.text
            yield happened
        if question.expected is not None:
            yield line.Checked(
                claim=f"The answer names {question.expected}.",
                held=question.expected.lower() in answer.lower(),
            )

    async def _turn(
        self, session_id: str, text: str, memory_tool: BaseTool | None = None
    ) -> AsyncIterator[Line]:
        """Lets ADK's Runner take one turn and yields what is said, called and sent."""
        yield line.Said(author="user", text=text)
        requests: list[int] = []
        runner = Runner(
            app_name=APP,
            agent=assistant(self.model, requests.append, memory_tool),
            session_service=self.sessions,
            memory_service=self.memory,
        )
        message = types.Content(role="user", parts=[types.Part(text=text)])
        async for event in runner.run_async(
            user_id=self.user_id, session_id=session_id, new_message=message
        ):
            while requests:
                yield line.Requested(contents=requests.pop(0))
            for part in (event.content.parts if event.content else None) or []:
                if part.function_call is not None:
                    call = part.function_call
                    yield line.Called(tool=call.name or "", arguments=call.args or {})
                elif part.text and not part.thought:
                    yield line.Said(author=event.author, text=part.text)
        await runner.close()

    async def _search(self, question: Question) -> AsyncIterator[Line]:
        hits = await self.memory.search(app_name=APP, user_id=self.user_id, query=question.text)
        found = [
            line.Found(
                score=hit.score,
                lexical=hit.reason.lexical,
                cosine=hit.reason.cosine,
                text=text_of(hit.memory.content),
            )
            for hit in hits
        ]
        yield line.Searched(question=question.text, found=found)
        if question.expected is not None:
            best = found[0] if found else None
            names = best is not None and question.expected in best.text
            yield line.Checked(claim=f"The best memory names {question.expected}.", held=names)
            if question.wordless:
                yield line.Checked(
                    claim="No word of the question led to it, only the meaning.",
                    held=best is not None and best.lexical == 0,
                )
