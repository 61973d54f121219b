"""LocalHDSL: one similarity for all rows, and one more per region."""

import csv

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import AgglomerativeClustering, MiniBatchKMeans
from sklearn.utils.estimator_checks import parametrize_with_checks

import hdsl
import reference
from hdsl import HDSL, LocalHDSL, LocalHDSLCV, SimilarityKNeighborsClassifier
from hdsl.datasets import make_regions
from hdsl.files import checkpoint
from hdsl.files.container import read, write
from hdsl.local_similarity import Centers
from hdsl.monitor import label_score, triplet_score
from reproduce import reproduce
from reproduce.local import contradiction
from small_fits import (
    FORMS,
    STEPS,
    T_VAL,
    X_VAL,
    Y_VAL,
    T,
    X,
    Y,
    frame,
    interrupt_at,
    scored,
)

SMALL = {"max_iter": 40, "random_state": 0, "n_targets": 2, "n_impostors": 2}


def small(n_regions=2, **parameters):
    return LocalHDSL(n_regions, **{**SMALL, **parameters})


@pytest.fixture(scope="module")
def model():
    return small(3, scale=2.0, local_scale=2.0, prior=0.1).fit(X, Y)


@pytest.fixture(scope="module")
def task():
    return contradiction(800)


CHECKED = parametrize_with_checks(
    [LocalHDSL(2, max_iter=20), LocalHDSLCV((0, 2), estimator=small(max_iter=5), cv=2)]
).args


@pytest.mark.parametrize(CHECKED[0], list(CHECKED[1]))  # scikit-learn 1.6 makes a generator
@pytest.mark.filterwarnings("ignore::UserWarning")  # small classes
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def dense_similarity(model, A, B):
    """Return S by dense matrices, row by row."""
    shared = reference.model_matrix(model.atoms_, model.weights_, A.shape[1], model.scale_)
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (A, B)]
    S = np.empty((len(A), len(B)))
    for k, region in enumerate(model.region(A)):
        own = model.local_atoms_[region], model.local_weights_[region]
        local = reference.model_matrix(*own, A.shape[1], model.local_scale_)
        S[k] = unit[0][k] @ (shared + local + model.prior_ * np.eye(A.shape[1])) @ unit[1].T
    return S


# --- what is learned -----------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_way_to_compare_is_the_same_similarity(model, form):
    A, B = X[:15], X_VAL
    S, tolerance = dense_similarity(model, A, B), {"rtol": 1e-4, "atol": 1e-5}
    assert len(np.unique(model.region(A))) > 1
    assert_allclose(model.similarity(form(A), form(B)), S, **tolerance)
    products = model.rewrite(form(A)) @ model.index_rows(form(B)).T
    assert_allclose(products.toarray() if sp.issparse(products) else products, S, **tolerance)
    assert_allclose(model.pair_score(form(A), form(A)), np.diag(dense_similarity(model, A, A)),
                    **tolerance)  # fmt: skip
    for region in range(3):
        own = model.region(A) == region
        queries, others = (model.transform(form(Z), region=region) for Z in (A[own], B))
        found = queries @ others.T
        assert_allclose(found.toarray() if sp.issparse(found) else found, S[own], **tolerance)
    knn = SimilarityKNeighborsClassifier(1, similarity=model).fit(form(B), np.arange(len(B)))
    assert_array_equal(knn.predict(form(A)), S.argmax(axis=1))


def test_transform_compares_rows_of_a_region_by_its_similarity(model):
    Z, regions = model.transform(X), model.region(X)
    assert Z.shape[1] == len(model.get_feature_names_out())
    S = dense_similarity(model, X, X)
    same = regions[:, None] == regions
    assert_allclose((Z @ Z.T)[same], S[same], atol=1e-9)
    shared = small(0).fit(X, Y)
    assert shared.transform(X).shape[1] == len(shared.weights_) + X.shape[1]


@pytest.mark.parametrize("step", STEPS)
def test_objective_and_gap_are_those_of_dense_matrices(step):
    regions = np.arange(len(X)) % 3
    model = small(regions=regions, norm=None, scale=0.3, local_scale=0.1, prior=0.05, step=step,
                  tol=1e-3 if step == "forward" else 1e-4, max_iter=2000)  # fmt: skip
    model.fit(X, triplets=T)
    dense = reference.Problem(X, T, "smoothed_hinge", 0.3, 0.05)
    dense = reference.ProductProblem(dense, regions[T[:, 0]], 0.1)
    blocks = [(model.atoms_, model.weights_),
              *zip(model.local_atoms_, model.local_weights_, strict=True)]  # fmt: skip
    assert model.status_ == "optimal"
    assert model.gap_is_exact_
    assert model.gap_ == pytest.approx(dense.gap(blocks), abs=1e-9)
    assert model.objective_ == pytest.approx(dense.problem.value(dense.margins(blocks)), rel=1e-9)


def test_without_regions_it_is_hdsl():
    parameters = {**SMALL, "step": "away", "oracle": "exact"}
    plain, local = HDSL(**parameters).fit(X, Y), LocalHDSL(0, **parameters).fit(X, Y)
    assert_array_equal(local.atoms_, plain.atoms_)
    assert_allclose(local.weights_, plain.weights_, rtol=1e-9)
    assert (local.scale_, local.prior_, local.n_regions_) == (plain.scale_, plain.prior_, 0)
    assert_allclose(local.similarity(X), plain.similarity(X), rtol=1e-9, atol=1e-12)
    assert_array_equal(local.region(X), -1)


def test_contradicting_regions_need_local_parts(task):
    """A word pair pulls together in one region and apart in the other."""

    def error(model):
        knn = SimilarityKNeighborsClassifier(3, similarity=model, cosine=True)
        return 1 - knn.fit(task.X, task.y).score(task.X_test, task.y_test)

    plain, local = (
        error(LocalHDSL(n, max_iter=200, random_state=0).fit(**task.learn)) for n in (0, 2)
    )
    assert plain > 0.2
    assert local <= 0.7 * plain


def test_k_means_finds_the_regions_and_their_names(task):
    made = make_regions(800, random_state=0)
    model = LocalHDSL(2, max_iter=20, random_state=0).fit(**task.learn)
    assigned = model.region(made.X)
    agree = (assigned == made.regions).mean()
    assert max(agree, 1 - agree) > 0.95
    names = [f"word{i}" if i < 36 else f"mark{(i - 36) // 8}" for i in range(made.X.shape[1])]
    named = model.region_names(names)
    assert {name[:5] for name in named} == {"mark0", "mark1"}
    why = model.explain(made.X[[0]], made.X[[1]], feature_names=names)
    assert repr(why).startswith(f"In the region of {named[assigned[0]]}: S(x, y) = ")
    assert why.total == pytest.approx(model.similarity(made.X[[0]], made.X[[1]])[0, 0])
    rather = model.explain(made.X[[0]], made.X[[1]], rather_than=made.X[[2]], feature_names=names)
    assert "S(x, y) - S(x, z)" in repr(rather)
    learned = model.importance(region=0).pairs
    assert len(learned) >= len(model.importance().pairs)


# --- regions -------------------------------------------------------------------------------------


def test_any_clusterer_with_predict_makes_regions():
    model = small(regions=MiniBatchKMeans(3, n_init=1)).fit(X, Y)
    again = small(regions=MiniBatchKMeans(3, n_init=1)).fit(sp.csr_array(X), Y)
    assert model.n_regions_ == len(model.local_atoms_) <= 3
    assert_array_equal(model.region(X), again.region(sp.csr_array(X)))
    assert model.region_names()[0] == "region 0"
    assert repr(model.explain(X[0], X[1])).startswith("In region ")
    assert model.region_sizes_.sum() == len(X)


def test_rows_of_an_unknown_region_are_compared_by_the_shared_part():
    class Thirds(MiniBatchKMeans):
        def fit(self, X, y=None):
            return self

        def predict(self, X):
            return np.where(np.asarray(X.sum(axis=1)).ravel() > 5, 99, np.arange(X.shape[0]) % 2)

    model = small(regions=Thirds()).fit(X, Y)
    assert model.n_regions_ == 2
    far = np.zeros((1, X.shape[1]))
    far[0, :4] = 1.0
    assert_array_equal(model.region(X[:4]), [0, 1, 0, 1])
    similarity = model.similarity_
    assert similarity.of(-1) is similarity.shared
    assert "region" not in repr(small(0).fit(X, Y).explain(X[0], X[1]))


def test_given_regions_are_used_and_new_rows_have_that_of_the_nearest_mean():
    given = np.where(X[:, 0] > X[:, 1], "left", "right")
    model = small(regions=given).fit(X, Y)
    assert model.n_regions_ == 2
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    means = np.array([unit[given == name].mean(axis=0) for name in ("left", "right")])
    assert_allclose(model.regions_.centers.toarray(), means)
    new = X_VAL / np.linalg.norm(X_VAL, axis=1, keepdims=True)
    nearest = ((new[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert_array_equal(model.region(X_VAL), nearest)


def test_a_region_without_triplets_has_no_part_of_its_own():
    regions = np.arange(len(X)) % 3
    triplets = T[regions[T[:, 0]] != 1]
    model = small(regions=regions, prior=0.0).fit(X, triplets=triplets)
    assert len(model.local_weights_[1]) == 0
    assert len(model.local_weights_[2]) > 0
    assert set(model.trace_["block"].tolist()) <= {0, 1, 3}
    assert model.matrix(1).nnz == model.matrix().nnz


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_regions": -1}, "'n_regions' parameter of LocalHDSL must be an int >= 0"),
        ({"regions": "tree"}, "must be one of 'kmeans', a clusterer with fit and predict"),
        ({"regions": None}, "must be one of 'kmeans', a clusterer"),
        ({"regions": AgglomerativeClustering()}, "must be 'kmeans', a clusterer with fit"),
        ({"regions": np.zeros((2, 2))}, "must be 'kmeans', a clusterer with fit and predict"),
        ({"regions": [0, 1]}, "regions has 2 values, but X has 40 rows"),
        ({"local_scale": 0}, "'local_scale' parameter of LocalHDSL must be"),
        ({"step": "newton"}, "'step' parameter of LocalHDSL must be one of 'away', 'forward'"),
        ({"order": "random"}, "'order' parameter of LocalHDSL must be one of 'largest', 'cyclic'"),
        ({"scale": -1}, "'scale' parameter of LocalHDSL"),
    ],
)
def test_bad_parameters_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        small(**changes).fit(X, Y)


def test_bad_regions_and_iterations_are_refused(model):
    with pytest.raises(ValueError, match="region is 3, but there are 3 regions"):
        model.transform(X, region=3)
    with pytest.raises(ValueError, match=f"n_iter must be an int from 0 to {model.n_iter_}"):
        model.at(model.n_iter_ + 1)


def test_quadruplets_are_not_taken():
    with pytest.raises(TypeError, match="quadruplets"):
        small().fit(X, quadruplets=[[0, 1, 2, 3]])


def test_a_row_of_weight_0_makes_no_region():
    far = np.zeros((4, X.shape[1]))
    far[:, -1] = 9.0
    rows, labels = np.vstack([X, far]), np.append(Y, [0, 0, 1, 1])
    weights = np.repeat([1.0, 0.0], [len(X), 4])
    model = small(2).fit(rows, labels, sample_weight=weights)
    alone = small(2).fit(rows, labels)
    assert alone.region_sizes_.min() < model.region_sizes_.min()


# --- the path ------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["pairwise", "corrective"])
def path(request):
    """A model whose steps are moves, or corrections."""
    return small(
        3, scale=2.0, local_scale=2.0, prior=0.1, step=request.param, tol=0.0, max_iter=20
    ).fit(X, Y)


def test_every_model_of_the_path_comes_back(path):
    model = path
    assert set(model.trace_["kind"][1:]) <= {"correct" if len(model.corrections_) else "pairwise"}
    for n_iter in (0, 7, model.n_iter_):
        then = model.at(n_iter)
        n_atoms = len(then.weights_) + sum(map(len, then.local_weights_))
        assert (n_atoms, then.n_iter_) == (model.trace_["n_atoms"][n_iter], n_iter)
    assert_allclose(then.similarity(X), model.similarity(X), atol=1e-12)
    assert len(model.at(0).weights_) == 0
    assert_array_equal(model.at(9).at(7).similarity(X), model.at(7).similarity(X))


def test_interrupt_leaves_a_model():
    model = small(callback=interrupt_at(5)).fit(X, Y)
    assert (model.status_, model.n_iter_) == ("interrupted", 5)
    assert model.similarity(X).shape == (len(X), len(X))


def test_results_do_not_depend_on_threads():
    one, two = (small(3, n_jobs=n).fit(X, Y) for n in (1, 2))
    assert_array_equal(one.transform(X), two.transform(X))


# --- early stopping and checkpoints --------------------------------------------------------------

VALIDATE = {"labels": {"y": Y, "X_val": X_VAL, "y_val": Y_VAL},
            "triplets": {"triplets": T, "X_val": X_VAL, "triplets_val": T_VAL}}  # fmt: skip


@pytest.mark.parametrize("kind", VALIDATE)
def test_validation_data_choose_the_longest_model_within_an_error_of_the_best(kind):
    model = small(3, max_iter=60, tol=0.0, prior=0.1).fit(X, **VALIDATE[kind])
    rows = sp.csr_array(X_VAL)
    score = label_score(sp.csr_array(X), Y, rows, Y_VAL)
    score = score if kind == "labels" else triplet_score(rows, T_VAL)
    found = {k: score(model.at(k).similarity_) for k in scored(model)}
    assert list(found) == [0, 10, 20, 30, 40, 50, 60]
    for k, value in scored(model).items():
        assert found[k].value == pytest.approx(value, abs=1e-12)
        assert model.at(k).validation_score_ == value
    best = max(found.values(), key=lambda one: one.value)
    chosen = max(k for k, one in found.items() if one.value >= best.value - best.error)
    assert (model.n_iter_, model.validation_score_) == (chosen, scored(model)[chosen])
    assert_array_equal(model.similarity(X), model.at(chosen).similarity(X))
    whole = small(3, max_iter=60, tol=0.0, prior=0.1)  # given validation data hold out nothing
    whole.fit(X, **{name: VALIDATE[kind][name] for name in VALIDATE[kind] if "val" not in name})
    assert_allclose(model.similarity(X), whole.at(chosen).similarity(X), atol=1e-12)
    assert not hasattr(whole, "validation_score_")


@pytest.mark.parametrize("kind", ["labels", "triplets"])
@pytest.mark.filterwarnings("ignore:Early stopping holds out:UserWarning")
def test_rows_held_out_choose_the_length_of_a_fit_to_all_rows(kind):
    regions, asked = np.arange(len(X)) % 2, []

    def scoring(model, rows, truth):
        assert model.similarity(rows).shape == (rows.shape[0],) * 2
        assert model.transform(rows).shape[1] == len(model.get_feature_names_out())
        asked.append(model.n_regions_)
        return float(len(asked) in (1, 3))  # after 0 and 20 iterations

    learn = {"y": Y} if kind == "labels" else {"triplets": T}
    parameters = {"regions": regions, "tol": 0.0, "step": "away"}
    model = small(early_stopping=True, scoring=scoring, **parameters).fit(X, **learn)
    whole = small(**{**parameters, "max_iter": 20}).fit(X, **learn)
    assert asked == [2] * 5
    assert (model.n_iter_, model.status_, model.validation_score_) == (20, "max_iter", 1.0)
    assert_array_equal(model.transform(X), whole.transform(X))
    assert_array_equal(model.region_sizes_, whole.region_sizes_)


def test_no_change_ends_a_run():
    model = small(max_iter=60, tol=0.0, n_iter_no_change=15, scoring=lambda *_: 1.0)
    model.fit(X, **VALIDATE["labels"])
    assert (model.status_, model.n_iter_, len(model.trace_)) == ("no_change", 20, 21)


def test_few_rows_held_out_give_a_warning():
    with pytest.warns(UserWarning, match="holds out 4 rows, fewer than 50") as caught:
        small(early_stopping=True).fit(X, Y)
    assert caught[0].filename == __file__


class PowerCutError(Exception):
    """Ends a fit as nothing in the library does."""


@pytest.fixture
def _write_each_iteration(monkeypatch):
    monkeypatch.setattr(checkpoint, "INTERVAL", 0.0)
    monkeypatch.setattr(checkpoint, "TIME_SHARE", np.inf)


def cut_at(n_cut):
    """A callback that ends the process, in a manner of speaking, at its so manieth call."""
    calls = []

    def callback(state):
        calls.append(state.n_iter)
        if len(calls) == n_cut:
            raise PowerCutError

    return callback


@pytest.mark.parametrize(
    "parameters",
    [
        {"step": "corrective", "oracle": "exact", "loss": "logistic"},
        {"order": "cyclic", "step": "blended", "early_stopping": True},
        {"early_stopping": True, "random_state": None, "mining": "random"},
        {"regions": MiniBatchKMeans(2, n_init=1), "step": "away", "tol": 0.05},
        {"regions": np.arange(len(X)) % 3, "early_stopping": True, "oracle": "heuristic"},
        {"n_regions": 0},
    ],
    ids=["corrective", "cyclic", "no seed", "clusterer", "given", "no regions"],
)
@pytest.mark.filterwarnings("ignore:Early stopping holds out:UserWarning")
@pytest.mark.usefixtures("_write_each_iteration")
def test_a_run_with_cuts_ends_in_the_same_bytes(parameters, tmp_path):
    path, ends, cuts, seen = tmp_path / "run.ckpt", [], [], []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002 - the seed of random_state=None
        model = small(**{"tol": 0.0, "max_iter": 16, **parameters}, checkpoint=path)
        for n_cut in cuts:
            with pytest.raises(PowerCutError):
                model.set_params(callback=cut_at(n_cut)).fit(X, Y)
            assert path.exists()
        model.set_params(callback=None if cuts else seen.append).fit(X, Y)
        cuts = cuts or [1, len(seen) // 6 + 1, len(seen) // 5 + 1, len(seen) // 3]
        arrays = [model.transform(X), *model.local_weights_, model.regions_.assign(X)]
        arrays += [model.trace_[name] for name in model.trace_.dtype.names if name != "seconds"]
        ends.append([array.tobytes() for array in arrays])
        assert path.exists()
        if isinstance(model.regions_, Centers):
            model.set_params(callback=None).save(tmp_path / "model.hdsl")
            ends[-1].append((tmp_path / "model.hdsl").read_bytes())
            assert not path.exists()
        path.unlink(missing_ok=True)
    assert ends[0] == ends[1]


@pytest.mark.usefixtures("_write_each_iteration")
def test_a_checkpoint_of_another_run_or_a_damaged_one_is_refused(tmp_path, monkeypatch):
    path, regions = tmp_path / "run.ckpt", np.arange(len(X)) % 2
    with pytest.raises(PowerCutError):
        small(checkpoint=path, regions=regions, callback=cut_at(9)).fit(X, Y)
    for changes, message in [
        ({"local_scale": 3.0}, r"local_scale='auto' \(now 3.0\)"),
        ({"regions": regions[::-1]}, "other labels, triplets or weights"),
        ({"regions": "kmeans"}, "regions="),
    ]:
        with pytest.raises(ValueError, match=message):
            small(**{"regions": regions, **changes}, checkpoint=path).fit(X, Y)
    with pytest.raises(ValueError, match="a checkpoint is of one"):
        LocalHDSLCV([0, 2], estimator=small(checkpoint=path)).fit(X, Y)
    read = checkpoint.Checkpoint._read
    for change in (
        {"stage.local_scale": np.array([-1.0])},
        {"stage.assigned": np.zeros(64, dtype=np.uint8)},
        {"stage.centers_indices": np.full(3, 10**6)},
        {"run.zero": np.full(3, 2.0)},
        {"run.problem.total.0.margins": np.zeros(2)},
    ):

        def changed(self, change=change):
            read(self)
            self.arrays |= change

        monkeypatch.setattr(checkpoint.Checkpoint, "_read", changed)
        with pytest.raises(ValueError, match=r"run.ckpt' is damaged"):
            small(checkpoint=path, regions=regions).fit(X, Y)


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_regions", "step"), [(0, "pairwise"), (3, "away"), (3, "corrective")])
def test_a_saved_model_comes_back(n_regions, step, tmp_path):
    model, path = small(n_regions, step=step).fit(frame(X), Y), tmp_path / "model.hdsl"
    model.save(path)
    again = hdsl.load(path)
    assert type(again) is LocalHDSL
    assert_array_equal(again.transform(frame(X_VAL)), model.transform(frame(X_VAL)))
    assert again.region_names() == model.region_names()
    assert again.get_params()["n_regions"] == n_regions
    assert_array_equal(again.at(5).similarity(frame(X)), model.at(5).similarity(frame(X)))
    again.save(tmp_path / "again.hdsl")
    assert (tmp_path / "again.hdsl").read_bytes() == path.read_bytes()


def test_a_clusterer_is_not_saved(tmp_path):
    model = small(regions=MiniBatchKMeans(2, n_init=1)).fit(X, Y)
    with pytest.raises(ValueError, match=r"no place for MiniBatchKMeans.*Use regions='kmeans'"):
        model.save(tmp_path / "model.hdsl")
    assert not list(tmp_path.iterdir())


def test_a_damaged_file_is_refused(model, tmp_path):
    path = tmp_path / "model.hdsl"
    model.save(path)
    arrays, header = read(path)

    def changed(name, change):
        array = np.array(arrays[name])
        change(array)
        write(path, {**arrays, name: array}, header)
        with pytest.raises(ValueError, match=r"Cannot load .*model\.hdsl"):
            hdsl.load(path)

    start = "extra_arrays.regions."
    changed(start + "atoms", lambda a: a.__setitem__((0, 0), 7))
    changed(start + "atoms", lambda a: a.__setitem__((0, 2), 10**6))
    changed(start + "weights", lambda a: a.__setitem__(0, -1.0))
    changed(start + "centers", lambda a: a.__setitem__(0, np.nan))
    changed(start + "centers_indices", lambda a: a.__setitem__(0, 10**6))
    changed(start + "centers_indptr", lambda a: a.__setitem__(1, -5))
    changed(start + "local_scale", lambda a: a.__setitem__(0, np.inf))
    with pytest.raises(ValueError, match="'regions' is reserved"):
        hdsl.save(model, path, extra={"regions.atoms": 1})


# --- the number of regions -----------------------------------------------------------------------


def test_regions_are_chosen_where_they_help(task):
    search = LocalHDSLCV((0, 2), estimator=LocalHDSL(max_iter=100, random_state=0), cv=2)
    search.fit(**task.learn)
    assert search.best_params_ == {"n_regions": 2, "local_scale": "auto"}
    results = search.cv_results_
    assert results["param_n_regions"].tolist() == [0, 2]
    assert results["mean_test_score"][1] == search.best_score_ > results["mean_test_score"][0]
    assert_allclose(search.transform(task.X).toarray(),
                    search.best_estimator_.transform(task.X).toarray())  # fmt: skip
    assert search.similarity_.n_features == task.X.shape[1]
    assert search.matrix(1).shape == search.matrix().shape
    assert len(search.get_feature_names_out()) == search.transform(task.X).shape[1]
    assert search.explain(task.X[[0]], task.X[[1]]).of.startswith("In the region of")
    assert len(search.importance(top=3).pairs)


def test_no_regions_are_chosen_where_they_do_not_help():
    search = LocalHDSLCV((4, 0), local_scales=[1.0, "auto"], estimator=small(), cv=2).fit(X, Y)
    assert search.best_params_["n_regions"] == 0
    assert search.cv_results_["param_n_regions"].tolist() == [0, 4, 4]
    assert search.best_estimator_.n_regions_ == 0


def test_bad_choices_are_refused():
    with pytest.raises(ValueError, match="not an array"):
        LocalHDSLCV(estimator=small(regions=[0] * len(X))).fit(X, Y)
    with pytest.raises(ValueError, match="'n_regions' parameter of LocalHDSLCV"):
        LocalHDSLCV([-2]).fit(X, Y)
    with pytest.raises(ValueError, match="at least one of n_regions"):
        LocalHDSLCV([], estimator=small()).fit(X, Y)
    with pytest.raises(ValueError, match="Fold 0 of cv has no triplet of positive weight"):
        LocalHDSLCV([0, 2], estimator=small(), cv=30).fit(X, triplets=T[:5])


def test_the_experiment_compares_global_and_local(tmp_path, capsys):
    assert reproduce.main(["local", "--quick", "--jobs", "1", "--out", str(tmp_path)]) == 0
    page = capsys.readouterr().out
    assert "# Local metrics" in page
    (row,) = csv.DictReader((tmp_path / "local-errors.csv").read_text().splitlines())
    assert row["set"] == "contradiction"
    assert float(row["2 regions"]) < float(row["no regions"])  # few rows: k-means may be off


# --- wide rows -----------------------------------------------------------------------------------


@pytest.mark.parametrize("regions", ["kmeans", "given"])
def test_rows_of_many_columns(tmp_path, regions):
    narrow = sp.csr_array(X)
    n, d = narrow.shape
    columns = np.sort(np.random.default_rng(0).choice(2**40, d, replace=False))
    wide = sp.csr_array((narrow.data, columns[narrow.indices], narrow.indptr), shape=(n, 2**40))
    regions = regions if regions == "kmeans" else np.arange(n) % 2
    model, twin = (
        small(regions=regions, scale=2.0, local_scale=2.0, prior=0.1).fit(rows, Y)
        for rows in (wide, narrow)
    )
    assert_array_equal(model.region(wide), twin.region(narrow))
    assert_allclose(model.similarity(wide), twin.similarity(narrow), rtol=1e-12)
    assert_allclose(model.similarity(wide, cosine=True), twin.similarity(narrow, cosine=True))
    assert_allclose(model.pair_score(wide, wide), twin.pair_score(narrow, narrow))
    assert model.rewrite(wide).nnz == sp.csr_array(twin.rewrite(narrow)).nnz
    found, expected = (m.explain(r[[0]], r[[1]]).parts for m, r in ((model, wide), (twin, narrow)))
    assert_allclose(found["value"], expected["value"], rtol=1e-12)
    assert "x" in str(model.importance(wide, region=0))
    assert model.region_names(None)[0].startswith("x")
    model.save(tmp_path / "model.hdsl")
    assert_array_equal(hdsl.load(tmp_path / "model.hdsl").similarity(wide), model.similarity(wide))


def test_clusterers_are_refused_rows_of_many_columns():
    narrow = sp.csr_array(X)
    wide = sp.csr_array((narrow.data, narrow.indices, narrow.indptr), shape=(len(X), 2**40))
    with pytest.raises(ValueError, match=r"clusterers take fewer than 2\*\*31"):
        small(regions=MiniBatchKMeans(2)).fit(wide, Y)
