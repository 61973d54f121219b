"""The problem on a Dask cluster: shards that live on workers, and a client that asks them.

``member`` runs on a worker, ``team`` sends the questions, ``problem`` is what the solver sees,
``building`` brings comparisons and rows to the shards, ``folding`` is the order of all sums.
"""
