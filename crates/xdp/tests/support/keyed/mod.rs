//! The kernel's switch for pairs and the reference, side by side.

pub mod trace;
pub mod wild;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use wiresum_keys::{Keyring, Seat, Secret};
use wiresum_switch::keyed::{
    Arrangement, Body, Handled, HotTable, KeyedSpec, KeyedSwitch, Packet, Pair as KeyAndValue,
};
use wiresum_switch::rmt::Profile;
use wiresum_wire::control::hello;
use wiresum_wire::{
    Header, JobId, JobKey, Kind, NodeId, ParseError, RowDraft, RowKind, RowPacket, SubModelId,
    Verdict,
};
use wiresum_xdp::frames::udp_frame;
use wiresum_xdp::layout::{Budget, control_budget};
use wiresum_xdp::{KeyedOptions, KeyedProgram, XdpError};
use zerocopy::{FromBytes, IntoBytes};

use super::{XDP_DROP, XDP_PASS, XDP_TX, check_frame};

pub const JOB: JobId = JobId(7);
pub const NODE: NodeId = NodeId(3);
pub const WORKERS: u8 = 3;
/// Hot keys are those from here on.
pub const FIRST_KEY: u64 = 100;
pub const KEYS: u64 = 22;
/// Most packets of a worker in an iteration: more than one cell has bits for.
pub const PACKETS: u32 = 40;
/// The job's version of the map.
pub const MAP_VERSION: u32 = 5;

/// Where the switch listens.
pub const OVER_IPV4: &str = "10.0.0.1:5747";
pub const OVER_IPV6: &str = "[fd00::1]:5747";

/// Two tables with the same keys.
pub fn arrangement() -> Arrangement {
    let spec = KeyedSpec { registers: 5, pairs: 9, recirculations: 1 };
    let keys: Vec<u64> = (FIRST_KEY..FIRST_KEY + KEYS).collect();
    let hot = |table| HotTable {
        job: JOB,
        table,
        workers: WORKERS,
        packets: PACKETS,
        keys: keys.clone(),
    };
    Arrangement::of(spec, &[hot(0), hot(1)]).expect("room")
}

/// The program. Control packets are not bounded, as tests send them faster than any job.
pub fn try_load(node: &str, arrangement: Arrangement) -> Result<KeyedProgram, XdpError> {
    let address = node.parse().expect("an address");
    let options = KeyedOptions { address, node: NODE, keys: keys(), lock_tables: true };
    let program = KeyedProgram::load(&options, arrangement)?;
    program.kernel().put("budgets", &control_budget(0), &Budget::default())?;
    Ok(program)
}

/// As [`try_load`].
pub fn load(node: &str, arrangement: Arrangement) -> KeyedProgram {
    try_load(node, arrangement).unwrap_or_else(|error| panic!("{error}"))
}

fn keys() -> Keyring {
    Keyring::whole(Secret::from_bytes(b"of tests"))
}

/// A worker of this switch.
fn worker(node: SocketAddr, rank: u8) -> SocketAddr {
    let host = if node.is_ipv4() { "10.0.0.2" } else { "[fd00::2]" };
    format!("{host}:{}", 4000 + u32::from(rank)).parse().expect("an address")
}

/// A worker says hello, and is admitted.
fn join(
    xdp: &mut KeyedProgram,
    node: SocketAddr,
    (job, number): (JobId, NodeId),
    table: usize,
    rank: u8,
) {
    let frame = udp_frame(worker(node, rank), node, &joining(job, number, table, rank));
    assert_eq!(xdp.judge(&frame).expect("a run").verdict, Verdict::Control);
    xdp.admit(table, rank, worker(node, rank)).expect("heard");
}

/// Both switches, for one table.
pub struct Pair<'a> {
    xdp: &'a mut KeyedProgram,
    reference: KeyedSwitch,
    node: SocketAddr,
    key: JobKey,
    /// The table that is open.
    pub table: usize,
    pub round: u32,
    pub met: BTreeSet<Verdict>,
    /// Iterations that were complete.
    pub rounds: u32,
    pub recirculated: u32,
}

impl<'a> Pair<'a> {
    /// Both in a new incarnation, whose workers have joined.
    pub fn new(xdp: &'a mut KeyedProgram, node: &str, table: usize, key: JobKey) -> Self {
        let node = node.parse().expect("an address");
        xdp.run(JOB, key).expect("a job of the program");
        (0..WORKERS).for_each(|rank| join(xdp, node, (JOB, NODE), table, rank));
        let reference = KeyedSwitch::new(arrangement(), &Profile::TOFINO_1).expect("a fit");
        let (met, rounds, recirculated) = Default::default();
        let mut pair =
            Self { xdp, reference, node, key, table, round: 1, met, rounds, recirculated };
        pair.open();
        pair
    }

    fn open(&mut self) {
        self.xdp.open(self.table, self.round, MAP_VERSION).expect("nobody has the lock");
        self.reference.open(self.table, self.round, MAP_VERSION);
    }

    pub fn program(&mut self) -> &mut KeyedProgram {
        self.xdp
    }

    /// Where a worker is.
    pub fn worker(&self, rank: u8) -> SocketAddr {
        worker(self.node, rank)
    }

    /// The datagram of an honest worker.
    pub fn datagram(&self, packet: &Packet) -> Vec<u8> {
        let begin = |kind| {
            let mut draft = RowDraft::new(kind);
            let header = &mut draft.header;
            (header.job, header.node, header.job_key) =
                (JOB.0.into(), NODE.0.into(), self.key.0.into());
            draft
        };
        let mut datagram = Vec::new();
        packet.emit(begin, &mut datagram);
        datagram
    }

    /// What every honest packet has.
    pub fn packet(&self, worker: u8, number: u32, body: Body) -> Packet {
        let (table, round, map_version) = (self.table as u16, self.round, MAP_VERSION);
        Packet { table, worker, round, number, map_version, body }
    }

    /// The frame with a worker's pairs for these keys, all values 1.
    pub fn pushed(&self, worker: u8, number: u32, keys: &[u64]) -> Vec<u8> {
        let pairs = keys.iter().map(|key| KeyAndValue { key: *key, value: 1 }).collect();
        let packet = self.packet(worker, number, Body::Pairs(pairs));
        udp_frame(self.worker(worker), self.node, &self.datagram(&packet))
    }

    /// What the kernel makes of a frame, unasked the reference.
    pub fn judge(&self, frame: &[u8]) -> Verdict {
        self.xdp.judge(frame).expect("a run").verdict
    }

    /// Feeds a datagram to both, and panics unless verdict, answer, cells and sums agree.
    pub fn feed(&mut self, source: SocketAddr, datagram: &[u8], at: &str) -> Verdict {
        let judged = self.xdp.judge(&udp_frame(source, self.node, datagram)).expect("a run");
        let expected = self.ask(source, datagram);
        assert_eq!(judged.verdict, expected.verdict, "{at}: {}", super::hex(datagram));
        let action = match expected.verdict {
            Verdict::Wrong | Verdict::Control => XDP_PASS,
            _ if expected.is_acknowledged() => XDP_TX,
            _ => XDP_DROP,
        };
        assert_eq!(judged.action, action, "{at}: {}", expected.verdict.name());
        if action == XDP_TX {
            let parsed = RowPacket::parse(datagram).expect("it was acknowledged");
            let answer = self.answer(&parsed);
            check_frame(&judged.frame, self.node, source, &answer, at);
        }
        self.met.insert(expected.verdict);
        self.recirculated += expected.recirculations;
        self.compare_memory(at);
        let completed = expected.is_complete.then_some((self.table, self.round));
        assert_eq!(self.xdp.next_completion(), completed, "{at}: completion");
        if expected.is_complete {
            self.rounds += 1;
            self.round += 1;
            self.open();
        }
        expected.verdict
    }

    /// What is acknowledged: the header as it came, and no pairs.
    fn answer(&self, packet: &RowPacket<'_>) -> Vec<u8> {
        let mut header = *packet.header;
        header.kind = RowKind::Acknowledgement as u8;
        header.flags.set(header.flags.get() & FORMAT);
        let mut draft = RowDraft { header, ..RowDraft::new(RowKind::Acknowledgement) };
        draft.rows.stamp = packet.rows.stamp;
        let mut answer = Vec::new();
        draft.emit(&[], &mut answer);
        answer
    }

    /// What the reference makes of a datagram, behind the gate and the forms of packets.
    fn ask(&mut self, source: SocketAddr, datagram: &[u8]) -> Handled {
        let at_once = |verdict| Handled { verdict, recirculations: 0, is_complete: false };
        let parsed = RowPacket::parse(datagram);
        let is_sound = match &parsed {
            Ok(_) => true,
            Err(ParseError::Check { .. }) => false,
            Err(_) => return at_once(Verdict::Malformed),
        };
        let (header, _) = Header::ref_from_prefix(datagram).expect("parsed");
        let names = (header.job.get(), header.job_key.get(), header.node.get());
        let table = usize::from(header.sub_model.get());
        if header.kind == RowKind::Acknowledgement as u8 {
            let is_known = (names.0, names.1) == (JOB.0, self.key.0);
            return at_once(match is_known && table < arrangement().tables.len() {
                false => Verdict::Foreign,
                // Nobody acknowledges anything that the program itself has sent.
                true if names.2 == NODE.0 => Verdict::Malformed,
                true => Verdict::Control,
            });
        }
        if header.kind != RowKind::Push as u8 && header.kind != RowKind::End as u8 {
            return at_once(Verdict::Malformed);
        }
        if names != (JOB.0, self.key.0, NODE.0) || table >= arrangement().tables.len() {
            return at_once(Verdict::Foreign);
        }
        let rank = header.contributor;
        if table != self.table || rank >= WORKERS || source != self.worker(rank) {
            return at_once(Verdict::BadContributor);
        }
        if !is_sound {
            return at_once(Verdict::Damaged);
        }
        let parsed = parsed.expect("sound");
        // What has another format is known only once its iteration is.
        let strange = Packet {
            table: table as u16,
            worker: rank,
            round: header.round.get(),
            number: 0,
            map_version: parsed.rows.stamp.get(),
            body: Body::Acknowledgement,
        };
        self.reference.handle(JOB, &Packet::of(&parsed).unwrap_or(strange))
    }

    /// Panics unless both have the same sums, and know the same of every packet.
    fn compare_memory(&self, at: &str) {
        let held = |map, index| self.xdp.held(self.table, map, index).expect("a cell");
        let sums = self.xdp.sums(self.table).expect("a table");
        assert_eq!(sums, self.reference.sums(self.table), "{at}: sums");
        let arrays: Vec<_> = self.reference.memory().arrays().collect();
        // The reference is as old as the incarnation, and each iteration has the next tag.
        let tag = self.round;
        let expected = |array: usize, index: u32| {
            let cell = arrays[array].1[index as usize];
            if (cell >> 32) as u32 == tag { cell as u32 } else { 0 }
        };
        let (missing, done) = (arrays.len() - 2, arrays.len() - 1);
        let table = &arrangement().tables[self.table];
        for index in table.first_number..table.first_number + 3 * table.number_cells {
            assert_eq!(held("keyed_numbers", index), expected(0, index), "{at}: numbers {index}");
        }
        for rank in 0..u32::from(WORKERS) {
            let index = 32 * self.table as u32 + rank;
            let have = held("keyed_missing", index);
            assert_eq!(have, expected(missing, index), "{at}: missing of {rank}");
        }
        let index = self.table as u32;
        assert_eq!(held("keyed_done", index), expected(done, index), "{at}: done");
    }
}

/// Flags of a packet that its acknowledgement keeps.
const FORMAT: u16 = wiresum_wire::Flags::LITTLE_ENDIAN.0 | wiresum_wire::Flags::FLOAT.0;

fn joining(job: JobId, node: NodeId, table: usize, rank: u8) -> Vec<u8> {
    let mut payload = vec![0; 4 * hello::WORDS];
    let seat = Seat { node: node.0, stream: 0, contributor: rank };
    let key = keys().seat(seat).expect("the secret");
    let mut header = Header {
        job: job.0.into(),
        node: node.0.into(),
        sub_model: SubModelId(table as u16).0.into(),
        contributor: rank,
        value_count: (hello::WORDS as u16).into(),
        ..Header::new(Kind::Hello)
    };
    key.prove(&mut header, &mut payload);
    [header.as_bytes(), &payload].concat()
}
