"""Check the docstrings of the public names with numpydoc: ``docstrings.py API_PAGE``.

Public is what the page lists, and the methods of its classes. ``pyproject.toml`` has
the checks.
"""

import inspect
import pkgutil
import re
import sys
import tomllib
from pathlib import Path

from numpydoc.validate import get_validation_checks, validate

#: Checks that ask for a section. Results are not made by users, and one line may do for
#: a method.
SECTIONS = {"PR01", "RT01", "YD01"}


def public(page):
    """Return each name of the page and of the methods of its classes, and if it needs sections."""
    found = {}
    _, *parts = page.split(".. currentmodule:: ")
    for module, _, listed in (part.partition("\n") for part in parts):
        for name in re.findall(r"^   (\w+)$", listed, re.M):
            item = pkgutil.resolve_name(f"{module}.{name}")
            found[f"{module}.{name}"] = hasattr(
                item, "get_params"
            ) or inspect.isfunction(item)
            for method, function in inspect.getmembers(item, inspect.isroutine):
                ours = str(getattr(function, "__module__", "")).startswith("hdsl.")
                if ours and not method.startswith("_"):
                    found.setdefault(f"{module}.{name}.{method}", False)
    return found


if __name__ == "__main__":
    settings = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]
    checks = get_validation_checks(set(settings["numpydoc_validation"]["checks"]))
    names = public(Path(sys.argv[1]).read_text(encoding="utf-8"))
    faults = [
        f"{name}: {code} {message}"
        for name, complete in names.items()
        for code, message in validate(name)["errors"]
        if code in (checks if complete else checks - SECTIONS)
    ]
    print(*faults, f"{len(names)} docstrings checked, {len(faults)} faults.", sep="\n")
    sys.exit(bool(faults) or not names)
