"""Arrays whose memory serves again: new memory is slow at first."""

import weakref

import numpy as np


class _Loan(weakref.ref):
    """A reference that outlives an array, and has its memory."""

    memory: np.ndarray


class ArrayPool:
    """Arrays of one length, whose memory serves again when nobody has them anymore.

    Parameters
    ----------
    length : int

    Examples
    --------
    >>> pool = ArrayPool(3)
    >>> pool.empty().shape
    (3,)
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._loans: dict[int, _Loan] = {}
        self._returned: list[_Loan] = []

    def empty(self) -> np.ndarray:
        """Return an array whose values are open."""
        memory = self._memory()
        array = np.frombuffer(memory.data)  # views keep it alive, and not `memory`
        # No Python runs where an array is freed: an interrupt there would be lost.
        loan = _Loan(array, self._returned.append)
        loan.memory = memory
        self._loans[id(loan)] = loan
        return array

    def _memory(self) -> np.ndarray:
        """Return the memory of an array that is gone, or new memory."""
        if not self._returned:
            return np.empty(self._length)
        loan = self._returned.pop()
        del self._loans[id(loan)]
        return loan.memory
