"""What is installed is pinned and fits pyproject.toml; images lack nothing (R-10.1)."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "image" / "requirements"
LISTS = sorted(path.stem for path in FOLDER.glob("*.in"))
PROGRAMS = ("server", "worker", "ctl")
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DECLARED = {
    canonicalize_name(found.name): found
    for found in map(Requirement, _PROJECT["project"]["dependencies"])
}
_EXTRAS = _PROJECT["project"]["optional-dependencies"]
_CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()


def named(name: str) -> set[NormalizedName]:
    """Return the packages that a list asks for."""
    lines = (FOLDER / f"{name}.in").read_text(encoding="utf-8").splitlines()
    return {canonicalize_name(Requirement(x).name) for x in lines if not x.startswith("#")}


def pinned(name: str) -> dict[NormalizedName, str]:
    """Return package → version. Raises ValueError for a line that pins none or has no hash."""
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    lines = [x for x in re.sub(r"\\\n", "", text).splitlines() if not x.startswith("#")]
    found: dict[NormalizedName, str] = {}
    for line in lines:
        head, *hashes = line.split("--hash=sha256:")
        requirement = Requirement(head.strip())
        (version,) = requirement.specifier
        if version.operator != "==" or not hashes:
            raise ValueError(line)
        found[canonicalize_name(requirement.name)] = version.version
    return found


@pytest.mark.parametrize("name", LISTS)
def test_each_package_of_a_list_is_pinned_with_hashes(name: str) -> None:
    assert named(name) <= pinned(name).keys()


def installed() -> dict[NormalizedName, str]:
    """Return package → version of what `make setup` installs."""
    lines = [Requirement(line) for line in _CONSTRAINTS if not line.startswith("#")]
    return {canonicalize_name(x.name): str(x.specifier).removeprefix("==") for x in lines}


def test_each_package_of_a_development_environment_is_pinned_in_a_version_that_is_allowed() -> None:
    declared = [*DECLARED.values(), *map(Requirement, _EXTRAS["dev"] + _EXTRAS["embedded"])]
    versions = {name: Version(version) for name, version in installed().items()}
    refused = [x for x in declared if versions[canonicalize_name(x.name)] not in x.specifier]
    assert refused == []


@pytest.mark.parametrize("name", LISTS)
def test_what_ships_is_what_is_tested(name: str) -> None:
    assert pinned(name).items() <= installed().items()


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_image_has_only_what_the_project_depends_on_in_versions_that_it_allows(
    name: str,
) -> None:
    assert named(name) <= DECLARED.keys()
    versions = pinned(name)
    refused = [x for x in named(name) if not DECLARED[x].specifier.contains(versions[x])]
    assert refused == []


def test_each_dependency_of_the_project_is_in_an_image() -> None:
    assert set().union(*(named(name) for name in PROGRAMS)) == DECLARED.keys()


def test_the_images_agree_on_their_versions() -> None:
    versions: dict[NormalizedName, set[str]] = {}
    for name in PROGRAMS:
        for package, version in pinned(name).items():
            versions.setdefault(package, set()).add(version)
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


def test_the_wheel_is_built_by_what_the_project_asks_for() -> None:
    (backend,) = map(Requirement, _PROJECT["build-system"]["requires"])
    assert backend.specifier.contains(pinned("build")[canonicalize_name(backend.name)])
