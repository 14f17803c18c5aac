"""Can these weights be released? A user's own model in, a verdict with its calibration out."""

from exhume.auditing.attack_order import Option, choose
from exhume.auditing.audit_inputs import AuditInputs, subject_of
from exhume.auditing.mitigation.ladder import Ladder, Rung, run_mitigations
from exhume.auditing.preflight import Preflight, preflight
from exhume.auditing.run import Audit, run_audit
from exhume.auditing.subject import Subject
from exhume.auditing.transformer import RandomFeatureMap

__all__ = [
    "Audit",
    "AuditInputs",
    "Ladder",
    "Option",
    "Preflight",
    "RandomFeatureMap",
    "Rung",
    "Subject",
    "choose",
    "preflight",
    "run_audit",
    "run_mitigations",
    "subject_of",
]
