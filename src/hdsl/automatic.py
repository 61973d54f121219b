"""The scale and the prior that "auto" stands for.

The experiment `defaults` compares other values of these numbers.
"""

from __future__ import annotations

import math

from .solver.protocols import Statistics

#: prior="auto" makes the typical margin of the plain dot product this large; the loss asks for 1.
PRIOR_MARGIN = 1.0

#: It also makes the dot product of a row with itself at least this large. The learned part changes
#: similarities by about 1, so that a row stays most similar to itself and to its parts.
OWN_SIMILARITY = 15.0

#: scale="auto" makes the learned part this many times as large as the typical margin, for one
#: anchor. It grows with the root of the number of anchors, as the excess risk grows with
#: scale / sqrt(rows), and with the number of values that a row rests on where these are many, as
#: they share the margin of the dot product.
SCALE_MARGIN = 9.0
SCALE_VALUES = 80.0


def automatic_scale(of: Statistics) -> float:
    """Return the scale that suits the data."""
    share = max(1.0, of.values_per_anchor / SCALE_VALUES)
    return SCALE_MARGIN * math.sqrt(of.n_anchors) * share / of.typical_margin


def automatic_prior(of: Statistics) -> float:
    """Return the prior that suits the data."""
    prior = PRIOR_MARGIN / of.typical_margin
    return max(prior, OWN_SIMILARITY / of.own_similarity) if of.own_similarity > 0 else prior
