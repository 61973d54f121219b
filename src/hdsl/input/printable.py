"""Text from outside as a terminal or a page can show it without obeying it."""

#: Marks that turn the direction of the text around them, so that it reads as another
#: one, and their escape sequences.
TURNS = {
    code: f"\\u{code:04x}"
    for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}


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


def unturned(text: str) -> str:
    r"""Return a text whose marks that turn its direction are escape sequences.

    Other characters that cannot be printed, which a page does not obey, stay.

    Examples
    --------
    >>> unturned("photo\u202egnp.exe")
    'photo\\u202egnp.exe'
    """
    return text.translate(TURNS)
