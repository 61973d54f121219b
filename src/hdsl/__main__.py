"""``python -m hdsl`` and the ``hdsl`` script."""

import sys


def main() -> None:
    """Run the command line, or say what it needs."""
    try:
        from .cli import app
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        sys.exit("hdsl: the command line needs typer: pip install 'hdsl[cli]'")
    except KeyboardInterrupt:  # while the libraries are loaded
        sys.exit(130)
    app(prog_name="hdsl")


if __name__ == "__main__":
    main()
