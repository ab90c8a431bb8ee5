"""A deployment's worker: a process of its own that gives memories their vectors.

    uvicorn --app-dir examples worker:app --port 8001

`GET /ready` answers 200 while it can work, and 503 with the reason while it cannot. SIGTERM ends it
once the running batches are done, which have five seconds. Run as many as you like. The command
`adkpg worker --health-port 8001` does the same, and answers `/livez` and `/readyz`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from adkpg import Database, PgVectorMemoryService
from adkpg.errors import AdkpgError

database = Database()  # no I/O yet; ADKPG_DATABASE_URL
memory = PgVectorMemoryService(database)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Works until the server is told to end."""
    stop = asyncio.Event()
    async with database:
        app.state.worker = asyncio.create_task(memory.run_worker(stop))
        try:
            yield
        finally:
            stop.set()
            with suppress(AdkpgError):  # which /ready has told
                print(f"{await app.state.worker} memories were given their vectors")


app = FastAPI(lifespan=lifespan)


@app.get("/ready")
async def ready(request: Request) -> JSONResponse:
    """Says whether it works: a worker ends by itself only if the schema is wrong."""
    worker: asyncio.Task[int] = request.app.state.worker
    try:
        if worker.done():
            worker.result()
        async with asyncio.timeout(2):
            await database.check()
    except (AdkpgError, TimeoutError) as exc:
        return JSONResponse({"detail": str(exc) or "The database does not answer."}, 503)
    return JSONResponse({"detail": "ready"})
