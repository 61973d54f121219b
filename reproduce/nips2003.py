"""The files of the NIPS 2003 feature selection challenge as `reproduce.datasets` reads them.

``python -m reproduce.nips2003 FOLDER dexter`` writes ``dexter/X_train.npz``,
``dexter/y_train.npy`` and so on beside ``dexter_train.data``, ``dexter_train.labels``,
... in the folder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp


class Format(NamedTuple):
    """Number of features, and whether a line lists the indices of ones without values."""

    n_features: int
    is_binary: bool


SETS = {"dexter": Format(20_000, False), "dorothea": Format(100_000, True)}


def read_rows(path: Path, file_format: Format) -> sp.csr_array:
    """Return the rows of a ``.data`` file: ``index:value`` or indices, from 1."""
    indptr = [0]
    indices = []
    values = []
    for line in path.read_text().splitlines():
        for word in line.split():
            index, _, value = word.partition(":")
            if file_format.is_binary:
                value = "1"
            indices.append(int(index) - 1)
            values.append(float(value))
        indptr.append(len(indices))
    shape = (len(indptr) - 1, file_format.n_features)
    return sp.csr_array((values, indices, indptr), shape=shape)


def convert(folder: Path, name: str) -> None:
    """Write the splits of a set that a folder has."""
    out = folder / name
    out.mkdir(exist_ok=True)
    for split in ("train", "valid", "test"):
        rows = folder / f"{name}_{split}.data"
        labels = folder / f"{name}_{split}.labels"
        if rows.is_file():
            sp.save_npz(out / f"X_{split}.npz", read_rows(rows, SETS[name]))
        if labels.is_file():
            np.save(out / f"y_{split}.npy", np.loadtxt(labels, dtype=np.int64))


if __name__ == "__main__":
    convert(Path(sys.argv[1]), sys.argv[2])
