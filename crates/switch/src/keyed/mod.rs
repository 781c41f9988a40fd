//! Zebra's switch program: pairs of hot keys and values, summed in register arrays. `spec/keyed.md` has the state table.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`Packet`] | pairs, the end of an iteration, or an acknowledgement |
//! | [`HotTable`], [`Arrangement`] | the map of hot keys, and where its keys and its workers' numbers are in memory |
//! | [`KeyedSwitch`] | the program over the model of a pipeline |
//!
//! It is no [policy](crate::policy): keys have cells for as long as the map holds, and an iteration is over when every
//! worker has said so. It shares with policies what a pipeline is ([`crate::rmt`]).

mod arrangement;
mod packet;
mod program;

pub use arrangement::{Arranged, Arrangement, Home, HotTable, KeyedError, KeyedSpec, MAX_WORKERS};
pub use packet::{Body, Packet, Pair};
pub use program::{Handled, KeyedSwitch};
