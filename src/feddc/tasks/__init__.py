"""What is learned: losses, measures, and the score that decides."""

from __future__ import annotations

from .base import Score, Task, score_of
from .builtin import Classification, MultiLabel, NextToken, Regression, Segmentation
from .own import as_task, make_task

__all__ = [
    "Classification",
    "MultiLabel",
    "NextToken",
    "Regression",
    "Score",
    "Segmentation",
    "Task",
    "as_task",
    "make_task",
    "score_of",
]
