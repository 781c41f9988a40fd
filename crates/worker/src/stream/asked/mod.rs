//! Streams to servers, which can be asked what they hold.
//!
//! | file | what it decides |
//! | --- | --- |
//! | `join` | when this worker is a child of its nodes |
//! | `stream` | which position may be sent next; what was lost is [`wiresum_protocol::recovery`]'s part |
//! | `barriers` | what acknowledges positions that not all give or take |
//! | `send`, `receive` | packets |
//! | `pacing`, `ceiling`, `delivery` | how fast values are sent |
//! | `renewal` | when the keys of values are renewed |
//! | `failover` | leaving a node that is gone, and going home |
//! | `heartbeat` | telling nodes that this worker is alive |
//! | `evidence` | what nodes have said of why nothing comes |

mod barriers;
mod ceiling;
mod counters;
mod delivery;
mod evidence;
mod failover;
mod heartbeat;
mod join;
mod pacing;
mod receive;
mod renewal;
mod send;
mod stream;
mod turns;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use wiresum_keys::{Keyring, ValueHash};
use wiresum_protocol::plan::{Child, PlanStream};
use wiresum_protocol::recovery::PULSE;
use wiresum_protocol::{Plan, Time, Transmit};
use wiresum_wire::control::Absent;
use wiresum_wire::{Flags, FragmentId, Header, JobKey, NodeId, Round};
use zerocopy::FromBytes;

use super::{Evidence, Streams};
use crate::session::rounds::Rounds;
use crate::session::{Failure, ordered};
use barriers::Barriers;
use counters::Counters;
use failover::Pending;
pub use failover::{Departure, SwitchOver};
use heartbeat::Heartbeat;
use join::{Seat, Stage};
use stream::{Parent, Stream};
use turns::Turns;

/// Echo of the question who is in. Pulses have the bit too, but there are none in the stream of the agreement.
const LOOK: u32 = PULSE;

pub(crate) struct Asked {
    plan: Plan,
    rank: u32,
    incarnation: u64,
    key: JobKey,
    /// Those of the seats that this worker may take.
    keys: Keyring,
    /// What values are hashed by, where they are proven.
    hash: Option<ValueHash>,
    digest: u64,
    /// Workers that the incarnation goes on without.
    absent: Absent,
    /// Number of the last hello or goodbye.
    attempt: u32,
    stage: Stage,
    /// By stream.
    seats: Vec<Seat>,
    streams: Vec<Stream>,
    /// Which stream of values sends next.
    turns: Turns,
    /// The first round whose votes on going home are not counted.
    counted: Round,
    /// Some stream is not at home.
    is_away: bool,
    /// Left nodes whose parents have not sent a result yet.
    pending_switches: Vec<Pending>,
    /// Goodbyes to nodes that streams are not at.
    farewells: VecDeque<(usize, Parent, Flags)>,
    /// The position that was last looked at, and the children that were in.
    looked: Option<(FragmentId, u64)>,
    /// What it says of being alive, if it was told to.
    heartbeat: Option<Heartbeat>,
    counters: Counters,
}

impl Asked {
    /// The streams of worker `rank`, whose first position is `first`.
    pub fn new(plan: &Plan, rank: u32, incarnation: u64, first: FragmentId) -> Self {
        let from = (incarnation, first);
        let stream = |s: &PlanStream| Stream::new(plan, s, rank, from).expect("a valid plan");
        let mut streams: Vec<Stream> = ordered(plan).map(stream).collect();
        for exchanged in plan.exchanged() {
            let index = |id| streams.iter().position(|s| s.sub_model == id).expect("it is there");
            let (values, own) = (index(exchanged.values.id()), index(exchanged.barriers.id()));
            streams[values].barriers = Some(Barriers::new(own, first));
        }
        Self {
            plan: plan.clone(),
            rank,
            incarnation,
            key: plan.job_key(incarnation),
            keys: plan.keys(),
            hash: plan.value_hash(),
            digest: plan.digest(),
            absent: Absent::default(),
            attempt: 0,
            stage: Stage::Outside,
            seats: vec![Seat::default(); streams.len()],
            turns: Turns::new(streams.len() - 1, first),
            streams,
            counted: Round(0),
            is_away: false,
            pending_switches: Vec::new(),
            farewells: VecDeque::new(),
            looked: None,
            heartbeat: None,
            counters: Counters::default(),
        }
    }
}

impl Streams for Asked {
    fn join(&mut self, now: Time) {
        self.begin_joining(now);
    }

    fn has_joined(&self) -> bool {
        self.stage == Stage::Joined
    }

    /// Servers are asked what is missing, which costs a probe and sends nothing twice.
    fn resume(&mut self, _now: Time) {}

    fn keep_alive(&mut self, dead_after: Duration, now: Time) {
        self.begin_heartbeat(dead_after, now);
    }

    fn go_on_without(&mut self, absent: Absent) {
        self.absent = absent;
        for refuge in self.streams.iter_mut().flat_map(|stream| &mut stream.refuges) {
            refuge.team.retain(|rank| !absent.holds(*rank));
        }
    }

    fn heartbeat_timeout(&self) -> Option<Time> {
        self.heartbeat_due()
    }

    fn stop(&mut self) {
        if self.stage != Stage::Outside {
            self.stage = Stage::Over;
            self.seats.iter_mut().for_each(Seat::stop);
        }
    }

    fn overreach(&mut self, positions: u32) {
        let exchanging = self.streams.iter_mut().filter(|stream| stream.barriers.is_some());
        exchanging.for_each(|stream| stream.most_begun += positions);
    }

    fn leave(&mut self) {
        self.begin_leaving();
    }

    fn handle_datagram(
        &mut self,
        source: SocketAddr,
        datagram: &[u8],
        rounds: &mut Rounds,
        now: Time,
    ) -> Result<(), Failure> {
        self.receive(source, datagram, rounds, now)?;
        self.advance_barriers(rounds);
        Ok(())
    }

    /// Believed if it quotes a packet of this incarnation, whose key a stranger would have to guess. A node that is
    /// gone and quotes too little is found by its silence.
    fn handle_unreachable(
        &mut self,
        address: SocketAddr,
        quote: &[u8],
        rounds: &mut Rounds,
        now: Time,
    ) {
        let header = Header::ref_from_prefix(quote);
        let is_ours = |key: JobKey| {
            let keys = self.streams.iter().flat_map(|stream| stream.association.keys());
            keys.flatten().chain([self.key]).any(|own| own == key)
        };
        if header.is_ok_and(|(header, _)| is_ours(JobKey(header.job_key.get()))) {
            self.leave_address(address, rounds, now);
        }
    }

    fn handle_timeout(&mut self, rounds: &mut Rounds, now: Time) {
        if self.stage == Stage::Joined {
            self.check_silence(rounds, now);
            self.streams.iter_mut().for_each(|stream| stream.recovery.handle_timeout(now));
            self.handle_rate_timeouts(now);
            self.renew_in_time(now);
        }
    }

    fn poll_timeout(&self, rounds: &Rounds) -> Option<Time> {
        let alarms = self.streams.iter().filter_map(|stream| stream.recovery.alarm());
        let others = match self.stage {
            Stage::Outside | Stage::Over => return None,
            Stage::Joining => [self.joining_timeout(), None, None, None],
            Stage::Joined => [
                self.joining_timeout(),
                self.failover_timeout(),
                self.pace_timeout(rounds),
                self.renewal_timeout(),
            ],
        };
        alarms.chain(others.into_iter().flatten()).chain(self.heartbeat_due()).min()
    }

    fn poll_transmit(
        &mut self,
        rounds: &mut Rounds,
        now: Time,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        let heartbeat = self.transmit_heartbeat(now, buffer);
        if let Some(transmit) = heartbeat.or_else(|| self.transmit_membership(now, buffer)) {
            return Some(transmit);
        }
        if self.stage != Stage::Joined {
            return None;
        }
        if self.is_away {
            self.govern_absences(rounds, now);
        }
        self.begin_unsent(rounds, now);
        let first = self.transmit_of(0, rounds, now, buffer);
        let values = first.or_else(|| self.transmit_values(rounds, now, buffer));
        values.or_else(|| self.transmit_ready(now, buffer))
    }

    fn gathering(&self) -> (NodeId, u32) {
        let exponents = ordered(&self.plan).next();
        let seat = exponents.and_then(|tree| tree.parent_of(Child::Worker(self.rank)));
        let members = exponents.zip(seat).map_or(1, |(tree, (node, _))| tree.fan_in(node) as u32);
        (self.streams[0].home.node, members)
    }

    fn ask_who_is_in(
        &mut self,
        position: FragmentId,
        _now: Time,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        // Others wait for a worker that is away.
        if self.is_away {
            return None;
        }
        self.counters.probes += 1;
        let len = self.write_question(0, position, LOOK, buffer)?;
        Some(Transmit { destination: self.streams[0].address, len })
    }

    fn count_who_is_in(&self, position: FragmentId) -> u32 {
        let looked = self.looked.filter(|(at, _)| *at == position && !self.is_away);
        looked.map_or(0, |(_, children)| children.count_ones())
    }

    fn evidence(&self, rounds: &Rounds, _now: Time) -> Evidence {
        self.accuse(rounds)
    }

    fn sent(&self, stream: usize) -> FragmentId {
        self.streams[stream].recovery.next()
    }

    fn is_pending(&self, stream: usize, position: FragmentId) -> bool {
        self.streams[stream].recovery.is_pending(position)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.counters.list().into_iter().chain(self.rate_counters()).collect()
    }
}
