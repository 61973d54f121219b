"""Settings for all tests: one BLAS thread a process, and the profiles of hypothesis.

`default` is for every run; HYPOTHESIS_PROFILE=thorough searches long and at random, and
HYPOTHESIS_PROFILE=quick reports a failure as it was found, without looking for a smaller one.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
import scipy.linalg  # noqa: F401  its BLAS must be there before it can be limited
from hypothesis import HealthCheck, Phase, settings
from threadpoolctl import threadpool_limits

os.environ.pop("NUMBA_NUM_THREADS", None)  # how many threads there are is for the tests to say

# Two test processes on two cores: more BLAS threads than cores wait for each other.
threadpool_limits(1, user_api="blas")

settings.register_profile(
    "default",
    max_examples=60,
    deadline=None,  # the first call of a kernel may compile it
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough",
    settings.get_profile("default"),
    max_examples=2000,
    derandomize=False,
    print_blob=True,
)
settings.register_profile(
    "quick", settings.get_profile("default"), phases=[Phase.explicit, Phase.generate]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture
def lockable():
    """Yield a folder, and a function after which nothing can be written into it."""
    if os.name != "posix":
        pytest.skip("needs POSIX permissions")
    folder, user = Path(tempfile.mkdtemp()), os.geteuid()

    def lock():
        folder.chmod(0o555)
        if user == 0:  # who may write everywhere
            os.seteuid(65534)

    folder.chmod(0o777)
    yield folder, lock
    os.seteuid(user)
    shutil.rmtree(folder)
