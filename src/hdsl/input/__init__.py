"""What users give, checked: the rest of the library trusts what these functions return.

A message says what was expected, what came, and the way out if there is one.
"""
