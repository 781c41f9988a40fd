"""What to say where the native module `wiresum._native` does not load."""

MODULE = "wiresum._native"
LIBC = "glibc"


def why_missing(error: ImportError) -> str:
    """What happened, and what to do.

    Args:
        error: of the import.
    """
    return f"{MODULE} cannot be loaded ({error}); {_remedy()}"


def _remedy() -> str:
    import platform

    if platform.libc_ver()[0] != LIBC:
        return f"it needs {LIBC}, and this Python uses another C library (musl, as on Alpine?): use Debian, for example"
    return "install Wiresum's wheel, or run `make build` in a clone"
