"""The supply chain: locked versions, pinned actions, minimal permissions, one version number."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import structure

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
AUDIT = ROOT / ".ci" / "audit.py"

pytestmark = pytest.mark.skipif(
    not AUDIT.is_file(),
    reason=f"{AUDIT} is not there: an installed library has no such files",
)


def text_of(*path):
    return ROOT.joinpath(*path).read_text(encoding="utf-8")


def project():
    return tomllib.loads(text_of("pyproject.toml"))["project"]


def tracked_files():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode or not (ROOT / ".git").exists():
        pytest.skip("not a clone: which files are tracked is not known")
    return [ROOT / os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]


# --- lock files -----------------------------------------------------------------------


def test_every_lock_file_is_made_by_make_lock():
    assert [path.name for path in LOCKS] == sorted(
        re.findall(r"-o requirements/(\S+)", text_of("Makefile"))
    )


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_locked_versions_have_hashes_and_no_address(path):
    text = path.read_text(encoding="utf-8")
    assert "://" not in text
    # No options.
    assert not re.search(r"^\s*-", re.sub(r"^ +--hash.*$", "", text, flags=re.M), re.M)
    blocks = re.split(r"\n(?=\S)", re.sub(r"^\s*#.*\n", "", text, flags=re.M).strip())
    for block in blocks:
        first, *rest = block.replace("\\", "").splitlines()
        assert re.match(r"[a-z0-9.-]+==\S+( ; .+)?$", first.strip()), first
        assert rest, first
        assert all(
            re.fullmatch(r" +--hash=sha256:[0-9a-f]{64} *", line) for line in rest
        ), first


def test_oldest_versions_are_the_lower_bounds():
    pinned = dict(
        re.findall(
            r"^([a-z-]+)==([\d.]+?)(?:\.\*)?$", text_of("requirements/oldest.in"), re.M
        )
    )
    for dependency in project()["dependencies"]:
        name, bound = re.split(">=|,", dependency)[:2]
        assert f"{pinned[name]}.".startswith(f"{bound}."), dependency


def test_no_file_names_a_package_index():
    # The machine decides where packages come from, not the repository.
    hosts = re.compile(rb"pypi\.(python\.)?org|pythonhosted\.org|anaconda\.org")
    assert [
        f for f in tracked_files() if f.is_file() and hosts.search(f.read_bytes())
    ] == []


# --- the workflow ---------------------------------------------------------------------


def test_actions_are_pinned_by_their_hash():
    assert WORKFLOWS
    for path in WORKFLOWS:
        uses = re.findall(
            r"^\s*-? *uses: *(.+)$", path.read_text(encoding="utf-8"), re.M
        )
        assert uses
        for action in uses:
            assert re.fullmatch(
                r"(actions|pypa)/[a-z-]+@[0-9a-f]{40} # v(\d+\.){2}\d+", action
            )


def test_workflows_have_only_read_permission():
    for path in WORKFLOWS:
        text = path.read_text(encoding="utf-8")
        assert "\npermissions:\n  contents: read\n\n" in text
        # A release may say who it is and sign, and change nothing.
        asked = [
            "contents: read",
            "id-token: write",
            "attestations: write",
            "id-token: write",
        ]
        jobs = "".join(
            re.findall(r"^ +permissions:\n((?:      .*\n)+)", text, re.M)
        ).split("\n")
        assert [line.strip() for line in jobs if line] == asked * (
            path.stem == "release"
        )
        assert text.count("persist-credentials: false") == text.count(
            "actions/checkout@"
        )
        assert text.count("timeout-minutes:") == text.count("runs-on:")
        assert "secrets" not in text
        assert "pull_request_target" not in text


def test_workflows_paste_no_foreign_text_into_commands():
    # A title or a branch name inside a shell command could run anything.
    for path in WORKFLOWS:
        for command in re.findall(
            r"run: *(.+)$", path.read_text(encoding="utf-8"), re.M
        ):
            assert "${{" not in command, command


def test_workflows_run_existing_targets():
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.M))
    for path in WORKFLOWS:
        for names in re.findall(
            r"run: make (.+) PYTHON", path.read_text(encoding="utf-8")
        ):
            assert set(names.split()) <= targets


def test_workflows_are_yaml():
    yaml = pytest.importorskip("yaml")
    for path in WORKFLOWS:
        jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
        assert all(job["steps"] for job in jobs.values())


def test_every_claimed_python_is_tested():
    claimed = re.findall(r"Python :: (3\.\d+)", " ".join(project()["classifiers"]))
    (tested,) = re.findall(
        r"python: \[(.+)\]\n", text_of(".github/workflows/check.yml")
    )
    assert re.findall(r"3\.\d+", tested) == claimed
    assert project()["requires-python"] == f">={claimed[0]}"


# --- versions -------------------------------------------------------------------------


def test_one_version_number_and_one_list_of_dependencies(tmp_path):
    version = project()["version"]
    recipe = text_of("conda/recipe.yaml")
    assert f"\nversion: {version}\n" in text_of("CITATION.cff")
    assert f"\n## {version}\n" in text_of("CHANGELOG.md")
    assert f'version: "{version}"\n' in recipe
    assert all(
        f"- {name.replace('>=', ' >=')}\n" in recipe
        for name in project()["dependencies"]
    )
    # as `make sbom` writes it
    tool = ROOT / ".ci" / "sbom.py"
    new = tmp_path / "sbom.json"
    subprocess.run(
        [sys.executable, tool, "requirements/run.txt", new], cwd=ROOT, check=True
    )
    assert new.read_bytes() == (ROOT / "requirements" / "sbom.cdx.json").read_bytes()


def imported_at_the_top(tree):
    """Yield the packages that a module imports when it is imported itself."""
    for node in tree.body:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield alias.name.partition(".")[0]
            case ast.ImportFrom(module=module, level=0):
                yield module.partition(".")[0]


def test_what_is_imported_at_the_top_of_a_module_is_a_declared_dependency():
    declared = {
        re.split("[<>=!~ ;[]", dependency)[0].lower()
        for dependency in project()["dependencies"]
    }
    providers = packages_distributions()
    for path, tree in structure.parsed().items():
        for package in set(imported_at_the_top(tree)) - sys.stdlib_module_names:
            names = {name.lower() for name in providers.get(package, [])}
            assert names & declared, f"{path} imports {package}, which is not declared"


def test_the_sdist_has_what_the_checks_need():
    listed = tomllib.loads(text_of("pyproject.toml"))["tool"]["hatch"]["build"][
        "targets"
    ]["sdist"]
    for name in listed["include"]:
        assert (ROOT / name.lstrip("/")).exists(), name
    needed = {"/tests", "/reproduce", "/benchmarks", "/requirements", "/.ci"}
    assert needed | {"/.github", "/Makefile"} <= set(listed["include"])
