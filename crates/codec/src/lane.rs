//! The lanes of a payload: widths and byte orders as types, so that a loop is compiled for each.

/// One lane.
pub trait Lane {
    /// Its bytes in a packet.
    type Bytes: Copy + 'static;
    /// Bits of the number.
    const BITS: u32;

    /// Splits a payload into lanes; a rest shorter than a lane is left out.
    fn split(payload: &[u8]) -> &[Self::Bytes];
    /// As [`Self::split`].
    fn split_mut(payload: &mut [u8]) -> &mut [Self::Bytes];
    /// The number in a lane.
    fn load(bytes: Self::Bytes) -> i32;
    /// The lane of a number, of which the low bits are kept.
    fn store(number: i32) -> Self::Bytes;
}

macro_rules! lanes {
    ($($(#[$doc:meta])* $name:ident: $number:ty, $width:literal, $from:ident, $to:ident;)+) => {$(
        $(#[$doc])*
        pub struct $name;

        impl Lane for $name {
            type Bytes = [u8; $width];
            const BITS: u32 = 8 * $width;

            #[inline(always)]
            fn split(payload: &[u8]) -> &[Self::Bytes] {
                payload.as_chunks().0
            }

            #[inline(always)]
            fn split_mut(payload: &mut [u8]) -> &mut [Self::Bytes] {
                payload.as_chunks_mut().0
            }

            #[inline(always)]
            fn load(bytes: Self::Bytes) -> i32 {
                <$number>::$from(bytes).into()
            }

            #[inline(always)]
            fn store(number: i32) -> Self::Bytes {
                (number as $number).$to()
            }
        }
    )+};
}

lanes! {
    /// 32 bits, little-endian.
    I32Le: i32, 4, from_le_bytes, to_le_bytes;
    /// 32 bits, network order.
    I32Be: i32, 4, from_be_bytes, to_be_bytes;
    /// 16 bits, little-endian.
    I16Le: i16, 2, from_le_bytes, to_le_bytes;
    /// 16 bits, network order.
    I16Be: i16, 2, from_be_bytes, to_be_bytes;
    /// 8 bits: a number of which several share a lane, before they are packed.
    I8: i8, 1, from_le_bytes, to_le_bytes;
}
