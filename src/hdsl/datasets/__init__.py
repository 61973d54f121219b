"""Data to learn from: the paper's synthetic problems and real sets, and Python's docstrings."""

from .real import load_dexter, load_docstrings, load_dorothea, load_rcv1, load_rcv1_4
from .synthetic import Links, Recovery, RegionRows, make_links, make_recovery, make_regions

__all__ = [
    "Links",
    "Recovery",
    "RegionRows",
    "load_dexter",
    "load_docstrings",
    "load_dorothea",
    "load_rcv1",
    "load_rcv1_4",
    "make_links",
    "make_recovery",
    "make_regions",
]
