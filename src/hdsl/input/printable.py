"""Text from outside as a terminal can show it without obeying it."""


def printable(text: str) -> str:
    r"""Return a text whose characters that cannot be printed are escape sequences.

    These are control characters, which a terminal obeys, marks that turn the direction
    of what follows, and bytes of file names that are not text. Line breaks stay.

    Examples
    --------
    >>> printable("red\x1b[31m.csv")
    'red\\x1b[31m.csv'
    """
    if text.isprintable():
        return text
    return "".join(
        character if character == "\n" else escaped(character) for character in text
    )


def escaped(character: str) -> str:
    """Return a character, or the escape sequence of one that cannot be printed."""
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()
