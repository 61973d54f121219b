"""The paper's recovery experiment: the hidden similarity, read back from judgements.

Run it with ``python -m hdsl.experiments.recovery``.
"""

from __future__ import annotations

import numpy as np

from ..datasets import make_recovery
from ..estimators import HDSL
from ..evaluate import recovery_auc


def main(alpha: float = 0.2, max_iter: int = 600) -> HDSL:
    """Make the data, learn, and print what was learned beside what was hidden."""
    print(
        "A hidden similarity of 100 pairs of features judges 30,000 triplets of 5,000 sparse rows."
    )
    truth = make_recovery(alpha=alpha, random_state=0)
    print(
        f"X is {truth.X.shape[0]} x {truth.X.shape[1]} with {truth.X.nnz} non-zeros. Learning ..."
    )
    model = HDSL(scale=100.0, prior=0.0, max_iter=max_iter, random_state=0, n_jobs=-1, verbose=1)
    model.fit(truth.X, triplets=truth.triplets)

    print("\niteration  objective  atoms  features  feature AUC  entry AUC")
    for k in sorted({*np.minimum([10, 50, 100, 200, 400, 600], model.n_iter_), model.n_iter_}):
        step, auc = model.trace_[k], recovery_auc(model.at(int(k)).matrix(), truth.matrix)
        print(
            f"{k:9d}  {step['objective']:9.4f}  {step['n_atoms']:5d}  {step['n_features']:8d}"
            f"  {auc.features:11.4f}  {auc.entries:9.4f}"
        )
    print(f"\nStopped: {model.status_}, gap {model.gap_:.1e}. The strongest pairs learned:")
    names = model.get_feature_names_out()
    hidden = {tuple(atom): weight for atom, weight in zip(truth.atoms, truth.weights, strict=True)}
    for k in np.argsort(-model.weights_)[:10]:
        true = hidden.get(tuple(model.atoms_[k]))
        note = f"hidden weight {true:.3f}" if true is not None else "not among the hidden"
        print(f"  {names[k]:14s} weight {model.weights_[k]:.3f}   {note}")
    right = sum(tuple(atom) in hidden for atom in model.atoms_)
    print(f"{right} of the {len(hidden)} hidden pairs are among the {len(model.weights_)} learned.")
    return model


if __name__ == "__main__":
    main()
