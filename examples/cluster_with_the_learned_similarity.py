"""
Cluster with the learned similarity
===================================

You learn how to cluster rows by a learned similarity. Several methods of scikit-learn
take a precomputed graph, and ``SimilarityKNeighborsClassifier.kneighbors_graph`` makes
one. The similarity is learned from labelled docstrings of Python's standard library.
Then the other docstrings are clustered without their labels.
"""

# %% One half of the rows has labels, the modules, and trains the model. The labels of
# the other half only score the clusters.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import SpectralClustering
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix
from sklearn.model_selection import train_test_split

from hdsl import HDSL, Mining, SimilarityKNeighborsClassifier
from hdsl.datasets import load_docstrings

docs = load_docstrings(min_rows_per_label=80)
X, X_new, y, y_new = train_test_split(
    docs.X, docs.y, test_size=0.5, stratify=docs.y, random_state=0
)
model = HDSL(mining=Mining(n_targets=5, n_impostors=5), random_state=0).fit(X, y)
n_clusters = len(np.unique(y))
print(
    f"{len(y)} labelled docstrings to learn from, {len(y_new)} to put in {n_clusters} "
    "clusters."
)

# %% The graph joins each row to its ten most similar rows and is made symmetric.
# Similarities can be negative but the weights of a graph cannot, so negative values are
# set to 0.


def cluster(similarity):
    knn = SimilarityKNeighborsClassifier(10, similarity=similarity).fit(
        X_new, np.zeros(len(y_new))
    )
    graph = knn.kneighbors_graph(mode="similarity").maximum(0)
    spectral = SpectralClustering(
        n_clusters, affinity="precomputed", assign_labels="cluster_qr", random_state=0
    )
    return spectral.fit_predict((graph + graph.T) / 2)


# %% Both adjusted scores are 0 for random clusters and 1 for the modules themselves.
# The figure shows how the docstrings of each module are distributed over the clusters.
# The clusters are sorted by their largest module.

print(f"\n{'':20} adjusted Rand index   adjusted mutual information")
fig, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for ax, name, similarity in zip(
    axes, ("TF-IDF cosine", "learned similarity"), (None, model), strict=True
):
    clusters = cluster(similarity)
    rand = adjusted_rand_score(y_new, clusters)
    information = adjusted_mutual_info_score(y_new, clusters)
    print(f"{name:20} {rand:19.3f} {information:29.3f}")
    table = contingency_matrix(y_new, clusters)
    table = table[:, np.argsort(table.argmax(axis=0), kind="stable")]
    image = ax.imshow(
        table / table.sum(axis=1, keepdims=True), cmap="Blues", vmin=0, vmax=1
    )
    ax.set(title=name, xlabel="cluster", xticks=range(n_clusters))
    ax.set_yticks(range(n_clusters), np.unique(y_new))
fig.colorbar(image, ax=axes, label="share of the module", shrink=0.8)
plt.show()
