"""The synthetic problems, and the loaders of real data."""

import bz2
import inspect
import os
from collections import Counter
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import sklearn.datasets
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils import Bunch

from reproduce import nips2003
from reproduce.datasets import (
    load_dexter,
    load_dorothea,
    load_rcv1,
    load_rcv1_4,
    make_links,
    make_recovery,
)

# --- similarity recovery --------------------------------------------------------------

SMALL = {
    "n_rows": 80,
    "n_features": 120,
    "n_triplets": 500,
    "density": 0.2,
    "n_atoms": 31,
}


def small(random_state=0, **changes):
    return make_recovery(
        **{**SMALL, "block_size": 20, **changes}, random_state=random_state
    )


def defaults(function):
    parameters = inspect.signature(function).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters}


def test_recovery_has_the_sizes_of_the_paper_by_default():
    expected = {
        "n_rows": 5000,
        "n_features": 2000,
        "n_triplets": 30_000,
        "n_atoms": 100,
    }
    assert (
        defaults(make_recovery).items()
        >= {**expected, "density": 0.02, "alpha": 0.2}.items()
    )
    X, triplets, M, atoms, weights = make_recovery(
        n_rows=500, n_triplets=300, random_state=0
    )
    assert X.shape == (500, 2000)
    assert triplets.shape == (300, 3)
    assert M.shape == (2000, 2000)
    assert atoms.shape == (100, 3)
    assert weights.shape == (100,)
    # A million draws: the density is within five standard deviations of 2 %.
    assert X.nnz / 1e6 == pytest.approx(0.02, abs=5 * np.sqrt(0.02 * 0.98 / 1e6))


def test_atoms_are_distinct_pairs_inside_two_blocks():
    _, _, _, atoms, weights = small()
    i, j, sign = atoms.T
    assert (i < j).all()
    assert set(sign) == {-1, 1}
    assert len({*zip(i, j, strict=True)}) == SMALL["n_atoms"]
    first = (i >= 12) & (j < 32)
    second = (i >= 72) & (j < 92)
    assert (first | second).all()
    assert abs(int(first.sum()) - int(second.sum())) == 1
    assert (weights > 0).all()
    assert weights.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_judgements_are_those_of_the_hidden_similarity(alpha):
    truth = small(alpha=alpha)
    X = truth.X.toarray()
    M = truth.matrix.toarray()
    S = X @ M @ X.T
    anchor, positive, negative = truth.triplets.T
    for a, p, q in truth.triplets:
        assert len({a, p, q}) == 3
    near = S[anchor, positive]
    far = S[anchor, negative]
    assert (near >= far - 1e-12).all()
    # Equal similarities may be ranked either way; otherwise the ranks say who can be
    # drawn.
    share = max(1, int(alpha * (len(X) - 1)))
    np.fill_diagonal(S, np.nan)
    assert ((S[anchor] > near[:, None] + 1e-12).sum(axis=1) < share).all()
    assert ((S[anchor] < far[:, None] - 1e-12).sum(axis=1) < share).all()


@pytest.mark.parametrize("make", ["small", "few_links"])
def test_made_data_follow_the_seed(make):
    make = globals()[make]
    for a, b in zip(make(0), make(0), strict=True):
        assert_array_equal(*(M.toarray() if sp.issparse(M) else M for M in (a, b)))
    assert (make(0).atoms != make(1).atoms).any()
    assert (make(0).X != make(1).X).nnz


def test_noise_turns_judgements_round():
    clean = small().triplets
    noisy = small(noise=0.3).triplets
    turned = (clean != noisy).any(axis=1)
    assert_array_equal(noisy[turned], clean[turned][:, [0, 2, 1]])
    # 500 draws, five standard deviations.
    assert turned.mean() == pytest.approx(0.3, abs=0.1)


def test_correlation_copies_values_to_the_right():
    X = small(n_rows=1000, correlation=0.7).X.toarray()
    apart = np.mean(
        [np.corrcoef(X[:, k : k + 4].T)[0, 1:] for k in (20, 40, 60, 80)], axis=0
    )
    assert_allclose(apart, [0.7, 0.49, 0.343], atol=5 / np.sqrt(4000))
    assert (X > 0).mean() == pytest.approx(SMALL["density"], abs=0.01)  # as without
    assert X.max() <= 1


# --- signed links ---------------------------------------------------------------------


def few_links(random_state=0, **changes):
    sizes = {
        "n_nodes": 120,
        "n_features": 900,
        "n_links": 101,
        "n_atoms": 30,
        "density": 0.05,
    }
    return make_links(**{**sizes, **changes}, random_state=random_state)


def test_links_have_the_sizes_of_the_paper_by_default():
    made = make_links(random_state=0)
    assert made.X.shape == (500, 5000)
    assert made.X.nnz / made.X.shape[0] / made.X.shape[1] == pytest.approx(
        0.02, rel=0.02
    )
    assert made.links.shape == (3000, 2)
    for part in (made.train, made.valid, made.test):
        assert Counter(made.signs[part].tolist()) == {1: 500, -1: 500}
    assert sorted([*made.train, *made.valid, *made.test]) == list(range(3000))
    assert made.atoms.shape == (100, 3)


def test_frequencies_follow_a_power_law():
    X = make_links(2000, 3000, density=0.02, n_links=10, n_atoms=20, random_state=0).X
    assert X.data.min() > 0
    assert X.data.max() <= 1
    assert X.data.mean() == pytest.approx(0.5, abs=5 / np.sqrt(12 * X.nnz))
    frequency = np.sort((X != 0).sum(axis=0) / 2000)[::-1]
    c = frequency[20:100] * np.arange(21, 101)  # frequency times rank
    assert c.std() / c.mean() < 0.1
    # The columns themselves are in random order.
    assert abs(np.corrcoef((X != 0).sum(axis=0), np.arange(3000))[0, 1]) < 0.1


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_links_are_those_of_the_hidden_similarity(share):
    made = few_links(share=share)
    X = made.X.toarray()
    M = made.matrix.toarray()
    S = X @ M @ X.T
    first, second = made.links.T
    assert (first != second).all()
    assert len({frozenset(pair) for pair in made.links.tolist()}) == 303
    assert 100 < (first < second).sum() < 203  # either end comes first
    similar = S[first, second]
    np.fill_diagonal(S, np.nan)
    count = int(share * 119)
    for sign, value, a, b in zip(made.signs, similar, first, second, strict=True):
        better = [int((sign * (S[end] - value) > 1e-12).sum()) for end in (a, b)]
        assert min(better) < count  # in the best share of one end
        worse = [int((sign * (value - S[end]) > 1e-12).sum()) for end in (a, b)]
        # And in the worst of none; the two ends of the last pair may round its value
        # differently.
        assert min(worse) >= count - 1


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (small, {"n_rows": 2}, "n_rows"),
        (small, {"alpha": np.nan}, "alpha"),
        (small, {"noise": 0.6}, "noise"),
        (small, {"correlation": 1}, "correlation"),
        (small, {"n_features": 79}, "do not fit"),
        (few_links, {"n_links": 1.5}, "n_links"),
        (few_links, {"density": 0.0}, "density"),
        (few_links, {"n_links": 5000}, "raise n_nodes"),
        (few_links, {"density": 0.001}, "raise density"),
    ],
)
def test_bad_sizes_are_refused(make, changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes)


# --- the paper's real data ------------------------------------------------------------

SETS = {
    load_dexter: ("dexter", (300, 300, 2000), 20_000),
    load_dorothea: ("dorothea", (800, 350, 800), 100_000),
    load_rcv1: ("rcv1_binary", (12_145, 4_048, 4_049), 47_236),
    load_rcv1_4: ("rcv1_4", (3_850, 2_888, 2_887), None),
}
SHARED = Path(
    os.environ.get("HDSL_DATA", Path(__file__).parents[3] / "shared" / "data")
)
loaders = pytest.mark.parametrize("load", SETS, ids=lambda load: load.__name__)


@pytest.fixture
def no_network(monkeypatch):
    def fail(*args, **kwargs):
        raise URLError("no network in tests")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fail)
    monkeypatch.setattr(sklearn.datasets, "fetch_rcv1", fail)


def rows_of(n, width, seed=0):
    """Return n rows with two ones each."""
    rng = np.random.default_rng(seed)
    columns = np.sort(rng.choice(width, size=(n, 2)), axis=1)
    columns[:, 1] += columns[:, 0] == columns[:, 1]
    columns %= width
    X = sp.csr_array(
        (np.ones(2 * n), columns.ravel(), np.arange(0, 2 * n + 1, 2)), (n, width)
    )
    X.sum_duplicates()
    return X


@loaders
def test_real_data_have_the_known_shapes(load, no_network):
    folder, sizes, width = SETS[load]
    if not (SHARED / folder).is_dir():
        pytest.skip(f"no {folder} in {SHARED}")
    data = load(SHARED)
    for part, n in zip(("train", "valid", "test"), sizes, strict=True):
        assert data[f"X_{part}"].shape == (n, width or data.X_train.shape[1])
        assert data[f"X_{part}"].dtype == np.float64
    assert_array_equal(
        np.unique(data.y_train), range(4) if load is load_rcv1_4 else [-1, 1]
    )
    assert (data.y_test is None) == (load in (load_dexter, load_dorothea))
    assert data.source == str(SHARED / folder)
    assert folder.partition("_")[0] in data.DESCR


@loaders
def test_missing_data_are_reported_with_the_places_searched(load, no_network, tmp_path):
    download = load in (load_dexter, load_rcv1)
    reason = "no network in tests" if download else "download=False"
    with pytest.raises(
        FileNotFoundError, match=rf"{reason}.*Get the files from http"
    ) as caught:
        load(tmp_path, download=download)
    message = str(caught.value)
    assert str(tmp_path / SETS[load][0]) in message
    assert "X_train.npz" in message


def save_folder(folder, sizes, width, labelled=True):
    folder.mkdir()
    for part, n in zip(("train", "valid", "test"), sizes, strict=True):
        unlabelled = part == "test" and not labelled
        sp.save_npz(
            folder / f"X_{part}{'_unlabelled' * unlabelled}.npz", rows_of(n, width)
        )
        if not unlabelled:
            np.save(folder / f"y_{part}.npy", np.arange(n) % 2)


@loaders
def test_folders_of_stored_parts_are_read_and_checked(
    load, no_network, tmp_path, monkeypatch
):
    folder, sizes, width = SETS[load]
    save_folder(tmp_path / folder, sizes, width or 50, labelled=load is not load_dexter)
    monkeypatch.setenv("HDSL_DATA", str(tmp_path))
    data = load()
    assert data.X_test.shape == (sizes[2], width or 50)
    assert (data.y_test is None) == (load is load_dexter)
    np.save(tmp_path / folder / "y_valid.npy", np.arange(7))
    with pytest.raises(
        ValueError, match=rf"y_valid of .* must have {sizes[1]} rows and labels"
    ):
        load()
    sp.save_npz(tmp_path / folder / "X_train.npz", rows_of(9, width or 50))
    with pytest.raises(ValueError, match=rf"X_train .*{sizes[0]} rows.* Got \(9, "):
        load()


@pytest.mark.parametrize("name", ["dexter", "dorothea"])
def test_the_files_of_the_challenge_are_converted(name, no_network, tmp_path):
    load = {"dexter": load_dexter, "dorothea": load_dorothea}[name]
    _, sizes, width = SETS[load]
    mark = ":1" if name == "dexter" else ""
    parts = dict(
        zip(("train", "valid"), (rows_of(n, width, n) for n in sizes), strict=False)
    )
    for part, rows in parts.items():
        lines = (" ".join(f"{j + 1}{mark}" for j in row.indices) for row in rows)
        (tmp_path / f"{name}_{part}.data").write_text(
            "".join(f"{line} \n" for line in lines)
        )
        (tmp_path / f"{name}_{part}.labels").write_text(
            "1\n-1\n" * (rows.shape[0] // 2)
        )
    nips2003.convert(tmp_path, name)
    data = load(tmp_path)
    assert abs(data.X_train - parts["train"]).sum() == 0
    assert data.y_valid[:2].tolist() == [1, -1]
    assert data.X_test is data.y_test is None


def test_the_file_of_libsvm_is_read_and_split(no_network, tmp_path):
    numbers = np.arange(20_242)
    text = "".join(f"{1 - 2 * (k % 2)} {k + 1}:0.5\n" for k in numbers)
    (tmp_path / "rcv1_train.binary.bz2").write_bytes(bz2.compress(text.encode()))
    data = load_rcv1(tmp_path)
    rows = np.concatenate(
        [X.indices for X in (data.X_train, data.X_valid, data.X_test)]
    )
    assert sorted(rows) == numbers.tolist()
    assert rows[:50].tolist() != list(range(50))
    y = np.concatenate([data.y_train, data.y_valid, data.y_test])
    assert_array_equal(y, 1 - 2 * (rows % 2))
    assert_array_equal(load_rcv1(tmp_path).X_train.indices, data.X_train.indices)
    (tmp_path / "rcv1_train.binary.bz2").write_bytes(bz2.compress(b"1 1:1\n" * 9))
    with pytest.raises(
        ValueError, match=r"rcv1_train\.binary\.bz2 has 9 rows, .* 20242 are needed"
    ):
        load_rcv1(tmp_path)


def test_the_file_of_deng_cai_is_read(no_network, tmp_path):
    gnd = np.arange(9625) % 4 + 1
    content = {
        "fea": sp.csc_array((gnd.astype(float), (range(9625), gnd - 1))),
        "gnd": gnd[:, None],
    }
    scipy.io.savemat(tmp_path / "RCV1_4Class.mat", content, do_compression=True)
    data = load_rcv1_4(tmp_path)
    assert data.X_train.shape == (3850, 4)
    assert_array_equal(data.X_train.indices, data.y_train)
    assert data.target_names == ("C15", "ECAT", "GCAT", "MCAT")


@pytest.mark.parametrize("load", [load_dexter, load_dorothea])
def test_openml_rows_are_split_and_checked(load, monkeypatch, tmp_path):
    name, (n_train, n_valid, _), width = SETS[load]
    positives = {load_dexter: (150, 150), load_dorothea: (78, 34)}[load]
    y = np.full(n_train + n_valid, "-1", dtype=object)
    y[: positives[0]] = y[n_train : n_train + positives[1]] = "1"
    X = sp.csr_matrix(rows_of(len(y), width))

    def fetch(**options):
        assert (options["name"], options["data_home"]) == (name, tmp_path)
        return Bunch(data=X, target=y)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    data = load(tmp_path)
    assert abs(data.X_train - X[:n_train]).sum() == 0
    assert abs(data.X_valid - X[n_train:]).sum() == 0
    assert isinstance(data.X_train, sp.csr_array)
    assert ((data.y_train == 1).sum(), (data.y_valid == 1).sum()) == positives
    assert data.y_train.dtype == np.int64
    assert data.X_test is data.y_test is None
    assert data.source == "OpenML"
    y[0] = "-1"
    with pytest.raises(FileNotFoundError, match="not in the known order"):
        load(tmp_path)


def reuters(topics, width):
    """Return what fetch_rcv1 returns: row k has the topics topics[k] and feature k modulo width."""
    names = np.array(["C11", "C15", "CCAT", "ECAT", "GCAT", "MCAT"], dtype=object)
    member = [
        (k, names.tolist().index(t))
        for k, row in enumerate(topics)
        for t in row.split()
    ]
    n = len(topics)
    target = sp.csr_matrix(
        (np.ones(len(member)), np.transpose(member)), shape=(n, len(names))
    )
    data = sp.csr_matrix(
        (np.ones(n), (range(n), np.arange(n) % width)), shape=(n, width)
    )
    return Bunch(data=data, target=target, target_names=names)


def test_fetched_rcv1_has_documents_of_one_side(monkeypatch, tmp_path):
    topics = (["CCAT", "CCAT GCAT", "ECAT CCAT C11", "MCAT", "GCAT MCAT"] * 5061)[
        :25_303
    ]

    def fetch(*, subset, data_home):
        assert (subset, data_home) == ("train", tmp_path)
        return reuters(topics, 47_236)

    monkeypatch.setattr(sklearn.datasets, "fetch_rcv1", fetch)
    data = load_rcv1(tmp_path)
    rows = np.concatenate(
        [X.indices for X in (data.X_train, data.X_valid, data.X_test)]
    )
    y = np.concatenate([data.y_train, data.y_valid, data.y_test])
    assert len(set(rows)) == len(rows) == 20_242
    assert {topics[row] for row in rows[y == 1]} == {"CCAT", "ECAT CCAT C11"}
    assert {topics[row] for row in rows[y == -1]} == {"MCAT", "GCAT MCAT"}
    topics[:] = topics[:20_000]
    with pytest.raises(FileNotFoundError, match="16000 rows, too few: 20242"):
        load_rcv1(tmp_path)


def test_fetched_rcv1_4_has_the_known_class_sizes(monkeypatch, tmp_path):
    topics = ["C15 CCAT", "ECAT", "GCAT C11", "MCAT", "GCAT MCAT", "CCAT"] * 3000
    found = reuters(topics, 20_000)
    monkeypatch.setattr(
        sklearn.datasets, "fetch_rcv1", lambda *, subset, data_home: found
    )
    data = load_rcv1_4(tmp_path)
    y = np.concatenate([data.y_train, data.y_valid, data.y_test])
    assert np.bincount(y).tolist() == [2022, 2064, 2901, 2638]
    assert data.X_train.shape == (
        3850,
        9625,
    )  # each document has a word of its own, and no other
    assert data.target_names == ("C15", "ECAT", "GCAT", "MCAT")
    again = load_rcv1_4(tmp_path)
    assert_array_equal(again.X_valid.indices, data.X_valid.indices)
    found.target = found.target @ sp.diags_array([1.0, 0, 1, 1, 1, 1]).tocsr()
    with pytest.raises(FileNotFoundError, match="fetch_rcv1 failed"):
        load_rcv1_4(tmp_path)
