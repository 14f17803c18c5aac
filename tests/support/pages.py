"""Pages as a reader's program sees them, and pictures out of data URIs."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

from PIL import Image

from exhume.attacks import attack_named
from exhume.data import DataRequest, load
from exhume.lab import Comparison, Trial, TrialResult, compare, run_trial
from exhume.release import Release
from exhume.result import Curve, Reconstruction
from support.audit_cases import ScriptedAttack, reconstruction


@dataclass
class Page(HTMLParser):
    """Elements and text of a page."""

    images: list[dict[str, str]] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.links += [values[name] for name in ("src", "href") if name in values]
        if tag == "img":
            self.images.append(values)

    def handle_data(self, data: str) -> None:
        self.text += data


def read(path: Path) -> Page:
    """A page that was written; every picture must have an alt text, and nothing may be fetched or run."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    assert all(image["alt"] for image in page.images)
    assert all(link.startswith("data:image/") for link in page.links)
    assert "script" not in page.tags
    return page


def kind_of(uri: str) -> str:
    """Whether a data URI holds a well-formed SVG or PNG."""
    head, _, content = uri.partition(",")
    data = base64.b64decode(content)
    if head == "data:image/svg+xml;base64":
        assert ElementTree.fromstring(data).tag.endswith("svg")
        return "svg"
    assert head == "data:image/png;base64"
    with Image.open(io.BytesIO(data)) as image:
        image.verify()
    return "png"


def answer(factor: float, source: DataRequest, name: str = "by hand", **changes: object) -> ScriptedAttack:
    """An attack that hands back the true rows of a source, each times a factor."""

    def make(release: Release) -> Reconstruction:
        curve = Curve((1.0, 1e-3, 1e-9), (1, 3, 4), (10, 20, 40), (0.1, 0.2, 0.4))
        values = {"curve": curve, "removal_costs": (1.0, 0.5, 0.2, 0.1, 1e-9, 1e-10), "attack": name, "signs_resolved": True}
        return reconstruction(factor * load(source).rows, **(values | changes))

    return ScriptedAttack(name, answer=make)


DIGITS, WINE, SPHERE = DataRequest("digits", n=4), DataRequest("wine", n=12), DataRequest("sphere", n=4, d=6)


@cache
def result(source: DataRequest, factor: float = 1.0) -> TrialResult:
    """A trial whose attack hands back the truth times a factor."""
    return run_trial(Trial(source, ratio=2.0, attack=answer(factor, source)))


@cache
def comparison(source: DataRequest) -> Comparison:
    """Two such attacks, one of which is off by a third, and one that cannot take the victim."""
    attacks = [answer(1.0, source, "exact"), answer(4 / 3, source, "<b>far</b>"), attack_named("kkt")]
    return compare(Trial(source, ratio=2.0), attacks)
