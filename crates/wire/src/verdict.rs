//! The fates of packets: one list for aggregators and switches, in Rust, C, P4 and Python.

use crate::schema::numbers;

/// Counters of one program, by verdict: a power of two, so that a mask shows the kernel's verifier an index in bounds.
pub const VERDICT_RANGE: usize = 64;

/// At aggregators: rows of `spec/aggregation.md`.
const TREE: u8 = 1;
/// In programs of switches: rows of `spec/switch.md`.
const SWITCH: u8 = 2;
/// Beside a switch's program: at its parameter server, or in what carries packets to both.
const BESIDE: u8 = 4;
/// At switches that sum hot rows: rows of `spec/sparse.md`.
const ROWS: u8 = 8;

macro_rules! verdicts {
    ($($(#[doc = $doc:literal])+ $variant:ident = $number:literal $name:literal at $nodes:expr;)+) => {
        numbers! {
            /// The fate of one packet: every row of the state tables in `spec/aggregation.md`, `spec/switch.md` and
            /// `spec/sparse.md`.
            ///
            /// The same fate has the same name and number at every kind of node. Aggregators come first, so that their
            /// counters are an array of [`Verdict::AGGREGATOR`]'s length.
            #[derive(PartialOrd, Ord)]
            pub enum Verdict: u8 {
                $($(#[doc = $doc])+ $variant = $number,)+
            }
        }

        impl Verdict {
            /// Its name in the specs, in metrics and in traces.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            const fn nodes(self) -> u8 {
                match self { $(Self::$variant => $nodes,)+ }
            }
        }
    };
}

verdicts! {
    /// Not a well-formed packet: dropped.
    Malformed = 0 "malformed" at TREE | BESIDE | ROWS;
    /// Its job, incarnation, node, stream or worker is not served by this node: dropped.
    Foreign = 1 "foreign" at TREE | BESIDE | ROWS;
    /// A contributor out of range, or not the one that said hello from this address: dropped.
    BadContributor = 2 "bad_contributor" at TREE | ROWS;
    /// More bytes than the job's quota allows: dropped.
    OverQuota = 3 "over_quota" at TREE | ROWS;
    /// Another CPU was at the packet's slot for too long: dropped.
    Contended = 4 "contended" at TREE | ROWS;
    /// The check does not match: dropped.
    Damaged = 5 "damaged" at TREE | BESIDE | ROWS;
    /// First contribution to its fragment: takes a slot.
    First = 6 "first" at TREE | SWITCH;
    /// Contribution added to a slot, or hot rows to their sums, and acknowledged.
    Added = 7 "added" at TREE | SWITCH | ROWS;
    /// Last contribution, and the sum is the result: it goes down.
    Completed = 8 "completed" at TREE | SWITCH;
    /// Last contribution here: the sum goes up.
    Forwarded = 9 "forwarded" at TREE | SWITCH;
    /// Contribution older than what its slot holds, or than what anyone needs: dropped. Hot rows are acknowledged again.
    Stale = 10 "stale" at TREE | SWITCH | ROWS;
    /// Contribution or result that disagrees with its slot about round, exponent, format or length: dropped.
    Mismatch = 11 "mismatch" at TREE;
    /// Contribution already in, fragment not complete: dropped. Hot rows are acknowledged again.
    Duplicate = 12 "duplicate" at TREE | SWITCH | ROWS;
    /// Sum of a child whose own children have begun to contribute in its place: dropped.
    Substituted = 13 "substituted" at TREE;
    /// Contribution already in a complete slot: the sum goes up again.
    Reforwarded = 14 "reforwarded" at TREE | SWITCH;
    /// Contribution already in a finished slot: the result goes to its sender.
    Answered = 15 "answered" at TREE | SWITCH;
    /// Result from the parent stored and passed down.
    ResultStored = 16 "result_stored" at TREE;
    /// Result from the parent already here: dropped.
    ResultDuplicate = 17 "result_duplicate" at TREE;
    /// Result from the parent for a fragment that does not wait for it: dropped.
    ResultStale = 18 "result_stale" at TREE;
    /// Probe answered.
    Probed = 19 "probed" at TREE;
    /// Hello, welcome, refusal or goodbye dealt with; ready or rate handed to the control half.
    Control = 20 "control" at TREE | ROWS;
    /// Values without the proof that the job asks for, or with a wrong one, or with one that it does not ask for: dropped.
    Forged = 21 "forged" at TREE;
    /// Not for this node, of a stream that it does not sum, or a result that changes nothing here: goes on as it is.
    Passed = 22 "passed" at SWITCH;
    /// The slot is taken: goes up unsummed.
    Collision = 23 "collision" at SWITCH;
    /// Took the slot of a less urgent fragment, whose partial sum goes up in its stead.
    Evicted = 24 "evicted" at SWITCH;
    /// Sent again: the slot's partial sum goes up with it, and the slot is free.
    Released = 25 "released" at SWITCH;
    /// Sent again, and the slot is not its own: goes up unsummed.
    Bypassed = 26 "bypassed" at SWITCH;
    /// Partly in already, so that it cannot be added: goes up unsummed, or, at a server, is dropped.
    Overlap = 27 "overlap" at SWITCH;
    /// Too early for its slot: goes back to its sender, marked.
    Refused = 28 "refused" at SWITCH;
    /// A result that frees the slot of its fragment.
    Freed = 29 "freed" at SWITCH;
    /// A result that takes the place of the sum in its slot.
    Stored = 30 "stored" at SWITCH;
    /// At a server: holds all that was merged and more, and takes its place.
    Superseded = 31 "superseded" at BESIDE;
    /// The slot's lock could not be had, or the frame could not be made longer: dropped, as if the network had lost it.
    Lost = 32 "lost" at BESIDE;
    /// Counted beside the packet's other verdict: no way leads on from here, so it is dropped.
    Astray = 33 "astray" at BESIDE;
    /// The job does not run here, or its sender is no neighbour of the switch: dropped.
    Strangers = 34 "strangers" at BESIDE;
    /// Rows of a round that has not begun here: dropped; they come again.
    Early = 35 "early" at ROWS;
    /// Rows that cannot be taken, and never will be: the job ends with this.
    Wrong = 36 "wrong" at ROWS;
}

const _: () = assert!(Verdict::ALL.len() <= VERDICT_RANGE, "every verdict has a counter");

impl Verdict {
    /// Those of an aggregator, in numeric order and from 0 on without a gap.
    pub const AGGREGATOR: [Self; count(TREE)] = select(TREE);
    /// Those that a switch's program may give, in numeric order.
    pub const SWITCH: [Self; count(SWITCH)] = select(SWITCH);
    /// Those that a station counts for its switch, its parameter server and what carries packets to both, in numeric order.
    pub const STATION: [Self; count(SWITCH | BESIDE)] = select(SWITCH | BESIDE);
    /// Those that the kernel's switch for hot rows may give, in numeric order.
    pub const ROWS: [Self; count(ROWS)] = select(ROWS);
}

const fn count(nodes: u8) -> usize {
    let (mut index, mut found) = (0, 0);
    while index < Verdict::ALL.len() {
        found += (Verdict::ALL[index].nodes() & nodes != 0) as usize;
        index += 1;
    }
    found
}

const fn select<const COUNT: usize>(nodes: u8) -> [Verdict; COUNT] {
    let mut selected = [Verdict::Malformed; COUNT];
    let (mut index, mut found) = (0, 0);
    while index < Verdict::ALL.len() {
        if Verdict::ALL[index].nodes() & nodes != 0 {
            selected[found] = Verdict::ALL[index];
            found += 1;
        }
        index += 1;
    }
    selected
}
