"""What a fit learns from: rows with one label, several labels or comparisons, each a class."""
