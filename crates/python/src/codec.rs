//! The codec on bytes: what implementations for other devices are compared with.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use wiresum_codec::{Element, Format, LaneType, Operation, bf16, f16};

/// Calls a function with the type of the elements.
macro_rules! for_element {
    ($name:expr, $function:ident($($argument:expr),*)) => {
        match $name {
            "float32" => Ok($function::<f32>($($argument),*)),
            "float16" => Ok($function::<f16>($($argument),*)),
            "bfloat16" => Ok($function::<bf16>($($argument),*)),
            other => Err(PyValueError::new_err(format!("`{other}` is no element type of the codec"))),
        }
    };
}

/// What a worker proposes for each fragment.
#[pyfunction]
pub fn codec_exponents(
    values: &[u8],
    element: &str,
    fragment: usize,
    format: (&str, &str, u32),
) -> PyResult<Vec<i32>> {
    let format = format_of(format)?;
    for_element!(element, propose(values, fragment, &format))
}

/// Lanes of all fragments, padded to whole ones, and their sums.
#[pyfunction]
pub fn codec_encode<'py>(
    py: Python<'py>,
    values: &[u8],
    element: &str,
    exponents: Vec<i8>,
    fragment: usize,
    format: (&str, &str, u32),
) -> PyResult<(Bound<'py, PyBytes>, Vec<u32>)> {
    let format = format_of(format)?;
    let (lanes, sums) = for_element!(element, encode(values, &exponents, fragment, &format))?;
    Ok((PyBytes::new(py, &lanes), sums))
}

/// The values that summed lanes stand for.
#[pyfunction]
#[pyo3(signature = (lanes, element, exponents, elements, format, average = false))]
pub fn codec_decode<'py>(
    py: Python<'py>,
    lanes: &[u8],
    element: &str,
    exponents: Vec<i8>,
    elements: usize,
    format: (&str, &str, u32),
    average: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let format = format_of(format)?;
    let operation = if average { Operation::Average } else { Operation::Sum };
    let values = for_element!(element, decode(lanes, &exponents, elements, &format, operation))?;
    Ok(PyBytes::new(py, &values))
}

fn format_of((codec, lanes, workers): (&str, &str, u32)) -> PyResult<Format> {
    let refused = |error: String| PyValueError::new_err(error);
    let lanes = [LaneType::I32Le, LaneType::I32Be, LaneType::I16Le, LaneType::I16Be]
        .into_iter()
        .find(|kind| kind.name() == lanes)
        .ok_or_else(|| refused(format!("`{lanes}` is no lane type")))?;
    let codec = codec.parse().map_err(|e: wiresum_codec::FormatError| refused(e.to_string()))?;
    Format::new(codec, lanes, workers).map_err(|e| refused(e.to_string()))
}

/// Elements from little-endian bytes.
fn elements_of<T: Element>(bytes: &[u8]) -> Vec<T> {
    let mut values = vec![T::default(); bytes.len() / size_of::<T>()];
    let whole = size_of_val(values.as_slice());
    bytes_of(&mut values).copy_from_slice(&bytes[..whole]);
    values
}

/// The bytes of elements.
fn bytes_of<T: Element>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: elements are plain numbers of any bits without padding; the slice is borrowed for as long.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

fn propose<T: Element>(values: &[u8], fragment: usize, format: &Format) -> Vec<i32> {
    elements_of::<T>(values).chunks(fragment).map(|part| format.exponent(part)).collect()
}

fn encode<T: Element>(
    values: &[u8],
    exponents: &[i8],
    fragment: usize,
    format: &Format,
) -> (Vec<u8>, Vec<u32>) {
    let values = elements_of::<T>(values);
    let bytes = fragment * format.lanes().width();
    let mut lanes = vec![0; exponents.len() * bytes];
    let parts = values.chunks(fragment).zip(exponents).zip(lanes.chunks_mut(bytes));
    let sums = parts.map(|((part, &e), lanes)| format.encode(part, e, lanes)).collect();
    (lanes, sums)
}

fn decode<T: Element>(
    lanes: &[u8],
    exponents: &[i8],
    elements: usize,
    format: &Format,
    operation: Operation,
) -> Vec<u8> {
    let mut values = vec![T::default(); elements];
    let bytes = lanes.len() / exponents.len().max(1);
    let fragment = bytes / format.lanes().width();
    let parts = values.chunks_mut(fragment.max(1)).zip(exponents).zip(lanes.chunks(bytes.max(1)));
    parts.for_each(|((part, &e), lanes)| format.decode(lanes, e, operation, part));
    bytes_of(&mut values).to_vec()
}
