"""Parts of the pages that each build makes: figures, a report, and the help of the commands.

`make` writes the parts that are missing or older than this file or the library.
"""

import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np

#: Blue and vermilion, the colours of hdsl.plots.
POSITIVE = "#0072B2"
NEGATIVE = "#D55E00"

#: Order of the examples in the gallery.
ORDER = (
    "neighbors_before_and_after",
    "why_this_one",
    "tickets_that_were_solved",
    "embedding_under_words",
    "choose_the_prior",
    "judgements_from_a_table",
    "clicks_on_typed_queries",
    "link_two_tables",
    "signed_links",
    "molecules_as_fingerprints",
    "molecules_from_smiles",
    "cluster_with_the_learned_similarity",
    "fewer_dimensions",
    "rerank_an_index",
    "hand_over_to_faiss_and_usearch",
)


def in_order(file_name):
    """Return the position of an example in the gallery."""
    return ORDER.index(Path(file_name).stem)


def make(folder):
    """Write all parts that are missing or out of date to `folder`."""
    import matplotlib as mpl

    mpl.use("Agg")
    here = Path(__file__)
    sources = [here, *(here.parents[1] / "src" / "hdsl").rglob("*.py")]
    newest = max(source.stat().st_mtime for source in sources)
    for part in (help_of_commands, atoms, iteration, learned):
        done = folder / f".{part.__name__}"
        if not done.exists() or done.stat().st_mtime < newest:
            folder.mkdir(exist_ok=True)
            part(folder)
            done.touch()


# --- the command line -----------------------------------------------------------------


def help_of_commands(folder):
    from hdsl.cli import COMMANDS

    for command in ("", *COMMANDS):
        shown = subprocess.run(
            [sys.executable, "-m", "hdsl", *command.split(), "--help"],
            env=os.environ | {"COLUMNS": "96"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        lines = "\n".join(line.rstrip() for line in shown.strip("\n").splitlines())
        (folder / f"help-{command or 'hdsl'}.txt").write_text(
            lines + "\n", encoding="utf-8"
        )


# --- how it works ---------------------------------------------------------------------

TEXTS = (
    "the striker scored a late goal",
    "a goal in the last minute of the match",
    "the keeper saved the match",
    "shares fell after the profit warning",
    "the bank cut its profit forecast",
    "investors sold shares of the bank",
)
LABELS = ("sport",) * 3 + ("money",) * 3


def atoms(folder):
    """Draw two atoms, and a model made of atoms."""
    import matplotlib.pyplot as plt

    words = ["goal", "match", "keeper", "profit", "bank"]
    plus = np.zeros((5, 5))
    minus = np.zeros((5, 5))
    plus[np.ix_([0, 1], [0, 1])] = 1
    minus[np.ix_([0, 3], [0, 3])] = [[1, -1], [-1, 1]]
    third = np.zeros((5, 5))
    third[np.ix_([3, 4], [3, 4])] = 1
    M = 0.5 * plus + 0.3 * minus + 0.2 * third
    fig, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
    titles = (
        "goal + match:\none stands for the other",
        "goal - profit:\nthey tell rows apart",
        "M: 0.5 of the first, 0.3 of the\nsecond, 0.2 of profit + bank",
    )
    for ax, matrix, title in zip(axes, (plus, minus, M), titles, strict=True):
        _matrix(ax, matrix, words)
        ax.set_title(title, fontsize="medium")
    _save(fig, folder / "atoms.svg")


def iteration(folder):
    """Draw one iteration on six texts: slopes, gradient, best feature pair, step size."""
    import matplotlib.pyplot as plt
    from sklearn.feature_extraction.text import TfidfVectorizer

    from hdsl.triplets import neighbor_triplets

    vectorizer = TfidfVectorizer(stop_words="english")
    X = vectorizer.fit_transform(TEXTS).toarray()
    words = vectorizer.get_feature_names_out()
    anchor, positive, negative = neighbor_triplets(X, LABELS, 2, 2).T
    x = X[anchor]
    difference = X[positive] - X[negative]
    prior = 0.2
    scale = 3.0

    def best_pair(margins):
        C = -np.einsum("t,ti,tj->ij", np.clip(margins, 0, 1) - 1, x, difference) / len(
            margins
        )
        C = (C + C.T) / 2
        pairs = [
            (i, j, s) for i, j in combinations(range(len(words)), 2) for s in (1, -1)
        ]
        i, j, sign = max(
            pairs, key=lambda p: C[p[0], p[0]] + C[p[1], p[1]] + 2 * p[2] * C[p[:2]]
        )
        e = np.zeros(len(words))
        e[[i, j]] = 1, sign
        return C, (i, j, sign), scale * (x @ e) * (difference @ e)

    dots = prior * np.einsum("ti,ti->t", x, difference)
    steps = np.linspace(0, 1, 200)
    *_, first = best_pair(dots)  # the path starts at M = 0
    first *= min(steps, key=lambda step: _loss(dots + step * first).mean())
    margins = dots + first
    C, (i, j, sign), second = best_pair(margins)

    fig, axes = plt.subplots(
        1, 3, figsize=(11, 4.2), width_ratios=(1, 1.4, 1), layout="constrained"
    )
    grid = np.linspace(-0.4, 1.4, 200)
    axes[0].plot(grid, _loss(grid), color="0.6")
    axes[0].plot(margins, _loss(margins), "o", color=POSITIVE, alpha=0.5)
    at = margins.min()
    near = np.array([at - 0.15, at + 0.15])
    axes[0].plot(
        near, _loss(at) + (np.clip(at, 0, 1) - 1) * (near - at), color=NEGATIVE, lw=2.5
    )
    axes[0].annotate(
        "slope: how much\nthis triplet counts",
        (at, _loss(at)),
        (0.4, 0.7),
        arrowprops={"arrowstyle": "-", "color": "0.5"},
    )
    axes[0].set(
        title="1. margins and slopes",
        xlabel="margin S(x, y) - S(x, z)",
        ylabel="loss",
        xlim=(-0.4, 1.4),
    )

    _matrix(axes[1], C, words)
    axes[1].set_title("2. minus the gradient, per feature pair")
    for a, b in ((i, i), (i, j), (j, i), (j, j)):
        axes[1].add_patch(
            plt.Rectangle((b - 0.5, a - 0.5), 1, 1, fill=False, ec="black", lw=1.8)
        )
    axes[1].set_xlabel(
        f"best feature pair: {words[i]} {'+' if sign > 0 else '-'} {words[j]}"
    )

    values = [_loss(margins + step * (second - first)).mean() for step in steps]
    axes[2].plot(steps, values, color="0.6")
    axes[2].plot(steps[np.argmin(values)], min(values), "*", color=NEGATIVE, ms=14)
    axes[2].set(
        title="3. mean loss along the step", xlabel="step size", ylabel="mean loss"
    )
    _save(fig, folder / "iteration.svg")


def learned(folder):
    """Draw a path on real text and the network of its last model; write its report."""
    import matplotlib.pyplot as plt
    from sklearn.model_selection import train_test_split

    from hdsl import HDSL
    from hdsl.datasets import load_docstrings
    from hdsl.plots import NetworkDisplay, PathDisplay, TraceDisplay

    docs = load_docstrings(min_rows_per_label=80)
    known, new = train_test_split(
        np.arange(len(docs.y)), test_size=0.5, stratify=docs.y, random_state=0
    )
    valid, test = train_test_split(
        new, test_size=0.5, stratify=docs.y[new], random_state=0
    )
    X = docs.X[known]
    y = docs.y[known]
    model = HDSL(random_state=0)
    model.fit(X, y, X_val=docs.X[valid], y_val=docs.y[valid])
    fig, axes = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
    TraceDisplay.from_estimator(model, ax=axes[0])
    PathDisplay.from_estimator(model, ax=axes[1])
    _save(fig, folder / "path.svg")

    network = NetworkDisplay.from_estimator(
        model, top=18, feature_names=docs.feature_names
    )
    _save(network.figure_, folder / "network.svg")

    (folder / "pages").mkdir(exist_ok=True)
    model.report(
        folder / "pages" / "report.html",
        X,
        y,
        X_test=docs.X[test],
        y_test=docs.y[test],
        texts=[f"{docs.names[k]}: {docs.texts[k]}" for k in known],
        feature_names=docs.feature_names,
        title="Docstrings of Python's standard library",
    )


def _loss(margin):
    return 0.5 * (1 - np.clip(margin, 0, 1)) ** 2 + np.maximum(-margin, 0)


def _matrix(ax, matrix, words):
    from matplotlib.colors import LinearSegmentedColormap

    colors = LinearSegmentedColormap.from_list("signed", [NEGATIVE, "white", POSITIVE])
    largest = np.abs(matrix).max()
    ax.imshow(matrix, cmap=colors, vmin=-largest, vmax=largest)
    ax.set_xticks(
        range(len(words)), words, rotation=60, ha="right", rotation_mode="anchor"
    )
    ax.set_yticks(range(len(words)), words)
    if len(words) < 8:
        for (a, b), value in np.ndenumerate(matrix):
            if value:
                ax.text(b, a, f"{value:+.1f}", ha="center", va="center", color="black")


def _save(fig, path):
    import matplotlib.pyplot as plt

    with plt.rc_context({"svg.hashsalt": "hdsl"}):
        fig.savefig(path, metadata={"Date": None})
    plt.close(fig)
