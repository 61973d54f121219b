"""Names and texts as SQL writes them."""


def quoted_name(name: str) -> str:
    """Return the name of a table or a column, whatever characters it has.

    Examples
    --------
    >>> print(quoted_name('5" disks'))
    "5"" disks"
    """
    return '"' + name.replace('"', '""').replace("\0", "") + '"'


def quoted_text(text: str) -> str:
    """Return a text as a string.

    Examples
    --------
    >>> print(quoted_text("o'clock"))
    'o''clock'
    """
    return "'" + text.replace("'", "''") + "'"
