"""The atoms of a molecule share what its fragments add to S, and the picture shows it."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from hdsl.plots import MoleculesDisplay
from hdsl.similarity import FixedPart, Similarity

pytest.importorskip("rdkit")
matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from rdkit import Chem  # noqa: E402
from rdkit.Chem import rdFingerprintGenerator  # noqa: E402

#: Few columns, so that bits of different fragments fall together.
N_BITS = 24


@pytest.fixture(autouse=True)
def closed():
    yield
    matplotlib.pyplot.close("all")


def fingerprint(smiles):
    """Return a molecule, its row of counts and the fragments of its bits."""
    molecule = Chem.MolFromSmiles(smiles)
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=N_BITS)
    output = rdFingerprintGenerator.AdditionalOutput()
    output.AllocateBitInfoMap()
    row = generator.GetCountFingerprintAsNumPy(molecule, additionalOutput=output)
    return molecule, row.astype(float), output.GetBitInfoMap()


def similarity(n_features=N_BITS):
    atoms = np.array([[0, 1, -1], [2, 5, 1], [3, 20, -1]])
    fixed = (FixedPart("prior", 1.0, norm="l2"),)
    return Similarity(atoms, np.full(3, 1 / 3), 30.0, fixed, n_features)


MOLECULES = ["CC(=O)Oc1ccccc1C(=O)O", "CC(=O)Nc1ccc(O)cc1.[Na+]"]


def test_the_atoms_of_each_molecule_add_up_to_the_similarity():
    (x_molecule, x, x_info), (y_molecule, y, y_info) = map(fingerprint, MOLECULES)
    display = MoleculesDisplay.from_estimator(
        similarity(), x, y, [x_molecule, y_molecule], [x_info, y_info]
    )
    total = similarity().pair_score(x[None], y[None])[0]
    for atoms, molecule in zip(display.shares, display.molecules, strict=True):
        assert len(atoms) == molecule.GetNumAtoms()
        assert atoms.sum() == pytest.approx(total)
    assert_allclose(display.elsewhere, 0, atol=1e-9)
    assert display.ax_.get_title() == f"S(x, y) = {total:.4g}"
    (image,) = display.ax_.get_images()
    assert np.ptp(np.asarray(image.get_array())[..., :3]) > 0.5  # not one colour


def test_a_fragment_belongs_to_the_atoms_within_its_radius():
    molecule = Chem.MolFromSmiles("CCCCO")
    one = Similarity(
        np.empty((0, 3), dtype=int), np.empty(0), 1.0, (FixedPart("prior", 1.0),), 2
    )
    infos = [{7: ((4, 1),), 9: ((0, 0), (1, 0))}] * 2
    display = MoleculesDisplay.from_estimator(
        one, [2, 3], [2, 1], [molecule] * 2, infos, columns={7: 0, 9: 1}
    )
    assert_allclose(display.shares[0], [1.5, 1.5, 0, 2, 2])


def test_what_belongs_to_no_atom_is_shown():
    molecule, x, info = fingerprint(MOLECULES[0])
    x = np.append(x, 2.0)  # a column that is no fragment, such as the weight
    display = MoleculesDisplay.from_estimator(
        similarity(N_BITS + 1), x, x, [molecule] * 2, [info] * 2
    )
    for atoms, elsewhere in zip(display.shares, display.elsewhere, strict=True):
        assert elsewhere > 0
        assert atoms.sum() + elsewhere == pytest.approx(display.total)
    assert "of no atom" in display.ax_.get_title()


def test_bit_info_of_another_molecule_is_refused():
    (x_molecule, x, _), (_, y, y_info) = map(fingerprint, ["CO", MOLECULES[0]])
    with pytest.raises(ValueError, match=r"bit_info names atom .* 2 atoms"):
        MoleculesDisplay.from_estimator(
            similarity(), y, y, [x_molecule] * 2, [y_info] * 2
        )
    with pytest.raises(ValueError, match="molecules must be two"):
        MoleculesDisplay.from_estimator(similarity(), x, y, [x_molecule], [y_info] * 2)


def test_without_rdkit_the_message_says_how_to_install_it(monkeypatch):
    molecule, x, info = fingerprint("CO")
    monkeypatch.setitem(sys.modules, "rdkit.Chem", None)
    with pytest.raises(ImportError, match=r"pip install hdsl\[molecules\]"):
        MoleculesDisplay.from_estimator(similarity(), x, x, [molecule] * 2, [info] * 2)
