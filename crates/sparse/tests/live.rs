//! Whole jobs of members and hosts, datagram by datagram in virtual time: hellos, loss, repetition, damage, servers that are
//! killed and restored. Every row has the bits that one process with exact sums gives it.

mod support;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use support::{Gradients, Oracle, gradients, pushed, tables};
use wiresum_netem::{Cargo, Conditions, Network, Next, Rng, Time};
use wiresum_sparse::hot::{FORMAT as HOT, HotRow, HotRows, RowId, Tier};
use wiresum_sparse::live::{FORMAT, Host, Job, JobError, Member, MemberError};
use wiresum_sparse::optimizer::{Optimizer, SparseAdam};
use wiresum_sparse::tracking::{Decaying, Once, Sampling, Tracking};
use wiresum_testkit::seeds::for_each_seed;
use wiresum_wire::control::hello;
use wiresum_wire::{HEADER_LEN, RowDraft, RowPacket};

const SEEDS: u64 = 60;
const ROUNDS: u32 = 6;
const US: u64 = 1_000_000;
const DEADLINE: Time = Time(60_000_000);
const INCARNATION: u64 = 7;
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

fn address(port: usize) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port as u16).into()
}

fn job(rng: &mut Rng) -> Job {
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
    Job {
        format: FORMAT.into(),
        id: 5,
        workers: workers as u32,
        servers: (0..servers as usize).map(address).collect(),
        switches: (0..switches as usize).map(|n| address(servers as usize + n)).collect(),
        tables,
        hot: Some(hot),
        tracking,
        memory_bytes: 1 << 24,
        packet_bytes: 120 + rng.below(200) as usize,
        secret: "99".repeat(32),
    }
}

/// Who sends false datagrams. Each is a true packet of rows with a field that lies, and the check of what it says.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Forger {
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

/// A snapshot in the making, and the last whole one.
#[derive(Default)]
struct Disk {
    part: Option<Vec<u8>>,
    whole: Option<Vec<u8>>,
}

struct World {
    job: Arc<Job>,
    hosts: Vec<Host>,
    disks: Vec<Disk>,
    members: Vec<Member>,
    network: Network<usize, Datagram>,
    link: Conditions,
    rng: Rng,
    kills: f64,
    killed: u64,
    /// Chance that a datagram is followed by a false one.
    forgery: Option<(Forger, f64)>,
    forged: u64,
    gradients: Vec<Vec<Gradients>>,
    oracle: Vec<BTreeMap<RowId, Vec<f32>>>,
    /// Digests of the maps of the workers, by round.
    maps: BTreeMap<u32, u64>,
    /// By member, whether the rows of its version were asked for.
    has_asked: Vec<bool>,
}

impl World {
    fn new(seed: u64, loss: f64, kills: f64) -> Self {
        let mut rng = Rng::new(seed);
        let job = Arc::new(job(&mut rng));
        Job::from_json(&serde_json::to_string(&*job).unwrap()).unwrap();
        let mut oracle = Oracle::new(&job.tables);
        let weights = |oracle: &Oracle, version| {
            oracle.ids().into_iter().map(|row| (row, oracle.weights(row, version))).collect()
        };
        let (mut all, mut expected) = (Vec::new(), vec![weights(&oracle, 0)]);
        for round in 1..=ROUNDS {
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

    fn run(&mut self) {
        self.run_until(DEADLINE);
        assert!(self.is_over(), "the job stands still");
    }

    /// Until the job is over, or has failed, or it is so late.
    fn run_until(&mut self, deadline: Time) {
        while !self.is_over() && self.network.now() < deadline {
            (0..self.members.len()).for_each(|rank| self.advance(rank));
            self.send();
            let hosts = self.hosts.iter().map(Host::poll_timeout);
            let timer = hosts.chain(self.members.iter().map(Member::poll_timeout)).flatten().min();
            match self.network.advance(timer) {
                Some(Next::Arrival(flight)) => {
                    let (from, now) = (address(flight.from), self.network.now());
                    match self.hosts.get_mut(flight.to) {
                        Some(host) => host.handle(from, &flight.cargo.0, now),
                        None => {
                            let member = &mut self.members[flight.to - self.hosts.len()];
                            member.handle(from, &flight.cargo.0, now);
                        }
                    }
                }
                Some(Next::Timers) => {}
                None => panic!("nothing will happen any more"),
            }
            (0..self.disks.len()).for_each(|shard| self.harm(shard));
        }
    }

    fn is_over(&self) -> bool {
        let is_over = |(member, asked): (&Member, &bool)| {
            member.worker().version() == ROUNDS && *asked && member.worker().is_idle()
        };
        self.members.iter().zip(&self.has_asked).all(is_over)
    }

    /// Asks for all rows of each version, compares them, and begins the next round.
    fn advance(&mut self, rank: usize) {
        let member = &mut self.members[rank];
        let is_spoilt = matches!(self.forgery, Some((Forger::Participant, _)));
        assert!(is_spoilt || member.error().is_none(), "{:?}", member.error());
        if !member.has_joined() || !member.worker().is_idle() {
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
            let found = member.worker().weights(*row).expect("it was pulled");
            assert_eq!(bits(found), bits(weights), "rank {rank}, {row:?}, version {version}");
        }
        let map = member.worker().map();
        let first = self.maps.entry(version).or_insert_with(|| map.digest());
        assert!(is_spoilt || *first == map.digest(), "the map after round {version}");
        if version < ROUNDS {
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
            member.poll(now, |to, bytes| sent.push((nodes + rank, to, bytes.to_vec())));
        }
        for (from, to, bytes) in sent {
            assert!(usize::from(to.port()) < self.stranger(), "an answer to a stranger");
            self.forge(from, to, &bytes);
            assert!(bytes.len() <= self.job.packet_bytes.max(HELLO_LEN), "{} bytes", bytes.len());
            self.network.send(&self.link, from, to.port().into(), Datagram(bytes));
        }
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

/// The maps of a seed's job where nothing goes wrong.
fn maps(seed: u64) -> BTreeMap<u32, u64> {
    let mut world = World::new(seed, 0.0, 0.0);
    world.run();
    world.maps
}

#[test]
fn rows_are_those_of_one_process_with_exact_sums() {
    let (mut seeds, mut changes) = (0, 0);
    for_each_seed("-p wiresum-sparse --test live", 0, SEEDS, |seed| {
        let maps = maps(seed);
        let mut digests: Vec<u64> = maps.into_values().collect();
        digests.dedup();
        (seeds, changes) = (seeds + 1, changes + digests.len() as u64 - 1);
    });
    assert!(seeds < SEEDS || changes > SEEDS, "{changes} maps");
}

#[test]
fn rows_and_maps_are_the_same_under_loss_repetition_and_damage() {
    for_each_seed("-p wiresum-sparse --test live", 1_000, SEEDS, |seed| {
        let mut world = World::new(seed, 0.03, 0.0);
        world.run();
        assert_eq!(world.maps, maps(seed));
    });
}

#[test]
fn rows_and_maps_are_the_same_where_servers_are_killed() {
    let (mut seeds, mut killed) = (0, 0);
    for_each_seed("-p wiresum-sparse --test live", 2_000, SEEDS, |seed| {
        let mut world = World::new(seed, 0.01, 0.002);
        world.run();
        (seeds, killed) = (seeds + 1, killed + world.killed);
        assert_eq!(world.maps, maps(seed));
    });
    assert!(seeds < SEEDS || killed > SEEDS / 2, "{killed} kills");
}

#[test]
fn rows_and_maps_are_the_same_whatever_strangers_send() {
    let (mut seeds, mut forged) = (0, 0);
    for_each_seed("-p wiresum-sparse --test live", 3_000, SEEDS / 2, |seed| {
        for forger in [Forger::Stranger, Forger::Neighbour] {
            let mut world = World::new(seed, 0.0, 0.0);
            world.forgery = Some((forger, 0.3));
            world.run();
            forged += world.forged;
            assert_eq!(world.maps, maps(seed));
        }
        seeds += 1;
    });
    assert!(seeds < SEEDS / 2 || forged > 100 * SEEDS, "{forged} false packets");
}

/// A participant can spoil its job, as it can send any gradient; it brings no node down, and whoever cannot go on says why.
#[test]
fn a_participant_that_lies_ends_its_own_job_at_most() {
    let (mut seeds, mut named) = (0, 0);
    for_each_seed("-p wiresum-sparse --test live", 4_000, SEEDS, |seed| {
        let mut world = World::new(seed, 0.0, 0.0);
        world.forgery = Some((Forger::Participant, 0.02));
        world.run_until(Time(1_000_000));
        let errors = world.members.iter().filter_map(Member::error);
        named +=
            errors.inspect(|error| assert!(error.to_string().len() > 20, "{error}")).count() as u64;
        seeds += 1;
    });
    assert!(seeds < SEEDS || named > SEEDS / 4, "{named} errors");
}

/// One exchange of what both have to say, without a network.
fn talk(host: &mut Host, member: &mut Member, now: Time) {
    let (nobody, at) = (address(77), host.job().servers[0]);
    let mut up = Vec::new();
    member.poll(now, |_, bytes| up.push(bytes.to_vec()));
    up.iter().for_each(|bytes| host.handle(nobody, bytes, now));
    let mut down = Vec::new();
    host.poll(now, |to, bytes| {
        assert_eq!(to, nobody);
        down.push(bytes.to_vec());
    });
    down.iter().for_each(|bytes| member.handle(at, bytes, now));
}

fn small_job() -> Job {
    let mut job = job(&mut Rng::new(4));
    (job.workers, job.hot, job.tracking) = (1, None, None);
    job.servers.truncate(1);
    job.switches.clear();
    job
}

#[test]
fn strangers_are_refused_by_name() {
    let job = Arc::new(small_job());
    let refused = |member_job: Job, incarnation, host: &mut Host| {
        let mut member = Member::new(&Arc::new(member_job), 0, incarnation);
        talk(host, &mut member, Time(0));
        match member.error() {
            Some(MemberError::Refused { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    };
    let mut host = Host::new(&job, 0, 1).unwrap();
    let mut stranger = Member::new(&Arc::new(Job { secret: "01".repeat(32), ..small_job() }), 0, 5);
    talk(&mut host, &mut stranger, Time(0));
    assert!(!stranger.has_joined() && stranger.error().is_none(), "it gets no answer");
    assert_eq!((host.counters().foreign, host.counters().refused), (1, 0));
    let other = Job { packet_bytes: 1000, ..small_job() };
    assert!(refused(other, 5, &mut host).contains("another one"));
    let mut member = Member::new(&job, 0, 5);
    talk(&mut host, &mut member, Time(0));
    assert!(member.has_joined());
    assert!(refused(small_job(), 4, &mut host).contains("newer"));
    for _ in 0..2 {
        member.begin(&pushed(&Gradients::new()));
        (0..9).for_each(|at| talk(&mut host, &mut member, Time(at)));
    }
    assert_eq!((member.worker().version(), host.version()), (2, 2));
    assert!(refused(small_job(), 5, &mut host).contains("rounds of this one are over"));
    let mut newer = Member::new(&job, 0, 6);
    talk(&mut host, &mut newer, Time(0));
    assert!(newer.has_joined() && host.version() == 0, "a larger incarnation begins anew");
}

#[test]
fn who_has_not_joined_gets_no_answer() {
    let job = Arc::new(small_job());
    let mut host = Host::new(&job, 0, 1).unwrap();
    let mut member = Member::new(&job, 0, 5);
    talk(&mut host, &mut member, Time(0));
    let table = job.tables[0].id;
    member.pull([RowId { table, key: 0 }]);
    let mut asked = Vec::new();
    member.poll(Time(1), |_, bytes| asked.push(bytes.to_vec()));
    assert_eq!(asked.len(), 1);
    let before = host.counters().foreign;
    host.handle(address(78), &asked[0], Time(1));
    host.poll(Time(1), |to, _| panic!("an answer to {to}"));
    assert_eq!(host.counters().foreign, before + 1);
    host.handle(address(77), &asked[0], Time(1));
    let mut answers = 0;
    host.poll(Time(1), |_, _| answers += 1);
    assert_eq!(answers, 1);
}

#[test]
fn what_is_wrong_in_a_job_is_named() {
    let problem = |change: &dyn Fn(&mut Job)| {
        let mut job = job(&mut Rng::new(1));
        change(&mut job);
        let text = serde_json::to_string(&job).unwrap();
        match Job::from_json(&text) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{text}"),
        }
    };
    assert!(problem(&|job| job.workers = 65).contains("workers are 65"));
    assert!(problem(&|job| job.servers.clear()).contains("servers are none"));
    assert!(problem(&|job| job.tables.clear()).contains("tables are none"));
    assert!(problem(&|job| job.format = "x".into()).contains("format"));
    assert!(problem(&|job| job.packet_bytes = 60).contains("packet_bytes are 60"));
    assert!(problem(&|job| job.tables[0].dim = 300).contains("dim is 300"));
    assert!(problem(&|job| job.switches.clear()).contains("switches are none"));
    let every = |period| Some(Tracking::Decaying(Decaying::every(period)));
    assert!(problem(&|job| job.tracking = every(1)).contains("tracking period is 1"));
    let no_map = problem(&|job| (job.hot, job.tracking) = (None, every(2)));
    assert!(no_map.contains("no hot map"), "{no_map}");
    let long = problem(&|job| {
        job.tracking = every(2);
        let table = &mut job.tables[0];
        table.dim = 20;
        table.optimizer =
            Optimizer::SparseAdam(SparseAdam { lr: 0.1, betas: (0.9, 0.999), eps: 1e-8 });
        job.packet_bytes = 240;
        job.hot.as_mut().unwrap().dim = 20;
        job.hot.as_mut().unwrap().rows.clear();
        job.tables.truncate(1);
    });
    assert!(
        long.contains("packet_bytes are 240: a row of table t0 with its state takes 248"),
        "{long}"
    );
    assert!(matches!(Job::from_json("{"), Err(JobError::Syntax(_))));
}
