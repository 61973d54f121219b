"""Every compiled loop: arrays in, arrays out.

Three index spaces, and each kernel crosses one border at most::

    comparisons (T)         pairs of rows (P)               features (d)
    margins, slopes  ────►  w, one number per pair  ────►   C = Σ_s w_s x_a x_bᵀ, never formed:
                            {a, b} that is compared         its diagonal, rows of S = C + Cᵀ,
                                                            or listed entries of S

The caller allocates and has validated; a kernel trusts. Matrices come as their CSR or CSC arrays
(``ptr`` int64, ``idx`` int32, ``val`` float64). Kernels that can run on several threads take
``start, stop`` first: the range of items that the call owns. The arithmetic of an item never
depends on the range it comes in, so any split gives the same bits.
"""
