"""
Link two tables
===============

You learn how to find the same thing in two tables from a list of known matches: what is learned,
how sure it is, and which pairs to ask a person about next.
"""

# %%
# Two tables of products
# ----------------------
# Shops write the same product in different ways, with other words around it. Here they are made up,
# so that the right answer is known: brand, kind and model number, in another order, with words that
# say nothing and misspelled brands.

import numpy as np

from hdsl.linking import Linker

rng = np.random.default_rng(0)
brands = ["acme", "boltronic", "corex", "deltawave", "epsilonix", "fjordline"]
kinds = ["camera", "printer", "monitor", "keyboard", "router", "speaker", "scanner", "headset"]
noise = ["new", "black", "with", "free", "shipping", "original", "retail", "box", "series", "pro"]


def describe(brand, kind, model, price):
    """Return a record with some noise."""
    if rng.random() < 0.3:
        at = rng.integers(1, len(brand) - 1)
        brand = brand[:at] + brand[at + 1 :]
    words = rng.permutation([brand, kind, model, *rng.choice(noise, 4)])
    return {"title": " ".join(words), "price": f"{price * rng.uniform(0.9, 1.1):.2f}"}


products = [
    (rng.choice(brands), rng.choice(kinds), f"{rng.choice(list('xyz'))}{rng.integers(100, 400)}",
     rng.integers(20, 500))
    for _ in range(300)
]  # fmt: skip
left = [describe(*product) for product in products]
order = rng.permutation(len(products))[:250]  # fifty products are in the left table alone
right = [describe(*products[k]) for k in order]
left, right = ({name: [row[name] for row in table] for name in table[0]} for table in (left, right))
matches = np.column_stack([order, np.arange(len(order))])
print(left["title"][order[0]], "|", right["title"][0])

# %%
# Without a known match
# ---------------------
# The cosine of words and character n-grams finds candidates, and says that it has learned nothing.
# ``to_label`` lists pairs for a person, from the most to the least alike.

linker = Linker(random_state=0).fit(left, right)
print(linker.statement_)
asked = linker.to_label(5)
for a, b in zip(*linker.texts(asked), strict=True):
    print(f"  {a}  |  {b}")

# %%
# Learn from a hundred matches
# ----------------------------
# Each match is held out once while the others teach, so that recall and probabilities are those of
# new pairs.

linker = Linker(random_state=0).fit(left, right, matches[:100])
print(linker.statement_)
for line in linker.recall_:
    cosine, learned = line["cosine"][0], line["learned"][0]
    print(f"  among the first {line['k']:2d}: cosine {cosine:.2f}, learned {learned:.2f}")
for line in linker.reliability_:
    share, low, high = line["matches"]
    print(
        f"  probability {line['from']} to {line['to']}: {line['n']} pairs, "
        f"{100 * share:.0f} % match ({100 * low:.0f} to {100 * high:.0f})"
    )

# %%
# All links, and how many are right
# ---------------------------------

links = linker.predict(one_to_one=True)
truth = {tuple(pair) for pair in matches[100:].tolist()}
known = {tuple(pair) for pair in matches[:100].tolist()}
found = {*zip(links.left.tolist(), links.right.tolist(), strict=True)} - known
print(f"{len(found)} new links, {len(found & truth)} right, of {len(truth)} that there are.")

# %%
# Why two records are one thing
# -----------------------------
# The parts add up to the similarity exactly. What character n-grams add is called "spelling".

a, b = next(iter(sorted(found & truth)))
print(left["title"][a], "|", right["title"][b])
for name, value in linker.reasons(a, b):
    print(f"  {name:20s} {value:+.2f}")
