"""Data to learn from: the paper's synthetic problems and real sets, and Python's docstrings."""

from .real import load_dexter, load_docstrings, load_dorothea, load_rcv1, load_rcv1_4
from .synthetic import Links, Recovery, make_links, make_recovery

__all__ = [
    "Links",
    "Recovery",
    "load_dexter",
    "load_docstrings",
    "load_dorothea",
    "load_rcv1",
    "load_rcv1_4",
    "make_links",
    "make_recovery",
]
