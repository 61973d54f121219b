"""
Link two tables
===============

You learn how to find the same thing in two tables from a list of known matches: what is
learned, how sure it is, and which pairs to ask a person about next.
"""

# %%
# Two tables of products
# ----------------------
# One shop writes in English, the other in German, and both add words that say nothing.
# The tables are made up, so that the right answer is known. Of 300 products, 260 are in
# both shops.

import numpy as np

from hdsl.linking import Linker

rng = np.random.default_rng(0)
brands = ["acme", "boltronic", "corex", "deltawave", "epsilonix", "fjordline"]
words = [
    {
        "chair": "stuhl",
        "table": "tisch",
        "lamp": "leuchte",
        "shelf": "regal",
        "bed": "liege",
        "mirror": "spiegel",
        "carpet": "teppich",
        "cupboard": "schrank",
    },
    {
        "red": "rot",
        "white": "weiss",
        "black": "schwarz",
        "yellow": "gelb",
        "grey": "silber",
    },
    {
        "oak": "eiche",
        "pine": "kiefer",
        "steel": "metall",
        "leather": "haut",
        "cotton": "stoff",
    },
]
noise = [
    "new",
    "free",
    "top",
    "sale",
    "online",
    "original",
    "retail",
    "box",
    "series",
    "pro",
]


def describe(brand, *names):
    """Return the words of a product in another order, among some that say nothing."""
    return " ".join(rng.permutation([brand, *names, *rng.choice(noise, 2)]))


kinds = np.array(np.meshgrid(brands, *map(list, words), indexing="ij")).reshape(4, -1).T
products = rng.permutation(kinds)[:300]
left = [describe(*product) for product in products]
order = rng.permutation(300)[:260]
right = [
    describe(
        products[k][0], *(words[j][name] for j, name in enumerate(products[k][1:]))
    )
    for k in order
]
matches = np.column_stack([order, np.arange(260)])
print(left[order[0]], "|", right[0])

# %%
# Without a known match
# ---------------------
# How the columns agree tells matches, with the rate of matches among all pairs.
# ``to_label`` lists pairs for a person, those whose answers are worth most.

linker = Linker(random_state=0).fit(left, right)
print(linker.statement_)
for asked in linker.records(linker.to_label(5)):
    print(f"  {asked['left_text']}  |  {asked['right_text']}")

# %%
# Learn from a hundred matches
# ----------------------------
# Each match is held out once while the others teach. What classifiers learn counts by
# as much as held-out pairs are told better by it.

linker = Linker(random_state=0).fit(left, right, matches[:100])
print(linker.statement_)

# %%
# All links, and how many are right
# ---------------------------------

links = linker.predict(one_to_one=True)
known, new = (
    {tuple(pair) for pair in part.tolist()} for part in (matches[:100], matches[100:])
)
found = {*zip(links.left.tolist(), links.right.tolist(), strict=True)} - known
print(
    f"160 new products: {len(found & new)} linked rightly, {len(found - new)} wrongly."
)

# %%
# Why two records are one thing
# -----------------------------
# The parts add up to the similarity exactly; pairs of words were learned. What
# character n-grams add is called "spelling".

a, b = min(found & new)
print(left[a], "|", right[b])
for name, value in linker.reasons(a, b):
    print(f"  {name:20s} {value:+.2f}")

# %%
# How many links are wrong at most
# --------------------------------
# A random sample of the links, answered by a person, bounds the share of wrong ones,
# whatever the probabilities are worth.

every = {tuple(pair) for pair in matches.tolist()}
drawn = linker.audit(50, one_to_one=True)
answers: dict[bool, list] = {True: [], False: []}
for pair in zip(drawn.left.tolist(), drawn.right.tolist(), strict=True):
    answers[pair in every].append(pair)
audit = linker.audited(answers[True], answers[False], one_to_one=True)
print(audit.sentence())
