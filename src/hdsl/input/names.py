"""Names of columns that have none."""

import numpy as np

from .. import memory

#: Memory that the name of a column takes, as a Python string in an array.
BYTES_PER_NAME = 64


def numbered_names(n_features: int, why: str) -> np.ndarray:
    """Return x0, x1, …; raise ValueError where so many names do not fit in memory.

    `why` says what needs them, as the start of the message.
    """
    needed = BYTES_PER_NAME * n_features
    free = memory.available()
    if free is not None and needed > free:
        raise ValueError(
            f"{why}: the names of {n_features} columns need about "
            f"{memory.format_bytes(needed)}, but only {memory.format_bytes(free)} are "
            "free."
        )
    return np.array([f"x{i}" for i in range(n_features)], dtype=object)
