//! The structs of `bpf/keyed`, in Rust. A test compares their fields with those that the object's BTF tells of.

use zerocopy::{FromBytes, Immutable, IntoBytes};

mirrored! {
    /// Constants of the program.
    #[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
    pub struct KeyedConfig as "keyed_config" {
        pub pairs: u32,
        pub recirculations: u32,
    }
}

mirrored! {
    /// A table, and its open iteration.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
    pub struct TableEntry as "keyed_table" {
        pub lock: u32,
        pub round: u32,
        pub job_key: u64,
        pub tag: u32,
        pub map_version: u32,
        pub packets: u32,
        pub first_number: u32,
        pub number_cells: u32,
        pub members: u32,
    }
}

mirrored! {
    /// A register cell.
    #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
    pub struct Cell as "cell" {
        pub tag: u32,
        pub held: u32,
    }
}

mirrored! {
    /// A key of the map of hot keys.
    #[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
    pub struct HotKey as "hot_key" {
        pub key: u64,
        pub table: u32,
        pub reserved: u32,
    }
}

mirrored! {
    /// Where its sum is.
    #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
    pub struct HomeEntry as "home" {
        pub register_number: u32,
        pub cell: u32,
    }
}

mirrored! {
    /// The frame of the program `open_iteration`.
    #[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
    pub struct Opening as "keyed_opening" {
        pub job_key: u64,
        pub table: u32,
        pub round: u32,
        pub tag: u32,
        pub map_version: u32,
    }
}
