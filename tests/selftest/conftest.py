from tests.beds import name

__all__ = ["name"]
