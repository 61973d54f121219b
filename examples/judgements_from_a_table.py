"""
Learn from a table of clicks
============================

You learn how to turn a log of clicks into triplets, and triplets into a similarity. A
line such as *shown A, B and C next to X, somebody clicked B* gives the triplets "X is
more like B than like A" and "X is more like B than like C".
"""

# %%
# A log of clicks
# ---------------
# The log is made from the docstrings of Python's standard library. Each event shows
# three docstrings next to another one, and one of the three is from the same module. A
# reader who knows the library clicks that one. One click in ten is random.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

from hdsl import HDSL
from hdsl.datasets import load_docstrings
from hdsl.evaluate import triplet_accuracy
from hdsl.plots import ChoiceDisplay
from hdsl.triplets import choice_triplets, judgement_triplets, restrict

docs = load_docstrings(min_rows_per_label=80)
rng = np.random.default_rng(0)
n_events = 12_000
n_rows = len(docs.y)
inside = {label: np.flatnonzero(docs.y == label) for label in np.unique(docs.y)}
outside = {label: np.flatnonzero(docs.y != label) for label in np.unique(docs.y)}
lines = []
for event, row in enumerate(rng.integers(n_rows, size=n_events)):
    others = inside[docs.y[row]]
    place = rng.integers(len(others) - 1)
    same = others[place + (others[place] >= row)]  # another docstring of the module
    shown = rng.permutation(
        [same, *rng.choice(outside[docs.y[row]], size=2, replace=False)]
    )
    clicked = rng.choice(shown) if rng.random() < 0.1 else same
    lines += [
        (event, docs.names[row], docs.names[item], item == clicked) for item in shown
    ]
log = pd.DataFrame(lines, columns=["event", "next_to", "shown", "clicked"])
print(log.head(6).to_string(index=False))

# %%
# From the log to triplets
# ------------------------
# ``ids`` gives the id of each row of X.

clicks = choice_triplets(log, query="next_to", document="shown", ids=docs.names)
triplets = clicks.triplets
print(f"\n{n_events} clicks make {len(triplets)} triplets.")

# %% A table with one judgement per line works in the same way. The weights say how
# certain each judgement is.

judgements = pd.DataFrame(
    docs.names[triplets[:3]], columns=["this", "is_like", "not_like"]
)
judgements["sure"] = [1.0, 0.5, 1.0]
print()
print(judgements.to_string(index=False))
rows, weights = judgement_triplets(
    judgements,
    anchor="this",
    positive="is_like",
    negative="not_like",
    weight="sure",
    ids=docs.names,
)
print(
    "The same triplets:",
    np.array_equal(rows, triplets[:3]),
    "with weights",
    weights.tolist(),
)

# %%
# Learn, and test on new rows
# ---------------------------
# The folds split docstrings, not triplets. A triplet with rows on both sides is in
# neither. The prior is chosen within the training side, on judgements of docstrings
# that are held out.

print("\nfold    training    test   dot product   learned   prior")
folds = KFold(2, shuffle=True, random_state=0).split(docs.X)
for k, (train, test) in enumerate(folds):
    known = restrict(triplets, train, n_rows)
    held = restrict(triplets, test, n_rows)
    model = HDSL(random_state=0).fit(docs.X[train], triplets=known)
    before, after = (
        triplet_accuracy(judge, docs.X[test], held) for judge in (None, model)
    )
    print(
        f"{k:<6}{len(known):10}{len(held):8}{before:14.1%}{after:10.1%}{model.prior_:8.2f}"
    )
print("One click in ten is random, so no similarity can be right every time.")

# %% The choice of the last fold: the share of held-out judgements that each prior gets
# right.

ChoiceDisplay.from_estimator(model)
plt.show()
