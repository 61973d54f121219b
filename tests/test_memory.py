"""The refusal of a job that needs more memory than there is."""

import pickle

from hdsl import memory


def test_not_enough_memory_can_be_pickled():
    error = memory.NotEnoughMemory("The fit", 3 * 2**30, 2**30, True, ("a", "b", "c"))
    assert str(error) == (
        "The fit needs about 3.0 GiB, but only 1.0 GiB are allowed by memory_limit. A, b, or c."
    )
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
