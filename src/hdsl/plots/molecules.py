"""Two molecules whose atoms are coloured by their share of S."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..explain import NEGATIVE, POSITIVE
from ..explain.parts import feature_shares
from .display import Display, similarity_of

#: Pixels of the drawing of one molecule.
PANEL_WIDTH = 700
PANEL_HEIGHT = 460

#: Inches of the figure.
FIGURE_SIZE = (10.0, 3.6)

#: Radius of the disc behind an atom, in Å of the drawing.
DISC_RADIUS = 0.45


@dataclass(repr=False)
class MoleculesDisplay(Display):
    """Two molecules; an atom is blue if it speaks for a match, red if against.

    Parameters
    ----------
    molecules : tuple of two RDKit molecules
    shares : tuple of two ndarrays of shape (n_atoms,)
        What each atom adds to S(x, y). The atoms of x and `elsewhere` sum up to S(x,
        y), and so do those of y.
    elsewhere : tuple of two floats
        What features add that belong to no atom.
    total : float
        S(x, y).
    """

    molecules: tuple[Any, Any]
    shares: tuple[np.ndarray, np.ndarray]
    elsewhere: tuple[float, float]
    total: float

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        x: Any,
        y: Any,
        molecules: Sequence[Any],
        bit_info: Sequence[Mapping[int, Any]],
        *,
        columns: Mapping[int, int] | None = None,
        ax: Any = None,
    ) -> MoleculesDisplay:
        """Draw two molecules with what their fragments add to S(x, y).

        A feature of x adds what x has of it times what S makes of y there, so that all
        features of x add up to S(x, y); for y it is the same with x and y exchanged.
        The share of a feature is divided evenly by the fragments of its bit, and that
        of a fragment by its atoms.

        Parameters
        ----------
        estimator : HDSL or Similarity
        x, y : array-like or sparse matrix of shape (n_features,) or (1, n_features)
            Rows of the two molecules.
        molecules : sequence of two RDKit molecules
        bit_info : sequence of two dicts of int to sequence of (atom, radius)
            The fragments of each bit, for each molecule, as
            ``AdditionalOutput.GetBitInfoMap()`` of an RDKit Morgan generator gives them.
        columns : dict of int to int, default=None
            Column of each bit in x and y. None: the bit is the number of its column.
        ax : matplotlib axes, default=None

        Returns
        -------
        MoleculesDisplay
        """
        for name, values in (("molecules", molecules), ("bit_info", bit_info)):
            if len(values) != 2:
                raise ValueError(
                    f"{name} must be two, one for x and one for y. Got {len(values)}."
                )
        features = feature_shares(similarity_of(estimator), x, y)
        x_shares, y_shares = (
            _atom_shares(row, molecule, fragments, columns)
            for row, molecule, fragments in zip(
                features, molecules, bit_info, strict=True
            )
        )
        total = math.fsum(features[0].data)
        display = cls(
            molecules=(molecules[0], molecules[1]),
            shares=(x_shares, y_shares),
            elsewhere=(total - math.fsum(x_shares), total - math.fsum(y_shares)),
            total=total,
        )
        return display.plot(ax)

    def plot(self, ax: Any = None) -> MoleculesDisplay:
        """Draw both molecules side by side, with one scale of colours."""
        ax = self.start(ax, figsize=FIGURE_SIZE)
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import LinearSegmentedColormap, Normalize
        from matplotlib.image import imread

        largest = max(np.abs(atoms).max(initial=0.0) for atoms in self.shares)
        if largest == 0.0:
            largest = 1.0
        colors = ScalarMappable(
            Normalize(-largest, largest),
            LinearSegmentedColormap.from_list("shares", [NEGATIVE, "white", POSITIVE]),
        )
        picture = _picture(self.molecules, [colors.to_rgba(a) for a in self.shares])
        ax.imshow(imread(BytesIO(picture)))
        ax.set_axis_off()
        ax.set_title(self._title(), fontsize="medium")
        self.figure_.colorbar(
            colors, ax=ax, shrink=0.9, pad=0.01, label="share of an atom"
        )
        return self

    def _title(self) -> str:
        """Return what the atoms of each molecule add up to."""
        title = f"S(x, y) = {self.total:.4g}"
        least = 1e-9 * max(1.0, abs(self.total))
        if max(map(abs, self.elsewhere)) > least:
            left, right = self.elsewhere
            title += f"; of no atom: {left:+.4g} in x, {right:+.4g} in y"
        return title


def _atom_shares(
    row: sp.csr_array,
    molecule: Any,
    fragments: Mapping[int, Any],
    columns: Mapping[int, int] | None,
) -> np.ndarray:
    """Return what each atom of a molecule adds, from what each feature adds."""
    share_of = dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))
    fragments_of: dict[int, list[Any]] = {}
    for bit, environments in fragments.items():
        column = bit
        if columns is not None:
            column = columns.get(bit, -1)
        if column in share_of:
            fragments_of.setdefault(column, []).extend(environments)
    distances = _bonds_between(molecule)
    shares = np.zeros(len(distances))
    for column, environments in fragments_of.items():
        for atom, radius in environments:
            if not 0 <= atom < len(distances):
                raise ValueError(
                    f"bit_info names atom {atom}, but the molecule has "
                    f"{len(distances)} atoms: is it the bit_info of this molecule?"
                )
            atoms = np.flatnonzero(distances[atom] <= radius)
            shares[atoms] += share_of[column] / (len(environments) * len(atoms))
    return shares


def _bonds_between(molecule: Any) -> np.ndarray:
    """Return the number of bonds between each two atoms of a molecule."""
    try:
        from rdkit.Chem import GetDistanceMatrix
    except ImportError as error:
        raise ImportError(
            "MoleculesDisplay needs RDKit: `pip install hdsl[molecules]`."
        ) from error
    return GetDistanceMatrix(molecule)


def _picture(molecules: Sequence[Any], colors: list[np.ndarray]) -> bytes:
    """Return molecules side by side as a PNG, each atom on a disc of its colour."""
    from rdkit.Chem.Draw import rdMolDraw2D

    drawing = rdMolDraw2D.MolDraw2DCairo(
        PANEL_WIDTH * len(molecules), PANEL_HEIGHT, PANEL_WIDTH, PANEL_HEIGHT
    )
    options: Any = drawing.drawOptions()
    options.useBWAtomPalette()
    options.fillHighlights = True
    options.highlightRadius = DISC_RADIUS
    atoms = [list(range(molecule.GetNumAtoms())) for molecule in molecules]
    drawing.DrawMolecules(
        list(molecules),
        highlightAtoms=atoms,
        highlightBonds=[[] for _ in molecules],
        highlightAtomColors=[
            {atom: tuple(map(float, color[:3])) for atom, color in enumerate(panel)}
            for panel in colors
        ],
    )
    drawing.FinishDrawing()
    return drawing.GetDrawingText()
