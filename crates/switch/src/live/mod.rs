//! A network of switches as datagrams in and out: what runs a plan's fabric, without sockets and clocks.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`parts`] | what a plan's fabric means for one site |
//! | [`notes`] | hellos and their answers |
//! | `proofs` | the keys by which both are known |
//! | [`Station`] | a node: switch, parameter server, or both to different streams |
//! | `readdress` | neighbours that move while a job runs |
//! | `renewal` | the keys that values carry |
//! | `forgotten` | how it gets back what it lost when it started again |
//! | [`StationState`] | all that a node knows, for the process that goes on with it |
//! | [`plane`] | what sums there: this process, or what carries packets by itself |

mod forgotten;
pub mod notes;
pub mod parts;
pub mod plane;
mod proofs;
mod readdress;
mod remains;
mod renewal;
mod station;

pub use remains::{PlaneState, StationState, SwitchState, Unfit};
pub use station::{Report, Station, StationError};
