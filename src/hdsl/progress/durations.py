"""Times as text."""


def duration(seconds: float) -> str:
    """Return a time in the unit that suits its size.

    Examples
    --------
    >>> [duration(seconds) for seconds in (0.04, 1.26, 75, 600, 9000)]
    ['0.0 s', '1.3 s', '75 s', '10 min', '2.5 h']
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
