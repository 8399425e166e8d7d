"""What is learned: losses, measures, and the score that decides."""

from __future__ import annotations

from .base import Score, Task, score_of
from .classification import Classification
from .multilabel import MultiLabel
from .own import as_task, make_task
from .places import NextToken, Segmentation
from .regression import Regression

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
