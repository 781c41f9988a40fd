//! The one table behind the Rust, C, P4 and Python definitions: what is declared through these macros exists in each.

use zerocopy::byteorder::network_endian::{U16, U32, U64};

/// A named number, as other languages see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Its name in Rust.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// Its documentation, in Rust's markup.
    pub doc: &'static str,
}

/// A field of the header, as other languages see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Bytes before it.
    pub offset: usize,
    /// Bytes that it takes.
    pub len: usize,
    /// Its type in C, as the kernel's headers name it.
    pub c_type: &'static str,
    /// Its letter in a format of Python's `struct`.
    pub struct_code: char,
    /// Its documentation, in Rust's markup.
    pub doc: &'static str,
}

/// A type that a header field may have.
pub(crate) trait FieldType {
    /// See [`Field::c_type`].
    const C_TYPE: &'static str;
    /// See [`Field::struct_code`].
    const STRUCT_CODE: char;
}

macro_rules! field_types {
    ($($ty:ty: $c:literal, $code:literal;)+) => {
        $(impl FieldType for $ty {
            const C_TYPE: &'static str = $c;
            const STRUCT_CODE: char = $code;
        })+
    };
}

field_types! {
    u8: "__u8", 'B';
    i8: "__s8", 'b';
    U16: "__be16", 'H';
    U32: "__be32", 'I';
    U64: "__be64", 'Q';
}

/// Declares a packed struct and the table of its fields.
macro_rules! layout {
    ($(#[$attr:meta])* pub struct $name:ident {
        $($(#[doc = $doc:literal])+ pub $field:ident: $ty:ty,)+
    }) => {
        $(#[$attr])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, zerocopy::FromBytes, zerocopy::IntoBytes,
            zerocopy::Immutable, zerocopy::KnownLayout, zerocopy::Unaligned,
        )]
        #[repr(C)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $ty,)+
        }

        impl $name {
            /// The fields in wire order.
            pub const FIELDS: [$crate::schema::Field; [$(stringify!($field)),+].len()] = [
                $($crate::schema::Field {
                    name: stringify!($field),
                    offset: std::mem::offset_of!($name, $field),
                    len: size_of::<$ty>(),
                    c_type: <$ty as $crate::schema::FieldType>::C_TYPE,
                    struct_code: <$ty as $crate::schema::FieldType>::STRUCT_CODE,
                    doc: concat!($($doc),+),
                }),+
            ];
        }
    };
}

/// Declares an enumeration of numbers on the wire, its way back from a number, and the table of its names.
macro_rules! numbers {
    ($(#[$attr:meta])* pub enum $name:ident: $repr:ident {
        $($(#[doc = $doc:literal])+ $variant:ident = $value:literal,)+
    }) => {
        $(#[$attr])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr($repr)]
        pub enum $name {
            $($(#[doc = $doc])+ $variant = $value,)+
        }

        impl $name {
            /// Every one, in numeric order.
            pub const ALL: [Self; [$(stringify!($variant)),+].len()] = [$(Self::$variant),+];
            pub(crate) const CONSTANTS: &[$crate::schema::Constant] = &[
                $($crate::schema::Constant {
                    name: stringify!($variant),
                    value: $value,
                    doc: concat!($($doc),+),
                }),+
            ];

            /// The one with this number on the wire.
            #[must_use]
            pub fn from_wire(number: $repr) -> Option<Self> {
                match number {
                    $($value => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

/// Declares the constants of a module and the table of them.
macro_rules! constants {
    ($($(#[doc = $doc:literal])+ pub const $name:ident: $ty:ty = $value:expr;)+) => {
        $($(#[doc = $doc])+ pub const $name: $ty = $value;)+

        pub(crate) const CONSTANTS: &[$crate::schema::Constant] = &[
            $($crate::schema::Constant {
                name: stringify!($name),
                value: $name as u64,
                doc: concat!($($doc),+),
            }),+
        ];
    };
}

pub(crate) use {constants, layout, numbers};
