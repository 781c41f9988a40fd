"""The invariants of ARCHITECTURE.md that can be read off the sources."""

from __future__ import annotations

import os
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# A crate may use only crates listed before it, and only those named here.
ALLOWED_CRATES = {
    "wire": set(),
    "codec": {"wire"},
    "keys": {"wire"},
    "seal": {"wire", "codec"},
    "netem": set(),
    "plan": {"wire", "codec", "keys"},
    "schedule": {"netem"},
    "protocol": {"wire", "codec", "keys", "netem", "plan"},
    "switch": {"wire", "codec", "keys", "plan", "protocol"},
    "sparse": {"wire", "codec", "keys", "netem", "plan", "switch"},
    "worker": {"wire", "codec", "keys", "seal", "plan", "protocol", "switch"},
    "testkit": {"wire", "keys", "netem", "plan", "protocol", "switch", "worker"},
    "sim": {"wire", "codec", "netem", "plan", "schedule", "protocol", "sparse", "switch", "worker"},
    "xdp": {"wire", "keys", "plan", "protocol", "switch"},
    "node": {"wire", "codec", "plan", "protocol", "sparse", "switch", "worker", "xdp"},
    "bench": {
        "wire",
        "keys",
        "codec",
        "netem",
        "seal",
        "plan",
        "protocol",
        "sparse",
        "switch",
        "worker",
        "xdp",
        "node",
    },
    "python": {
        "wire",
        "codec",
        "plan",
        "keys",
        "schedule",
        "protocol",
        "sparse",
        "worker",
        "sim",
        "xdp",
        "node",
        "bench",
    },
}

# What only one crate may know.
PRIVATE_DEPENDENCIES = {"pyo3": "python", "libbpf-rs": "xdp", "libbpf-sys": "xdp", "libbpf-cargo": "xdp"}

# Python packages by layer: a package may import those in its own set.
PLANNING = {"document", "topology", "plan", "sparse", "predict", "planners"}
ALLOWED_PACKAGES = {
    "__main__": {"cli"},
    "errors": set(),
    "wire": set(),
    "native": set(),
    "registry": set(),
    "formats": set(),
    "document": {"errors", "formats"},
    "schemas": {"document", "registry"},
    "picture": {"errors"},
    "page": {"errors"},
    "topology": {"errors", "document", "registry"},
    "workload": {"errors", "document", "topology", "schedule"},
    "circuits": {"errors", "registry", "document", "topology"},
    "gates": {"errors", "native", "_native"},
    "gpu": set(),
    "plan": {"errors", "wire", "native", "document", "picture", "topology", "_native"},
    "schedule": {"errors", "registry", "document", "picture", "planners", "_native"},
    "sparse": {"errors", "registry", "picture", "document", "plan", "_native"},
    "predict": {"errors", "wire", "picture", "document", "topology", "plan", "sparse", "_native"},
    "planners": {"errors", "wire", "registry", "document", "topology", "plan", "sparse", "predict"},
    "adjust": {"errors", "wire", *PLANNING},
    "torch": {"errors", "wire", "native", "document", "topology", "plan", "sparse", "planners", "gates", "_native"},
    "deploy": {"errors", "document", "plan"},
    "selftest": {"errors", "wire", "plan", "_native"},
    "testbed": {
        "errors",
        "document",
        "deploy",
        "wire",
        "topology",
        "circuits",
        "plan",
        "predict",
        "sparse",
        "planners",
        "_native",
    },
    "turns": {
        "errors",
        "document",
        "picture",
        "topology",
        "workload",
        "circuits",
        "gates",
        "deploy",
        "plan",
        "predict",
        "schedule",
        "testbed",
        "_native",
    },
    "sim": {"picture", "errors", "formats", "wire", "registry", "workload", "schedule", "turns", *PLANNING, "_native"},
    "training": {"errors"},
    "commandline": {"errors", "registry", "document", "topology", "plan", "sparse", "planners", "testbed"},
    "bench": {
        "page",
        "picture",
        "training",
        "errors",
        "wire",
        "registry",
        *PLANNING,
        "workload",
        "schedule",
        "adjust",
        "sim",
        "deploy",
        "testbed",
        "gpu",
        "torch",
        "commandline",
        "_native",
        "circuits",
        "turns",
    },
    "demo": {
        "picture",
        "training",
        "errors",
        "wire",
        "topology",
        "plan",
        "sparse",
        "planners",
        "testbed",
        "torch",
        "bench",
        "_native",
    },
    "reproduce": {
        "page",
        "picture",
        "training",
        "errors",
        "wire",
        "registry",
        *PLANNING,
        "workload",
        "schedule",
        "sim",
        "testbed",
        "torch",
        "turns",
        "bench",
        "demo",
        "_native",
    },
    "cli": {
        "errors",
        "native",
        "circuits",
        "selftest",
        "workload",
        "schedule",
        "registry",
        *PLANNING,
        "adjust",
        "sim",
        "deploy",
        "testbed",
        "torch",
        "turns",
        "gates",
        "schemas",
        "commandline",
        "bench",
        "demo",
        "reproduce",
        "_native",
    },
}


def manifest(crate: str) -> dict:
    return tomllib.loads((ROOT / "crates" / crate / "Cargo.toml").read_text())


def sources(crate: str) -> list[Path]:
    return sorted((ROOT / "crates" / crate / "src").rglob("*.rs"))


def dependencies(crate: str) -> set[str]:
    content = manifest(crate)
    return set(content.get("dependencies", {})) | set(content.get("build-dependencies", {}))


def test_every_crate_has_a_place_in_the_layers():
    assert {p.parent.name for p in (ROOT / "crates").glob("*/Cargo.toml")} == set(ALLOWED_CRATES)


@pytest.mark.parametrize("crate", ALLOWED_CRATES)
def test_crates_depend_downwards_only(crate):
    used = {name.removeprefix("wiresum-") for name in dependencies(crate) if name.startswith("wiresum-")}
    assert used <= ALLOWED_CRATES[crate]


def test_products_do_not_depend_on_what_only_tests_need():
    assert [crate for crate in ALLOWED_CRATES if "wiresum-testkit" in dependencies(crate)] == []


def test_nothing_of_the_product_depends_on_benchmarks():
    """The native module, which `wiresum bench` calls, hands them out."""
    assert [crate for crate in ALLOWED_CRATES if "wiresum-bench" in dependencies(crate)] == ["python"]
    products = [path for crate in ALLOWED_CRATES if crate not in {"bench", "python"} for path in sources(crate)]
    assert [str(path.relative_to(ROOT)) for path in products if {"bench", "bench.rs"} & set(path.parts)] == []


def test_no_product_has_random_traffic_or_clusters_of_its_own():
    files = [path for crate in ALLOWED_CRATES if crate != "testkit" for path in sources(crate)]
    pattern = re.compile(r"^\s*(?:pub )?mod (?:random_traffic|cluster|traffic)\b", re.MULTILINE)
    assert [str(path.relative_to(ROOT)) for path in files if pattern.search(path.read_text())] == []


@pytest.mark.parametrize("crate", ALLOWED_CRATES)
def test_private_dependencies_stay_in_their_crate(crate):
    foreign = {name for name in dependencies(crate) if PRIVATE_DEPENDENCIES.get(name, crate) != crate}
    assert not foreign


def python_files():
    return sorted((ROOT / "python" / "wiresum").rglob("*.py"))


def imports(path: Path) -> set[str]:
    pattern = r"^\s*(?:from wiresum(?:\.(\w+))?[\w.]* import (\w+)|import wiresum\.(\w+))"
    found = re.finditer(pattern, path.read_text(), re.MULTILINE)
    return {m.group(1) or m.group(3) or m.group(2) for m in found}


@pytest.mark.parametrize("path", python_files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_packages_import_downwards_only(path):
    place = path.relative_to(ROOT / "python" / "wiresum").parts[0].removesuffix(".py")
    if place == "__init__":
        return
    assert place in ALLOWED_PACKAGES, f"give {place} a place in ALLOWED_PACKAGES"
    assert imports(path) <= ALLOWED_PACKAGES[place] | {place}


TOOLS = "bin"
BANNED_IN_CORE = r"std::(?:net::\w*Socket\b|net::Tcp|time::(?:Instant|SystemTime)|thread(?!::panicking)|fs|process)"


SANS_IO = [
    "wire",
    "codec",
    "seal",
    "netem",
    "plan",
    "schedule",
    "protocol",
    "sparse",
    "switch",
    "worker",
    "testkit",
    "sim",
]


@pytest.mark.parametrize("crate", SANS_IO)
def test_the_core_is_sans_io(crate):
    for path in sources(crate):
        if path.relative_to(ROOT / "crates" / crate / "src").parts[0] == TOOLS:
            continue
        hits = [h for h in re.findall(BANNED_IN_CORE, path.read_text()) if "SocketAddr" not in h]
        assert not hits, f"{path.relative_to(ROOT)} uses {hits}"


def tracked_text_files():
    for folder, below, names in os.walk(ROOT):
        below[:] = set(below) - {".git", "target", ".venv", "build", "node_modules"}
        for path in map(Path(folder).joinpath, names):
            if path.suffix in {".rs", ".py", ".c", ".h", ".cpp", ".md"}:
                yield path


def test_no_file_is_a_giant():
    giants = {
        str(p.relative_to(ROOT)): n
        for p in tracked_text_files()
        if p.suffix != ".md" and (n := p.read_text().count("\n")) > 600
    }
    assert not giants, f"split these, one thing each: {giants}"


def journeys():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.partition("journeys, file by file\n")[2].partition("\n## ")[0]
    return [" ".join(one.split()) for one in section.split("\n* ")[1:]]


@pytest.mark.parametrize("journey", journeys(), ids=lambda journey: journey.split("**")[1])
def test_a_journey_goes_by_files_that_exist_and_enters_none_twice(journey):
    # After "in `crates/X`:" a name is that of a file of this crate; elsewhere it is the end of a path, without `src`.
    paths = [str(path.relative_to(ROOT)).replace("/src/", "/") for path in tracked_text_files()]
    places = {place for path in paths for place in (path, *map(str, Path(path).parents))}
    seen: list[str] = []
    for part in re.split(r" → | In the kernel: | At a switch: | at the other end ", journey.partition("**: ")[2]):
        crate = re.match(r"in `(crates/\w+)`: ", part)
        inside = crate[1] if crate else ""
        for name in re.findall(r"`([\w*]+(?:[./][\w*]+)+)`", part.removeprefix(crate[0] if crate else "")):
            there = [place for place in places if fnmatch(f"/{place}", f"*/{name}") and place.startswith(inside)]
            assert there, f"{name} is not in {inside or 'the repository'}"
            seen.append(f"{inside}/{name}")
    assert len(seen) > 5
    assert len(seen) == len(set(seen)), f"{journey} enters a file twice"
