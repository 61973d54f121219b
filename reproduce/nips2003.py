"""The files of the NIPS 2003 feature selection challenge as `reproduce.datasets` reads them.

``python -m reproduce.nips2003 FOLDER dexter`` writes ``dexter/X_train.npz``,
``dexter/y_train.npy`` and so on beside ``dexter_train.data``, ``dexter_train.labels``,
... in the folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

#: Number of features, and whether a line lists the indices of ones without values.
SETS = {"dexter": (20_000, False), "dorothea": (100_000, True)}


def read_rows(path: Path, n_features: int, is_binary: bool) -> sp.csr_array:
    """Return the rows of a ``.data`` file: lines of ``index:value``, or of indices from 1."""
    indptr = [0]
    indices = []
    values = []
    for line in path.read_text().splitlines():
        for word in line.split():
            index, _, value = word.partition(":")
            indices.append(int(index) - 1)
            values.append(1.0 if is_binary else float(value))
        indptr.append(len(indices))
    return sp.csr_array((values, indices, indptr), shape=(len(indptr) - 1, n_features))


def convert(folder: Path, name: str) -> None:
    """Write the parts of a set that a folder has."""
    out = folder / name
    out.mkdir(exist_ok=True)
    for part in ("train", "valid", "test"):
        rows, labels = (folder / f"{name}_{part}.{kind}" for kind in ("data", "labels"))
        if rows.is_file():
            sp.save_npz(out / f"X_{part}.npz", read_rows(rows, *SETS[name]))
        if labels.is_file():
            np.save(out / f"y_{part}.npy", np.loadtxt(labels, dtype=np.int64))


if __name__ == "__main__":
    convert(Path(sys.argv[1]), sys.argv[2])
