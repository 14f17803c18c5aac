"""The live page: runs in a folder, shown while they go on, on this machine only and behind a token."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from exhume.errors import ExhumeError
from exhume.report.live_run import STATE

_POLL = 0.5  # seconds
_BEAT = 20  # polls without news after which a comment keeps the connection open
_PAGE = Path(__file__).parent / "templates" / "live.html"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "connect-src 'self'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def runs_in(folder: Path) -> dict[str, Path]:
    """Runs by name: the folder itself, or those directly in it."""
    if not folder.is_dir():
        raise ExhumeError(f"{folder} is not a folder. Give the --out of an audit, or a folder of several.")
    if (folder / STATE).is_file():
        return {folder.resolve().name: folder}
    return {path.parent.name: path.parent for path in sorted(folder.glob(f"*/{STATE}"))}


def state_of(run: Path) -> dict[str, Any]:
    """A run's state; an unreadable file is a run that has just begun to write it."""
    try:
        state = json.loads((run / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {"state": "unreadable"}
    if not isinstance(state, dict):
        return {"state": "unreadable"}
    if state.get("state") == "running" and not _alive(state.get("pid")):
        return state | {"state": "stopped", "stage": "its process has ended"}
    return state


def _alive(pid: object) -> bool:
    """Whether the run's process is still there."""
    if not isinstance(pid, int):
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's process
        return True
    return True


def live_app(folder: Path, token: str) -> Any:
    """The application: a page, the list of runs, events of one run, and finished reports."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
    from starlette.routing import Route

    def allowed(request: Request) -> bool:
        return secrets.compare_digest(request.query_params.get("token", "").encode(), token.encode())

    def refused() -> Response:
        return PlainTextResponse("A token is needed: use the address that `exhume watch` printed.", 403)

    async def page(request: Request) -> Response:
        return HTMLResponse(_PAGE.read_text(encoding="utf-8"), headers=_HEADERS) if allowed(request) else refused()

    async def listed(request: Request) -> Response:
        if not allowed(request):
            return refused()
        small = ("name", "about", "state", "stage", "headline", "rows", "loss", "seconds", "updated")
        runs = {
            name: {k: v for k, v in state_of(run).items() if k in small} | {"report": (run / "index.html").is_file()}
            for name, run in runs_in(folder).items()
        }
        return JSONResponse(runs, headers=_HEADERS)

    async def events(request: Request) -> Response:
        run = runs_in(folder).get(request.path_params["run"])
        if not allowed(request) or run is None:
            return refused() if not allowed(request) else PlainTextResponse("no such run", 404)

        async def stream() -> AsyncIterator[str]:
            seen: tuple[Any, Any] = (None, "unreadable")
            quiet = 0
            while not await request.is_disconnected():
                state = state_of(run)
                news = (state.get("updated"), state.get("state"))  # a process that dies writes nothing more
                if news != seen:
                    seen, quiet = news, 0
                    state["report"] = (run / "index.html").is_file()
                    yield f"data: {json.dumps(state)}\n\n"
                elif (quiet := quiet + 1) % _BEAT == 0:
                    yield ": still here\n\n"
                await asyncio.sleep(_POLL)

        return StreamingResponse(stream(), media_type="text/event-stream", headers=_HEADERS)

    async def report(request: Request) -> Response:
        run = runs_in(folder).get(request.path_params["run"])  # a name from the list, never a path
        if not allowed(request) or run is None or not (run / "index.html").is_file():
            return refused() if not allowed(request) else PlainTextResponse("no report yet", 404)
        return HTMLResponse((run / "index.html").read_text(encoding="utf-8"), headers=_HEADERS)

    return Starlette(
        routes=[
            Route("/", page),
            Route("/runs", listed),
            Route("/events/{run}", events),
            Route("/report/{run}", report),
        ]
    )


def serve(folder: Path, *, announce: Any, port: int = 0) -> None:
    """Serve until Ctrl-C, on the loopback address only; `announce` is told the address."""
    runs_in(folder)
    try:
        import uvicorn
    except ImportError:
        raise ExhumeError("the live page needs starlette and uvicorn. Run pip install 'exhume[live]'.") from None
    token = secrets.token_urlsafe(16)
    listener = socket.socket()
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen()  # whoever is told the address may come at once
    except OSError as error:
        listener.close()
        raise ExhumeError(f"port {port} cannot be used ({error.strerror}). Leave --port out for a free one.") from None
    announce(f"http://127.0.0.1:{listener.getsockname()[1]}/?token={token}")
    # Open event streams would keep the server from ending.
    config = uvicorn.Config(live_app(folder, token), log_level="warning", timeout_graceful_shutdown=1, access_log=False)
    uvicorn.Server(config).run(sockets=[listener])
