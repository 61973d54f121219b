"""The paper's constants and bounds as plain functions, and how a run compares with them.

Letters are the paper's: n rows drawn independently, d features, k iterations or atoms,
λ the scale, δ the probability that a bound fails; Aᵗ = x(x' - x'')ᵀ of a triplet. The
results on risks assume a 1-Lipschitz loss, such as the smoothed hinge and the logistic
loss. They come in two forms:

- ``"printed"``, as in the paper. Its log k counts k atoms fixed in advance, but a run
  picks its k atoms among all by looking at the data: Lemma 1 is then false (0 for k =
  1). And the loss, which the paper bounds by B_X B_D, is ℓ(0) at M = 0, however small
  B_X B_D is.
- ``"data"``, the default, which holds: log 2d(d - 1), all atoms, in place of log k, and
  max(B_X B_D, ¾(ℓ(0) + B_X B_D)) in place of the paper's bound of the loss.

References
----------
K. Liu and A. Bellet. Escaping the curse of dimensionality in similarity learning:
efficient Frank-Wolfe algorithm and generalization bounds. Neurocomputing, 2019.

S. Clémençon, I. Colin and A. Bellet. Scaling-up empirical risk minimization:
optimization of incomplete U-statistics. Journal of Machine Learning Research, 2016.
"""

from .classification import (
    Domain,
    classifier_bound,
    goodness,
    goodness_bound,
    landmark_bound,
)
from .convergence import convergence_bound, lipschitz_constant
from .gap import GapPath, gap_path, plot_gap
from .generalization import (
    FORMS,
    deviation_bound,
    excess_risk_bound,
    rademacher_bound,
    sufficient_triplets,
)
from .sizes import NORMS, data_bound, domain_bound

__all__ = [
    "FORMS",
    "NORMS",
    "Domain",
    "GapPath",
    "classifier_bound",
    "convergence_bound",
    "data_bound",
    "deviation_bound",
    "domain_bound",
    "excess_risk_bound",
    "gap_path",
    "goodness",
    "goodness_bound",
    "landmark_bound",
    "lipschitz_constant",
    "plot_gap",
    "rademacher_bound",
    "sufficient_triplets",
]
