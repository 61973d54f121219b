"""The prior, and how long to learn, chosen on rows or anchors that are held out."""
