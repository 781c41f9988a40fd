//! A sparse job on a star, datagram by datagram in virtual time: every host has one link to the switch in the middle, which
//! sums. Nothing takes time but links, so what is missing to a full link is the protocol's own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use wiresum_netem::{Cargo, Conditions, Network, Next, OVERHEAD_BYTES, Rng, Time};
use wiresum_sparse::hot::{FORMAT as HOT, HotRow, HotRows, RowId, Tier};
use wiresum_sparse::live::{FORMAT, Host, Job, Member, Renewal};
use wiresum_sparse::optimizer::{Optimizer, Sgd};
use wiresum_sparse::table::{Initial, RowIds, TableId, TableSpec, ValueType};
use wiresum_wire::{RowKind, RowPacket};

use crate::zipf::Zipf;

const DIM: u16 = 16;
const US: u64 = 1_000_000;
/// Queue before each link, as in the testbed.
const QUEUE_BYTES: u64 = 3 * 512 * 1024;
/// Rounds before those that are measured: windows find their size.
const WARMUPS: u32 = 2;
const DEADLINE: Time = Time(60_000_000);

/// What the workers do, and over which links.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub workers: u32,
    pub servers: u16,
    pub rate_bps: f64,
    /// Chance of each packet on each link of being lost.
    pub loss: f64,
    /// Lookups of each worker in a round.
    pub lookups: usize,
    /// Rows of all tables.
    pub rows: usize,
    pub tables: u16,
    /// The most popular rows, which every worker keeps.
    pub replicated: u32,
    /// The next ones, which are summed on their way to the server.
    pub summed: u32,
    /// Rounds that are measured.
    pub rounds: u32,
}

/// What the measured rounds were.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Seconds of a round, from its first gradient to the last weight of the next round's rows.
    pub seconds: f64,
    /// Seconds of a round that the fullest direction of a link needs for its bytes.
    pub needed: f64,
    /// Rows pushed in a second.
    pub updates_per_second: f64,
    /// Messages of workers that were sent again.
    pub repeated: u64,
    /// The fullest direction: from whom to whom.
    pub fullest: (usize, usize),
    /// Datagrams of a round.
    pub datagrams: u64,
    /// Those of them that acknowledge others.
    pub acknowledgements: u64,
}

/// On its way from a host to another, by way of the switch.
#[derive(Clone, Debug)]
struct Parcel {
    from: usize,
    to: usize,
    bytes: Vec<u8>,
}

impl Cargo for Parcel {
    fn wire_bytes(&self) -> u64 {
        self.bytes.len() as u64 + OVERHEAD_BYTES
    }

    fn damage(&mut self, rng: &mut Rng) {
        self.bytes.damage(rng);
    }
}

fn address(port: usize) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port as u16).into()
}

/// Hosts are servers, then the switch, then workers.
pub struct Star {
    load: Load,
    hosts: Vec<Host>,
    members: Vec<Member>,
    network: Network<usize, Parcel>,
    link: Conditions,
    /// By round and worker.
    touched: Vec<Vec<BTreeSet<RowId>>>,
    /// Bytes since the first measured round began, by direction of a link.
    carried: BTreeMap<(usize, usize), u64>,
    /// Datagrams that were sent since then, and those of them that acknowledge.
    datagrams: (u64, u64),
    begun: Vec<Time>,
}

impl Star {
    pub fn new(load: Load, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let job = Arc::new(job(&load));
        let zipf = Zipf::new(load.rows, 1.05);
        let of_worker =
            |rng: &mut Rng| (0..load.lookups).map(|_| row(&load, zipf.draw(rng) as u32)).collect();
        let of_round = |rng: &mut Rng| (0..load.workers).map(|_| of_worker(rng)).collect();
        let nodes = load.servers + 1;
        let conditions = Conditions {
            rate_bps: Some(load.rate_bps),
            delay_ps: 50 * US,
            queue_bytes: QUEUE_BYTES,
            loss: load.loss,
            ..Conditions::PERFECT
        };
        Self {
            hosts: (0..nodes).map(|node| Host::new(&job, node, 1).unwrap()).collect(),
            members: (0..load.workers).map(|rank| Member::new(&job, rank, 7)).collect(),
            network: Network::new(seed),
            link: conditions,
            touched: (0..=WARMUPS + load.rounds).map(|_| of_round(&mut rng)).collect(),
            carried: BTreeMap::new(),
            datagrams: (0, 0),
            begun: Vec::new(),
            load,
        }
    }

    fn switch(&self) -> usize {
        usize::from(self.load.servers)
    }

    /// Plays all rounds.
    pub fn run(mut self) -> Report {
        while !self.is_over() {
            (0..self.members.len()).for_each(|rank| self.advance(rank));
            self.send();
            let timers = self.hosts.iter().map(Host::poll_timeout);
            let timer = timers.chain(self.members.iter().map(Member::poll_timeout)).flatten().min();
            match self.network.advance(timer) {
                Some(Next::Arrival(flight)) => self.arrive(flight.to, flight.cargo),
                Some(Next::Timers) => {}
                None => panic!("nothing will happen any more"),
            }
            assert!(self.network.now() < DEADLINE, "the job stands still");
        }
        self.report()
    }

    fn is_over(&self) -> bool {
        let last = WARMUPS + self.load.rounds;
        let worker =
            |member: &Member| member.worker().version() == last && member.worker().is_idle();
        self.members.iter().all(worker)
    }

    /// A worker pushes the rows of a round as soon as it has all of them.
    fn advance(&mut self, rank: usize) {
        let member = &mut self.members[rank];
        assert_eq!(member.error(), None);
        if !member.has_joined() || !member.worker().is_idle() {
            return;
        }
        let version = member.worker().version();
        if version < WARMUPS + self.load.rounds {
            if self.begun.len() == version as usize {
                self.begun.push(self.network.now());
                if version == WARMUPS {
                    self.carried.clear();
                    self.datagrams = (0, 0);
                }
            }
            let rows = self.touched[version as usize][rank].iter();
            let gradients = rows.map(|row| (*row, vec![0.5; DIM.into()])).collect();
            member.begin(&gradients);
            member.pull(self.touched[version as usize + 1][rank].iter().copied());
        }
    }

    fn send(&mut self) {
        let now = self.network.now();
        let nodes = self.hosts.len();
        let mut sent = Vec::new();
        let parcel = |from, to: SocketAddr, bytes: &[u8]| Parcel {
            from,
            to: to.port().into(),
            bytes: bytes.to_vec(),
        };
        for (from, host) in self.hosts.iter_mut().enumerate() {
            host.poll(now, |to, bytes| sent.push(parcel(from, to, bytes)));
        }
        for (rank, member) in self.members.iter_mut().enumerate() {
            member.poll(now, |to, bytes| sent.push(parcel(nodes + rank, to, bytes)));
        }
        self.datagrams.0 += sent.len() as u64;
        let is_acknowledgement = |parcel: &&Parcel| {
            RowPacket::parse(&parcel.bytes).is_ok_and(|p| p.kind == RowKind::Acknowledgement)
        };
        self.datagrams.1 += sent.iter().filter(is_acknowledgement).count() as u64;
        for parcel in sent {
            let is_here = parcel.from == self.switch();
            let hop = if is_here { parcel.to } else { self.switch() };
            self.put(parcel.from, hop, parcel);
        }
    }

    fn put(&mut self, from: usize, to: usize, parcel: Parcel) {
        *self.carried.entry((from, to)).or_default() += parcel.wire_bytes();
        self.network.send(&self.link, from, to, parcel);
    }

    fn arrive(&mut self, at: usize, parcel: Parcel) {
        if at != parcel.to {
            return self.put(at, parcel.to, parcel);
        }
        let (from, now) = (address(parcel.from), self.network.now());
        let nodes = self.hosts.len();
        match self.hosts.get_mut(at) {
            Some(host) => host.handle(from, &parcel.bytes, now),
            None => self.members[at - nodes].handle(from, &parcel.bytes, now),
        }
    }

    fn report(&self) -> Report {
        let first = self.begun[WARMUPS as usize];
        let seconds = self.network.now().since(first).as_secs_f64() / f64::from(self.load.rounds);
        let (fullest, bytes) =
            self.carried.iter().max_by_key(|(_, bytes)| **bytes).expect("a direction");
        let needed = *bytes as f64 * 8.0 / self.load.rate_bps / f64::from(self.load.rounds);
        let measured = WARMUPS as usize..(WARMUPS + self.load.rounds) as usize;
        let pushed: usize = self.touched[measured].iter().flatten().map(BTreeSet::len).sum();
        let updates_per_second = pushed as f64 / f64::from(self.load.rounds) / seconds;
        let repeated = self.members.iter().map(|member| member.worker().repeated()).sum();
        let of_round = |count| count / u64::from(self.load.rounds);
        let (datagrams, acknowledgements) = self.datagrams;
        let (datagrams, acknowledgements) = (of_round(datagrams), of_round(acknowledgements));
        let fullest = *fullest;
        Report {
            seconds,
            needed,
            updates_per_second,
            repeated,
            fullest,
            datagrams,
            acknowledgements,
        }
    }
}

/// The row of a rank.
fn row(load: &Load, rank: u32) -> RowId {
    let tables = u32::from(load.tables);
    RowId { table: TableId((rank % tables) as u16), key: u64::from(rank / tables) }
}

fn job(load: &Load) -> Job {
    let rows = RowIds::Counted(load.rows.div_ceil(load.tables.into()) as u64);
    let table = |id| TableSpec {
        id: TableId(id),
        name: format!("t{id}"),
        rows,
        dim: DIM,
        value: ValueType::default(),
        optimizer: Optimizer::Sgd(Sgd { lr: 0.1 }),
        initial: Initial::Zeros,
        seed: 1,
        is_averaged: false,
        steps_before: 0,
        expire_after: None,
    };
    let hot = |position| HotRow {
        row: row(load, position),
        position,
        tier: if position < load.replicated { Tier::A } else { Tier::B },
    };
    let positions = load.replicated + load.summed;
    let (format, digest, rows) = (HOT.into(), None, (0..positions).map(hot).collect());
    let hot = HotRows { format, version: 1, dim: DIM, positions, block: 0, rows, digest };
    Job {
        format: FORMAT.into(),
        id: 5,
        workers: load.workers,
        servers: (0..usize::from(load.servers)).map(address).collect(),
        switches: vec![address(load.servers.into())],
        tables: (0..load.tables).map(table).collect(),
        hot: Some(hot),
        tracking: None,
        memory_bytes: 1 << 30,
        renewal: Renewal::default(),
        packet_bytes: 1472,
        tree: None,
        secret: "99".repeat(32),
    }
}
