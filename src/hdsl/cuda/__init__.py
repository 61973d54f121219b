"""``Layout``, ``Problem`` and ``Gradient`` on one NVIDIA GPU.

What is on the card of one data set::

    X ──► CardRows ──► Comparisons ──► Workspace
            └───────────┴──────────────┴────► CardData

What is computed with it: ``Pulls`` (one number per pair of rows, the gradient),
``LineSearch``, ``Atoms`` (sums over many atoms), ``Curvature``. ``CUDAProblem`` queues
them in the order of a step. ``search`` finds nearest rows. ``kernels/*.cu`` has all
kernels, and ``runtime`` alone knows CuPy.
"""
