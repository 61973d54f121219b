"""Properties that are found once."""

import threading
from concurrent.futures import ThreadPoolExecutor

from hdsl.cached import cached


def test_objects_on_several_threads_do_not_wait_for_each_other():
    both = threading.Barrier(2, timeout=30)

    class Meeting:
        @cached
        def found(self):
            return both.wait() in (0, 1)

    with ThreadPoolExecutor(2) as pool:
        assert list(
            pool.map(lambda meeting: meeting.found, (Meeting(), Meeting()))
        ) == [
            True,
            True,
        ]
