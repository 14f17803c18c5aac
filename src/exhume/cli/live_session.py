"""What `audit` and `mitigate` share: a run that can be watched, on the terminal and on the live page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from exhume.cli.command_tools import progress

if TYPE_CHECKING:
    from exhume.attacks import Progress
    from exhume.auditing import Subject
    from exhume.report import LiveRun


class Session:
    """One run: its steps go to the terminal and into the folder that `exhume watch` follows."""

    def __init__(self, live: LiveRun, show: object, *, quiet: bool) -> None:
        self._live, self._show, self._quiet = live, show, quiet
        self._headline = ""

    def watch(self, now: Progress) -> None:
        """One step of an attack."""
        self._live(now)
        self._show(now)  # type: ignore[operator]

    def stage(self, text: str) -> None:
        """What begins now."""
        self._live.stage(text)
        self.say(text)

    def note_stage(self, text: str) -> None:
        """What has been done, for the live page only."""
        self._live.stage(text)

    def say(self, text: str) -> None:
        """A line on the terminal."""
        if not self._quiet:
            click.echo(text, err=True)

    def headline(self, text: str) -> None:
        """The verdict, for the live page."""
        self._headline = text

    def ended(self, state: str) -> None:
        """The run is over."""
        self._live.ended(state, self._headline)


@contextmanager
def live_session(folder: Path, subject: Subject, *, quiet: bool) -> Iterator[Session]:
    """A session that is marked as done, interrupted or failed when it ends."""
    from exhume.report import LiveRun

    live = LiveRun(folder, subject)
    with progress(quiet=quiet) as show:
        session = Session(live, show, quiet=quiet)
        try:
            yield session
        except BaseException as error:
            session.ended("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
            raise
    session.ended("done")
