"""Results -> one self-contained HTML page."""

from exhume.report.audit_page import write_audit, write_ladder
from exhume.report.live import LiveRun
from exhume.report.page import Story, draw_score, write_comparison, write_page
from exhume.report.recorder import Recorder

__all__ = ["LiveRun", "Recorder", "Story", "draw_score", "write_audit", "write_comparison", "write_ladder", "write_page"]
