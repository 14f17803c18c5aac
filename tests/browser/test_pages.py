"""The report and the live page in a real browser, at desktop and phone width."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import exhume
from exhume.auditing import AuditInputs, subject_of
from exhume.knowledge import Knowledge
from exhume.report import LiveRun, write_audit
from support.models import descend, digit_pictures, two_layer

pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install 'exhume[dev]'")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium")
SIZES = {"desktop": (1200, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def brought() -> AuditInputs:
    X, y = digit_pictures(8)
    net = two_layer(400)
    init = {name: value.clone() for name, value in net.state_dict().items()}
    return AuditInputs(descend(net, X, y), (X, y), init=init, name="net <script>alert(1)</script>")


def page_of(chromium: Any, size: str) -> tuple[Any, list[str]]:
    page = chromium.new_page(viewport=dict(zip(("width", "height"), SIZES[size], strict=True)))
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("dialog", lambda dialog: troubles.append("a dialog opened"))
    return page, troubles


def overflow(page: Any) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


@pytest.mark.parametrize("size", SIZES)
def test_the_report_reads_well_and_fetches_nothing(chromium: Any, brought: AuditInputs, size: str, tmp_path: Path) -> None:
    subject, _ = subject_of(brought)
    found = exhume.audit(brought.trained, init=brought.init, data=brought.data, name=brought.name)
    path = write_audit(found, tmp_path, command="exhume audit --data '<img src=x onerror=alert(1)>'")
    page, troubles = page_of(chromium, size)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.resolve().as_uri())
    assert "8 of 8 training samples" in page.inner_text("main")
    assert "net <script>" in page.inner_text("main")  # shown, not run
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert page.evaluate("[...document.images].every((i) => i.complete && i.naturalWidth > 0 && i.alt)")
    assert page.evaluate("document.querySelectorAll('h1').length") == 1
    assert overflow(page) <= 0
    page.keyboard.press("Tab")
    assert troubles == []
    assert subject.name == found.subject.name
    page.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    command = [sys.executable, "-m", "exhume", "watch", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield tmp_path, process.stdout.readline().strip()
    process.terminate()
    process.communicate(timeout=20)


@pytest.mark.parametrize("size", SIZES)
def test_the_live_page_follows_a_run_to_its_report(
    chromium: Any, brought: AuditInputs, server: tuple[Path, str], size: str
) -> None:
    folder, address = server
    assert address.startswith("http://127.0.0.1:")
    page, troubles = page_of(chromium, size)
    page.goto(address)
    assert "No run yet" in page.inner_text("main")
    subject, _ = subject_of(brought, Knowledge())
    live = LiveRun(folder / "first", subject)
    seen: list[int] = []

    def watch(now: Any) -> None:  # a real run, held back so that the page can be looked at while it goes on
        live(now)
        if now.X.shape[-1] == subject.release.d and not seen:
            time.sleep(1.1)
            live(now)
            page.wait_for_selector("#numbers div", timeout=10_000)
            page.wait_for_selector("#pictures img", timeout=10_000)
            seen.append(page.locator("#pictures img").count())

    found = exhume.audit(
        brought.trained, init=brought.init, data=brought.data, name=brought.name, watch=watch, knowledge=Knowledge(init="last")
    )
    assert seen
    assert seen[0] > 0
    page.reload()
    page.wait_for_selector("#name:has-text('<script>')", timeout=10_000)
    write_audit(found, folder / "first")
    live.ended("done", found.verdict.headline)
    page.wait_for_selector("#stage:has-text('done')", timeout=10_000)
    page.wait_for_selector("a.open", timeout=10_000)
    assert overflow(page) <= 0
    assert troubles == []
    page.click("a.open")
    page.wait_for_selector("h1")
    assert "Can these weights be released?" in page.inner_text("main")
    assert troubles == []
    page.close()


def test_without_the_token_nothing_is_shown(chromium: Any, brought: AuditInputs, server: tuple[Path, str]) -> None:
    folder, address = server
    LiveRun(folder / "secret", subject_of(brought)[0])
    base = address.split("?")[0]
    for path in ("", "runs", "events/secret", "report/secret", "runs?token=wrong"):
        page, _ = page_of(chromium, "desktop")
        answer = page.goto(base + path)
        assert answer.status == 403
        page.close()
    page, _ = page_of(chromium, "desktop")
    token = address.partition("?")[2]
    assert page.goto(f"{base}report/..%2F..%2Fetc?{token}").status == 404
    page.close()
