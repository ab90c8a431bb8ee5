"""A web app: requests that come at the same time run one after another in their session.

Events are remembered as they are stored; a worker in the app's own process adds the vectors.

    uvicorn --app-dir examples web:app
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx
from fastapi import FastAPI, Header, Request
from fastapi.responses import JSONResponse
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.genai import types
from pydantic import BaseModel

from adkpg import Database, DatabaseSessionService, PgVectorMemoryService
from adkpg.errors import AdkpgError, Busy, SessionNotFound


class Slow(BaseLlm):
    """Stands in for a model: answers after a moment, as models do, with the turns that it saw."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yields one answer."""
        await asyncio.sleep(0.1)
        turns = sum(content.role == "user" for content in llm_request.contents)
        part = types.Part(text=f"Turn {turns}.")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


class Question(BaseModel):
    """What a user says."""

    text: str


database = Database(remember="redacted")  # no I/O yet; ADKPG_DATABASE_URL
sessions = DatabaseSessionService(database)
memory = PgVectorMemoryService(database)
runner = Runner(
    app_name="web",
    agent=LlmAgent(name="guide", model=Slow(model="slow")),
    session_service=sessions,
    memory_service=memory,
)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Connects before the first request; ends the worker, then closes, after the last."""
    stop = asyncio.Event()
    async with database:
        await database.upgrade()  # or, before a deployment: adkpg db upgrade
        app.state.worker = asyncio.create_task(memory.run_worker(stop))
        try:
            yield
        finally:
            stop.set()
            await app.state.worker


app = FastAPI(lifespan=lifespan)


@app.exception_handler(Busy)
async def busy(request: Request, exc: Exception) -> JSONResponse:
    """Lets a client try again that waited too long for its session."""
    return JSONResponse({"detail": str(exc)}, 503, {"Retry-After": "5"})


@app.exception_handler(SessionNotFound)
async def missing(request: Request, exc: Exception) -> JSONResponse:
    """Tells a client that its session is not there, or not any more."""
    return JSONResponse({"detail": str(exc)}, 404)


@app.get("/ready")
async def ready(request: Request) -> JSONResponse:
    """Says whether the database answers and has the tables of this version."""
    try:
        async with asyncio.timeout(2):
            await database.check()
    except (AdkpgError, TimeoutError) as exc:
        return JSONResponse({"detail": str(exc) or "The database does not answer."}, 503)
    if request.app.state.worker.done():
        return JSONResponse({"detail": "The worker has ended."}, 503)
    return JSONResponse({"detail": "ready"})


@app.post("/sessions/{user_id}")
async def begin(user_id: str) -> dict[str, str]:
    """Begins a session."""
    session = await sessions.create_session(app_name=runner.app_name, user_id=user_id)
    return {"session_id": session.id}


@app.post("/chat/{user_id}/{session_id}")
async def chat(
    user_id: str,
    session_id: str,
    question: Question,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> Any:
    """Answers a question once, however often its request is sent."""
    async with sessions.invocation(
        app_name=runner.app_name,
        user_id=user_id,
        session_id=session_id,
        timeout_s=60,
        key=idempotency_key,
    ) as run:
        if run.done:  # the request is a retry, and its first try ended well
            return run.result
        answer = ""
        async for event in runner.run_async(
            user_id=user_id,
            session_id=session_id,
            new_message=types.UserContent(question.text),
        ):
            if event.is_final_response() and event.content and event.content.parts:
                answer = event.content.parts[0].text or ""
        run.finish({"answer": answer})
        return run.result


async def main() -> None:
    """Asks six questions at the same time in one session, and one of them twice."""
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://web") as client,
    ):
        session_id = (await client.post("/sessions/ana")).json()["session_id"]

        async def ask(number: int) -> httpx.Response:
            return await client.post(
                f"/chat/ana/{session_id}",
                json={"text": f"Question {number}"},
                headers={"Idempotency-Key": f"request {number}"},
            )

        answers = await asyncio.gather(*map(ask, (1, 2, 3, 4, 5, 6, 6)))
        for answer in answers:
            print(answer.status_code, answer.json())
        page = await sessions.list_events_page(app_name="web", user_id="ana", session_id=session_id)
        fine = sum(answer.status_code == 200 for answer in answers)
        authors = " ".join(event.author for event in page.items)
        print(f"{fine} of {len(answers)} requests answered, {len(page.items)} events: {authors}")
        await memory.flush(timeout_s=60)
        count = await memory.count_memories(app_name="web", user_id="ana")
        print(f"{count} turns are remembered; {(await client.get('/ready')).json()['detail']}")


if __name__ == "__main__":
    asyncio.run(main())
