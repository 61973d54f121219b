"""Every compiled loop over data: arrays in, arrays out.

Three index spaces, and each kernel crosses one border at most::

    comparisons (T)         pairs of rows (P)               features (d) margins, slopes
    ────►  w, one number per pair  ────►   C = Σ_s w_s x_a x_bᵀ, never formed:
                            {a, b} that is compared         its diagonal, rows of S = C
                            + Cᵀ,
                                                            or scores of listed atoms

The caller allocates and has validated; a kernel trusts. Matrices come as tuples of
their CSR or CSC arrays (pointers int64, indices int32, values float64). Kernels that
can run on several threads take ``start, stop`` first: the range of items that the call
handles. The arithmetic of an item never depends on the range it comes in, so any split
gives the same bits.
"""
