//! The resource model: what a reconfigurable match table (RMT) pipeline lets a program do to a packet.
//!
//! A packet passes the stages once, in order. Register memory belongs to a stage, and a packet may read and write *one* cell of each
//! register array while it is there: no second look at a register, no way back to an earlier stage, except by recirculating the packet
//! (a second pass, which takes the place of another packet). A program declares its [`Layout`]; [`Layout::fit`] says whether a
//! [`Profile`] has room, and what it takes; each [`Pass`] checks that the program keeps to it.
//!
//! What is modelled is memory and its accesses. Match tables, parser states and the arithmetic within one access are not.

mod layout;
mod memory;
mod profile;
mod report;

pub use layout::{ArrayDeclaration, BankDeclaration, Layout, Misfit};
pub use memory::{ArrayId, BankId, Memory, MemoryState, Pass, Violation};
pub use profile::Profile;
pub use report::{Report, StageUse};
