"""
Molecules as fingerprints
=========================

You learn how to find fragments of molecules that can replace each other, such as a
tetrazole and a carboxylic acid. Chemists call them *bioisosteres*. A fingerprint says
which fragments a molecule has. The cosine of fingerprints treats two such fragments
like any two bits. A similarity learned from molecules and the proteins they bind to
contains them as feature pairs.

**These molecules are synthetic**: random bits with a known truth, so the result can be
checked. ``reproduce.datasets.load_dorothea`` loads real ones, 1,150 labelled molecules with
100,000 features. The table of *Choosing the model* has the errors on them.
"""

# %%
# The data
# --------
# A molecule binds to one of four proteins by one of three groups. The other fragments
# carry no information: one of 40 scaffolds of 15 fragments, and 25 random fragments.
# One label in twenty is random.

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

from hdsl import HDSL
from hdsl.evaluate import knn_error
from hdsl.plots import NetworkDisplay

BINDS_BY = {
    "thrombin": ["benzamidine", "guanidine", "aminopyridine"],
    "carbonic anhydrase": ["sulfonamide", "sulfamate", "hydroxamic acid"],
    "angiotensin receptor": ["tetrazole", "carboxylic acid", "acylsulfonamide"],
    "kinase": ["aminopyrimidine", "indazole", "azaindole"],
}
proteins = np.array(list(BINDS_BY))
groups = [group for names in BINDS_BY.values() for group in names]
n = 1200
d = 2000
names = groups + [f"fragment {bit}" for bit in range(len(groups), d)]

rng = np.random.default_rng(0)
group = rng.integers(len(groups), size=n)
target = np.where(rng.random(n) < 0.05, rng.integers(4, size=n), group // 3)
scaffolds = rng.integers(len(groups), d, size=(40, 15))
bits = np.column_stack(
    [
        group,
        scaffolds[rng.integers(40, size=n)],
        rng.integers(len(groups), d, size=(n, 25)),
    ]
)
rows = np.repeat(np.arange(n), bits.shape[1])
X = sp.csr_array((np.ones(bits.size), (rows, bits.ravel())), shape=(n, d)).minimum(1)
y = proteins[target]
print(f"{n} molecules, {d} bits, {X.nnz / n:.0f} of them set on average.")

# %%
# Learn from one half
# -------------------

half = n // 2
model = HDSL(random_state=0).fit(X[:half], y[:half])
print(
    f"{model.n_iter_} iterations, status {model.status_}, {len(model.weights_)} pairs "
    "of bits."
)
print("\nError of 3 nearest neighbours on the other half")
for name, similarity in (("cosine", None), ("learned cosine", model)):
    error = knn_error(similarity, X[:half], y[:half], X[half:], y[half:], cosine=True)
    print(f"{name:20}{error:7.1%}")

# %%
# What was learned
# ----------------
# Of two million pairs of bits, the twelve with the largest effect are those of groups
# that bind to the same protein. The others that were learned, mostly from random
# labels, count little.

pairs = model.importance(X, feature_names=names).pairs
first = pairs[:12]
known = (first["j"] < len(groups)) & (first["i"] // 3 == first["j"] // 3)
print(
    f"{known.sum()} of the first {len(first)} pairs, of {len(pairs)}, are bioisosteres."
)
NetworkDisplay.from_estimator(model, top=12, feature_names=names)

# %%
# Why two molecules match
# -----------------------
# The two molecules bind to the same protein by different groups, on different
# scaffolds.

one = np.flatnonzero((group == 6) & (target == 2))[0]
other = np.flatnonzero((group == 7) & (target == 2))[0]
print(model.explain(X[[one]], X[[other]], feature_names=names, top=5))
plt.show()
