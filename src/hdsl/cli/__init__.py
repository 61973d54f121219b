"""The command line: parse, call, print. ``hdsl --help`` lists the commands.

Commands import what computes inside their functions, so that ``--help`` is fast.
"""

from .options import app  # isort: split

from . import fit, link, use, demo  # noqa: F401, I001 - in the order of the help

__all__ = ["app"]
