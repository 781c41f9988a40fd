//! Policies: where a fragment's slot is, what happens when it is taken, and how the sender takes part.
//!
//! A new policy is a file beside these, a name in [`PolicyName`], and a line each in [`program`] and [`sender`].

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

/// Results by which packets may overtake each other before a missing one counts as lost, where a policy's paper does not say: as many
/// as TCP's duplicate acknowledgements.
const REORDERING: u32 = 3;

/// Every policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyName {
    /// SwitchML: two versions of a slot, clocked by the window.
    Pool,
    /// ATP: slots by hash, first come, first served; what collides goes to the parameter server.
    Hash,
    /// ESA: as ATP, but the more urgent fragment has the slot.
    Preempt,
    /// GOAT: each fragment its own slot at the switch that it is addressed to.
    Exclusive,
    /// InGo: registers named by the packet, complete when every contributor's bit is in.
    Register,
    /// InGo as printed: complete when the sum of worker numbers is reached. **Sums may be wrong**; for showing that.
    RegisterCounter,
    /// P4INC-AOI: a job's own segment, a copy of the last result in each slot, marks for who is early.
    Segment,
    /// XAgg: a slot for each fragment of the gradient.
    Cache,
}

impl PolicyName {
    /// Every policy.
    pub const ALL: [Self; 8] = [
        Self::Pool,
        Self::Hash,
        Self::Preempt,
        Self::Exclusive,
        Self::Register,
        Self::RegisterCounter,
        Self::Segment,
        Self::Cache,
    ];

    /// Its name in plans, reports and traces.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Hash => "hash",
            Self::Preempt => "preempt",
            Self::Exclusive => "exclusive",
            Self::Register => "register",
            Self::RegisterCounter => "register-counter",
            Self::Segment => "segment",
            Self::Cache => "cache",
        }
    }

    /// Whether a parameter server completes what switches did not sum; otherwise the topmost switch has the result. A segment may have
    /// one, for jobs whose workers are below several switches.
    #[must_use]
    pub fn needs_server(self) -> bool {
        !matches!(self, Self::Pool | Self::Cache | Self::Segment)
    }

    /// Whether packets name the switch that is to sum them; otherwise every switch on the way does that knows the stream.
    #[must_use]
    pub fn is_addressed(self) -> bool {
        matches!(self, Self::Exclusive | Self::Register | Self::RegisterCounter)
    }

    /// Whether streams may be given the same slots; otherwise the plan keeps them apart.
    #[must_use]
    pub fn shares_slots(self) -> bool {
        matches!(self, Self::Hash | Self::Preempt)
    }

    /// Whether every result is right, whatever the network does.
    #[must_use]
    pub fn is_exact(self) -> bool {
        self != Self::RegisterCounter
    }

    /// The policy of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

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

    /// The control plane frees every slot of the stream with this number.
    fn forget(&self, memory: &mut Memory<V>, place: &Place, number: u16);

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

/// The switch program of a policy.
#[must_use]
pub fn program<V: Payload>(policy: PolicyName) -> Box<dyn Program<V>> {
    match policy {
        PolicyName::Pool => Box::new(pool::PROGRAM),
        PolicyName::Hash => Box::new(hash::Hash),
        PolicyName::Preempt => Box::new(preempt::Preempt),
        PolicyName::Exclusive => Box::new(exclusive::Exclusive),
        PolicyName::Register => Box::new(register::Register),
        PolicyName::RegisterCounter => Box::new(counter::Counter),
        PolicyName::Segment => Box::new(segment::Segment),
        PolicyName::Cache => Box::new(cache::PROGRAM),
    }
}

/// The sender's rules of a policy, for one worker's stream.
#[must_use]
pub fn sender(policy: PolicyName, sending: &Sending) -> Rules {
    match policy {
        PolicyName::Pool => pool::sender(sending),
        PolicyName::Hash => hash::sender(sending),
        PolicyName::Preempt => preempt::sender(sending),
        PolicyName::Exclusive => exclusive::sender(sending),
        PolicyName::Register | PolicyName::RegisterCounter => register::sender(sending),
        PolicyName::Segment => segment::sender(sending),
        PolicyName::Cache => cache::sender(sending),
    }
}
