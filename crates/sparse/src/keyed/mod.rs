//! What is beside Zebra's switch program (`spec/keyed.md`): workers, the switch's station, and the server.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`Host`] | one of them: packets with numbers out until they are acknowledged, sums of packets in |
//! | [`HotKeys`] | a worker's gradients, sorted into what the switch and what the server sums, and packed |
//! | [`recirculations`] | how often the program sends a push's packets round again |
//! | [`KeyedReport`] | what the program takes of a switch |
//!
//! A worker has sums to receive from the server, the server from all workers and the station, the station from nobody: so
//! the three are one machine.

mod count;
mod host;
mod packing;
mod report;

pub use count::{MAX_PROGRAM_REGISTERS, recirculations};
pub use host::{Address, Host};
pub use packing::HotKeys;
pub use report::{KeyedReport, ReportError, Setting};
pub use wiresum_switch::keyed::KeyedSpec;
