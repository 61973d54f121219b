"""The paper's data: its synthetic problems, and its real sets from files or the network."""

from .real import load_dexter, load_dorothea, load_rcv1, load_rcv1_4
from .synthetic import Links, Recovery, make_links, make_recovery

__all__ = [
    "Links",
    "Recovery",
    "load_dexter",
    "load_dorothea",
    "load_rcv1",
    "load_rcv1_4",
    "make_links",
    "make_recovery",
]
