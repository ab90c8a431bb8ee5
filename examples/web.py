"""A web app: requests that come at the same time run one after another in their session."""

import asyncio
from collections.abc import AsyncGenerator
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

from adkpg import Database, DatabaseSessionService
from adkpg.errors import Busy


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


def web_app(sessions: DatabaseSessionService, runner: Runner) -> FastAPI:
    """Returns an app that answers ``POST /chat/{user_id}/{session_id}``."""
    app = FastAPI()

    @app.exception_handler(Busy)
    async def busy(request: Request, exc: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(exc)}, 503, {"Retry-After": "5"})

    @app.post("/chat/{user_id}/{session_id}")
    async def chat(
        user_id: str,
        session_id: str,
        question: Question,
        idempotency_key: Annotated[str | None, Header()] = None,
    ) -> Any:
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

    return app


async def main() -> None:
    """Asks six questions at the same time in one session, and one of them twice."""
    async with Database() as db:
        await db.upgrade()
        sessions = DatabaseSessionService(db)
        agent = LlmAgent(name="guide", model=Slow(model="slow"))
        runner = Runner(app_name="web", agent=agent, session_service=sessions)
        session = await sessions.create_session(app_name="web", user_id="ana")
        transport = httpx.ASGITransport(web_app(sessions, runner))
        async with httpx.AsyncClient(transport=transport, base_url="http://web") as client:

            async def ask(number: int) -> httpx.Response:
                return await client.post(
                    f"/chat/ana/{session.id}",
                    json={"text": f"Question {number}"},
                    headers={"Idempotency-Key": f"request {number}"},
                )

            answers = await asyncio.gather(*map(ask, (1, 2, 3, 4, 5, 6, 6)))
        for answer in answers:
            print(answer.status_code, answer.json())
        page = await sessions.list_events_page(app_name="web", user_id="ana", session_id=session.id)
        fine = sum(answer.status_code == 200 for answer in answers)
        authors = " ".join(event.author for event in page.events)
        print(f"{fine} of {len(answers)} requests answered, {len(page.events)} events: {authors}")


if __name__ == "__main__":
    asyncio.run(main())
