"""Look up every locked version among known vulnerabilities: ``audit.py PIP_AUDIT FILE...``.

pip-audit succeeds when the service knows none of the packages, and ends with a
traceback when there is no service. Here both are failures with a message.

Exit code: 0 when all versions were looked up and none is vulnerable, 1 when one is, 2
when one could not be looked up. Lines of a lock file for other systems or versions of
Python are skipped.
"""

import json
import os
import subprocess
import sys
from pathlib import Path


def query(command, path):
    """Return the packages of a lock file as pip-audit reports them, and the reason if it fails."""
    options = [
        "--format",
        "json",
        "--progress-spinner",
        "off",
        "--require-hashes",
        "--disable-pip",
    ]
    # The lock files are complete: nothing is resolved, and nothing is downloaded.
    ended = subprocess.run(
        [*command, *options, "--requirement", path],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        return json.loads(ended.stdout)["dependencies"], None
    except ValueError:  # no report: the last line of the traceback has the reason
        return [], (
            ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"]
        )[-1]


def main(command, paths):
    """Print one line per vulnerability and a summary; return the exit code."""
    known = set()
    n_packages = 0
    for path in paths:
        packages, reason = query(command, path)
        missed = [
            package["skip_reason"] for package in packages if "skip_reason" in package
        ]
        if not packages:
            reason = reason or "no package was looked up"
        if reason or missed:
            print(
                f"{Path(path).name} could not be audited: {reason or missed[0]}. The "
                "audit needs the vulnerability service: run it where that can be "
                "reached, or ask another one with AUDIT_ARGS='-s osv'.",
                file=sys.stderr,
            )
            return 2
        n_packages += len(packages)
        known |= {
            f"{Path(path).name}: {package['name']} {package['version']}: {found['id']}"
            f" (fixed in {', '.join(found['fix_versions']) or 'no version yet'})"
            for package in packages
            for found in package["vulns"]
        }
    summary = f"{n_packages} locked packages, {len(known)} known vulnerabilities."
    print(*sorted(known), summary, sep="\n")
    return 1 if known else 0


if __name__ == "__main__":
    sys.exit(
        main([sys.argv[1], *os.environ.get("AUDIT_ARGS", "").split()], sys.argv[2:])
    )
