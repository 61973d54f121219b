"""Several labels per row, and how much of them two rows share."""

from .parsing import label_sets, split_labels
from .ranks import ranks
from .sets import LabelSets, aligned, overlap

__all__ = ["LabelSets", "aligned", "label_sets", "overlap", "ranks", "split_labels"]
