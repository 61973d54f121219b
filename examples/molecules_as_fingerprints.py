"""
Molecules as fingerprints
=========================

A fingerprint says which fragments a molecule has. Chemists know that some fragments can stand for
each other: a tetrazole for a carboxylic acid, say. They look alike to a protein, but a dot product
of fingerprints sees no more in them than in any two bits. From molecules and what they bind to,
such *bioisosteres* can be learned, and read.

**These molecules are made up**: random bits with a known truth, so that it can be checked what was
found. For real ones there is ``hdsl.datasets.load_dorothea``, 1,150 labelled molecules with 100,000
features; what was learned of them is in the table of *Choosing the model*.
"""

# %%
# The stand-in
# ------------
# A molecule binds to one of four proteins by one of three groups. The rest says nothing: one of 40
# scaffolds of 15 fragments, and 25 fragments at random. One label in twenty is drawn at random.

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
n, d = 1200, 2000
names = groups + [f"fragment {bit}" for bit in range(len(groups), d)]

rng = np.random.default_rng(0)
group = rng.integers(len(groups), size=n)
target = np.where(rng.random(n) < 0.05, rng.integers(4, size=n), group // 3)
scaffolds = rng.integers(len(groups), d, size=(40, 15))
bits = np.column_stack(
    [group, scaffolds[rng.integers(40, size=n)], rng.integers(len(groups), d, size=(n, 25))]
)
rows = np.repeat(np.arange(n), bits.shape[1])
X = sp.csr_array((np.ones(bits.size), (rows, bits.ravel())), shape=(n, d)).minimum(1)
y = proteins[target]
print(f"{n} molecules, {d} bits, {X.nnz / n:.0f} of them set in the mean.")

# %%
# Learning from half of them
# --------------------------

half = n // 2
model = HDSL(scale=10.0, prior=0.05, random_state=0).fit(X[:half], y[:half])
print(f"{model.n_iter_} iterations, status {model.status_}, {len(model.weights_)} pairs of bits.")
print("\nError of 3 nearest neighbours on the other half")
for name, similarity in (("dot product", None), ("learned similarity", model)):
    error = knn_error(similarity, X[:half], y[:half], X[half:], y[half:])
    print(f"{name:20}{error:7.1%}")

# %%
# What was learned
# ----------------
# The pairs are the groups that stand for each other, and next to nothing else of two million pairs
# of bits.

pairs = model.importance(X, feature_names=names).pairs
known = (pairs["j"] < len(groups)) & (pairs["i"] // 3 == pairs["j"] // 3)
print(f"{known.sum()} of the {len(pairs)} pairs learned are bioisosteres; there are 12.")
NetworkDisplay.from_estimator(model, feature_names=names)

# %%
# Why two molecules match
# -----------------------
# Two molecules that bind to the same protein by different groups, on different scaffolds.

one = np.flatnonzero((group == 6) & (target == 2))[0]
other = np.flatnonzero((group == 7) & (target == 2))[0]
print(model.explain(X[[one]], X[[other]], feature_names=names, top=5))
plt.show()
