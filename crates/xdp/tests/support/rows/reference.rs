//! What the kernel's switch is compared with: the switch of `crates/sparse`, behind the gate and the forms of packets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use wiresum_netem::Time;
use wiresum_sparse::hot::{FORMAT, HotMap, HotRow, HotRows, RowId};
use wiresum_sparse::message::{FromSwitch, ToSwitch};
use wiresum_sparse::optimizer::{Optimizer, Sgd};
use wiresum_sparse::summer::{Child, Summer, SummerSpec};
use wiresum_sparse::table::{Initial, RowIds, Shards, TableId, TableSpec, ValueType};
use wiresum_wire::{
    Flags, Header, JobKey, MAGIC, PAGE_PAYLOAD, ParseError, ROW_HEADER_LEN, RowHeader, RowKind,
    RowPacket, RowValue, VERSION, Verdict,
};
use wiresum_xdp::HotStream;
use zerocopy::FromBytes;

use super::{JOB, MAP_VERSION, NODE, POSITIONS, Sums, WORKERS, streams, tier, worker};

/// One stream in one incarnation.
pub struct Reference {
    pub summer: Summer,
    pub stream: HotStream,
    pub node: SocketAddr,
    pub key: JobKey,
    pub round: u32,
    /// Numbers of the round that have come, by worker, with the position behind the packet's rows.
    numbers: BTreeMap<(u32, u32), u32>,
    /// How many there are.
    ends: BTreeMap<u32, u32>,
    /// The summer sums float32 only.
    integers: Sums,
}

impl Reference {
    /// Round 1, of which nothing has come.
    pub fn new(stream: HotStream, node: SocketAddr, key: JobKey) -> Self {
        let (numbers, ends, integers) = Default::default();
        Self { summer: summer(stream.dim), stream, node, key, round: 1, numbers, ends, integers }
    }

    /// The open round's sums, by position.
    pub fn sums(&self) -> Sums {
        let float = |(key, contributors, lanes): (u64, u64, &[i64])| {
            (key as u32, (contributors, lanes.to_vec()))
        };
        if self.stream.is_float {
            self.summer.sums().iter().map(float).collect()
        } else {
            self.integers.clone()
        }
    }

    /// The summer has completed its round.
    pub fn begin_next(&mut self) {
        self.round += 1;
        self.numbers.clear();
        self.ends.clear();
        self.integers.clear();
    }

    /// A worker's end; its results, if it has any, are the summer's to give.
    pub fn end(&mut self, rank: u32, round: u32, packets: u32) -> Verdict {
        let verdict = self.expect_end(rank, round, packets);
        if verdict == Verdict::Control {
            self.ends.insert(rank, packets);
        }
        self.summer.handle(rank, &ToSwitch::End { round, packets, map_version: MAP_VERSION });
        verdict
    }

    /// Whether all packets of the round are in.
    pub fn is_complete(&self) -> bool {
        let announced: u32 = self.ends.values().sum();
        self.ends.len() == WORKERS as usize && announced as usize == self.numbers.len()
    }

    /// Positions behind the rows of packets before which none is missing; 0: a first packet is. As rows are sent in no order
    /// here, any of them may be said to be reached.
    pub fn ends_in_order(&self) -> BTreeSet<u32> {
        let ends = (0..WORKERS).flat_map(|rank| {
            (0..).map_while(move |number| self.numbers.get(&(rank, number)).copied())
        });
        ends.chain([0]).collect()
    }

    /// What becomes of what the switch does not sum: it is its station's, if the job runs here.
    fn ask_about_others(&self, source: SocketAddr, datagram: &[u8]) -> Verdict {
        let (header, rest) = Header::ref_from_prefix(datagram).expect("a whole header");
        let is_of_version = header.magic.get() == MAGIC && header.version == VERSION;
        let len = ROW_HEADER_LEN + 4 * usize::from(header.value_count.get());
        if !is_of_version || len > PAGE_PAYLOAD || rest.len() != len {
            return Verdict::Malformed;
        }
        let names = (header.job.get(), header.job_key.get());
        let sub_model = header.sub_model.get();
        let is_known = usize::from(sub_model) < streams().len();
        let rank = u32::from(header.contributor);
        let is_worker = sub_model == self.stream.sub_model.0
            && rank < WORKERS
            && source == worker(self.node, rank);
        match (names == (JOB.0, self.key.0) && is_known, header.node.get() == NODE.0) {
            (false, _) => Verdict::Foreign,
            (true, true) if !is_worker => Verdict::BadContributor,
            (true, _) => Verdict::Control,
        }
    }

    fn expect_end(&self, rank: u32, round: u32, packets: u32) -> Verdict {
        let least =
            self.numbers.keys().filter(|(of, _)| *of == rank).map(|(_, number)| number + 1).max();
        match self.ends.get(&rank) {
            _ if round < self.round => Verdict::Stale,
            _ if round > self.round => Verdict::Early,
            Some(before) if *before == packets => Verdict::Duplicate,
            Some(_) => Verdict::Wrong,
            None if packets < least.unwrap_or(0) || packets > numbers_most() => Verdict::Wrong,
            None => Verdict::Control,
        }
    }

    /// What the reference makes of a datagram.
    pub fn ask(&mut self, source: SocketAddr, datagram: &[u8]) -> Verdict {
        let kind =
            Header::ref_from_prefix(datagram).ok().and_then(|(h, _)| RowKind::from_wire(h.kind));
        if kind.is_some_and(|kind| !matches!(kind, RowKind::HotRows | RowKind::End)) {
            return self.ask_about_others(source, datagram);
        }
        let parsed = RowPacket::parse(datagram);
        let (has_order, is_sound) = match &parsed {
            Ok(_) => (true, true),
            Err(ParseError::Positions) => (false, true),
            Err(ParseError::Check { .. }) => (false, false),
            Err(_) => return Verdict::Malformed,
        };
        let (header, rest) = Header::ref_from_prefix(datagram).expect("parsed");
        let (rows, _) = RowHeader::ref_from_prefix(rest).expect("parsed");
        let is_hot = header.kind == RowKind::HotRows as u8;
        let names = (header.job.get(), header.job_key.get(), header.node.get());
        let sub_model = header.sub_model.get();
        if names != (JOB.0, self.key.0, NODE.0) || usize::from(sub_model) >= streams().len() {
            return Verdict::Foreign;
        }
        let rank = u32::from(header.contributor);
        if sub_model != self.stream.sub_model.0
            || rank >= WORKERS
            || source != worker(self.node, rank)
        {
            return Verdict::BadContributor;
        }
        if !is_sound {
            return Verdict::Damaged;
        }
        if !is_hot {
            return Verdict::Control;
        }
        self.ask_about_rows(rank, header, rows, parsed.ok().filter(|_| has_order))
    }

    fn ask_about_rows(
        &mut self,
        rank: u32,
        header: &Header,
        rows: &RowHeader,
        packet: Option<RowPacket<'_>>,
    ) -> Verdict {
        let (round, sequence) = (header.round.get(), header.fragment.get());
        let float = if self.stream.is_float { Flags::FLOAT.0 } else { 0 };
        let format = Flags::LITTLE_ENDIAN.0 | float;
        let map_version = rows.stamp.get();
        let is_here = round == self.round
            && map_version <= MAP_VERSION
            && !self.numbers.contains_key(&(rank, sequence));
        if is_here {
            let agrees = map_version == MAP_VERSION
                && rows.dim.get() == self.stream.dim
                && header.flags.get() & (Flags::LITTLE_ENDIAN.0 | Flags::FLOAT.0) == format
                && sequence < numbers_most()
                && self.ends.get(&rank).is_none_or(|packets| sequence < *packets);
            match (agrees, packet) {
                (false, _) => return Verdict::Wrong,
                (true, None) => return Verdict::Malformed,
                (true, Some(packet)) => return self.ask_about_sound_rows(rank, &packet),
            }
        }
        let (positions, values) = Default::default();
        self.summer
            .handle(rank, &ToSwitch::Rows { round, sequence, map_version, positions, values });
        match self.summer.poll_transmit(Time(0)) {
            None => Verdict::Early,
            Some((to, FromSwitch::Acknowledgement { .. })) if to == rank && round < self.round => {
                Verdict::Stale
            }
            Some((to, FromSwitch::Acknowledgement { .. })) if to == rank => Verdict::Duplicate,
            Some(other) => panic!("{other:?}"),
        }
    }

    fn ask_about_sound_rows(&mut self, rank: u32, packet: &RowPacket<'_>) -> Verdict {
        let (round, sequence) = (packet.header.round.get(), packet.header.fragment.get());
        let map_version = packet.rows.stamp.get();
        let wide = packet.values().iter().map(|value| u32::from_le_bytes(value.to_bytes()));
        let widened = |bits: u16| match packet.value() {
            RowValue::Float16 => half::f16::from_bits(bits).to_f32(),
            _ => half::bf16::from_bits(bits).to_f32(),
        };
        let narrow = packet.narrow_values().iter().map(|bits| widened(bits.get()).to_bits());
        let bits: Vec<u32> = wide.chain(narrow).collect();
        let float = |bits: &u32| if self.stream.is_float { f32::from_bits(*bits) } else { 0.0 };
        let values = bits.iter().map(float).collect();
        let positions: Vec<u32> = packet.positions().collect();
        let message =
            ToSwitch::Rows { round, sequence, map_version, positions: positions.clone(), values };
        self.summer.handle(rank, &message);
        match self.summer.poll_transmit(Time(0)) {
            Some((_, FromSwitch::Refusal { .. })) => return Verdict::Wrong,
            Some((_, FromSwitch::Acknowledgement { .. })) => {}
            other => panic!("{other:?}"),
        }
        let end = positions.last().map_or(0, |last| last + 1);
        self.numbers.insert((rank, sequence), end);
        let dim = usize::from(self.stream.dim);
        for (position, row) in positions.iter().zip(bits.chunks_exact(dim)) {
            let (contributors, lanes) =
                self.integers.entry(*position).or_insert_with(|| (0, vec![0; dim]));
            *contributors |= 1 << rank;
            let add = |lane: &i64, bits: &u32| i64::from((*lane as i32).wrapping_add(*bits as i32));
            *lanes = lanes.iter().zip(row).map(|(lane, bits)| add(lane, bits)).collect();
        }
        Verdict::Added
    }
}

fn summer(dim: u16) -> Summer {
    let table = TableId(0);
    let row = |position| {
        let row = RowId { table, key: u64::from(position) };
        tier(position).map(|tier| HotRow { row, position, tier })
    };
    let rows = (0..POSITIONS).filter_map(row).collect();
    let (format, positions) = (FORMAT.to_owned(), POSITIONS);
    let map =
        HotRows { format, version: MAP_VERSION, dim, positions, block: 0, rows, digest: None };
    let table = TableSpec {
        id: table,
        name: "t".to_owned(),
        rows: RowIds::Counted(u64::from(POSITIONS)),
        dim,
        value: ValueType::default(),
        optimizer: Optimizer::Sgd(Sgd { lr: 0.1 }),
        initial: Initial::Zeros,
        seed: 0,
        is_averaged: false,
        steps_before: 0,
        expire_after: None,
    };
    let spec = SummerSpec {
        workers: WORKERS,
        children: Child::workers(WORKERS),
        has_parent: false,
        shards: Shards(1),
        tables: vec![table],
        room: RowKind::HotSums.payload_len(8, dim.into()),
        is_prompt: false,
    };
    Summer::new(spec, HotMap::new(map).expect("a map"))
}

/// Most packets of a worker in a round: the program's bits for their numbers come in words.
fn numbers_most() -> u32 {
    POSITIONS.next_multiple_of(32)
}
