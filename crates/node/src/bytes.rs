//! Memory of a caller as the source and the sink of a copy: bytes, whatever their type.

use std::ops::Range;
use std::ptr::NonNull;

use wiresum_worker::{Sink, Source};

use crate::aside::Aside;

/// What all ranks say of bytes that are copied in place of their type, operation and codec.
pub const SIGNATURE: u8 = u8::MAX;

/// Bytes that someone else owns. Slices are made of no more than a call needs, as the rest may be written meanwhile.
struct Bytes {
    data: NonNull<u8>,
    len: usize,
    signature: u8,
    aside: Option<Aside>,
}

// SAFETY: `source` and `sink` oblige their callers to leave the bytes to this object, on whatever thread it is.
unsafe impl Send for Bytes {}

impl Bytes {
    fn at(&self, range: &Range<usize>) -> *mut u8 {
        assert!(range.end <= self.len, "{range:?} of {} bytes", self.len);
        // SAFETY: by the contract of `source` and `sink` there are `len` bytes.
        unsafe { self.data.add(range.start) }.as_ptr()
    }
}

/// The `len` bytes at `data` as a source; ranks compare the signature.
///
/// # Safety
/// They are initialised, and nobody writes those that this rank gives until the source is dropped.
#[must_use]
pub unsafe fn source(data: NonNull<u8>, len: usize, signature: u8) -> Box<dyn Source> {
    // SAFETY: by the contract.
    unsafe { source_beside(data, len, signature, None) }
}

/// The same, of which a copy is kept of what is sent.
///
/// # Safety
/// As for [`source`]; there is as much room aside, which nobody else reads or writes until then.
pub(crate) unsafe fn source_beside(
    data: NonNull<u8>,
    len: usize,
    signature: u8,
    aside: Option<Aside>,
) -> Box<dyn Source> {
    Box::new(Bytes { data, len, signature, aside })
}

/// The `len` bytes at `data` as a sink.
///
/// # Safety
/// Until the sink is dropped, nobody reads or writes those that copies are for.
#[must_use]
pub unsafe fn sink(data: NonNull<u8>, len: usize) -> Box<dyn Sink> {
    Box::new(Bytes { data, len, signature: SIGNATURE, aside: None })
}

impl Source for Bytes {
    fn len(&self) -> usize {
        self.len
    }

    fn signature(&self) -> u8 {
        self.signature
    }

    fn width(&self) -> usize {
        4
    }

    /// There is nothing to share: bytes are not scaled.
    fn exponent(&self, _range: Range<usize>) -> i32 {
        0
    }

    /// The bytes as they are. Their sum is the caller's to form, who knows the lanes.
    fn encode(&self, range: Range<usize>, _exponent: i8, lanes: &mut [u8]) -> u32 {
        let len = range.len();
        if let Some(aside) = &self.aside {
            // SAFETY: by the contract of `source_beside` there is room.
            unsafe { aside.keep(&range) };
        }
        // SAFETY: by the contract of `source`.
        let bytes = unsafe { std::slice::from_raw_parts(self.at(&range), len) };
        lanes[..len].copy_from_slice(bytes);
        lanes[len..].fill(0);
        0
    }
}

impl Sink for Bytes {
    fn decode(&mut self, range: Range<usize>, _exponent: i8, lanes: &[u8]) {
        // SAFETY: by the contract of `sink`.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.at(&range), range.len()) };
        bytes.copy_from_slice(lanes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_copied_as_they_are() {
        let given = [1u8, 2, 3, 4, 5];
        let mut taken = [0u8; 5];
        let (from, to) = (NonNull::from(&given).cast(), NonNull::from(&mut taken).cast());
        // SAFETY: the test drops both before it looks.
        let (source, mut sink) = unsafe { (source(from, 5, SIGNATURE), sink(to, 5)) };
        let mut lanes = [9; 32];
        source.encode(1..4, 0, &mut lanes);
        sink.decode(2..5, 0, &lanes[..3]);
        drop((source, sink));
        assert_eq!(lanes[3..], [0; 29]);
        assert_eq!(taken, [0, 0, 2, 3, 4]);
    }
}
