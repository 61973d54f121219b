"""The algorithm: atoms, losses, oracles, steps, the Frank-Wolfe loop; no files, no scikit-learn."""
