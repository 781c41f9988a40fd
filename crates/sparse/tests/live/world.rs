//! A job of members and hosts on one network in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use wiresum_netem::{Cargo, Conditions, Network, Next, Rng, Time};
use wiresum_sparse::hot::{FORMAT as HOT, HotRow, HotRows, RowId, Tier};
use wiresum_sparse::live::{FORMAT, Host, Job, Member, Renewal, Tree};
use wiresum_sparse::tracking::{Decaying, Once, Sampling, Tracking};
use wiresum_wire::control::hello;
use wiresum_wire::{HEADER_LEN, RowDraft, RowPacket};

use crate::support::{self, Gradients, Oracle, gradients, pushed, tables};

/// Rounds of a job, unless a test says otherwise.
const ROUNDS: u32 = 6;
const US: u64 = 1_000_000;
const DEADLINE: Time = Time(60_000_000);
pub const INCARNATION: u64 = 7;
/// Bytes of a hello, which may be longer than a job's packets of rows.
const HELLO_LEN: usize = HEADER_LEN + 4 * hello::WORDS;

#[derive(Clone, Debug)]
struct Datagram(Vec<u8>);

impl Cargo for Datagram {
    fn wire_bytes(&self) -> u64 {
        self.0.len() as u64 + 42
    }

    fn damage(&mut self, rng: &mut Rng) {
        let at = rng.below(self.0.len() as u64) as usize;
        self.0[at] ^= 1 << rng.below(8);
    }
}

pub fn address(port: usize) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port as u16).into()
}

/// Half of the time: a tree of up to five switches, each with a worker beneath.
fn tree(workers: usize, rng: &mut Rng) -> Option<Tree> {
    let switches = 1 + rng.below(5) as u16;
    let parents = (1..switches).map(|switch| rng.below(switch.into()) as u16).collect();
    let mut leaves: Vec<u16> = (0..workers).map(|_| rng.below(switches.into()) as u16).collect();
    // The last switches have nobody beneath them unless they have a worker.
    (0..switches).rev().zip(&mut leaves).for_each(|(switch, leaf)| *leaf = switch);
    let tree = Tree { parents, leaves };
    let is_whole = |switch: u16| {
        tree.leaves.contains(&switch)
            || tree
                .parents
                .iter()
                .zip(1..)
                .any(|(above, number): (&u16, u16)| *above == switch && number > switch)
    };
    (rng.chance(0.5) && (0..switches).all(is_whole)).then_some(tree)
}

pub fn job(rng: &mut Rng) -> Job {
    let tables = tables(rng);
    let (workers, servers, switches) = (1 + rng.below(4), 1 + rng.below(3), 1 + rng.below(2));
    let rows: BTreeMap<RowId, Tier> = (0..rng.below(14))
        .map(|_| {
            let table = tables[rng.below(tables.len() as u64) as usize].id;
            let tier = if rng.chance(0.6) { Tier::A } else { Tier::B };
            (RowId { table, key: rng.below(support::KEYS) }, tier)
        })
        .collect();
    let hot = |(position, (row, tier))| HotRow { row, position, tier };
    let rows = (0..).zip(rows).map(hot).collect();
    let (dim, format, digest) = (tables[0].dim, HOT.into(), None);
    let hot = HotRows { format, version: 3, dim, positions: 16, block: 0, rows, digest };
    let tracking = match rng.below(4) {
        0 => None,
        1 => Some(Tracking::Once(Once { after: 3 })),
        2 => Some(Tracking::Sampling(Sampling { rate: 0.5, after: 4 })),
        _ => Some(Tracking::Decaying(Decaying { per_round: 0.5, ..Decaying::every(2) })),
    };
    let tree = tree(workers as usize, &mut Rng::new(rng.clone().next()));
    let switches = tree.as_ref().map_or(switches as usize, |tree| tree.parents.len() + 1);
    Job {
        format: FORMAT.into(),
        id: 5,
        workers: workers as u32,
        tree,
        servers: (0..servers as usize).map(address).collect(),
        switches: (0..switches).map(|n| address(servers as usize + n)).collect(),
        tables,
        hot: Some(hot),
        tracking,
        memory_bytes: 1 << 24,
        renewal: Renewal::default(),
        packet_bytes: 120 + rng.below(200) as usize,
        secret: "99".repeat(32),
    }
}

/// Who sends false datagrams. Each is a true packet of rows with a field that lies, and the check of what it says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Forger {
    /// Somebody at another address, who knows the job's key.
    Stranger,
    /// Somebody with a participant's address, who does not know the key.
    Neighbour,
    /// A participant.
    Participant,
}

/// A packet of rows with one thing in it that is not so; nothing if it is no packet of rows.
fn falsified(bytes: &[u8], rng: &mut Rng) -> Option<Vec<u8>> {
    let packet = RowPacket::parse(bytes).ok()?;
    let (mut header, mut rows, mut columns) =
        (*packet.header, *packet.rows, packet.payload.to_vec());
    let odd = |before: u32, rng: &mut Rng| match rng.below(4) {
        0 => before.wrapping_add(1),
        1 => before.wrapping_sub(1),
        2 => u32::MAX - rng.below(3) as u32,
        _ => rng.below(64) as u32,
    };
    match rng.below(9) {
        0 => header.round = odd(header.round.get(), rng).into(),
        1 => header.fragment = odd(header.fragment.get(), rng).into(),
        2 => header.sub_model = (odd(header.sub_model.get().into(), rng) as u16).into(),
        3 => header.contributor = odd(header.contributor.into(), rng) as u8,
        4 => header.node = (odd(header.node.get().into(), rng) as u16).into(),
        5 => rows.count = odd(rows.count.get(), rng).into(),
        6 => rows.base = odd(rows.base.get(), rng).into(),
        7 => rows.stamp = odd(rows.stamp.get(), rng).into(),
        _ if columns.is_empty() => header.kind = 16 + rng.below(16) as u8,
        _ => {
            let at = rng.below(columns.len() as u64) as usize;
            columns[at] ^= 1 << rng.below(8);
        }
    }
    let mut out = Vec::new();
    RowDraft { header, rows }.emit(&columns, &mut out);
    Some(out)
}

/// When a worker does something, and what its clock says then.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Its seconds in one of the network's.
    rate: u64,
    /// From when until when it is stopped, and hears nothing.
    asleep: (Time, Time),
    /// When it begins the next round, if it waits.
    start: Option<Time>,
}

impl Default for Clock {
    fn default() -> Self {
        Self { rate: 1, asleep: (Time(0), Time(0)), start: None }
    }
}

impl Clock {
    fn is_up(&self, now: Time) -> bool {
        !(self.asleep.0..self.asleep.1).contains(&now)
    }

    /// What it says; nothing while the worker is stopped.
    fn read(&self, now: Time) -> Option<Time> {
        self.is_up(now).then_some(Time(now.0 * self.rate))
    }

    /// When the worker does what is due at a time of its own.
    fn due(&self, time: Option<Time>) -> Option<Time> {
        let due = Time(time?.0.div_ceil(self.rate));
        Some(if self.is_up(due) { due } else { self.asleep.1 })
    }
}

/// A snapshot in the making, and the last whole one.
#[derive(Default)]
struct Disk {
    part: Option<Vec<u8>>,
    whole: Option<Vec<u8>>,
}

pub struct World {
    job: Arc<Job>,
    pub hosts: Vec<Host>,
    disks: Vec<Disk>,
    pub members: Vec<Member>,
    clocks: Vec<Clock>,
    /// Whether workers may say that they cannot go on.
    pub tolerates_errors: bool,
    /// Longest pause of a worker before a round, in microseconds.
    pub pause_us: u64,
    /// Keys that packets of rows carried.
    pub keys: BTreeSet<u64>,
    rounds: u32,
    network: Network<usize, Datagram>,
    link: Conditions,
    rng: Rng,
    kills: f64,
    pub killed: u64,
    /// Chance that a datagram is followed by a false one.
    pub forgery: Option<(Forger, f64)>,
    pub forged: u64,
    gradients: Vec<Vec<Gradients>>,
    oracle: Vec<BTreeMap<RowId, Vec<f32>>>,
    /// Digests of the maps of the workers, by round.
    pub maps: BTreeMap<u32, u64>,
    /// By member, whether the rows of its version were asked for.
    has_asked: Vec<bool>,
}

impl World {
    pub fn new(seed: u64, loss: f64, kills: f64) -> Self {
        Self::renewing(seed, (loss, kills), ROUNDS, Renewal::default())
    }

    /// A job of so many rounds whose keys are renewed so often; the chances are those of losses and of kills.
    pub fn renewing(seed: u64, (loss, kills): (f64, f64), rounds: u32, renewal: Renewal) -> Self {
        let mut rng = Rng::new(seed);
        let job = Arc::new(Job { renewal, ..job(&mut rng) });
        Job::from_json(&serde_json::to_string(&*job).unwrap()).unwrap();
        let mut oracle = Oracle::new(&job.tables);
        let weights = |oracle: &Oracle, version| {
            oracle.ids().into_iter().map(|row| (row, oracle.weights(row, version))).collect()
        };
        let (mut all, mut expected) = (Vec::new(), vec![weights(&oracle, 0)]);
        for round in 1..=rounds {
            let of_all: Vec<Gradients> =
                (0..job.workers).map(|_| gradients(&job.tables, &mut rng)).collect();
            oracle.round(round, &of_all);
            expected.push(weights(&oracle, round));
            all.push(of_all);
        }
        let nodes = job.servers.len() + job.switches.len();
        let chances = Conditions { loss, duplication: loss, damage: loss, ..Conditions::PERFECT };
        let link = Conditions {
            rate_bps: Some(1e8),
            delay_ps: 50 * US,
            reordering: 0.1,
            jitter_ps: 400 * US,
            ..chances
        };
        Self {
            hosts: (0..nodes).map(|node| Host::new(&job, node as u16, 1).unwrap()).collect(),
            disks: (0..job.servers.len()).map(|_| Disk::default()).collect(),
            members: (0..job.workers).map(|r| Member::new(&job, r, INCARNATION)).collect(),
            clocks: vec![Clock::default(); job.workers as usize],
            tolerates_errors: false,
            pause_us: 0,
            keys: BTreeSet::new(),
            rounds,
            has_asked: vec![false; job.workers as usize],
            network: Network::new(seed),
            link,
            rng,
            kills,
            killed: 0,
            forgery: None,
            forged: 0,
            gradients: all,
            oracle: expected,
            maps: BTreeMap::new(),
            job,
        }
    }

    pub fn run(&mut self) {
        self.run_until(DEADLINE);
        assert!(self.is_over(), "the job stands still");
    }

    /// Until the job is over, or has failed, or it is so late.
    pub fn run_until(&mut self, deadline: Time) {
        while !self.is_over() && self.network.now() < deadline {
            (0..self.members.len()).for_each(|rank| self.advance(rank));
            self.send();
            let hosts = self.hosts.iter().map(Host::poll_timeout);
            let due = |(member, clock): (&Member, &Clock)| clock.due(member.poll_timeout());
            let members = self.members.iter().zip(&self.clocks).map(due);
            let starts = self.clocks.iter().map(|clock| clock.start);
            let starts = starts.map(|start| start.filter(|start| *start > self.network.now()));
            let timer = hosts.chain(members).chain(starts).flatten().min();
            match self.network.advance(timer) {
                Some(Next::Arrival(flight)) => {
                    let (from, now) = (address(flight.from), self.network.now());
                    match self.hosts.get_mut(flight.to) {
                        Some(host) => host.handle(from, &flight.cargo.0, now),
                        None => {
                            let rank = flight.to - self.hosts.len();
                            if let Some(now) = self.clocks[rank].read(now) {
                                self.members[rank].handle(from, &flight.cargo.0, now);
                            }
                        }
                    }
                }
                Some(Next::Timers) => {}
                None => panic!("nothing will happen any more"),
            }
            (0..self.disks.len()).for_each(|shard| self.harm(shard));
        }
    }

    /// Whether there are switches beneath others.
    pub fn has_inner_switches(&self) -> bool {
        self.job.tree.as_ref().is_some_and(|tree| !tree.parents.is_empty())
    }

    /// The first switch begins anew, and knows nobody; its node.
    pub fn restart_root(&mut self) -> u16 {
        let root = self.job.servers.len();
        self.hosts[root] = Host::new(&self.job, root as u16, 2).unwrap();
        root as u16
    }

    pub fn is_over(&self) -> bool {
        let is_over = |(member, asked): (&Member, &bool)| {
            member.worker().version() == self.rounds && *asked && member.worker().is_idle()
        };
        self.members.iter().zip(&self.has_asked).all(is_over)
    }

    /// Asks for all rows of each version, compares them, and begins the next round.
    fn advance(&mut self, rank: usize) {
        let member = &mut self.members[rank];
        let is_spoilt = matches!(self.forgery, Some((Forger::Participant, _)));
        let may_fail = is_spoilt || self.tolerates_errors;
        assert!(may_fail || member.error().is_none(), "{:?}", member.error());
        let now = self.network.now();
        if !member.has_joined() || !member.worker().is_idle() || !self.clocks[rank].is_up(now) {
            return;
        }
        let version = member.worker().version();
        let expected = &self.oracle[version as usize];
        if !self.has_asked[rank] {
            member.pull(expected.keys().copied());
            self.has_asked[rank] = true;
            return;
        }
        for (row, weights) in expected.iter().filter(|_| !is_spoilt) {
            let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            let told = |weights: &[f32]| {
                let mut told = weights.to_vec();
                member.worker().round(row.table, &mut told);
                told
            };
            let found = told(member.worker().weights(*row).expect("it was pulled"));
            assert_eq!(
                bits(&found),
                bits(&told(weights)),
                "rank {rank}, {row:?}, version {version}"
            );
        }
        let map = member.worker().map();
        let first = self.maps.entry(version).or_insert_with(|| map.digest());
        assert!(is_spoilt || *first == map.digest(), "the map after round {version}");
        if version < self.rounds {
            if self.pause_us > 0 && self.clocks[rank].start.is_none() {
                let pause = self.rng.below(self.pause_us);
                self.clocks[rank].start = Some(Time(now.0 + pause));
            }
            if self.clocks[rank].start.is_some_and(|start| start > now) {
                return;
            }
            self.clocks[rank].start = None;
            member.begin(&pushed(&self.gradients[version as usize][rank]));
            let is_early = self.rng.chance(0.5);
            if is_early {
                member.pull(expected.keys().copied());
            }
            self.has_asked[rank] = is_early;
        }
    }

    fn send(&mut self) {
        let now = self.network.now();
        let nodes = self.hosts.len();
        let mut sent = Vec::new();
        for (from, host) in self.hosts.iter_mut().enumerate() {
            host.poll(now, |to, bytes| sent.push((from, to, bytes.to_vec())));
        }
        for (rank, member) in self.members.iter_mut().enumerate() {
            if let Some(now) = self.clocks[rank].read(now) {
                member.poll(now, |to, bytes| sent.push((nodes + rank, to, bytes.to_vec())));
            }
        }
        for (from, to, bytes) in sent {
            assert!(usize::from(to.port()) < self.stranger(), "an answer to a stranger");
            self.forge(from, to, &bytes);
            self.keys.extend(RowPacket::parse(&bytes).map(|packet| packet.header.job_key.get()));
            assert!(bytes.len() <= self.job.packet_bytes.max(HELLO_LEN), "{} bytes", bytes.len());
            self.network.send(&self.link, from, to.port().into(), Datagram(bytes));
        }
    }

    /// The worker's clock is so many times as fast as the others'.
    pub fn hurry(&mut self, rank: usize, rate: u64) {
        self.clocks[rank].rate = rate;
    }

    /// The worker is stopped for a time.
    pub fn stop(&mut self, rank: usize, from: Time, until: Time) {
        self.clocks[rank].asleep = (from, until);
    }

    fn stranger(&self) -> usize {
        self.hosts.len() + self.members.len()
    }

    fn forge(&mut self, from: usize, to: SocketAddr, bytes: &[u8]) {
        let Some((forger, _)) = self.forgery.filter(|(_, chance)| self.rng.chance(*chance)) else {
            return;
        };
        let Some(mut false_one) = falsified(bytes, &mut self.rng) else { return };
        let from = if forger == Forger::Stranger { self.stranger() } else { from };
        if forger == Forger::Neighbour {
            let packet = RowPacket::parse(bytes).expect("a true one");
            let (mut header, rows) = (*packet.header, *packet.rows);
            header.job_key = header.job_key.get().wrapping_add(1).into();
            false_one.clear();
            RowDraft { header, rows }.emit(packet.payload, &mut false_one);
        }
        self.forged += 1;
        self.network.send(&self.link, from, to.port().into(), Datagram(false_one));
    }

    fn harm(&mut self, shard: usize) {
        if self.kills == 0.0 {
            return;
        }
        let (host, disk) = (&mut self.hosts[shard], &mut self.disks[shard]);
        if let Some((version, last)) = host.poll_snapshot() {
            let mut bytes = disk.part.take().expect("pieces come before the last one");
            bytes.extend(last);
            disk.whole = Some(bytes);
            host.confirm_snapshot(version);
        } else if let Some(bytes) = &mut disk.part {
            bytes.extend(host.walk_snapshot(5));
        } else if self.rng.chance(0.02) {
            disk.part = host.begin_snapshot();
        }
        if self.rng.chance(self.kills) {
            self.killed += 1;
            disk.part = None;
            let own = 1 + self.killed as u32;
            self.hosts[shard] = match &disk.whole {
                Some(bytes) => Host::restore(&self.job, shard as u16, own, bytes).unwrap(),
                None => Host::new(&self.job, shard as u16, own).unwrap(),
            };
        }
    }
}
