//! Signals that arrive while Rust waits without Python's lock.

use pyo3::prelude::*;

/// Whether a signal has raised an exception, as Ctrl-C does. [`raised`] has it.
pub fn has_signal() -> bool {
    Python::attach(|py| py.check_signals().map_err(|error| error.restore(py)).is_err())
}

/// The exception of [`has_signal`].
pub fn raised(py: Python<'_>) -> Option<PyErr> {
    PyErr::take(py)
}
