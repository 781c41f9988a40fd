"""The script of `make test`: all steps run, and a failed live test runs once more at the end."""

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts/run_tests.py"
PASSES = "def test_passes(): pass\n"
FAILS = "def test_fails(): raise AssertionError\n"
FLAKY = """
from pathlib import Path

def test_flaky():
    ran = Path("ran")
    passes = ran.exists()
    ran.touch()
    assert passes
"""
CARGO = """
failures:

---- moves stdout ----
panicked at failures:

failures:
    moves
    side::waits

test result: FAILED. 3 passed; 2 failed
error: test failed, to rerun pass `-p {package} {target}`
error: 1 target failed:
    `-p {package} {target}`
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("run_tests", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "run_tests", module)  # its data classes look there
    spec.loader.exec_module(module)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take longer to load than these tests
    monkeypatch.setattr(module, "PYTEST", [sys.executable, "-m", "pytest", "-q"])
    monkeypatch.setattr(module, "ALONE", [])  # an option of a plugin
    return module


def steps(script, **files):
    """Steps whose names say whether their failed tests are repeated."""
    for name, text in files.items():
        Path(f"test_{name}.py").write_text(text)
        yield script.PythonStep(name, [f"test_{name}.py"], is_live=not name.startswith("compute"))


def test_a_flaky_live_test_passes_at_the_end(script, capfd):
    assert script.run(steps(script, live=FLAKY, last=PASSES)) == 0
    words = capfd.readouterr().out
    assert words.index("Tests: last: passed") < words.index("Once more, alone: test_live.py::test_flaky")
    assert "Passed alone: test_live.py::test_flaky" in words
    assert "List in docs/STATUS.md: test_live.py::test_flaky" in words


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"live": FAILS}, "Failed again: test_live.py::test_fails"),
        ({"compute": FLAKY, "last": PASSES}, "Tests: compute failed, last passed"),
        ({"compute": FAILS, "live": FLAKY}, "Passed alone: test_live.py::test_flaky"),
        ({"live": FAILS, "more": FAILS + FAILS.replace("fails", "too")}, "3 live tests failed. At most 2 are repeated"),
        ({"live": "import nothing_here"}, "Tests: live failed"),
    ],
    ids=["again", "compute", "both", "many", "import"],
)
def test_a_run_fails_after_its_last_step(script, capfd, files, words):
    assert script.run(steps(script, **files)) == 1
    assert words in capfd.readouterr().out


@pytest.mark.parametrize("package", ["wiresum-node", "wiresum-wire"])
@pytest.mark.parametrize("target", ["--test service", "--lib", "--doc"])
def test_failed_rust_tests_of_live_crates_are_repeated(script, package, target):
    outcome = script.failed_rust_tests(CARGO.format(package=package, target=target))
    is_live = package == "wiresum-node" and target != "--doc"
    names = [f"-p {package} {target} {name}" for name in ("moves", "side::waits")]
    assert outcome.is_broken is not is_live
    assert [test.name for test in outcome.failed] == (names if is_live else [])
    assert all(test.command[-2] == "--exact" for test in outcome.failed)


@pytest.mark.parametrize(
    "text",
    [
        "error: could not compile `wiresum-node`",
        "error: test failed, to rerun pass `-p wiresum-node --test service`\n\nCaused by: signal: 6",
        CARGO.format(package="wiresum-node", target="--lib") + CARGO.format(package="wiresum-wire", target="--lib"),
    ],
    ids=["compiler", "crash", "another crate"],
)
def test_other_failures_of_cargo_fail_the_run(script, text):
    assert script.failed_rust_tests(text).is_broken


def test_output_of_cargo_is_shown_and_read(script, capfd):
    Path("output").write_text(CARGO.format(package="wiresum-xdp", target="--test veth"))
    outcome = script.RustStep(command=["sh", "-c", "cat output; exit 101"]).run()
    assert [test.name for test in outcome.failed] == [
        f"-p wiresum-xdp --test veth {n}" for n in ("moves", "side::waits")
    ]
    assert "test result: FAILED" in capfd.readouterr().out
