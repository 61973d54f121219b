"""Write what the package runs with as CycloneDX: ``sbom.py LOCK_FILE RESULT``.

Read from the lock file and ``pyproject.toml`` alone: the same files give the same
bytes. The wheel carries the result in its metadata (PEP 770). Where versions differ
between systems or versions of Python, each has its entry, with the condition as a
property.
"""

import json
import re
import sys
import tomllib
from pathlib import Path


def locked(text):
    """Return (name, version, condition, names of those that need it) of each locked version."""
    for block in re.split(r"\n(?=[a-z])", text)[1:]:
        name, version, condition = re.match(
            r"([^=]+)==(\S+)(?: ; (.+?))? \\", block
        ).groups()
        needed_by = re.findall(
            r"^ +#(?: via| {2}) ([a-z0-9.-]+)(?: \(.+\))?$", block, re.M
        )
        yield name, version, condition, needed_by


def component(name, version, condition=None):
    """Return one entry; ``condition`` says where this version is taken."""
    entry = {"type": "library", "name": name, "version": version}
    entry |= {"bom-ref": f"{name}=={version}", "purl": f"pkg:pypi/{name}@{version}"}
    return entry | (
        {"properties": [{"name": "hdsl:marker", "value": condition}]}
        if condition
        else {}
    )


def bom(project, packages):
    """Return the bill of materials as CycloneDX has it."""
    main = component(project["name"], project["version"])
    main["licenses"] = [{"license": {"id": project["license"]}}]
    refs = {name: [] for name, *_ in [(project["name"],), *packages]}
    for name, version, _, needed_by in packages:
        for user in needed_by:
            refs[user].append(f"{name}=={version}")
    versions = [(main["name"], main["version"]), *(package[:2] for package in packages)]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": main},
        "components": [component(*package[:3]) for package in packages],
        "dependencies": [
            {"ref": f"{name}=={version}", "dependsOn": refs[name]}
            for name, version in versions
        ],
    }


if __name__ == "__main__":
    lock, result = map(Path, sys.argv[1:])
    about = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    made = bom(about, list(locked(lock.read_text(encoding="utf-8"))))
    result.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
