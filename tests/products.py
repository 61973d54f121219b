"""Two tables of products that tests of linking share."""

import numpy as np

KINDS = (
    "camera",
    "printer",
    "monitor",
    "keyboard",
    "router",
    "speaker",
    "scanner",
    "drive",
)
BRANDS = ("acme", "bolt", "corex", "delta", "epsil", "fjord")
NOISE = (
    "new",
    "black",
    "with",
    "free",
    "shipping",
    "original",
    "retail",
    "box",
    "series",
    "pro",
)


#: Four records that share words in pairs.
TEXTS = ["red apple pie", "green apple tart", "blue berry pie", "red berry jam"]


def make_tables(n=60, seed=0):
    """Two tables of products in another order; the model number tells products apart."""
    rng = np.random.default_rng(seed)
    names = [
        (
            rng.choice(BRANDS),
            rng.choice(KINDS),
            f"{'xyz'[rng.integers(3)]}{rng.integers(100, 999)}",
        )
        for _ in range(n)
    ]
    left = {
        "sku": [f"L{k}" for k in range(n)],
        "title": [f"{b} {k} {m} {' '.join(rng.choice(NOISE, 3))}" for b, k, m in names],
        "price": rng.integers(10, 90, n).astype(float).tolist(),
    }
    order = rng.permutation(n)
    right = {
        "sku": [f"R{k}" for k in range(n)],
        "title": [
            f"{names[k][1]} {names[k][2].upper()} {names[k][0]} "
            f"{' '.join(rng.choice(NOISE, 3))}"
            for k in order
        ],
        "price": [left["price"][k] for k in order],
    }
    matches = np.column_stack([order, np.arange(n)])
    return left, right, matches[np.argsort(matches[:, 0])]
