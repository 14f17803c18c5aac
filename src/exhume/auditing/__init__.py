"""Can these weights be released? A user's own model in, a verdict with its calibration out."""

from exhume.auditing.choose import Option, choose
from exhume.auditing.preflight import Preflight, preflight
from exhume.auditing.run import Audit, run_audit
from exhume.auditing.subject import Knowledge, Subject
from exhume.auditing.transformer import RandomFeatureMap

__all__ = ["Audit", "Knowledge", "Option", "Preflight", "RandomFeatureMap", "Subject", "choose", "preflight", "run_audit"]
