"""The paper's experiments and some beyond it, one module each, and what they need.

``python -m reproduce NAME …`` runs them; `experiments` says what a module offers.
"""
