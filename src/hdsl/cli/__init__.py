"""The command line: parse, call, print. ``hdsl --help`` lists the commands."""

from .options import app  # isort: split

from . import demo, fit, use, about  # noqa: F401, I001 - in the order of the help

__all__ = ["app"]
