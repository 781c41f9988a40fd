from tests.testbed.conftest import name  # noqa: F401 - a fixture
