//! A caller's tensor as the protocol's [`Buffer`]: summed in place, without a copy.

use std::ops::Range;
use std::ptr::NonNull;

use wiresum_codec::{Element, ElementType, Format, Operation, bf16, f16};
use wiresum_worker::Buffer;

/// Elements that someone else owns.
struct Tensor<T> {
    data: NonNull<T>,
    len: usize,
    format: Format,
    operation: Operation,
}

// SAFETY: `tensor` obliges its caller to leave the elements to this object, on whatever thread it is.
unsafe impl<T: Element> Send for Tensor<T> {}

/// The `len` elements at `data` as a buffer.
///
/// # Safety
/// `data` is aligned for the element type and points to `len` initialised elements that nothing else reads or writes
/// until the buffer is dropped.
#[must_use]
pub unsafe fn tensor(
    data: NonNull<u8>,
    len: usize,
    element: ElementType,
    operation: Operation,
    format: Format,
) -> Box<dyn Buffer> {
    match element {
        ElementType::Float32 => {
            Box::new(Tensor::<f32> { data: data.cast(), len, format, operation })
        }
        ElementType::Float16 => {
            Box::new(Tensor::<f16> { data: data.cast(), len, format, operation })
        }
        ElementType::BFloat16 => {
            Box::new(Tensor::<bf16> { data: data.cast(), len, format, operation })
        }
    }
}

impl<T: Element> Tensor<T> {
    fn elements(&mut self) -> &mut [T] {
        // SAFETY: by the contract of `tensor`.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }
}

impl<T: Element> Buffer for Tensor<T> {
    fn len(&self) -> usize {
        self.len
    }

    fn signature(&self) -> i32 {
        self.format.signature(T::TYPE, self.operation)
    }

    fn exponent(&mut self, range: Range<usize>) -> i32 {
        let format = self.format;
        format.exponent(&self.elements()[range])
    }

    fn encode(&mut self, range: Range<usize>, exponent: i8, lanes: &mut [u8]) -> u32 {
        let format = self.format;
        format.encode(&self.elements()[range], exponent, lanes)
    }

    fn set_participation(&mut self, ranks: u32) {
        self.format = self.format.of_participants(ranks);
    }

    fn decode(&mut self, range: Range<usize>, exponent: i8, lanes: &[u8]) {
        let (format, operation) = (self.format, self.operation);
        format.decode(lanes, exponent, operation, &mut self.elements()[range]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wiresum_codec::{Codec, LaneType};

    #[test]
    fn fragments_are_summed_in_place() {
        let format = Format::new(Codec::Block, LaneType::I32Le, 2).expect("a format");
        let mut values = [1.5f32, -2.0, 3.0, 0.25];
        let data = NonNull::from(&mut values).cast();
        // SAFETY: `values` outlives the buffer and is not touched meanwhile.
        let mut buffer =
            unsafe { tensor(data, 4, ElementType::Float32, Operation::Average, format) };
        let exponent = i8::try_from(buffer.exponent(1..3)).expect("finite");
        let mut lanes = [0; 32];
        let sum = buffer.encode(1..3, exponent, &mut lanes);
        assert_eq!(sum, LaneType::I32Le.sum(&lanes));
        buffer.decode(1..3, exponent, &lanes);
        drop(buffer);
        assert_eq!(values, [1.5, -1.0, 1.5, 0.25], "one of two workers, averaged");
    }
    #[test]
    fn sums_of_some_stand_for_those_of_all() {
        let format = Format::new(Codec::Block, LaneType::I32Le, 4).expect("a format");
        for (operation, expected) in [(Operation::Sum, 6.0), (Operation::Average, 1.5)] {
            let mut values = [4.5f32];
            let data = NonNull::from(&mut values).cast();
            // SAFETY: `values` outlives the buffer and is not touched meanwhile.
            let mut buffer = unsafe { tensor(data, 1, ElementType::Float32, operation, format) };
            let exponent = i8::try_from(buffer.exponent(0..1)).expect("finite");
            let mut lanes = [0; 32];
            buffer.encode(0..1, exponent, &mut lanes);
            buffer.set_participation(3);
            buffer.decode(0..1, exponent, &lanes);
            drop(buffer);
            assert!((values[0] - expected).abs() < 1e-6, "a sum of 4.5 by three of four");
        }
    }
}
