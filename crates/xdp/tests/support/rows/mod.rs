//! The kernel's switch for hot rows and the reference of `crates/sparse`, side by side, and packets that meet every row of its
//! table.

mod reference;
pub mod wild;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use libbpf_rs::{MapCore, MapFlags};
use wiresum_keys::{Keyring, Seat, Secret};
use wiresum_netem::Time;
use wiresum_protocol::Quota;
use wiresum_sparse::hot::Tier;
use wiresum_sparse::message::{Closed, FromSwitch, ToServer, ToSwitch};
use wiresum_sparse::packet::RowKeys;
use wiresum_wire::control::hello;
use wiresum_wire::{
    Contributor, Flags, Header, JobId, JobKey, Kind, NodeId, RowDraft, RowHeader, RowKind,
    RowValue, SubModelId, Verdict,
};
use wiresum_xdp::frames::udp_frame;
use wiresum_xdp::layout::{Budget, control_budget};
use wiresum_xdp::{HotStream, Progress, RowsProgram};
use zerocopy::{FromBytes, IntoBytes};

use super::{XDP_DROP, XDP_PASS, XDP_TX, check_frame};
use reference::Reference;

pub const JOB: JobId = JobId(7);
pub const NODE: NodeId = NodeId(3);
pub const WORKERS: u32 = 3;
pub const POSITIONS: u32 = 70;
/// Lengths of rows: without a whole stride, of one, of some and a rest, and the longest.
pub const DIMS: [u16; 6] = [1, 3, 8, 16, 19, 256];
/// The job's version of the map.
const MAP_VERSION: u32 = 5;

/// Where the switch listens.
pub const OVER_IPV4: &str = "10.0.0.1:5747";
pub const OVER_IPV6: &str = "[fd00::1]:5747";

/// A worker of this switch.
fn worker(node: SocketAddr, rank: u32) -> SocketAddr {
    let host = if node.is_ipv4() { "10.0.0.2" } else { "[fd00::2]" };
    format!("{host}:{}", 4000 + rank).parse().expect("an address")
}

/// The program with every stream. Control packets are not bounded, as tests send them faster than any job.
pub fn load(node: &str) -> RowsProgram {
    let node = node.parse().expect("an address");
    let loaded = RowsProgram::load_for_tests(node, &streams(), true);
    let program = loaded.unwrap_or_else(|error| panic!("{error}"));
    program.kernel().put("budgets", &control_budget(0), &Budget::default()).expect("a budget");
    program
}

/// Streams of every length, of float32 and of int32.
pub fn streams() -> Vec<HotStream> {
    let stream = |index: usize| HotStream {
        job: JOB,
        sub_model: SubModelId(index as u16),
        node: NODE,
        keys: Keyring::whole(Secret::from_bytes(b"of tests")),
        workers: WORKERS as u8,
        contributors: (1 << WORKERS) - 1,
        positions: POSITIONS,
        dim: DIMS[index / 2],
        is_float: index.is_multiple_of(2),
    };
    (0..2 * DIMS.len()).map(stream).collect()
}

/// Whether a position has a row, and of which tier.
fn tier(position: u32) -> Option<Tier> {
    match position % 7 {
        0 => None,
        1..4 => Some(Tier::A),
        _ => Some(Tier::B),
    }
}

/// Rows of a stream: whose values are in each, and the sums.
type Sums = BTreeMap<u32, (u64, Vec<i64>)>;

/// Both switches, for one stream.
pub struct Pair<'a> {
    xdp: &'a mut RowsProgram,
    reference: Reference,
    pub met: BTreeSet<Verdict>,
    /// Rounds that are complete.
    pub rounds: u32,
}

impl<'a> Pair<'a> {
    /// Both in a new incarnation, whose workers have joined.
    pub fn new(xdp: &'a mut RowsProgram, node: &str, stream: HotStream, key: JobKey) -> Self {
        let node = node.parse().expect("an address");
        let positions = (0..POSITIONS).map(|position| (position, tier(position).is_some()));
        xdp.set_in_map(JOB, stream.sub_model, positions).expect("positions of the stream");
        xdp.run(JOB, key).expect("a job of the program");
        // Another stream's rounds may have been left half done.
        while xdp.next_note().is_some() {}
        for rank in 0..WORKERS {
            let frame = udp_frame(worker(node, rank), node, &joining(&stream, rank));
            assert_eq!(xdp.judge(&frame).expect("a run").verdict, Verdict::Control);
            let (child, address) = (Contributor(rank as u8), worker(node, rank));
            xdp.admit(JOB, stream.sub_model, child, address).expect("heard");
        }
        xdp.open(JOB, stream.sub_model, 1, MAP_VERSION).expect("nobody has the lock");
        Self { xdp, reference: Reference::new(stream, node, key), met: BTreeSet::new(), rounds: 0 }
    }

    /// The stream.
    pub fn stream(&self) -> &HotStream {
        &self.reference.stream
    }

    /// Where a worker is.
    pub fn worker(&self, rank: u32) -> SocketAddr {
        worker(self.reference.node, rank)
    }

    /// The open round.
    pub fn round(&self) -> u32 {
        self.reference.round
    }

    /// What every honest packet of a worker starts with.
    pub fn draft(&self, kind: RowKind, rank: u32, number: u32) -> RowDraft {
        let mut draft = RowDraft::new(kind);
        let header = &mut draft.header;
        (header.job, header.sub_model) = (JOB.0.into(), self.reference.stream.sub_model.0.into());
        (header.node, header.job_key) = (NODE.0.into(), self.reference.key.0.into());
        (header.round, header.fragment) = (self.reference.round.into(), number.into());
        (header.contributor, header.expected) = (rank as u8, WORKERS as u8);
        if !self.reference.stream.is_float {
            header.flags.set(Flags::LITTLE_ENDIAN.0);
        }
        draft.rows.stamp.set(MAP_VERSION);
        draft
    }

    /// Opens a round at the kernel's switch alone, which takes these keys from now on.
    pub fn open(&mut self, round: u32, keys: &RowKeys) {
        let (round_shift, all) = keys.all();
        self.xdp.renew(JOB, round_shift, all).expect("a job of the program");
        let stream = self.stream().sub_model;
        self.xdp.open(JOB, stream, round, MAP_VERSION).expect("nobody has the lock");
        self.reference.round = round;
    }

    /// What workers' packets carry from now on.
    pub fn set_key(&mut self, key: JobKey) {
        self.reference.key = key;
    }

    /// The frame with a worker's end of the open round.
    pub fn end_of(&self, rank: u32) -> Vec<u8> {
        let mut datagram = Vec::new();
        self.draft(RowKind::End, rank, 0).emit(&[], &mut datagram);
        udp_frame(self.worker(rank), self.reference.node, &datagram)
    }

    /// The frame with a worker's rows at these positions, all values 1.
    pub fn rows_of(&self, rank: u32, number: u32, positions: &[u16]) -> Vec<u8> {
        let values =
            vec![1.0f32.to_bits(); positions.len() * usize::from(self.reference.stream.dim)];
        let mut datagram = Vec::new();
        let mut draft = self.draft(RowKind::HotRows, rank, number);
        (draft.rows.rows, draft.rows.dim) =
            ((positions.len() as u16).into(), self.reference.stream.dim.into());
        draft.emit(&columns(positions, &values, RowValue::Float32), &mut datagram);
        udp_frame(self.worker(rank), self.reference.node, &datagram)
    }

    /// A worker's row of 16-bit numbers, whose bits are these.
    pub fn row_of_16_bits(&self, rank: u32, number: u32, kind: RowValue, bits: &[u32]) -> Vec<u8> {
        let mut draft = self.draft(RowKind::HotRows, rank, number);
        draft.set_value(kind);
        (draft.rows.rows, draft.rows.dim) = (1.into(), (bits.len() as u16).into());
        let mut datagram = Vec::new();
        draft.emit(&columns(&[1], bits, kind), &mut datagram);
        datagram
    }

    /// What the kernel makes of a frame, unasked the reference.
    pub fn judge(&self, frame: &[u8]) -> Verdict {
        self.xdp.judge(frame).expect("a run").verdict
    }

    /// Bounds what the job's workers may send.
    pub fn set_quota(&mut self, quota: Option<Quota>) {
        self.xdp.set_quota(JOB, quota).expect("a job of the program");
    }

    /// Holds the stream's lock, or lets go of it.
    pub fn hold_lock(&self, lock: u32) {
        let (kernel, index) = (self.xdp.kernel(), u32::from(self.reference.stream.sub_model.0));
        let mut entry =
            kernel.read("hot_streams", index, MapFlags::ANY).expect("a map").expect("a stream");
        entry[..4].copy_from_slice(&lock.to_ne_bytes());
        kernel.map("hot_streams").update(index.as_bytes(), &entry, MapFlags::ANY).expect("a map");
    }

    /// Packets that the kernel's switch has met with this fate.
    pub fn counter(&self, verdict: Verdict) -> u64 {
        let all = self.xdp.counters().expect("counters can be read");
        all.into_iter().find(|(of, _)| *of == verdict).expect("a verdict about rows").1
    }

    /// Feeds a datagram to both, and panics unless verdict, answer and sums agree.
    pub fn feed(&mut self, source: SocketAddr, datagram: &[u8], at: &str) -> Verdict {
        let judged =
            self.xdp.judge(&udp_frame(source, self.reference.node, datagram)).expect("a run");
        let expected = self.reference.ask(source, datagram);
        assert_eq!(judged.verdict, expected, "{at}: {}", super::hex(datagram));
        let action = match expected {
            Verdict::Added | Verdict::Duplicate | Verdict::Stale => XDP_TX,
            Verdict::Wrong | Verdict::Control => XDP_PASS,
            _ => XDP_DROP,
        };
        assert_eq!(judged.action, action, "{at}: {}", expected.name());
        if action == XDP_TX {
            check_frame(&judged.frame, self.reference.node, source, &acknowledgement(datagram), at);
        }
        self.met.insert(expected);
        self.compare_sums(at);
        if expected == Verdict::Added {
            self.follow(at);
        }
        expected
    }

    /// A worker's end, at both. It comes up to the station, which announces it.
    pub fn end(&mut self, rank: u32, round: u32, packets: u32, at: &str) {
        let mut draft = self.draft(RowKind::End, rank, 0);
        draft.header.round.set(round);
        draft.rows.count.set(packets);
        let mut datagram = Vec::new();
        draft.emit(&[], &mut datagram);
        assert_eq!(self.feed(self.worker(rank), &datagram, at), Verdict::Control);
        let answer = self
            .xdp
            .announce(
                JOB,
                self.reference.stream.sub_model,
                Contributor(rank as u8),
                round,
                MAP_VERSION,
                packets,
            )
            .expect("nobody has the lock");
        let before = self.kernel_sums();
        let expected = self.reference.end(rank, round, packets);
        assert_eq!(answer.verdict, expected, "{at}: end of {packets} packets");
        let is_complete = self.reference.is_complete();
        assert_eq!(
            answer.is_complete,
            is_complete && expected == Verdict::Control,
            "{at}: complete"
        );
        if is_complete {
            self.compare_results(&before, at);
            self.begin_next();
        } else {
            while self.reference.summer.poll_transmit(Time(0)).is_some() {}
        }
    }

    fn kernel_sums(&self) -> Sums {
        let mut sums = Sums::new();
        let visit = |position, contributors, lanes: &[i64]| {
            sums.insert(position, (contributors, lanes.to_vec()));
        };
        self.xdp
            .visit_sums(JOB, self.reference.stream.sub_model, 0..POSITIONS, visit)
            .expect("a stream of the program");
        sums
    }

    /// Panics unless every row of both has the same contributors and lanes.
    fn compare_sums(&self, at: &str) {
        if self.reference.summer.sums().is_empty() {
            return;
        }
        assert_eq!(self.kernel_sums(), self.reference.sums(), "{at}: sums");
    }

    /// How far the open round has come at the kernel's switch.
    pub fn progress(&self) -> Progress {
        self.xdp.progress(JOB, self.stream().sub_model).expect("a stream of the program")
    }

    /// Streams of which the kernel's switch says that more has come.
    pub fn notes(&self) -> Vec<(JobId, SubModelId)> {
        std::iter::from_fn(|| self.xdp.next_note()).collect()
    }

    /// Says at the kernel's switch that the sums before a position have left.
    pub fn set_left(&self, left: u32) {
        self.xdp.set_left(JOB, self.stream().sub_model, left).expect("a stream of the program");
    }

    /// Announces how many packets a worker had, at the kernel's switch alone.
    pub fn announce(&mut self, rank: u32, packets: u32) -> Verdict {
        let (stream, worker) = (self.stream().sub_model, Contributor(rank as u8));
        let round = self.reference.round;
        let announced = self.xdp.announce(JOB, stream, worker, round, MAP_VERSION, packets);
        announced.expect("nobody has the lock").verdict
    }

    /// After a packet: it may have completed the round.
    fn follow(&mut self, at: &str) {
        let progress = self.progress();
        assert_eq!(progress.is_complete, self.reference.is_complete(), "{at}: complete");
        if progress.is_complete {
            let named = (JOB, self.reference.stream.sub_model);
            assert_eq!(self.notes(), [named], "{at}: one note, however much has come");
            let sums = self.kernel_sums();
            self.compare_results(&sums, at);
            self.begin_next();
        } else {
            let ends = self.reference.ends_in_order();
            assert!(ends.contains(&progress.reached), "{at}: {progress:?}, and rows to {ends:?}");
        }
    }

    /// What the reference sends on is what the kernel's sums are, rounded: tier A to workers, tier B to servers.
    fn compare_results(&mut self, sums: &Sums, at: &str) {
        let (mut replicated, mut sent_on) = (BTreeMap::new(), BTreeMap::new());
        let (summer, open) = (&mut self.reference.summer, self.reference.round);
        let entry = |(position, contributors, values): (u32, u32, &[f32])| {
            (position, (contributors, values.to_vec()))
        };
        while let Some((worker, result)) = summer.poll_transmit(Time(0)) {
            let FromSwitch::Results { round, part, rows, .. } = result else { continue };
            assert_eq!(round, open, "{at}: results");
            summer.handle(worker, &ToSwitch::Acknowledgement { round, part });
            replicated.extend(rows.iter().map(entry));
        }
        while let Some((server, message)) = summer.poll_to_server(Time(0)) {
            let ToServer::Sums { round, sequence, rows, .. } = message else {
                summer.handle_closed(server, &Closed { round: open, ..Closed::default() });
                continue;
            };
            summer.handle_acknowledgement(server, round, sequence);
            sent_on.extend(rows.iter().map(entry));
        }
        assert_eq!(replicated.len() + sent_on.len(), sums.len(), "{at}: rows of round {open}");
        for (position, (contributors, lanes)) in
            sums.iter().filter(|_| self.reference.stream.is_float)
        {
            let is_summed = tier(*position) == Some(Tier::B);
            let sent = if is_summed { &sent_on[position] } else { &replicated[position] };
            let floats = lanes.iter().map(|lane| wiresum_sparse::sum::float(*lane)).collect();
            assert_eq!(*sent, (contributors.count_ones(), floats), "{at}: position {position}");
        }
    }

    fn begin_next(&mut self) {
        self.reference.begin_next();
        self.rounds += 1;
        let (stream, round) = (self.stream().sub_model, self.reference.round);
        self.xdp.open(JOB, stream, round, MAP_VERSION).expect("nobody has the lock");
    }
}

fn joining(stream: &HotStream, rank: u32) -> Vec<u8> {
    let mut payload = vec![0; 4 * hello::WORDS];
    let seat = Seat { node: stream.node.0, stream: 0, contributor: rank as u8 };
    let key = stream.keys.seat(seat).expect("the secret");
    let mut header = Header {
        job: stream.job.0.into(),
        node: stream.node.0.into(),
        sub_model: stream.sub_model.0.into(),
        contributor: rank as u8,
        value_count: (hello::WORDS as u16).into(),
        ..Header::new(Kind::Hello)
    };
    key.prove(&mut header, &mut payload);
    [header.as_bytes(), &payload].concat()
}

/// What is answered to rows that are in.
fn acknowledgement(datagram: &[u8]) -> Vec<u8> {
    let (mut header, rest) = Header::read_from_prefix(datagram).expect("whole");
    let (rows, _) = RowHeader::read_from_prefix(rest).expect("whole");
    let flags = header.flags.get() & (Flags::LITTLE_ENDIAN.0 | Flags::FLOAT.0);
    (header.kind, header.flags) = (RowKind::Acknowledgement as u8, flags.into());
    let draft = RowDraft::new(RowKind::Acknowledgement);
    let mut answer = Vec::new();
    RowDraft { header, rows: RowHeader { stamp: rows.stamp, ..draft.rows } }.emit(&[], &mut answer);
    answer
}

/// What follows the headers of rows.
fn columns(offsets: &[u16], values: &[u32], kind: RowValue) -> Vec<u8> {
    let mut columns: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_be_bytes()).collect();
    columns.resize(columns.len().next_multiple_of(4), 0);
    let bytes = |value: &u32| value.to_le_bytes().into_iter().take(kind.width());
    columns.extend(values.iter().flat_map(bytes));
    columns
}
