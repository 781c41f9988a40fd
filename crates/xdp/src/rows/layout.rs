//! The structs of `bpf/rows`, in Rust. A test compares their fields with those that the object's BTF tells of.

use zerocopy::{FromBytes, Immutable, IntoBytes};

pub use super::room::ROW_LEN;
use super::room::WORD_LEN;

const _: () = assert!(size_of::<HotRow>() == ROW_LEN && size_of::<Numbers>() == WORD_LEN);

mirrored! {
    /// Constants of the program.
    #[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
    pub struct RowsConfig as "rows_config" {
        pub float_room: u32,
        pub int_room: u32,
    }
}

mirrored! {
    /// A stream of hot rows, and its open round.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
    pub struct StreamEntry as "hot_stream" {
        pub lock: u32,
        pub round: u32,
        pub job_key: u64,
        pub generation: u32,
        pub map_version: u32,
        pub first_row: u32,
        pub positions: u32,
        pub first_word: u32,
        pub words: u32,
        pub dim: u16,
        pub lanes: u16,
        pub reserved: u32,
        pub unfinished: u64,
        pub left: u32,
        pub is_noted: u32,
    }
}

mirrored! {
    /// What a worker has sent in a round.
    #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
    pub struct Reception as "reception" {
        pub generation: u32,
        pub count: u32,
        pub announced: u32,
        pub least: u32,
        pub next: u32,
        pub reached: u32,
    }
}

mirrored! {
    /// Which of 32 packets have come.
    #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
    pub struct Numbers as "numbers" {
        pub generation: u32,
        pub seen: u32,
    }
}

mirrored! {
    /// What stands before a row's lanes.
    #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
    pub struct HotRow as "hot_row" {
        pub contributors: u64,
        pub generation: u32,
        pub is_in_map: u32,
    }
}

mirrored! {
    /// The frame of the program `open_round`.
    #[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
    pub struct Opening as "opening" {
        pub job_key: u64,
        pub contributors: u64,
        pub stream: u32,
        pub round: u32,
        pub generation: u32,
        pub map_version: u32,
    }
}

mirrored! {
    /// The frame of the program `announce`.
    #[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
    pub struct Announcement as "announcement" {
        pub job_key: u64,
        pub stream: u32,
        pub contributor: u32,
        pub round: u32,
        pub map_version: u32,
        pub packets: u32,
        pub is_complete: u32,
    }
}

mirrored! {
    /// What the benchmark's program makes packets from.
    #[doc(hidden)]
    #[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
    pub struct Feed as "row_feed" {
        /// Contributor of the packet before the first.
        pub contributor: u32,
        pub contributors: u32,
        pub number: u32,
        pub packets: u32,
        /// Positions from one packet's base to the next one's.
        pub step: u32,
        pub stream: u32,
        pub first_port: u16,
        pub reserved: u16,
    }
}
