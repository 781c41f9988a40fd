//! Policies: where a fragment's slot is, what happens when it is taken, and how the sender takes part.
//!
//! A new policy is a file beside these with a `PROGRAM` and a `sender`, the line that names the file here, and a row of
//! [`wiresum_wire::policies!`]. The line here is the second one because tools such as rustfmt find files by such lines only.

mod cache;
mod counter;
mod exclusive;
mod hash;
mod key;
mod merge;
mod pool;
mod preempt;
mod register;
mod segment;
mod slots;
mod versions;

use crate::rmt::{ArrayId, Layout, Memory, Pass};
use crate::worker::Rules;
use crate::{Outcome, Packet, Payload, Place, Sending, Verdict};

pub use key::{Key, Relation};
pub use preempt::priority;
pub use wiresum_wire::Policy;

/// Results by which packets may overtake each other before a missing one counts as lost, where a policy's paper does not say: as many
/// as TCP's duplicate acknowledgements.
const REORDERING: u32 = 3;

/// What a program finds in the switch's table for a packet's stream.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The stream.
    pub place: &'a Place,
    /// Its number in this switch, from 1: what slots know it by.
    pub number: u16,
    /// The whole table, by number − 1: whose fragment a slot holds.
    pub places: &'a [Option<Place>],
}

impl Context<'_> {
    /// What a slot that holds this packet's fragment says.
    #[must_use]
    pub fn key<V>(&self, packet: &Packet<V>) -> Key {
        Key::new(self.number, packet.fragment)
    }
}

/// A switch program.
pub trait Program<V: Payload>: Send {
    /// The memory that it needs for `slots` fragments of `values` int32 values.
    fn layout(&self, slots: u32, values: u32) -> Layout;

    /// The control plane frees every slot of the stream with this number: by its key, in most programs' first array.
    fn forget(&self, memory: &mut Memory<V>, _place: &Place, number: u16) {
        forget_keys(memory, slots::KEY, number);
    }

    /// Why it cannot serve this stream, if it cannot.
    fn unsuited(&self, _place: &Place) -> Option<&'static str> {
        None
    }

    /// A contribution that is addressed to this switch.
    fn contribution(
        &self,
        pass: &mut Pass<'_, V>,
        packet: &mut Packet<V>,
        context: &Context<'_>,
    ) -> Outcome;

    /// A result on its way down; it always goes on.
    fn result(
        &self,
        _pass: &mut Pass<'_, V>,
        _packet: &mut Packet<V>,
        _context: &Context<'_>,
    ) -> Outcome {
        Outcome::down(Verdict::Passed)
    }
}

/// Frees the slots whose keys name the stream with this number.
fn forget_keys<V: Payload>(memory: &mut Memory<V>, keys: ArrayId, number: u16) {
    let cells = memory.cells_mut(keys).iter_mut();
    cells.filter(|cell| Key::of(**cell).number() == number).for_each(|cell| *cell = 0);
}

macro_rules! dispatch {
    ($($(#[$doc:meta])* $variant:ident $name:literal $module:ident, $kernel:literal: $properties:tt;)+) => {
        /// The switch program of a policy.
        #[must_use]
        pub fn program<V: Payload>(policy: Policy) -> Box<dyn Program<V>> {
            match policy { $(Policy::$variant => Box::new($module::PROGRAM),)+ }
        }

        /// The sender's rules of a policy, for one worker's stream.
        #[must_use]
        pub fn sender(policy: Policy, sending: &Sending) -> Rules {
            match policy { $(Policy::$variant => $module::sender(sending),)+ }
        }
    };
}

wiresum_wire::policies!(dispatch);
