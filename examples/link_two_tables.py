"""
Link two tables
===============

You learn how to find the same things in two tables whose wording differs. ``Linker`` learns from
some known matches which words mean the same, and says of each pair how likely it is a match.
"""

# %%
# Two shops
# ---------
# The two shops sell the same 240 products. One writes *acme coffee maker black 402*, the other
# *402 blk espresso machine by ACM*: kind, colour and brand have other words, and five products
# share each number.

import matplotlib.pyplot as plt
import numpy as np

from hdsl.linking import Linker

KINDS = {
    "coffee maker": "espresso machine", "kettle": "water boiler", "toaster": "bread griller",
    "vacuum cleaner": "hoover", "fridge": "cooler", "television": "flat screen",
}  # fmt: skip
COLORS = {"black": "blk", "white": "wht", "red": "crimson", "silver": "chrome"}
BRANDS = {"acme": "ACM", "globex": "GBX", "initech": "INT", "umbrella": "UMB"}

rng = np.random.default_rng(0)
left, right = [], []
for product in range(240):
    kind, color, brand = (str(rng.choice(list(words))) for words in (KINDS, COLORS, BRANDS))
    number = 400 + product % 48
    left.append(f"{brand} {kind} {color} {number}")
    right.append(f"{number} {COLORS[color]} {KINDS[kind]} by {BRANDS[brand]}")
order = rng.permutation(240)
right = [right[row] for row in order]
truth = np.argsort(order)  # the right row of each left one
print(left[0], "=", right[truth[0]])

# %%
# Learn from a third of the matches
# ---------------------------------
# ``statement_`` says what was learned. Without matches the linker compares by cosine.

known = np.arange(80)
linker = Linker(random_state=0).fit(left, right, np.column_stack([known, truth[known]]))
print(linker.statement_)
links = linker.predict(one_to_one=True)
new = links.left >= len(known)
found = np.sum(truth[links.left[new]] == links.right[new])
print(f"Of 160 new products {found} are found; {new.sum() - found} pairs are wrong.")

# %%
# Why these two
# -------------
# The words and pairs of words that make two records alike. What letters add is "spelling".

for name, value in linker.reasons(links.left[new][0], links.right[new][0]):
    print(f"{value:+.2f}  {name}")

# %%
# How often the right record is among the first k, for matches that were held out.

fig, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
depth = [line["k"] for line in linker.recall_]
for name, marker in (("cosine", "s--"), ("learned", "o-")):
    ax.plot(depth, [line[name] for line in linker.recall_], marker, label=name)
ax.set(xlabel="candidates per product", ylabel="held-out matches among them", ylim=(0, 1.05))
ax.legend(frameon=False)
plt.show()
