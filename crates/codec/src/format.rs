//! How the values of a job are represented on the wire.

use thiserror::Error;
use wiresum_wire::{LaneType, NOT_FINITE};

use crate::codec::{self, Codec};
use crate::element::{Element, ElementType};
use crate::instructions::{self, Instructions};
use crate::lane::{I16Be, I16Le, I32Be, I32Le};
use crate::packed::Rounding;

/// The lowest exponent a fragment can have, that of a fragment of zeros: what the header's field holds.
pub const MIN_EXPONENT: i32 = i8::MIN as i32;
/// Fewest bits that a lane must leave to the largest value: those of bfloat16, the coarsest element type.
const MIN_VALUE_BITS: u32 = 8;

/// What a sum is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// The sum.
    #[default]
    Sum = 0,
    /// The sum divided by the number of workers.
    Average = 1,
}

/// Why values cannot be represented in the way asked for.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum FormatError {
    /// Not the name of a codec.
    #[error("unknown codec `{0}`: use {known}", known = codec::known())]
    Codec(String),
    /// Not a usable number for a codec.
    #[error(
        "`{text}` is no {what} for the codec `{codec}`: use a number from {low:e} to {high:e}, such as {example:e}"
    )]
    Parameter {
        /// What was given.
        text: String,
        /// What the number is.
        what: &'static str,
        /// The codec's name.
        codec: &'static str,
        /// The least.
        low: f64,
        /// The largest.
        high: f64,
        /// A usual one.
        example: f64,
    },
    /// The lanes are too narrow for the workers.
    #[error("{workers} workers do not fit {bits}-bit lanes: from 1 to {most} do{remedy}",
        remedy = match bits { 8 => "; use 16-bit lanes", 16 => "; use 32-bit lanes", _ => "" })]
    Workers {
        /// Workers asked for.
        workers: u32,
        /// Bits of a lane.
        bits: u32,
        /// Most workers whose sum leaves enough bits to each.
        most: u32,
    },
    /// Lanes hold several numbers only with exponents.
    #[error("8 bits are too few for the fixed factor of the codec `{0}`: use the codec `block`")]
    Packed(Codec),
}

/// How the values of a job are represented on the wire. All its participants use the same one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Format {
    codec: Codec,
    lanes: LaneType,
    /// Bits of a number: those of a lane, or 8 where several share one.
    bits: u32,
    workers: u32,
    /// Workers that a sum stands for.
    ranks: u32,
    /// Workers whose values are in the sums that are decoded.
    participants: u32,
}

/// Calls a function with the lane's type as its second type argument.
macro_rules! for_lane {
    ($lanes:expr, $function:path, $element:ident, ($($argument:expr),+)) => {{
        use $function as function;
        match $lanes {
            LaneType::I32Le => function::<$element, I32Le>($($argument),+),
            LaneType::I32Be => function::<$element, I32Be>($($argument),+),
            LaneType::I16Le => function::<$element, I16Le>($($argument),+),
            LaneType::I16Be => function::<$element, I16Be>($($argument),+),
        }
    }};
}

impl Format {
    /// The format of a job with this many workers.
    ///
    /// # Errors
    /// [`FormatError::Workers`] unless there is one worker, and at most 2²³ on 32-bit lanes, 128 on 16-bit lanes.
    pub fn new(codec: Codec, lanes: LaneType, workers: u32) -> Result<Self, FormatError> {
        let bits = 8 * lanes.width() as u32;
        let format = Self { codec, lanes, bits, workers, ranks: workers, participants: workers };
        format.with_numbers_of(bits, MIN_VALUE_BITS)
    }

    /// The same with so many bits for a number, of which a value has to have some, if the workers leave it these.
    pub(crate) fn with_numbers_of(self, bits: u32, least: u32) -> Result<Self, FormatError> {
        let (workers, most) = (self.workers, 1 << (bits - 1 - least));
        if (1..=most).contains(&workers) {
            Ok(Self { bits, ..self })
        } else {
            Err(FormatError::Workers { workers, bits, most })
        }
    }

    /// The format for sums of some of the workers, at least one: they are decoded as if the others' values were their mean.
    #[must_use]
    pub fn of_participants(self, participants: u32) -> Self {
        Self { participants: participants.clamp(1, self.ranks), ..self }
    }

    /// The format for sums of a group of some of the workers, at least one: they are decoded as what they are. Lanes keep
    /// room for all workers, so that nodes see the same job.
    #[must_use]
    pub fn of_group(self, ranks: u32) -> Self {
        let ranks = ranks.clamp(1, self.workers);
        Self { ranks, participants: ranks, ..self }
    }

    /// Width and byte order of the lanes.
    #[must_use]
    pub fn lanes(&self) -> LaneType {
        self.lanes
    }

    /// Bytes of payload that an element takes: those of a lane, or 1 where several numbers share one.
    #[must_use]
    pub fn width(&self) -> usize {
        self.bits as usize / 8
    }

    /// Whether several numbers share a lane.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        self.width() < self.lanes.width()
    }

    pub(crate) fn codec(&self) -> Codec {
        self.codec
    }

    /// Workers whose sum fits.
    #[must_use]
    pub fn workers(&self) -> u32 {
        self.workers
    }

    /// Bytes of payload that `elements` take, padded to a whole block.
    #[must_use]
    pub fn payload_len(&self, elements: usize) -> usize {
        (elements * self.width()).next_multiple_of(wiresum_wire::BLOCK_LEN)
    }

    /// Element type, operation and kind of codec as one number, for ranks to compare.
    #[must_use]
    pub fn signature(&self, element: ElementType, operation: Operation) -> u8 {
        element as u8 | (operation as u8) << 2 | self.codec.number() << 3
    }

    /// What this worker proposes as the exponent of a fragment with these values, as the codec says. [`NOT_FINITE`] if a
    /// value is Inf or NaN, or does not fit the codec.
    #[must_use]
    pub fn exponent<T: Element>(&self, values: &[T]) -> i32 {
        self.exponent_with(Instructions::best(), values)
    }

    #[doc(hidden)]
    pub fn exponent_with<T: Element>(&self, set: Instructions, values: &[T]) -> i32 {
        let largest = T::from_magnitude(instructions::magnitude(set, values));
        if !largest.is_finite() {
            return NOT_FINITE;
        }
        self.codec.propose(largest.widen(), self.limit())
    }

    /// Encodes values with the agreed exponent, each as the nearest number; zeros fill the lanes beyond them. Returns the
    /// sum of the lanes, as [`LaneType::sum`] defines it. Values too large for the exponent are clamped, which agreement
    /// on the largest proposal excludes.
    ///
    /// # Panics
    /// If `payload` has fewer lanes than there are values.
    pub fn encode<T: Element>(&self, values: &[T], exponent: i8, payload: &mut [u8]) -> u32 {
        self.encode_with(Instructions::best(), values, exponent, payload)
    }

    #[doc(hidden)]
    pub fn encode_with<T: Element>(
        &self,
        set: Instructions,
        values: &[T],
        exponent: i8,
        payload: &mut [u8],
    ) -> u32 {
        let have = payload.len() / self.width();
        assert!(have >= values.len(), "{have} lanes for {} values", values.len());
        if self.is_packed() {
            return self.encode_packed(set, values, exponent, Rounding::Nearest, payload);
        }
        let sum = for_lane!(
            self.lanes,
            instructions::encode,
            T,
            (set, values, self.scale(exponent), self.limit(), payload)
        );
        self.lanes.add_sums(sum, 0)
    }

    /// Decodes the summed lanes of a fragment into as many values as there are; padding is ignored.
    ///
    /// # Panics
    /// If `payload` has fewer lanes than there are values.
    pub fn decode<T: Element>(
        &self,
        payload: &[u8],
        exponent: i8,
        operation: Operation,
        values: &mut [T],
    ) {
        self.decode_with(Instructions::best(), payload, exponent, operation, values);
    }

    #[doc(hidden)]
    pub fn decode_with<T: Element>(
        &self,
        set: Instructions,
        payload: &[u8],
        exponent: i8,
        operation: Operation,
        values: &mut [T],
    ) {
        let have = payload.len() / self.width();
        assert!(have >= values.len(), "{have} lanes for {} values", values.len());
        let unit = self.unit(exponent) / self.divisor(operation);
        if self.is_packed() {
            return self.decode_packed(set, payload, unit, values);
        }
        for_lane!(self.lanes, instructions::decode, T, (set, payload, unit, values));
    }

    /// The value of a lane of 1: the resolution of a fragment with this exponent.
    #[must_use]
    pub fn unit(&self, exponent: i8) -> f64 {
        self.codec.unit(self.unit_exponent(exponent))
    }

    /// Lanes per unit of value: what values are multiplied by.
    pub(crate) fn scale(&self, exponent: i8) -> f64 {
        self.codec.scale(self.unit_exponent(exponent))
    }

    fn divisor(&self, operation: Operation) -> f64 {
        match operation {
            Operation::Sum => f64::from(self.participants) / f64::from(self.ranks),
            Operation::Average => self.participants.into(),
        }
    }

    /// e + 1 + h − (b − 1), see the crate's documentation.
    fn unit_exponent(&self, exponent: i8) -> i32 {
        let headroom = self.workers.next_power_of_two().trailing_zeros() as i32;
        i32::from(exponent) + 1 + headroom - self.magnitude_bits()
    }

    /// L, the largest magnitude of a number; an integer.
    pub(crate) fn limit(&self) -> f64 {
        let largest_sum = (1u32 << self.magnitude_bits()) - 1;
        (largest_sum / self.workers).into()
    }

    /// b − 1, the bits of a number without the sign.
    fn magnitude_bits(&self) -> i32 {
        self.bits as i32 - 1
    }
}
