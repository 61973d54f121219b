"""Pictures of models and of their runs; each is a display, as in scikit-learn.

A display holds the numbers of a picture. Its ``from_…`` methods compute them and draw.
``plot`` draws them again, on given axes if you like, and sets ``ax_`` and ``figure_``.
Names and texts are shown as they are: nothing in them is read as a formula.
"""

from .display import COLORS, MARKERS
from .molecules import MoleculesDisplay
from .neighbors import NeighborsDisplay
from .network import NetworkDisplay
from .run import ChoiceDisplay, PathDisplay, TraceDisplay

__all__ = [
    "COLORS",
    "MARKERS",
    "ChoiceDisplay",
    "MoleculesDisplay",
    "NeighborsDisplay",
    "NetworkDisplay",
    "PathDisplay",
    "TraceDisplay",
]
