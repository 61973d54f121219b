"""What left the package says where it is."""

import importlib

import numpy as np
import pytest

import hdsl
from hdsl.files import container


@pytest.mark.parametrize("name", ["LocalHDSL", "SimilarityClassifier", "baselines"])
def test_a_name_that_moved_says_where_it_is(name):
    with pytest.raises(AttributeError, match="no longer in the package") as caught:
        getattr(hdsl, name)
    assert name not in dir(hdsl)
    module = str(caught.value).rsplit(" ", 1)[1].rstrip(".")
    moved = importlib.import_module(module)
    assert name == "baselines" or hasattr(moved, name)


def test_a_file_of_a_kind_that_moved_says_what_to_do(tmp_path):
    path = tmp_path / "model.hdsl"
    container.write(path, {"sizes": np.arange(3)}, {"kind": "LocalHDSL"})
    with pytest.raises(ValueError, match=r"fit again, with reproduce\.local_hdsl"):
        hdsl.load(path)
