//! Keys of rows are renewed by rounds and by time: no round is lost or changed, and what was recorded is of no use two
//! renewals later.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use wiresum_keys::association::CLOCK_MARGIN_US;
use wiresum_sparse::live::HostCounters;
use wiresum_wire::RowPacket;

use super::*;

/// Seeds of each test; `make soak` takes a hundred times as many.
const SCHEDULES: u64 = 50;
/// Rounds of a job: two generations are given up in them.
const ROUNDS: u32 = 42;
/// As often as keys can be renewed.
const OFTEN: Renewal = Renewal { rounds: 16, interval_ms: 200 };
const INTERVAL_US: u64 = OFTEN.interval_ms * 1000;
/// A hello that is lost twice comes 100 ms late, which is half of that interval: by then the next renewal would seem early.
const WHERE_HELLOS_ARE_LOST: Renewal = Renewal { interval_ms: 2 * OFTEN.interval_ms, ..OFTEN };
/// Pauses so long that there are several renewals by time in a job, and several rounds between two.
const PAUSE_US: u64 = 30_000;
/// Keys that a job uses at least: those of its generations and of some renewals.
const LEAST_KEYS: usize = 5;

/// A job whose keys are renewed as often as can be; the chances are those of losses and of kills.
fn renewing(seed: u64, chances: (f64, f64)) -> World {
    renewing_at(OFTEN, seed, chances)
}

fn renewing_at(renewal: Renewal, seed: u64, chances: (f64, f64)) -> World {
    let mut world = World::renewing(seed, chances, ROUNDS, renewal);
    world.pause_us = PAUSE_US;
    world
}

fn run(mut world: World) -> World {
    world.run();
    assert!(world.keys.len() >= LEAST_KEYS, "{} keys", world.keys.len());
    world
}

#[test]
fn no_round_is_lost_or_changed_under_loss_repetition_and_damage() {
    for_each_seed("-p wiresum-sparse --test live renewal", 10_000, SCHEDULES, |seed| {
        let loss = [0.0, 0.03, 0.1][seed as usize % 3];
        run(renewing_at(WHERE_HELLOS_ARE_LOST, seed, (loss, 0.0)));
    });
}

#[test]
fn no_round_is_lost_where_servers_are_killed() {
    let (mut seeds, mut killed) = (0, 0);
    for_each_seed("-p wiresum-sparse --test live renewal", 20_000, SCHEDULES, |seed| {
        killed += run(renewing(seed, (0.01, 0.0005))).killed;
        seeds += 1;
    });
    assert!(seeds < SCHEDULES || killed > SCHEDULES, "{killed} kills");
}

/// Others go on counting while a worker is stopped, so it wakes up with keys that are over.
#[test]
fn who_was_stopped_for_several_renewals_learns_the_keys() {
    for_each_seed("-p wiresum-sparse --test live renewal", 30_000, SCHEDULES, |seed| {
        let mut world = renewing(seed, (0.01, 0.0));
        let mut rng = Rng::new(seed);
        let rank = rng.below(world.members.len() as u64) as usize;
        let from = Time(rng.below(5 * INTERVAL_US));
        world.stop(rank, from, Time(from.0 + rng.below(8 * INTERVAL_US)));
        run(world);
    });
}

#[test]
fn whose_clock_is_too_fast_is_told_its_number_and_the_node() {
    for_each_seed("-p wiresum-sparse --test live renewal", 40_000, SCHEDULES, |seed| {
        let mut world = renewing(seed, (0.0, 0.0));
        let rank = seed as usize % world.members.len();
        world.hurry(rank, 4);
        world.tolerates_errors = true;
        world.run_until(Time(20 * INTERVAL_US));
        let error = world.members[rank].error().expect("it is refused").to_string();
        let named = format!("refuses this rank, {rank}: its clock is ahead");
        assert!(error.contains(&named) && error.contains("node "), "{error}");
    });
}

/// A worker and its server without a network, and all that the worker has said.
struct Pair {
    host: Host,
    member: Member,
    now: Time,
    said: Vec<Vec<u8>>,
}

impl Pair {
    fn new() -> Self {
        let job = Arc::new(Job { renewal: OFTEN, ..small_job() });
        let host = Host::new(&job, 0, 1).expect("a server of the job");
        let mut pair = Self { host, member: Member::new(&job, 0, 5), now: Time(0), said: vec![] };
        pair.talk();
        pair
    }

    fn talk(&mut self) {
        let Self { host, member, now, said } = self;
        let (mut up, mut down) = (Vec::new(), Vec::new());
        member.poll(*now, |_, bytes| up.push(bytes.to_vec()));
        up.iter().for_each(|bytes| host.handle(WORKER.into(), bytes, *now));
        host.poll(*now, |to, bytes| {
            assert_eq!(to, WORKER.into());
            down.push(bytes.to_vec());
        });
        let server = host.job().servers[0];
        down.iter().for_each(|bytes| member.handle(server, bytes, *now));
        said.append(&mut up);
    }

    /// A round with a gradient for one row.
    fn round(&mut self) {
        let table = self.member.job().tables[0].clone();
        let row = RowId { table: table.id, key: 1 };
        let values = vec![0.5; table.dim.into()];
        self.member.begin(&pushed(&Gradients::from([(row, values)])));
        let next = self.member.worker().version() + 1;
        while self.member.worker().version() < next {
            self.wait(1_000);
        }
    }

    fn wait(&mut self, us: u64) {
        self.now.0 += us;
        self.talk();
    }

    /// Waits until keys are renewed so often.
    fn renew(&mut self, times: u64) {
        (0..times * INTERVAL_US / 10_000 + times).for_each(|_| self.wait(10_000));
    }

    /// What the server makes of packets from an address; they are not answered to the worker.
    fn replay(&mut self, from: SocketAddr, packets: &[Vec<u8>]) -> HostCounters {
        let before = self.host.counters();
        packets.iter().for_each(|bytes| self.host.handle(from, bytes, self.now));
        self.host.poll(self.now, |_, _| {});
        let after = self.host.counters();
        HostCounters {
            taken: after.taken - before.taken,
            welcomed: after.welcomed - before.welcomed,
            refused: after.refused - before.refused,
            malformed: after.malformed - before.malformed,
            foreign: after.foreign - before.foreign,
        }
    }
}

#[test]
fn an_incarnation_of_a_clock_that_is_ahead_locks_nobody_out() {
    let mut pair = Pair::new();
    pair.host.set_clock(5);
    for ahead in [6 + CLOCK_MARGIN_US, u64::MAX] {
        let job = Arc::new(Job { renewal: OFTEN, ..small_job() });
        let earlier = std::mem::replace(&mut pair.member, Member::new(&job, 0, ahead));
        pair.talk();
        let error = pair.member.error().expect("its clock is ahead").to_string();
        assert!(error.contains("its clock is ahead"), "{error}");
        pair.member = earlier;
    }
    pair.round();
    let job = Arc::new(Job { renewal: OFTEN, ..small_job() });
    pair.member = Member::new(&job, 0, 5 + CLOCK_MARGIN_US);
    pair.round();
    assert_eq!(pair.member.worker().version(), 1, "it has begun anew");
}

/// Where the worker is, and somebody else.
const WORKER: ([u8; 4], u16) = ([127, 0, 0, 1], 77);
const STRANGER: ([u8; 4], u16) = ([127, 0, 0, 1], 78);

fn split(said: &[Vec<u8>]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    said.iter().cloned().partition(|bytes| RowPacket::parse(bytes).is_ok())
}

#[test]
fn what_was_recorded_is_of_no_use_two_renewals_later() {
    let mut pair = Pair::new();
    pair.round();
    let (rows, hellos) = split(&pair.said);
    assert!(!rows.is_empty() && !hellos.is_empty());
    pair.renew(1);
    let still = pair.replay(WORKER.into(), &rows);
    assert_eq!(still.taken, rows.len() as u64, "a late worker is still understood");
    pair.renew(1);
    let over = pair.replay(WORKER.into(), &rows);
    assert_eq!((over.taken, over.foreign), (0, rows.len() as u64));
    pair.replay(STRANGER.into(), &hellos);
    let at: Vec<_> = pair.host.workers().collect();
    assert_eq!(at, [(0, WORKER.into())], "and moves nobody");
    pair.round();
    assert_eq!(pair.member.worker().version(), 2);
}

#[test]
fn what_was_recorded_is_of_no_use_two_generations_later() {
    let mut pair = Pair::new();
    pair.round();
    let (rows, _) = split(&pair.said);
    (1..2 * OFTEN.rounds).for_each(|_| pair.round());
    let over = pair.replay(WORKER.into(), &rows);
    assert_eq!((over.taken, over.foreign), (0, rows.len() as u64));
}

#[test]
fn an_idle_job_renews_its_keys() {
    let mut pair = Pair::new();
    let mut keys = BTreeSet::new();
    for _ in 0..6 {
        pair.renew(1);
        pair.said.clear();
        pair.round();
        let (rows, _) = split(&pair.said);
        keys.insert(RowPacket::parse(&rows[0]).expect("of rows").header.job_key.get());
    }
    assert!(keys.len() >= 5, "{} keys", keys.len());
}
