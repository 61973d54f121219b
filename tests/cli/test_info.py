"""`hdsl info`: the machine, a model, and the memory that a fit needs."""

import scipy.sparse as sp

from commands import bad, told


def test_info(folder, rows_file):
    assert told("info")["cores"] >= 1
    facts = told("info", folder / "model.hdsl")
    assert (facts["documents"], facts["class scores"], facts["kind"]) == (90, 3, "HDSL")
    facts = told("info", rows_file)
    assert (facts["rows"], facts["features"], facts["triplets"]) == (60, 12, 6000)
    sp.save_npz(rows_file, sp.eye_array(20_500, 12, format="csr"))
    facts = told("info", rows_file)
    assert (facts["rows"], facts["triplets"]) == (20_500, 2_000_000)  # as a fit samples
    assert "--text" not in bad("info", folder / "texts.csv")
