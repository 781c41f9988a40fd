//! Python's buffers as tensors.

use std::ptr::NonNull;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use wiresum_codec::ElementType;

/// A writable, contiguous array of floats, pinned for as long as this lives.
pub struct Array {
    pub data: NonNull<u8>,
    pub len: usize,
    pub element_type: ElementType,
    _pinned: PyUntypedBuffer,
}

impl Array {
    /// The array behind anything that speaks the buffer protocol.
    ///
    /// # Errors
    /// `TypeError` for other elements than float32 and float16; `ValueError` if it is read-only, not contiguous or empty.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        let element_type = element_type_of(&buffer)?;
        let refuse = |problem: &str| Err(PyValueError::new_err(format!("the array {problem}")));
        if buffer.readonly() {
            return refuse("is read-only: sums are written in place");
        }
        if !buffer.is_c_contiguous() {
            return refuse("is not contiguous: pass a contiguous copy");
        }
        let data = NonNull::new(buffer.buf_ptr().cast::<u8>());
        let aligned = data.filter(|data| data.addr().get().is_multiple_of(buffer.item_size()));
        match aligned {
            _ if buffer.item_count() == 0 => refuse("is empty: there is nothing to sum"),
            None => refuse("is not aligned for its elements"),
            Some(data) => {
                Ok(Self { data, len: buffer.item_count(), element_type, _pinned: buffer })
            }
        }
    }
}

/// The element type by the format of the `struct` module, in the machine's byte order.
fn element_type_of(buffer: &PyUntypedBuffer) -> PyResult<ElementType> {
    match buffer.format().to_bytes() {
        b"f" | b"=f" | b"@f" | b"<f" if cfg!(target_endian = "little") => Ok(ElementType::Float32),
        b"e" | b"=e" | b"@e" | b"<e" if cfg!(target_endian = "little") => Ok(ElementType::Float16),
        other => Err(PyTypeError::new_err(format!(
            "elements of format `{}` cannot be summed in the network: use float32 (`f`) or float16 (`e`)",
            String::from_utf8_lossy(other)
        ))),
    }
}
