"""The only room where truth enters: how near a reconstruction comes, and how near chance would."""

from exhume.score.evaluate import Score, evaluate

__all__ = ["Score", "evaluate"]
