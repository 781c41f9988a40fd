//! Who may take a seat at a node: keys from a job's secret, and the tags that prove them (`spec/security.md`).
//!
//! | file | what it has |
//! | --- | --- |
//! | `secret` | the job's secret, and how keys follow from it |
//! | `keyring` | what one participant holds: everything, or a node's share |
//! | `tag` | proofs in control packets, and behind values |
//! | `hash` | what is proven of values |
//! | `association` | what values and rows carry, and how it is renewed |
//!
//! No sockets, clocks or randomness: secrets come from files, and what makes each proof new is a number in the packet.

pub mod association;
mod hash;
mod keyring;
mod secret;
mod tag;

pub use association::{Association, KeySource};
pub use hash::{HASH_WORDS, ValueHash};
pub use keyring::{Keyring, KeyringError, SealingKey, Seat};
pub use secret::Secret;
pub use tag::{SeatKey, is_authentic};
