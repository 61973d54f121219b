"""Model files and checkpoints: arrays and a JSON header, no code."""
