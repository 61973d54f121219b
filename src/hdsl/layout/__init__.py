"""What all machines do alike when they lay out rows and comparisons."""
