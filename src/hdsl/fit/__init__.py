"""One fit, from what a user gives to fitted attributes."""
