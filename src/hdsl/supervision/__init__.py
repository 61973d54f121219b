"""What a fit learns from: rows with labels or comparisons, checked once, and comparisons made."""
