"""The live page: who may look, what is listed, what is told, and what a dead run is called."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from exhume.errors import ExhumeError
from exhume.report.live_server import live_app, runs_in, serve, state_of

pytest.importorskip("starlette", reason="starlette is not installed: pip install 'exhume[live]'")
TOKEN = "secret"
GONE = 2**22 + 1  # no process has this number


@dataclass
class Answer:
    """What the application sent."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""

    def take(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message.get("body", b"").decode()


def scope(path: str, token: str | None) -> dict[str, Any]:
    query = b"" if token is None else f"token={token}".encode()
    return {"type": "http", "method": "GET", "path": path, "query_string": query, "headers": []}


def ask(folder: Path, path: str, token: str | None = TOKEN) -> Answer:
    """The application's answer to one request."""
    answer = Answer()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: dict[str, Any]) -> None:
        answer.take(message)

    asyncio.run(live_app(folder, TOKEN)(scope(path, token), receive, send))
    return answer


def write(run: Path, **state: Any) -> None:
    run.mkdir(exist_ok=True)
    (run / "run.json").write_text(json.dumps(state))


def test_a_run_whose_process_is_gone_is_not_shown_as_running(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"state": "running", "pid": GONE}))
    assert state_of(tmp_path)["state"] == "stopped"
    (tmp_path / "run.json").write_text(json.dumps({"state": "running", "pid": os.getpid()}))
    assert state_of(tmp_path)["state"] == "running"


@pytest.mark.parametrize(("state", "expected"), [({"state": "running"}, "running"), ({"state": "done", "pid": GONE}, "done")])
def test_other_states_stay_as_they_were_written(state: dict, expected: str, tmp_path: Path) -> None:
    write(tmp_path, **state)
    assert state_of(tmp_path)["state"] == expected


@pytest.mark.parametrize("text", ["", "{", "[1]", None])
def test_a_state_that_cannot_be_read_is_called_so(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    assert state_of(tmp_path) == {"state": "unreadable"}


def test_runs_are_a_folder_itself_or_those_directly_in_it(tmp_path: Path) -> None:
    write(tmp_path / "b", state="done")
    write(tmp_path / "a", state="done")
    (tmp_path / "empty").mkdir()
    assert runs_in(tmp_path) == {"a": tmp_path / "a", "b": tmp_path / "b"}
    assert runs_in(tmp_path / "a") == {"a": tmp_path / "a"}
    with pytest.raises(ExhumeError, match=r"is not a folder\. Give the --out of an audit"):
        runs_in(tmp_path / "absent")


@pytest.mark.parametrize("token", [None, "", "wrong", "secre", "secretx", "é"])
@pytest.mark.parametrize("path", ["/", "/runs", "/events/a", "/report/a", "/events/absent"])
def test_without_the_token_nothing_is_told(path: str, token: str | None, tmp_path: Path) -> None:
    write(tmp_path / "a", state="done")
    (tmp_path / "a" / "index.html").write_text("a report")
    answer = ask(tmp_path, path, token)
    assert answer.status == 403
    assert answer.body == "A token is needed: use the address that `exhume watch` printed."


def test_the_page_may_load_nothing_from_elsewhere(tmp_path: Path) -> None:
    answer = ask(tmp_path, "/")
    assert answer.status == 200
    assert "No run yet" in answer.body
    assert answer.headers["content-security-policy"].startswith("default-src 'none';")
    assert answer.headers["referrer-policy"] == "no-referrer"  # the token stands in the address
    assert answer.headers["cache-control"] == "no-store"


def test_runs_are_listed_with_little_and_whether_a_report_is_there(tmp_path: Path) -> None:
    write(tmp_path / "a", state="done", name="first", headline="a verdict", pictures=["large"], curve=[1], pid=1)
    write(tmp_path / "b", state="running", pid=GONE)
    (tmp_path / "a" / "index.html").write_text("a report")
    assert json.loads(ask(tmp_path, "/runs").body) == {
        "a": {"state": "done", "name": "first", "headline": "a verdict", "report": True},
        "b": {"state": "stopped", "stage": "its process has ended", "report": False},
    }


@pytest.mark.parametrize("name", ["absent", "..", "../a", "%2e%2e"])
def test_a_report_is_found_by_a_listed_name_and_never_by_a_path(name: str, tmp_path: Path) -> None:
    write(tmp_path / "runs", state="done")
    write(tmp_path / "runs" / "a", state="done")
    (tmp_path / "index.html").write_text("not yours")
    folder = tmp_path / "runs"
    (folder / "run.json").unlink()
    assert ask(folder, f"/report/{name}").status == 404
    assert ask(folder, "/report/a").body == "no report yet"
    (folder / "a" / "index.html").write_text("a report")
    assert ask(folder, "/report/a").body == "a report"


def test_events_of_a_run_that_is_not_there_are_not_found(tmp_path: Path) -> None:
    answer = ask(tmp_path, "/events/absent")
    assert (answer.status, answer.body) == (404, "no such run")


def test_events_tell_of_news_and_of_a_process_that_ends_in_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exhume.report.live_server._POLL", 0.01)
    process = subprocess.Popen(["sleep", "60"])
    run, answer = tmp_path / "a", Answer()
    write(run, state="running", pid=process.pid, updated=1.0, loss=0.5)

    def told() -> list[dict[str, Any]]:
        return [json.loads(part.removeprefix("data: ")) for part in answer.body.split("\n\n") if part.startswith("data: ")]

    async def follow() -> None:
        end = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await end.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            answer.take(message)

        async def until(count: int) -> None:
            async with asyncio.timeout(10):
                while len(told()) < count:
                    await asyncio.sleep(0.005)

        task = asyncio.create_task(live_app(tmp_path, TOKEN)(scope("/events/a", TOKEN), receive, send))
        await until(1)
        (run / "run.json").write_text(json.dumps({"state": "running", "pid": process.pid, "updated": 2.0, "loss": 0.25}))
        await until(2)
        await asyncio.sleep(0.1)  # nothing new, nothing told
        process.kill()
        process.wait()
        await until(3)
        end.set()
        await asyncio.wait_for(task, 10)

    asyncio.run(follow())
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [(one["state"], one["loss"]) for one in told()] == [("running", 0.5), ("running", 0.25), ("stopped", 0.25)]
    assert not told()[0]["report"]


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ExhumeError, match=rf"port {port} cannot be used .*Leave --port out for a free one"):
            serve(tmp_path, announce=print, port=port)


def test_a_folder_that_is_not_there_is_told_before_anything_is_served(tmp_path: Path) -> None:
    with pytest.raises(ExhumeError, match="is not a folder"):
        serve(tmp_path / "absent", announce=print)
