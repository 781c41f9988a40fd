"""What `make packages` has made, installed into empty places, where it trains. `make test-packages` runs this."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.packages

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "build" / "packages"
INSTALL_S, TRAIN_S, COMPILE_S = 300, 300, 600
ALLOWED = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
"""Libraries that every Linux with glibc and GCC has."""
TRAINING = """
import torch, wiresum.torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("wiresum")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(100, 100))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 100)).square().sum().backward()
    optimizer.step()
print("summed", sum(row.bytes for group in wiresum.torch.report().groups for row in group.rows if row.is_summed))
dist.destroy_process_group()
"""


def only(pattern: str) -> Path:
    found = sorted(PACKAGES.glob(pattern))
    assert len(found) == 1, (
        f"{PACKAGES}/{pattern} is {found}: run `make packages` in a tree whose build/packages is empty"
    )
    return found[0]


def run(*command: str | Path, timeout_s: float = 60, **options: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=timeout_s, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return str(done.stdout)


def libraries(program: Path) -> set[str]:
    return set(re.findall(r"NEEDED +(\S+)", run("objdump", "-p", program)))


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python environment with the wheel and, from this one, what the wheel depends on; the folder of its programs."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    site = next(folder.glob("lib/python*/site-packages"))
    # Packages of this environment are seen; the source tree, which is installed in it in place, is not.
    (site / "dependencies.pth").write_text(next(path for path in sys.path if path.endswith("site-packages")) + "\n")
    uv = Path(sys.executable).parent / "uv"
    run(uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", folder / "bin/python", only("*.whl"))
    return folder / "bin"


@pytest.fixture
def clean(tmp_path: Path, environment: Path) -> dict[str, str]:
    """Variables of a user who has nothing but the environment."""
    kept = {name: os.environ[name] for name in ("LANG", "TERM", "USER") if name in os.environ}
    return {**kept, "HOME": str(tmp_path), "PATH": f"{environment}:/usr/sbin:/usr/bin:/sbin:/bin"}


def test_the_wheel_says_what_it_is() -> None:
    name = only("*.whl").name
    assert re.fullmatch(r"wiresum-[\d.]+-cp311-abi3-manylinux_2_\d+_\w+\.whl", name), name
    names = run("unzip", "-Z1", only("*.whl")).splitlines()
    for what in (
        r"scripts/wiresum-node$",
        r"wiresum/_native\.abi3\.so$",
        r"wiresum/torch/_c10d-torch2\.\d+-\w+\.\S+\.so$",
        r"wiresum/torch/csrc/\w+\.cpp$",
        r"wiresum/schemas/plan\.json$",
        r"systemd/wiresum-node@\.service$",
        r"licenses/LICENSE$",
    ):
        assert any(re.search(what, path) for path in names), what
    metadata = run("unzip", "-p", only("*.whl"), "*/METADATA")
    assert "# Wiresum" in metadata
    assert {f"Provides-Extra: {extra}" for extra in ("torch", "planners", "plots", "all")} <= set(metadata.splitlines())


def test_the_wheel_wants_no_library_that_is_not_everywhere(environment: Path) -> None:
    package = next(environment.parent.glob("lib/python*/site-packages/wiresum"))
    assert libraries(environment / "wiresum-node") <= ALLOWED
    assert libraries(package / "_native.abi3.so") <= ALLOWED


def test_the_source_distribution_has_all_that_it_is_built_from(tmp_path: Path) -> None:
    with tarfile.open(only("wiresum-*.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    sources = next(tmp_path.iterdir())
    for folder in ("bpf", "packaging/systemd", "python/wiresum/torch/csrc"):
        named = {path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.suffix in {".c", ".h", ".cpp"}}
        assert named <= {path.relative_to(sources) for path in sources.rglob("*")}, folder
    # Build scripts compile the BPF programs, and files that are included are read: what is not packed is found here.
    cargo = ["cargo", "check", "--quiet", "--locked", "--package"]
    target = ["--target-dir", ROOT / "target"]
    for package in ("wiresum-python", "wiresum-node"):
        run(*cargo, package, *target, cwd=sources, timeout_s=COMPILE_S)


def test_commands_of_the_wheel_answer(environment: Path, clean: dict[str, str], tmp_path: Path) -> None:
    assert re.search(r"\d+\.\d+", run("wiresum", "version", env=clean, cwd=tmp_path))
    assert re.search(r"\d+\.\d+", run("wiresum-node", "--version", env=clean, cwd=tmp_path))
    doctor = ["wiresum", "doctor", "--json"]
    findings = subprocess.run(doctor, check=False, env=clean, cwd=tmp_path, capture_output=True, timeout=60)
    fine = {finding["name"]: finding["fine"] for finding in json.loads(findings.stdout)["findings"]}
    assert fine["wiresum-node"]
    assert fine["wiresum._native"]
    assert fine["wiresum.torch._c10d"]


@pytest.mark.needs("namespaces")
@pytest.mark.parametrize("engine", ["udp", pytest.param("xdp", marks=pytest.mark.needs("xdp"))])
def test_the_wheel_trains(engine: str, clean: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    said = run(
        *("wiresum", "testbed", "run", "star", "--workers", "2", "--engine", engine, "--", "python", "train.py"),
        env=clean,
        cwd=tmp_path,
        timeout_s=TRAIN_S,
    )
    assert len([n for n in re.findall(r"summed (\d+)", said) if int(n) > 100 * 100 * 4]) == 2, said
    assert not list((tmp_path / ".cache").rglob("_c10d*")), "the C++ part was built again"


@pytest.fixture
def debian_root(tmp_path: Path) -> Path:
    run("dpkg-deb", "-x", only("*.deb"), tmp_path / "root")
    return tmp_path / "root"


def test_the_debian_package_is_whole(debian_root: Path) -> None:
    files = {str(path.relative_to(debian_root)) for path in debian_root.rglob("*") if path.is_file()}
    assert files == {
        "usr/bin/wiresum-node",
        "usr/lib/systemd/system/wiresum-node@.service",
        "usr/lib/sysusers.d/wiresum.conf",
        "usr/share/bash-completion/completions/wiresum-node",
        "usr/share/doc/wiresum-node/changelog.gz",
        "usr/share/doc/wiresum-node/copyright",
        "usr/share/lintian/overrides/wiresum-node",
        "usr/share/man/man8/wiresum-node.8.gz",
    }
    assert (debian_root / "etc/wiresum").is_dir()
    assert libraries(debian_root / "usr/bin/wiresum-node") <= ALLOWED
    assert "@" not in run("dpkg-deb", "-f", only("*.deb")).replace("wiresum@localhost", "")
    run(debian_root / "usr/bin/wiresum-node", "--version")


@pytest.mark.needs("lintian")
def test_lintian_has_nothing_to_say_of_the_debian_package() -> None:
    said = run("lintian", "--allow-root", "--fail-on", "error,warning", "--display-info", only("*.deb"), timeout_s=120)
    # Letters of the program that happen to be misspelt words.
    assert [line for line in said.splitlines() if "spelling-error-in-binary" not in line] == []


@pytest.fixture
def image_root(tmp_path: Path) -> Path:
    """The image's only layer, unpacked, after every digest was checked."""
    layout = tmp_path / "layout"
    with tarfile.open(only("*image.tar")) as archive:
        archive.extractall(layout, filter="data")

    def blob(descriptor: dict[str, object]) -> Path:
        algorithm, digest = str(descriptor["digest"]).split(":")
        path = layout / "blobs" / algorithm / digest
        content = path.read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest
        assert len(content) == descriptor["size"]
        return path

    assert json.loads((layout / "oci-layout").read_text())["imageLayoutVersion"] == "1.0.0"
    (manifest,) = json.loads((layout / "index.json").read_text())["manifests"]
    parts = json.loads(blob(manifest).read_text())
    (layer,) = parts["layers"]
    configuration = json.loads(blob(parts["config"]).read_text())
    root = tmp_path / "root"
    with tarfile.open(blob(layer)) as archive:
        archive.extractall(root, filter="tar")
    uncompressed = subprocess.run(["gzip", "-dc", blob(layer)], capture_output=True, check=True).stdout
    assert configuration["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(uncompressed).hexdigest()}"]
    assert configuration["config"]["Entrypoint"] == ["/usr/bin/wiresum-node"]
    return root


@pytest.mark.needs("namespaces")
def test_the_image_has_all_that_the_daemon_needs(image_root: Path) -> None:
    assert os.geteuid() == 0, "namespaces need root here, and so does chroot"
    assert re.search(r"\d+\.\d+", run("chroot", image_root, "/usr/bin/wiresum-node", "--version"))
    assert not (image_root / "bin").exists(), "there is no shell in it"
