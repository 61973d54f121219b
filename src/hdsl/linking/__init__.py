"""The same thing in two tables, or twice in one, learned from known matches.

Records become rows of words and of character n-grams. `HDSL` learns from each match
against the nearest other rows of both tables. Whether a pair is a match is then told by
numbers: its score, how far it is above or below the best other row of either record,
its rank on both sides, the words that only one record has, the columns as strings,
numbers and dates. The mean of three classifiers of these learns from scores that are
cross-fitted, by models that have not seen the match.
"""

from .entities import Changes, Entities, entity_changes
from .known import LabelReport
from .linker import Linker
from .questions import Audit
from .reasons import Contributions
from .results import Links

__all__ = [
    "Audit",
    "Changes",
    "Contributions",
    "Entities",
    "LabelReport",
    "Linker",
    "Links",
    "entity_changes",
]
