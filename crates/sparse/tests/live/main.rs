//! Whole jobs of members and hosts, datagram by datagram in virtual time: hellos, loss, repetition, damage, servers that are
//! killed and restored. Every row has the bits that one process with exact sums gives it.

mod renewal;
#[path = "../support/mod.rs"]
mod support;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use support::{Gradients, pushed};
use wiresum_netem::{Rng, Time};
use wiresum_sparse::hot::RowId;
use wiresum_sparse::live::{Host, Job, JobError, Member, MemberError, Renewal};
use wiresum_sparse::optimizer::{Optimizer, SparseAdam};
use wiresum_sparse::tracking::{Decaying, Tracking};
use wiresum_testkit::seeds::for_each_seed;
use world::{Forger, World, address, job};

const SEEDS: u64 = 60;

/// The maps of a seed's job where nothing goes wrong.
fn maps(seed: u64) -> BTreeMap<u32, u64> {
    let mut world = World::new(seed, 0.0, 0.0);
    world.run();
    world.maps
}

#[test]
fn rows_are_those_of_one_process_with_exact_sums() {
    let (mut seeds, mut changes, mut trees) = (0, 0, 0);
    for_each_seed("-p wiresum-sparse --test live", 0, SEEDS, |seed| {
        trees += u64::from(World::new(seed, 0.0, 0.0).has_inner_switches());
        let maps = maps(seed);
        let mut digests: Vec<u64> = maps.into_values().collect();
        digests.dedup();
        (seeds, changes) = (seeds + 1, changes + digests.len() as u64 - 1);
    });
    assert!(seeds < SEEDS || changes > SEEDS, "{changes} maps");
    assert!(seeds < SEEDS || trees > SEEDS / 4, "{trees} trees");
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

/// Workers beneath other switches hear it from these.
#[test]
fn a_root_that_is_restarted_ends_the_job_by_name_for_all() {
    let (mut seeds, mut passed_on) = (0, 0);
    for_each_seed("-p wiresum-sparse --test live", 5_000, SEEDS, |seed| {
        seeds += 1;
        let mut world = World::new(seed, 0.0, 0.0);
        if !world.has_inner_switches() {
            return;
        }
        world.tolerates_errors = true;
        world.run_until(Time(4_000));
        let root = world.restart_root();
        world.run_until(Time(3_000_000));
        for error in world.members.iter().filter_map(Member::error) {
            let error = error.to_string();
            assert!(
                error.contains(&format!("node {root} at")) && error.contains("restarted"),
                "{error}"
            );
            passed_on += u64::from(error.contains("switch"));
        }
        assert!(world.is_over() || world.members.iter().all(|member| member.error().is_some()));
    });
    assert!(seeds < SEEDS || passed_on > SEEDS / 6, "{passed_on} heard it from a switch beneath");
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
    (job.workers, job.hot, job.tracking, job.tree) = (1, None, None, None);
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
    let has_hot =
        |job: &Job| job.hot.as_ref().is_some_and(|hot| !hot.rows.is_empty()) && job.tree.is_none();
    let jobs = (1..).map(|seed| job(&mut Rng::new(seed)));
    let right = jobs.into_iter().find(has_hot).expect("some seed makes hot rows");
    let problem = |change: &dyn Fn(&mut Job)| {
        let mut job = right.clone();
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
    let rounds = problem(&|job| job.renewal = Renewal { rounds: 17, ..Renewal::default() });
    assert!(rounds.contains("renewal rounds is 17: give a power of two"), "{rounds}");
    assert!(problem(&|job| job.packet_bytes = 60).contains("packet_bytes are 60"));
    // Longer ones than there are packets are as good as the longest.
    for packet_bytes in [9000, usize::MAX] {
        let job = Job { packet_bytes, ..small_job() };
        let text = serde_json::to_string(&job).expect("a document");
        assert_eq!(Job::from_json(&text).map(|job| job.room()), Ok(2928));
    }
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
