"""
Molecules from SMILES
=====================

You learn how to turn SMILES into sparse rows, learn which molecules have a similar
activity, and read which fragments decide it. The molecules are 1,017 of one series
(CHEMBL2321810) with their measured activity, a file that comes with RDKit.

It needs one more package: ``pip install rdkit``, or ``pip install ".[molecules]"`` in a
clone.
"""

# %%
import csv
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.model_selection import train_test_split

from hdsl import HDSL, Mining
from hdsl.evaluate import knn_error
from hdsl.plots import MoleculesDisplay

try:
    from rdkit import Chem, RDConfig
    from rdkit.Chem import rdFingerprintGenerator
except ImportError as error:
    print(f"This example needs RDKit ({error}): pip install rdkit")
    sys.exit(0)

# %%
# From SMILES to rows
# -------------------
# A Morgan fingerprint lists the fragments around each atom. A fragment is a feature,
# and its name is the SMILES of the bonds around one atom that has it. A molecule is
# potent from an activity of 7 on, in the unit of the file.

folder = Path(RDConfig.RDContribDir) / "FreeWilson" / "data"
with (folder / "CHEMBL2321810_act.csv").open(encoding="utf-8") as file:
    activity = {line["Name"]: float(line["Act"]) for line in csv.DictReader(file)}
lines = [
    line.split()
    for line in (folder / "CHEMBL2321810.smi").read_text(encoding="utf-8").splitlines()
    if line.strip()
]
molecules = [Chem.MolFromSmiles(smiles) for smiles, _ in lines]
y = np.where([activity[name] >= 7 for _, name in lines], "potent", "weak")

generator = rdFingerprintGenerator.GetMorganGenerator(radius=2)
fragments = {}
bit_info = []
rows = []
for molecule in molecules:
    output = rdFingerprintGenerator.AdditionalOutput()
    output.AllocateBitInfoMap()
    generator.GetSparseFingerprint(molecule, additionalOutput=output)
    bit_info.append(output.GetBitInfoMap())
    for bit, ((atom, radius), *_) in bit_info[-1].items():
        if bit not in fragments:
            bonds = (
                Chem.FindAtomEnvironmentOfRadiusN(molecule, radius, atom)
                if radius
                else ()
            )
            part = Chem.PathToSubmol(molecule, bonds) if len(bonds) else None
            symbol = molecule.GetAtomWithIdx(atom).GetSymbol()
            fragments[bit] = Chem.MolToSmiles(part) if part else symbol
    rows.append({str(bit): 1.0 for bit in bit_info[-1]})
vectorizer = DictVectorizer()
X = vectorizer.fit_transform(rows)
columns = {int(bit): column for bit, column in vectorizer.vocabulary_.items()}
names = [
    f"{fragments[int(bit)]} #{k}" for k, bit in enumerate(vectorizer.feature_names_)
]
print(
    f"{X.shape[0]} molecules, {X.shape[1]} fragments, {np.mean(y == 'potent'):.0%} "
    "potent."
)

# %%
# Learn from one half, test on the other
# --------------------------------------
# Errors of 3 nearest neighbours for three ways to halve the molecules. The gain is
# small, and within chance in the first: molecules of one series are alike, and the
# nearest one is often a sibling.

print("\nsplit   cosine   learned")
for split in range(3):
    learn, test = train_test_split(
        np.arange(len(y)), test_size=0.5, stratify=y, random_state=split
    )
    model = HDSL(mining=Mining(n_targets=5, n_impostors=5), random_state=0).fit(
        X[learn], y[learn]
    )
    errors = (
        knn_error(similarity, X[learn], y[learn], X[test], y[test], cosine=True)
        for similarity in (None, model)
    )
    print(f"{split:<6}" + "".join(f"{error:9.1%}" for error in errors))

# %%
# Fragments that matter
# ---------------------
# Pairs of fragments by their effect on the similarity, each in at least ten molecules.
# A plus: one stands for the other. A minus: they tell potent from weak molecules.

pairs = model.importance(X, feature_names=names).pairs
frequent = np.asarray((X > 0).sum(axis=0)).ravel() >= 10
pairs = pairs[frequent[pairs["i"]] & frequent[pairs["j"]]][:12][::-1]
for pair in pairs[::-1][:6]:
    print(f"{pair['weight']:+8.1f}  {pair['name']}")
fig, ax = plt.subplots(figsize=(9, 4.2), layout="constrained")
colors = np.where(pairs["weight"] > 0, "#0072B2", "#D55E00")
ax.barh(pairs["name"], pairs["weight"], color=colors)
ax.axvline(0, color="0.5", lw=0.8)
ax.set(xlabel="weight of the pair of fragments")

# %%
# Where two molecules match
# -------------------------
# Of potent molecules that the model has not seen, each with the weak one that is nearest
# by cosine, this is the pair that is least alike as learned. An atom is blue where its
# fragments speak for a match, and red where they speak against one. The atoms of each
# molecule add up to the similarity.

potent = test[y[test] == "potent"]
weak = learn[y[learn] == "weak"]
cosine = (model.index_rows(X[potent]) @ model.index_rows(X[weak]).T).toarray()
nearest = weak[cosine.argmax(axis=1)]
least = model.pair_score(X[potent], X[nearest], cosine=True).argmin()
query = potent[least]
neighbor = nearest[least]
display = MoleculesDisplay.from_estimator(
    model,
    X[[query]],
    X[[neighbor]],
    molecules=[molecules[query], molecules[neighbor]],
    bit_info=[bit_info[query], bit_info[neighbor]],
    columns=columns,
)
print(
    f"\nThe atoms add up to {display.shares[0].sum():.3f} and "
    f"{display.shares[1].sum():.3f}; the similarity is {display.total:.3f}."
)
plt.show()
