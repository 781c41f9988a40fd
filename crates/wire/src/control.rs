//! Payloads of the control kinds: big-endian 32-bit words at fixed places, of which the first two are a proof.

use crate::schema::numbers;

pub use crate::limits::{ABSENT_WORDS, BITMAP_WORDS};

/// Payload of a probe and of its status, of equal length so that a data plane answers in place.
///
/// A probe asks about the [`GROUP_FRAGMENTS`](crate::GROUP_FRAGMENTS) fragments from `header.fragment` on; its words
/// are zero, except the proof and the echo.
pub mod status {
    use crate::limits::BITMAP_WORDS;
    use crate::schema::constants;

    constants! {
        /// State of the slot entry of `header.fragment` itself: one of the entry states.
        pub const STATE_WORD: usize = 2;
        /// Contributors of `header.fragment` that the node holds, high word first.
        pub const CONTRIBUTORS_WORD: usize = 3;
        /// An opaque number that the probe carries and the status returns, to match them and to measure the round trip.
        pub const ECHO_WORD: usize = 5;
        /// Bit i (least significant first within a word): the node holds *this child's* contribution to fragment + i.
        pub const HELD_WORD: usize = 8;
        /// Bit i: every expected contributor to fragment + i is in.
        pub const COMPLETE_WORD: usize = HELD_WORD + BITMAP_WORDS;
        /// Bit i: the node has the final result of fragment + i.
        pub const FINAL_WORD: usize = COMPLETE_WORD + BITMAP_WORDS;
        /// Words in the payload.
        pub const WORDS: usize = FINAL_WORD + BITMAP_WORDS;
    }
}

numbers! {
    /// State of a slot entry, as reported by a status.
    pub enum EntryState: u8 {
        /// Holds nothing of this fragment.
        Empty = 0,
        /// Some contributors are in.
        Filling = 1,
        /// All are in, the sum went up, the result has not come down.
        Forwarded = 2,
        /// The result is here.
        Final = 3,
    }
}

#[expect(clippy::derivable_impls, reason = "the table of names leaves no place for `#[default]`")]
impl Default for EntryState {
    fn default() -> Self {
        Self::Empty
    }
}

/// Where each control packet has its proof, a keyed tag over all else that it says, high word first.
pub const PROOF_WORD: usize = hello::PROOF_WORD;

/// Payload of a hello; the refusal repeats it, and so do the goodbye and the welcome of an aggregator.
pub mod hello {
    use crate::limits::ABSENT_WORDS;
    use crate::schema::constants;

    constants! {
        /// The proof that its sender has the key of the seat that the header names, high word first.
        pub const PROOF_WORD: usize = 0;
        /// Microseconds since the epoch at which rank 0 started this incarnation, high word first; the newest wins.
        pub const INCARNATION_WORD: usize = 2;
        /// 64-bit digest of the plan, high word first.
        pub const PLAN_DIGEST_WORD: usize = 4;
        /// In a refusal: one of the refusal reasons.
        pub const REASON_WORD: usize = 6;
        /// In a refusal whose reason is detached: the node that is out of the tree, the sender's child or one above it.
        pub const REMOVED_NODE_WORD: usize = 7;
        /// In all other packets of joining: how often the keys of the stream's values were renewed by time.
        pub const RENEWAL_WORD: usize = REASON_WORD;
        /// In all other packets of joining: the oldest generation of the stream's values that the child still needs.
        pub const GENERATION_WORD: usize = REMOVED_NODE_WORD;
        /// Workers that this incarnation goes on without; bit r, least significant first within a word, is rank r.
        pub const ABSENT_WORD: usize = 8;
        /// Words in the payload.
        pub const WORDS: usize = ABSENT_WORD + ABSENT_WORDS;
    }
}

/// Payload of a welcome in a network of switches: the hello's, with these words in place of the digest and the reason.
pub mod welcome {
    use super::hello;
    use crate::schema::constants;

    constants! {
        /// Workers of the job that the node knows, high word first; bit w is worker w.
        pub const KNOWN_WORD: usize = hello::PLAN_DIGEST_WORD;
        /// Workers whose values the node holds of the fragment that the hello asked about, high word first.
        pub const HELD_WORD: usize = hello::REASON_WORD;
    }
}

numbers! {
    /// Why a node turns a child away.
    pub enum RefusalReason: u32 {
        /// The child holds another plan than the node.
        OtherPlan = 3,
        /// A newer incarnation of the job is running.
        Superseded = 4,
        /// The plan does not place this child here.
        NotExpected = 5,
        /// A node is out of the tree for now, as it is silent, or as a worker below it has gone to its parent: the others go there too.
        Detached = 6,
        /// The incarnation, or the renewal of a sparse job's keys, is of a time that is still to come, by the node's clock.
        AheadOfClock = 7,
        /// The running incarnation goes on without other workers than the child says, or without the child itself.
        OtherMembers = 8,
    }
}

/// Payload of a ready: demand and state of a child in one tree. Its header's round is the oldest of which values are
/// still to be sent; between collectives, the next one.
pub mod ready {
    use crate::schema::constants;

    constants! {
        /// Number of the notification, from 1; of two, the later one counts (serial arithmetic).
        pub const SEQUENCE_WORD: usize = 2;
        /// One of the demands.
        pub const DEMAND_WORD: usize = 3;
        /// Most that the child can send, in bit/s on the wire, high word first.
        pub const MOST_BPS_WORD: usize = 4;
        /// What it delivered in the period that made it lower its rate, in bit/s, high word first; else 0.
        pub const DELIVERED_BPS_WORD: usize = 6;
        /// Packets lost in that period, in parts per million of those sent; else 0.
        pub const LOSS_PPM_WORD: usize = 8;
        /// When the child began, in sixteenths of a second since 1970; numbers of an earlier epoch are late (serial arithmetic).
        pub const EPOCH_WORD: usize = 9;
        /// In a heartbeat of a worker: milliseconds without another one after which it counts as lost, or 0 for never.
        pub const DEAD_AFTER_MS_WORD: usize = 10;
        /// In a heartbeat of a node: one more than the rank of a worker that is lost; else 0.
        pub const LOST_WORD: usize = 11;
        /// Words in the payload: whole blocks.
        pub const WORDS: usize = 16;
    }
}

numbers! {
    /// Whether a child wants a share of its parent's links.
    pub enum Demand: u32 {
        /// It has sent the values of every collective that it has begun.
        Idle = 0,
        /// It has begun a collective whose values it has not sent yet.
        Sending = 1,
        /// None at all: a heartbeat, in the stream of the exponents.
        Alive = 2,
    }
}

/// Payload of a rate.
pub mod rate {
    use crate::schema::constants;

    constants! {
        /// Number of the latest notification of this child that the rate takes into account.
        pub const ACKNOWLEDGED_WORD: usize = 2;
        /// Number of the rate, from 1; of two, the later one counts (serial arithmetic).
        pub const SEQUENCE_WORD: usize = 3;
        /// What the child may send at, in bit/s on the wire, high word first.
        pub const GRANTED_BPS_WORD: usize = 4;
        /// When the node began, in sixteenths of a second since 1970; numbers of an earlier epoch are late (serial arithmetic).
        pub const EPOCH_WORD: usize = 6;
        /// One more than the rank of a worker that is lost: then the packet tells this and no rate. Else 0.
        pub const LOST_WORD: usize = 7;
        /// Words in the payload.
        pub const WORDS: usize = 8;
    }
}

/// How far the keys of a stream's values have been renewed, as packets of joining say it. Both numbers only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyAge {
    /// By positions: the oldest generation that is still needed.
    pub generation: u32,
    /// By time: how often.
    pub renewal: u32,
}

impl KeyAge {
    /// What a packet of joining that is no refusal says.
    #[must_use]
    pub fn read(payload: &[u8]) -> Self {
        let generation = word(payload, hello::GENERATION_WORD);
        Self { generation, renewal: word(payload, hello::RENEWAL_WORD) }
    }

    /// Says it in a packet of joining.
    pub fn write(self, payload: &mut [u8]) {
        set_word(payload, hello::GENERATION_WORD, self.generation);
        set_word(payload, hello::RENEWAL_WORD, self.renewal);
    }

    /// Whether who has said this knows what the other one does.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self == self.max(other)
    }

    /// What two know together.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        let generation = self.generation.max(other.generation);
        Self { generation, renewal: self.renewal.max(other.renewal) }
    }
}

/// Workers that an incarnation of a job goes on without, by rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Absent([u32; ABSENT_WORDS]);

impl Absent {
    /// Ranks that can be named.
    pub const MOST_RANKS: usize = 32 * ABSENT_WORDS;

    /// These ranks; `None` if one of them cannot be named.
    #[must_use]
    pub fn of(ranks: impl IntoIterator<Item = u32>) -> Option<Self> {
        let mut absent = Self::default();
        for rank in ranks {
            *absent.0.get_mut(rank as usize / 32)? |= 1 << (rank % 32);
        }
        Some(absent)
    }

    /// What a packet of joining says that is no refusal.
    #[must_use]
    pub fn read(payload: &[u8]) -> Self {
        Self(std::array::from_fn(|index| word(payload, hello::ABSENT_WORD + index)))
    }

    /// Says it in a packet of joining.
    pub fn write(self, payload: &mut [u8]) {
        for (index, bits) in self.0.into_iter().enumerate() {
            set_word(payload, hello::ABSENT_WORD + index, bits);
        }
    }

    /// Whether nobody is.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// How many are.
    #[must_use]
    pub fn count(self) -> usize {
        self.0.iter().map(|bits| bits.count_ones() as usize).sum()
    }

    /// Whether this rank is.
    #[must_use]
    pub fn holds(self, rank: u32) -> bool {
        self.0.get(rank as usize / 32).is_some_and(|bits| bits & 1 << (rank % 32) != 0)
    }

    /// Their ranks, in order.
    pub fn ranks(self) -> impl Iterator<Item = u32> {
        (0..Self::MOST_RANKS as u32).filter(move |rank| self.holds(*rank))
    }
}

/// The payload of a hello, without its proof.
#[must_use]
pub fn hello_payload(
    incarnation: u64,
    plan_digest: u64,
    age: KeyAge,
    absent: Absent,
) -> [u8; 4 * hello::WORDS] {
    let mut payload = [0; 4 * hello::WORDS];
    set_double_word(&mut payload, hello::INCARNATION_WORD, incarnation);
    set_double_word(&mut payload, hello::PLAN_DIGEST_WORD, plan_digest);
    age.write(&mut payload);
    absent.write(&mut payload);
    payload
}

/// Reads word `index` of a control payload; zero where the payload ends.
#[must_use]
pub fn word(payload: &[u8], index: usize) -> u32 {
    payload
        .get(4 * index..4 * index + 4)
        .map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
}

/// Reads two words as one number, high word first.
#[must_use]
pub fn double_word(payload: &[u8], index: usize) -> u64 {
    u64::from(word(payload, index)) << 32 | u64::from(word(payload, index + 1))
}

/// Writes word `index` of a control payload.
///
/// # Panics
/// If the payload ends before that word, which is the caller's bug.
pub fn set_word(payload: &mut [u8], index: usize, value: u32) {
    payload[4 * index..4 * index + 4].copy_from_slice(&value.to_be_bytes());
}

/// Writes a number as two words, high word first.
///
/// # Panics
/// As [`set_word`].
pub fn set_double_word(payload: &mut [u8], index: usize, value: u64) {
    set_word(payload, index, (value >> 32) as u32);
    set_word(payload, index + 1, value as u32);
}
