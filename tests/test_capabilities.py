"""A skip that hides something fails the run; one that says what the machine lacks does not."""

import pytest
from tests import capabilities

LACKS_MAGIC = """
import pytest

@pytest.mark.needs("magic")
def test_it():
    raise AssertionError
"""


def forget():
    capabilities.lack.cache_clear()
    capabilities._now.cache_clear()


@pytest.fixture
def outcome(pytester, monkeypatch):
    """Runs a file whose tests may need magic: the run's end and its words."""
    monkeypatch.delenv(capabilities.REQUIRE, raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take longer to load than these tests

    def run(text, *problems):
        asked = iter(problems)
        monkeypatch.setitem(capabilities.PROBES, "magic", lambda: next(asked))
        forget()
        pytester.makepyfile(text)
        done = pytester.runpytest_inprocess("-p", "tests.capabilities", "-p", "no:cacheprovider")
        return done.ret, str(done.stdout)

    yield run
    forget()


def test_a_real_lack_is_a_skip_with_its_remedy(outcome):
    ended, words = outcome(LACKS_MAGIC, "buy a wand", "buy a wand")
    assert ended == pytest.ExitCode.OK
    assert "1 skipped" in words


def test_a_skip_for_what_is_there_after_all_fails_the_run(outcome):
    ended, words = outcome(LACKS_MAGIC, "buy a wand", "")
    assert ended == pytest.ExitCode.TESTS_FAILED
    assert "this machine has magic now" in words


def test_a_skip_for_what_the_environment_promises_fails_the_run(outcome, monkeypatch):
    monkeypatch.setenv(capabilities.REQUIRE, "xdp,magic")
    ended, words = outcome(LACKS_MAGIC, "buy a wand", "buy a wand")
    assert ended == pytest.ExitCode.TESTS_FAILED
    assert f"{capabilities.REQUIRE} says that this machine has magic" in words


@pytest.mark.parametrize(
    "text",
    [
        "import pytest\ndef test_it(): pytest.skip('no time')",
        "import pytest\n@pytest.mark.skip(reason='no time')\ndef test_it(): pass",
        "import pytest\npytest.skip('no time', allow_module_level=True)",
        "import pytest\npytest.importorskip('notime', reason='no time')\ndef test_it(): pass",
    ],
    ids=["inside", "marked", "file", "import"],
)
def test_a_skip_for_another_reason_fails_the_run(outcome, text):
    ended, words = outcome(text)
    assert ended == pytest.ExitCode.TESTS_FAILED
    assert "skipped for no lack that tests/capabilities.py knows" in words
    assert "no time" in words


def test_a_need_that_nobody_knows_is_an_error(outcome):
    ended, words = outcome("import pytest\n@pytest.mark.needs('luck')\ndef test_it(): pass")
    assert ended == pytest.ExitCode.TESTS_FAILED
    assert "KeyError: 'luck'" in words


def test_an_expected_failure_is_no_skip(outcome):
    ended, _ = outcome("import pytest\n@pytest.mark.xfail(reason='known', strict=True)\ndef test_it(): assert False")
    assert ended == pytest.ExitCode.OK
