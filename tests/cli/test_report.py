"""`hdsl report`: the page is of the rows that were learned from."""

import base64
import json
import re

import numpy as np
from numpy.testing import assert_array_equal

from commands import good, texts, told
from hdsl import load


def test_row_numbers_are_those_of_the_file(folder, tmp_path):
    """On the page too, which shows no rows that were held out."""
    good("report", folder / "model.hdsl", "-o", tmp_path / "r.html")
    page = json.loads(
        re.search(r'"data">(.*?)</script>', (tmp_path / "r.html").read_text())[1]
    )
    code = page["items"]["rows"]
    rows = np.frombuffer(base64.b64decode(code["bytes"]), dtype=code["type"])
    assert_array_equal(
        rows, np.flatnonzero(~load(folder / "model.hdsl").documents.is_new)
    )
    assert page["title"] == "texts"  # the name of the data
    assert page["items"]["texts"] == [texts()[row][2] for row in rows]
    shown = told("evaluate", folder / "model.hdsl")
    assert page["errors"]["before"] == shown["comparison"]["before"]
    assert page["errors"]["classifier"]["error"] == shown["error"]["LinearSVC"]
