"""Similarities and sparse rows as plain arrays for a file, and back, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import checks
from .files.model import check_similarity
from .files.tables import get_array, get_value, pack_columns, unpack_columns
from .linear import check_array
from .local_similarity import Centers, LocalSimilarity
from .similarity import Similarity
from .solver import atoms as atoms_module
from .solver.snapshot import nested, part_of

Arrays = dict[str, np.ndarray]

#: Numbers of a similarity that are no arrays.
VALUES = ("scale", "prior", "norm")


def csr_to_arrays(rows: sp.csr_array, name: str) -> Arrays:
    """Return sparse rows as ``name``, ``name_indices`` and ``name_indptr``."""
    return {
        name: rows.data.astype(np.float64),
        f"{name}_indices": rows.indices.astype(np.int64),
        f"{name}_indptr": rows.indptr.astype(np.int64),
    }


def csr_from_arrays(arrays: Mapping[str, np.ndarray], name: str, n_features: int) -> sp.csr_array:
    """Return the rows of `csr_to_arrays`; raise ValueError where the arrays are none."""
    indptr = check_array(arrays, f"{name}_indptr", "i", (None,))
    data = check_array(arrays, name, "f", (None,))
    indices = check_array(arrays, f"{name}_indices", "i", (len(data),))
    if not len(indptr):
        raise ValueError(f"{name}_indptr is empty")
    rows = sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_features))
    checks.check_structure(rows)
    return rows


def parts_to_arrays(atoms: Sequence[np.ndarray], weights: Sequence[np.ndarray]) -> Arrays:
    """Return the atoms of all regions, with the region first, and their weights."""
    numbers = np.repeat(np.arange(len(weights)), list(map(len, weights)))
    every = np.concatenate([atoms_module.as_array([]), *atoms])
    return {
        "atoms": np.column_stack([numbers, every]).astype(np.int64),
        "weights": np.concatenate([np.empty(0), *weights]),
    }


def parts_from_arrays(
    arrays: Mapping[str, np.ndarray], n_regions: int, n_features: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return atoms and weights of each region; raise ValueError where the arrays are none."""
    atoms = check_array(arrays, "atoms", "i", (None, 4)).astype(np.int64)
    weights = check_array(arrays, "weights", "f", (len(atoms),)).astype(np.float64)
    numbers, every = atoms[:, 0], np.ascontiguousarray(atoms[:, 1:])
    if len(atoms) and not (numbers[0] >= 0 and numbers[-1] < n_regions):
        raise ValueError("atoms name a region that does not exist")
    if (numbers[1:] < numbers[:-1]).any():
        raise ValueError("atoms must come region by region")
    ends = np.searchsorted(numbers, np.arange(n_regions + 1)).tolist()
    parts = [(every[begin:end], weights[begin:end]) for begin, end in pairwise(ends)]
    for part in parts:
        if len(part[1]):
            atoms_module.check_atoms(*part, n_features)
    return parts


def centers_of(regions: Any) -> sp.csr_array:
    """Return the centers of regions; raise ValueError where something else assigns rows to them."""
    if not isinstance(regions, Centers):
        name = type(regions.clusterer).__name__
        raise ValueError(
            f"A model file has no place for {name}, which assigns rows to regions: it holds "
            "centers, not code. Use regions='kmeans', or pass regions as an array."
        )
    return regions.centers


def similarity_to_arrays(similarity: Any) -> tuple[Arrays, dict[str, Any]]:
    """Return a similarity as plain arrays, and what of it is no array.

    Raises
    ------
    ValueError
        It is no `Similarity`, and no `LocalSimilarity` whose regions have centers.
    """
    shared = similarity.shared if isinstance(similarity, LocalSimilarity) else similarity
    if not isinstance(shared, Similarity):
        raise ValueError(
            "A model file holds atoms, and no similarity of another kind. Save it with joblib."
        )
    state = {name: getattr(shared, name) for name in (*VALUES, "atoms", "weights", "columns")}
    check_similarity({**state, "n_features_in": shared.n_features})
    arrays = {"atoms": shared.atoms, "weights": np.asarray(shared.weights, dtype=np.float64)}
    if shared.columns is not None:
        arrays["columns"] = pack_columns(shared.columns, shared.n_features)
    if isinstance(similarity, LocalSimilarity):
        parts = similarity.local
        regions = {
            **parts_to_arrays([own.atoms for own in parts], [own.weights for own in parts]),
            "scales": np.array([own.scale for own in parts], dtype=np.float64),
            **csr_to_arrays(centers_of(similarity.regions), "centers"),
        }
        arrays |= nested(regions=regions)
    header = {"scale": float(shared.scale), "prior": float(shared.prior), "norm": shared.norm}
    return arrays, header


def similarity_from_arrays(
    arrays: Mapping[str, np.ndarray], header: Mapping[str, Any], n_features: int
) -> Similarity | LocalSimilarity:
    """Return the similarity of `similarity_to_arrays`; raise ValueError where it is damaged."""
    atoms = get_array(arrays, "atoms")
    state: dict[str, Any] = {
        "atoms": atoms.astype(np.int64) if atoms.dtype.kind == "i" else atoms,
        "weights": get_array(arrays, "weights"),
        "scale": get_value(header, "scale", float),
        "prior": get_value(header, "prior", float),
        "norm": header.get("norm"),
        "columns": None,
    }
    if "columns" in arrays:
        state["columns"] = unpack_columns(arrays["columns"], n_features)
    check_similarity({**state, "n_features_in": n_features})
    shared = Similarity(**state, n_features=n_features)
    regions = part_of(arrays, "regions")
    if not regions:
        return shared
    centers = csr_from_arrays(regions, "centers", n_features)
    scales = check_array(regions, "scales", "f", (centers.shape[0],)).astype(np.float64)
    if (scales <= 0.0).any():
        raise ValueError("scales must hold numbers > 0")
    parts = parts_from_arrays(regions, len(scales), n_features)
    local = [
        Similarity(*part, scale, 0.0, n_features)
        for part, scale in zip(parts, scales.tolist(), strict=True)
    ]
    return LocalSimilarity(shared, local, Centers(centers))
