"""Results -> one self-contained HTML page."""

from exhume.report.audit_page import write_audit, write_ladder
from exhume.report.live_run import LiveRun
from exhume.report.snapshots import Recorder
from exhume.report.trial_page import Story, draw_score, write_comparison, write_page

__all__ = ["LiveRun", "Recorder", "Story", "draw_score", "write_audit", "write_comparison", "write_ladder", "write_page"]
