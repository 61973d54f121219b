"""One machine, its cores and its memory."""
