"""How long the parts of a fit take before its first iteration, as messages of a log.

The logger ``hdsl.dask`` tells at level INFO when a part begins and how long it took, so a fit that
seems to stand says where.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger("hdsl.dask")


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Tell the log that a part of the work begins, and how long it took."""
    log.info("%s ...", name)
    begin = time.perf_counter()
    yield
    log.info("%s: %.2f s", name, time.perf_counter() - begin)
