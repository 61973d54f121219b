"""One NVIDIA GPU: the same ``Layout``, ``Problem`` and ``Gradient`` with arrays on the card."""
