//! Elements that lanes carry as they are: integers that are summed, and the least or the largest elements of any type.
//!
//! A sum of integers is right modulo 2 to their number of bits, which no lane has fewer of. For extremes a lane holds a
//! number that orders as the element does, and nodes keep the largest. Nothing is rounded, so no exponent is shared.

use std::ops::Range;
use std::ptr::NonNull;

use wiresum_codec::lane::{I16Be, I16Le, I32Be, I32Le, Lane};
use wiresum_wire::{LaneType, NOT_FINITE};
use wiresum_worker::{Sink, Source};

use crate::aside::Aside;

/// Types of elements; the numbers are those of `engine_abi.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExactType {
    /// IEEE 754 binary32.
    Float32 = 0,
    /// IEEE 754 binary16.
    Float16 = 1,
    /// The upper half of binary32.
    BFloat16 = 2,
    /// 32 bits, in two's complement.
    Int32 = 3,
    /// 8 bits, in two's complement.
    Int8 = 4,
    /// 8 bits without a sign.
    UInt8 = 5,
}

impl ExactType {
    /// The type with this number.
    #[must_use]
    pub fn of_code(code: u32) -> Option<Self> {
        use ExactType::{BFloat16, Float16, Float32, Int8, Int32, UInt8};
        [Float32, Float16, BFloat16, Int32, Int8, UInt8].get(code as usize).copied()
    }

    /// Bytes of an element.
    #[must_use]
    pub fn width(self) -> usize {
        match self {
            Self::Float32 | Self::Int32 => 4,
            Self::Float16 | Self::BFloat16 => 2,
            Self::Int8 | Self::UInt8 => 1,
        }
    }

    /// The bits of Inf, beyond which are those that are no numbers; `None` for integers.
    fn infinity(self) -> Option<i32> {
        match self {
            Self::Float32 => Some(0x7f80_0000),
            Self::Float16 => Some(0x7c00),
            Self::BFloat16 => Some(0x7f80),
            _ => None,
        }
    }
}

/// What is made of the elements of all ranks; the numbers are those of `engine_abi.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExactOperation {
    /// The sum, of integers.
    Sum = 0,
    /// The least.
    Minimum = 2,
    /// The largest.
    Maximum = 3,
}

impl ExactOperation {
    /// The operation with this number.
    #[must_use]
    pub fn of_code(code: u32) -> Option<Self> {
        [Self::Sum, Self::Minimum, Self::Maximum].into_iter().find(|it| *it as u32 == code)
    }
}

/// How elements become lanes, and lanes elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    element: ExactType,
    operation: ExactOperation,
    lanes: LaneType,
}

/// Above the signatures of codecs.
const SIGNATURE: u8 = 0x80;

impl Exact {
    /// `None` where lanes have fewer bits than elements, or where sums would be rounded.
    #[must_use]
    pub fn new(element: ExactType, operation: ExactOperation, lanes: LaneType) -> Option<Self> {
        let is_rounded = operation == ExactOperation::Sum && element.infinity().is_some();
        let fits = element.width() <= lanes.width() && !is_rounded;
        fits.then_some(Self { element, operation, lanes })
    }

    /// The type of the elements.
    #[must_use]
    pub fn element(&self) -> ExactType {
        self.element
    }

    /// Bytes of a lane.
    #[must_use]
    pub fn width(&self) -> usize {
        self.lanes.width()
    }

    fn signature(&self) -> u8 {
        SIGNATURE | self.element as u8 | (self.operation as u8) << 3
    }

    /// Bits that order as numbers do, for bits of floats, and the other way round; of integers as they are.
    fn in_order(&self, bits: i32) -> i32 {
        let below_the_sign = match self.element {
            ExactType::Float32 => i32::MAX,
            ExactType::Float16 | ExactType::BFloat16 => 0x7fff,
            _ => 0,
        };
        bits ^ (bits >> 31 & below_the_sign)
    }

    fn to_lane(self, bits: i32) -> i32 {
        match self.operation {
            ExactOperation::Sum => bits,
            ExactOperation::Maximum => self.in_order(bits),
            ExactOperation::Minimum => !self.in_order(bits),
        }
    }

    fn of_lane(self, lane: i32) -> i32 {
        match self.operation {
            ExactOperation::Sum => lane,
            ExactOperation::Maximum => self.in_order(lane),
            ExactOperation::Minimum => self.in_order(!lane),
        }
    }

    fn encode<L: Lane>(self, elements: &[u8], lanes: &mut [u8]) {
        let elements = elements.chunks_exact(self.element.width());
        for (bytes, lane) in elements.zip(L::split_mut(lanes)) {
            *lane = L::store(self.to_lane(read_bits(self.element, bytes)));
        }
    }

    fn decode<L: Lane>(self, lanes: &[u8], elements: &mut [u8]) {
        let elements = elements.chunks_exact_mut(self.element.width());
        for (bytes, lane) in elements.zip(L::split(lanes)) {
            write_bits(self.element, self.of_lane(L::load(*lane)), bytes);
        }
    }

    fn is_number(&self, bits: i32) -> bool {
        let all = if self.element == ExactType::Float32 { i32::MAX } else { 0x7fff };
        self.element.infinity().is_none_or(|infinity| bits & all <= infinity)
    }
}

/// An element's bits, with its sign in all bits above.
fn read_bits(element: ExactType, bytes: &[u8]) -> i32 {
    match element {
        ExactType::UInt8 => bytes[0].into(),
        ExactType::Int8 => (bytes[0] as i8).into(),
        ExactType::Float16 | ExactType::BFloat16 => i16::from_ne_bytes([bytes[0], bytes[1]]).into(),
        _ => i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
    }
}

fn write_bits(element: ExactType, bits: i32, bytes: &mut [u8]) {
    match element.width() {
        1 => bytes[0] = bits as u8,
        2 => bytes.copy_from_slice(&(bits as i16).to_ne_bytes()),
        _ => bytes.copy_from_slice(&bits.to_ne_bytes()),
    }
}

/// Elements that someone else owns, as source or as sink. Slices are made of no more than a call needs, as the rest may be
/// written meanwhile.
struct Elements {
    data: NonNull<u8>,
    len: usize,
    exact: Exact,
    aside: Option<Aside>,
}

// SAFETY: `source` and `sink` oblige their callers to leave the elements to this object, on whatever thread it is.
unsafe impl Send for Elements {}

impl Elements {
    fn bytes(&self, range: &Range<usize>) -> Range<usize> {
        assert!(range.end <= self.len, "{range:?} of {} elements", self.len);
        let width = self.exact.element.width();
        range.start * width..range.end * width
    }

    fn read(&self, range: &Range<usize>) -> &[u8] {
        let bytes = self.bytes(range);
        // SAFETY: by the contract of `source` there are `len` elements; nobody writes them before they have results.
        unsafe { std::slice::from_raw_parts(self.data.add(bytes.start).as_ptr(), bytes.len()) }
    }
}

/// The `len` elements at `data` as a source.
///
/// # Safety
/// As for [`tensor::source`](crate::tensor::source); there is as much room aside.
#[must_use]
pub(crate) unsafe fn source(
    data: NonNull<u8>,
    len: usize,
    exact: Exact,
    aside: Option<Aside>,
) -> Box<dyn Source> {
    Box::new(Elements { data, len, exact, aside })
}

/// The `len` elements at `data` as a sink.
///
/// # Safety
/// As for [`tensor::sink`](crate::tensor::sink).
#[must_use]
pub(crate) unsafe fn sink(
    data: NonNull<u8>,
    len: usize,
    exact: Exact,
    aside: Option<Aside>,
) -> Box<dyn Sink> {
    Box::new(Elements { data, len, exact, aside })
}

impl Source for Elements {
    fn len(&self) -> usize {
        self.len
    }

    fn signature(&self) -> u8 {
        self.exact.signature()
    }

    fn width(&self) -> usize {
        self.exact.width()
    }

    fn keeps_largest(&self) -> bool {
        self.exact.operation != ExactOperation::Sum
    }

    /// No exponent is needed, but what is no number has no place in an order.
    fn exponent(&self, range: Range<usize>) -> i32 {
        let Exact { element, .. } = self.exact;
        let mut all = self.read(&range).chunks_exact(element.width());
        let is_sound = element.infinity().is_none()
            || all.all(|bytes| self.exact.is_number(read_bits(element, bytes)));
        if is_sound { 0 } else { NOT_FINITE }
    }

    fn encode(&self, range: Range<usize>, _exponent: i8, lanes: &mut [u8]) -> u32 {
        if let Some(aside) = &self.aside {
            // SAFETY: by the contract of `source` there is room.
            unsafe { aside.keep(&self.bytes(&range)) };
        }
        let (exact, elements) = (self.exact, self.read(&range));
        let (used, rest) = lanes.split_at_mut(range.len() * exact.width());
        match exact.lanes {
            LaneType::I32Le => exact.encode::<I32Le>(elements, used),
            LaneType::I32Be => exact.encode::<I32Be>(elements, used),
            LaneType::I16Le => exact.encode::<I16Le>(elements, used),
            LaneType::I16Be => exact.encode::<I16Be>(elements, used),
        }
        rest.fill(0);
        exact.lanes.sum(lanes)
    }
}

impl Sink for Elements {
    fn decode(&mut self, range: Range<usize>, _exponent: i8, lanes: &[u8]) {
        let bytes = self.bytes(&range);
        if let Some(aside) = &self.aside {
            aside.note_replaced(bytes.clone());
        }
        let exact = self.exact;
        // SAFETY: by the contract of `sink`; nobody reads them any more, as this fragment has its result.
        let elements = unsafe {
            std::slice::from_raw_parts_mut(self.data.add(bytes.start).as_ptr(), bytes.len())
        };
        match exact.lanes {
            LaneType::I32Le => exact.decode::<I32Le>(lanes, elements),
            LaneType::I32Be => exact.decode::<I32Be>(lanes, elements),
            LaneType::I16Le => exact.decode::<I16Le>(lanes, elements),
            LaneType::I16Be => exact.decode::<I16Be>(lanes, elements),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [ExactType; 6] = [
        ExactType::Float32,
        ExactType::Float16,
        ExactType::BFloat16,
        ExactType::Int32,
        ExactType::Int8,
        ExactType::UInt8,
    ];
    const OPERATIONS: [ExactOperation; 3] =
        [ExactOperation::Sum, ExactOperation::Minimum, ExactOperation::Maximum];
    const LANES: [LaneType; 4] =
        [LaneType::I32Le, LaneType::I32Be, LaneType::I16Le, LaneType::I16Be];

    /// Bits of an element that order as in the list.
    fn ascending(element: ExactType) -> Vec<i32> {
        let floats = [f32::NEG_INFINITY, -3.5, -f32::MIN_POSITIVE, -0.0, 0.0, 1.0, f32::INFINITY];
        match element {
            ExactType::Float32 => floats.map(|it| it.to_bits() as i32).to_vec(),
            ExactType::BFloat16 => floats.map(|it| it.to_bits() as i32 >> 16).to_vec(),
            ExactType::Float16 => [0xfc00u16, 0xc300, 0x8001, 0x8000, 0, 1, 0x3c00, 0x7c00]
                .map(|it| i32::from(it as i16))
                .to_vec(),
            ExactType::Int32 => vec![i32::MIN, -5, 0, 1, i32::MAX],
            ExactType::Int8 => vec![-128, -1, 0, 127],
            ExactType::UInt8 => vec![0, 1, 127, 128, 255],
        }
    }

    fn all() -> impl Iterator<Item = Exact> {
        TYPES.into_iter().flat_map(|element| {
            OPERATIONS.into_iter().flat_map(move |operation| {
                LANES.into_iter().filter_map(move |lanes| Exact::new(element, operation, lanes))
            })
        })
    }

    #[test]
    fn lanes_order_as_elements_do_and_lead_back_to_them() {
        for exact in all() {
            let bits = ascending(exact.element);
            let lanes: Vec<i32> = bits.iter().map(|it| exact.to_lane(*it)).collect();
            match exact.operation {
                ExactOperation::Minimum => assert!(lanes.iter().rev().is_sorted(), "{exact:?}"),
                _ => assert!(lanes.is_sorted(), "{exact:?}: {lanes:?}"),
            }
            assert!(lanes.iter().zip(&bits).all(|(lane, bits)| exact.of_lane(*lane) == *bits));
            assert!(bits.iter().all(|it| exact.is_number(*it)), "{exact:?}");
        }
    }

    #[test]
    fn every_element_survives_its_lanes() {
        for exact in all() {
            let (element, width) = (exact.element, exact.element.width());
            let bits = ascending(element);
            let mut memory = vec![0; bits.len() * width];
            bits.iter()
                .zip(memory.chunks_exact_mut(width))
                .for_each(|(it, to)| write_bits(element, *it, to));
            let before = memory.clone();
            let data = NonNull::from(&mut memory[..]).cast();
            // SAFETY: both are dropped before the memory is looked at.
            let (source, mut sink) = unsafe {
                (source(data, bits.len(), exact, None), sink(data, bits.len(), exact, None))
            };
            let mut lanes = vec![0xff; (bits.len() * exact.width()).next_multiple_of(32)];
            assert_eq!(source.exponent(0..bits.len()), 0, "{exact:?}");
            assert_eq!(source.encode(0..bits.len(), 0, &mut lanes), exact.lanes.sum(&lanes));
            sink.decode(0..bits.len(), 0, &lanes);
            drop((source, sink));
            assert_eq!(memory, before, "{exact:?}");
        }
    }

    #[test]
    fn what_is_no_number_has_no_place_in_an_order() {
        for (element, bits) in [
            (ExactType::Float32, 0x7fc0_0000),
            (ExactType::Float16, 0x7e00),
            (ExactType::BFloat16, -1),
        ] {
            let exact =
                Exact::new(element, ExactOperation::Maximum, LaneType::I32Le).expect("fits");
            assert!(!exact.is_number(bits), "{element:?}");
        }
    }

    #[test]
    fn what_would_be_rounded_or_cut_is_refused() {
        let of = Exact::new;
        assert_eq!(of(ExactType::Float32, ExactOperation::Sum, LaneType::I32Le), None);
        assert_eq!(of(ExactType::Int32, ExactOperation::Sum, LaneType::I16Le), None);
        assert!(of(ExactType::Int8, ExactOperation::Sum, LaneType::I16Le).is_some());
    }
}
