"""Results -> one self-contained HTML page."""

from exhume.report.page import Story, write_comparison, write_page
from exhume.report.recorder import Recorder

__all__ = ["Recorder", "Story", "write_comparison", "write_page"]
