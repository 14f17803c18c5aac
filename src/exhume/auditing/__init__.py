"""Can these weights be released? A user's own model in, a verdict with its calibration out."""

from exhume.auditing.api import audit
from exhume.auditing.choose import Option, choose
from exhume.auditing.inputs import Brought, subject_of
from exhume.auditing.mitigate import Ladder, Rung, climb
from exhume.auditing.preflight import Preflight, preflight
from exhume.auditing.run import Audit, run_audit
from exhume.auditing.subject import Knowledge, Subject
from exhume.auditing.transformer import RandomFeatureMap

__all__ = [
    "Audit",
    "Brought",
    "Knowledge",
    "Ladder",
    "Option",
    "Preflight",
    "RandomFeatureMap",
    "Rung",
    "Subject",
    "audit",
    "choose",
    "climb",
    "preflight",
    "run_audit",
    "subject_of",
]
