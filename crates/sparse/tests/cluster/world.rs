//! A job of workers, switches, servers and a coordinator on one network in virtual time.

use std::collections::BTreeMap;

use wiresum_netem::{Cargo, Conditions, Flight, Network, Next, Rng, Time};
use wiresum_sparse::coordinator::Coordinator;
use wiresum_sparse::hot::{FORMAT, HotMap, HotRow, HotRows, RowId, Tier};
use wiresum_sparse::message::{FromServer, FromSwitch, ToServer, ToSwitch};
use wiresum_sparse::server::{Server, ServerSpec};
use wiresum_sparse::summer::{Child, Summer, SummerSpec};
use wiresum_sparse::table::{Shards, TableSpec};
use wiresum_sparse::tracking::{Decaying, Follow, HotSet, Tracking};
use wiresum_sparse::worker::{Worker, WorkerSpec};
use wiresum_wire::RowKind;

use crate::support::{Gradients, KEYS, Oracle, gradients, pushed, tables};

const ROUNDS: u32 = 8;
const POSITIONS: u32 = 16;
const US: u64 = 1_000_000;
/// No job takes longer: 30 s of virtual time. What is lost last of a round costs 200 to 400 ms, and one packet in 20 is.
const DEADLINE: Time = Time(30_000_000);

/// What goes wrong.
#[derive(Clone, Copy)]
pub struct Faults {
    /// Chance that a packet is lost; it is also that of being repeated, late, or damaged.
    pub loss: f64,
    /// Chance that a server is killed at an event.
    pub kills: f64,
}

/// What a test has seen, so that it can say that it tested something.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    runs: u64,
    pub changes: u64,
    pub pulled: u64,
    pub put: u64,
    pub kills: u64,
    pub restores: u64,
}

impl Seen {
    pub fn add(&mut self, other: &Self) {
        self.runs += 1;
        self.changes += other.changes;
        self.pulled += other.pulled;
        self.put += other.put;
        self.kills += other.kills;
        self.restores += other.restores;
    }

    /// False where one seed is replayed.
    pub fn is_whole_run(&self, seeds: u64) -> bool {
        self.runs >= seeds
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Worker(u32),
    Switch(u16),
    Server(u16),
    Coordinator,
}

#[derive(Clone, Debug)]
enum Content {
    ToServer(ToServer),
    /// With the incarnation of the server.
    FromServer(u32, FromServer),
    ToSwitch(ToSwitch),
    FromSwitch(FromSwitch),
}

#[derive(Clone, Debug)]
struct Parcel {
    content: Content,
    is_damaged: bool,
}

impl Cargo for Parcel {
    fn wire_bytes(&self) -> u64 {
        500
    }

    fn damage(&mut self, _rng: &mut Rng) {
        self.is_damaged = true;
    }
}

/// Snapshots of one server.
#[derive(Default)]
struct Disk {
    part: Option<Vec<u8>>,
    whole: Option<(u32, Vec<u8>)>,
    incarnation: u32,
}

pub struct World {
    seed: u64,
    rng: Rng,
    faults: Faults,
    tables: Vec<TableSpec>,
    spec: ServerSpec,
    first_map: HotMap,
    workers: Vec<Worker>,
    summers: Vec<Summer>,
    servers: Vec<Server>,
    disks: Vec<Disk>,
    coordinator: Coordinator,
    decided: u32,
    network: Network<Place, Parcel>,
    link: Conditions,
    /// By round, of each worker.
    gradients: Vec<Vec<Gradients>>,
    /// By round, the rows that are put, each by one worker.
    puts: Vec<BTreeMap<RowId, (usize, Vec<f32>)>>,
    /// By version: what is stored of every row.
    expected: Vec<BTreeMap<RowId, Vec<f32>>>,
    /// What each worker has asked for, to be compared; and whether with state.
    asked: Vec<Option<(Vec<RowId>, bool)>>,
    /// How often each row was counted by its server.
    counted: BTreeMap<RowId, u64>,
    pub seen: Seen,
}

impl World {
    pub fn new(seed: u64, faults: Faults) -> Self {
        let mut rng = Rng::new(seed);
        let tables = tables(&mut rng);
        let workers = 1 + rng.below(6) as u32;
        let (shards, switches) = (Shards(1 + rng.below(3) as u16), 1 + rng.below(2) as u16);
        let rounds = 0..ROUNDS;
        let of_all = |rng: &mut Rng| (0..workers).map(|_| gradients(&tables, rng)).collect();
        let mut gradients: Vec<Vec<Gradients>> = rounds.map(|_| of_all(&mut rng)).collect();
        // Replicated rows are counted a round later: nothing in the last one, so that all can be counted.
        gradients.last_mut().unwrap().iter_mut().for_each(Gradients::clear);
        let puts = gradients.iter().map(|_| some_puts(&tables, workers, &mut rng));
        let puts: Vec<BTreeMap<RowId, (usize, Vec<f32>)>> = puts.collect();
        let mut oracle = Oracle::new(&tables);
        let mut expected = vec![stored(&oracle, 0)];
        for ((round, all), puts) in (1..).zip(&gradients).zip(&puts) {
            oracle.round(round, all);
            puts.iter().for_each(|(row, (_, values))| oracle.put(*row, values.clone(), round));
            expected.push(stored(&oracle, round));
        }
        let period = rng.below(4) as u32;
        let hot_set = (period > 0).then(|| HotSet {
            tracking: Tracking::Decaying(Decaying::every(period)),
            replicated: POSITIONS as usize,
            summed: 0,
        });
        let spec = ServerSpec {
            shard: 0,
            shards,
            workers,
            switches: u32::from(switches),
            roots: u32::from(switches),
            tables: tables.clone(),
            memory_bytes: 1 << 24,
            hot_set,
        };
        let map = first_map(&tables, &mut rng);
        let dim = usize::from(tables[0].dim);
        let room = RowKind::Push.payload_len(1 + rng.below(5) as usize, dim);
        let worker =
            |rank| WorkerSpec { rank, workers, shards, switches, tables: tables.clone(), room };
        let is_prompt = true;
        let summer = || SummerSpec {
            workers,
            children: Child::workers(workers),
            has_parent: false,
            shards,
            tables: tables.clone(),
            room,
            is_prompt,
        };
        let mut world = Self {
            workers: (0..workers).map(|rank| Worker::new(worker(rank), map.clone())).collect(),
            summers: (0..switches).map(|_| Summer::new(summer(), map.clone())).collect(),
            servers: Vec::new(),
            disks: (0..shards.0).map(|_| Disk::default()).collect(),
            coordinator: Coordinator::new(shards),
            decided: 0,
            network: Network::new(seed),
            link: link(faults),
            asked: vec![None; workers as usize],
            counted: BTreeMap::new(),
            seen: Seen::default(),
            first_map: map,
            seed,
            rng,
            faults,
            tables,
            spec,
            gradients,
            puts,
            expected,
        };
        world.servers = (0..shards.0).map(|shard| world.first_server(shard)).collect();
        world
    }

    fn server_spec(&self, shard: u16) -> ServerSpec {
        ServerSpec { shard, ..self.spec.clone() }
    }

    /// A server before the first round: rows of tier A are at the workers already.
    fn first_server(&self, shard: u16) -> Server {
        Server::new(self.server_spec(shard), &self.first_map).unwrap()
    }

    /// Until all rounds are over at all workers.
    pub fn run(&mut self) {
        while !self.is_over() {
            self.advance_workers();
            self.decide();
            self.send_all();
            if self.is_over() {
                break;
            }
            let timer = self.next_timer();
            match self.network.advance(timer) {
                Some(Next::Arrival(flight)) => self.deliver(flight),
                Some(Next::Timers) => {}
                None => panic!("nothing will happen any more"),
            }
            assert!(self.network.now() < DEADLINE, "the job stands still");
            self.harm_servers();
        }
        if self.faults.kills == 0.0 {
            self.check_counts();
        }
    }

    /// Every gradient was counted once, in whatever tier.
    fn check_counts(&self) {
        let mut expected: BTreeMap<RowId, u64> = BTreeMap::new();
        let rows = self.gradients.iter().flatten().flat_map(BTreeMap::keys);
        rows.for_each(|row| *expected.entry(*row).or_default() += 1);
        assert_eq!(self.counted, expected);
    }

    fn is_over(&self) -> bool {
        let is_over = |(worker, asked): (&Worker, &Option<_>)| {
            worker.version() == ROUNDS && worker.is_idle() && asked.is_some()
        };
        self.workers.iter().zip(&self.asked).all(is_over)
    }

    /// Every worker that is idle asks for some rows, compares them, and goes on.
    fn advance_workers(&mut self) {
        for rank in 0..self.workers.len() {
            let worker = &mut self.workers[rank];
            assert_eq!(worker.error(), None);
            if !worker.is_idle() {
                continue;
            }
            let version = worker.version();
            let Some((asked, with_state)) = self.asked[rank].clone() else {
                self.ask(rank);
                continue;
            };
            for row in asked {
                let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                let found = if with_state { worker.stored(row) } else { worker.weights(row) };
                let mut found = found.expect("what was pulled is there").to_vec();
                let mut expected = self.expected[version as usize][&row].clone();
                if !with_state {
                    expected.truncate(found.len());
                    worker.round(row.table, &mut found);
                    worker.round(row.table, &mut expected);
                }
                assert_eq!(
                    bits(&found),
                    bits(&expected),
                    "worker {rank}, {row:?}, version {version}"
                );
                self.seen.pulled += 1;
            }
            if version < ROUNDS {
                let puts = self.puts[version as usize].iter();
                for (row, (_, values)) in puts.filter(|(_, (putter, _))| *putter == rank) {
                    worker.put(*row, values.clone());
                    self.seen.put += 1;
                }
                worker.begin(&pushed(&self.gradients[version as usize][rank]));
                self.asked[rank] = None;
                if self.rng.chance(0.5) {
                    self.ask(rank);
                }
            }
        }
    }

    /// A worker asks for some rows: of now, or, where a round is under way, of after it.
    fn ask(&mut self, rank: usize) {
        let rows: Vec<RowId> = self.expected[0].keys().copied().collect();
        let some = rows.into_iter().filter(|_| self.rng.chance(0.3)).collect::<Vec<_>>();
        let worker = &mut self.workers[rank];
        // State is told of rounds that are over.
        let with_state = worker.is_idle() && self.rng.chance(0.3);
        if with_state {
            worker.pull_stored(some.clone());
        } else {
            worker.pull(some.clone());
        }
        self.asked[rank] = Some((some, with_state));
    }

    /// When the first server opens a round that may change the map, a new set is chosen by chance, the same one for a round
    /// also after a restart.
    fn decide(&mut self) {
        let round = self.servers[0].open_round();
        let is_due = self.spec.hot_set.is_some_and(|hot_set| hot_set.tracking.is_due(round));
        if !is_due || round <= self.decided {
            return;
        }
        self.decided = round;
        let wanted = some_rows(&self.tables, &mut Rng::new(self.seed ^ u64::from(round) << 32));
        let change = self.coordinator.decide(round, self.servers[0].map(), &wanted).unwrap();
        self.seen.changes += u64::from(change.is_some());
    }

    fn send_all(&mut self) {
        let now = self.network.now();
        for rank in 0..self.workers.len() {
            let from = Place::Worker(rank as u32);
            while let Some((server, message)) = self.workers[rank].poll_to_server(now) {
                self.send(from, Place::Server(server), Content::ToServer(message));
            }
            while let Some((switch, message)) = self.workers[rank].poll_to_switch(now) {
                self.send(from, Place::Switch(switch), Content::ToSwitch(message));
            }
        }
        for switch in 0..self.summers.len() {
            let from = Place::Switch(switch as u16);
            while let Some((server, message)) = self.summers[switch].poll_to_server(now) {
                self.send(from, Place::Server(server), Content::ToServer(message));
            }
            while let Some((worker, message)) = self.summers[switch].poll_transmit(now) {
                self.send(from, Place::Worker(worker), Content::FromSwitch(message));
            }
        }
        while let Some((server, message)) = self.coordinator.poll_to_server(now) {
            self.send(Place::Coordinator, Place::Server(server), Content::ToServer(message));
        }
        for shard in 0..self.servers.len() {
            self.answer(shard);
        }
    }

    fn answer(&mut self, shard: usize) {
        while let Some((to, message)) = self.servers[shard].poll_transmit() {
            let workers = self.spec.workers;
            let to = match to {
                worker if worker < workers => Place::Worker(worker),
                switch if switch < workers + self.spec.switches => {
                    Place::Switch((switch - workers) as u16)
                }
                _ => Place::Coordinator,
            };
            let content = Content::FromServer(self.disks[shard].incarnation, message);
            self.send(Place::Server(shard as u16), to, content);
        }
    }

    fn send(&mut self, from: Place, to: Place, content: Content) {
        let parcel = Parcel { content, is_damaged: false };
        self.network.send(&self.link, from, to, parcel);
    }

    fn next_timer(&self) -> Option<Time> {
        let workers = self.workers.iter().map(Worker::poll_timeout);
        let summers = self.summers.iter().map(Summer::poll_timeout);
        let coordinator = [self.coordinator.poll_timeout()].into_iter();
        workers.chain(summers).chain(coordinator).flatten().min()
    }

    fn deliver(&mut self, flight: Flight<Place, Parcel>) {
        let now = self.network.now();
        self.workers.iter_mut().for_each(|worker| worker.set_time(now));
        self.summers.iter_mut().for_each(|summer| summer.set_time(now));
        if flight.cargo.is_damaged {
            return;
        }
        match (flight.from, flight.to, flight.cargo.content) {
            (from, Place::Server(shard), Content::ToServer(message)) => {
                let sender = match from {
                    Place::Worker(rank) => rank,
                    Place::Switch(switch) => self.spec.workers + u32::from(switch),
                    _ => self.spec.workers + self.spec.switches,
                };
                let server = &mut self.servers[usize::from(shard)];
                let before = server.open_round();
                server.handle(sender, &message);
                if server.open_round() > before {
                    for (row, contributors) in server.popularity() {
                        *self.counted.entry(*row).or_default() += u64::from(*contributors);
                    }
                }
            }
            (Place::Server(shard), to, Content::FromServer(incarnation, message)) => {
                // What a server said before it was killed is not true any more.
                if incarnation == self.disks[usize::from(shard)].incarnation {
                    self.hear_server(shard, to, &message);
                }
            }
            (Place::Worker(rank), Place::Switch(switch), Content::ToSwitch(message)) => {
                self.summers[usize::from(switch)].handle(rank, &message);
            }
            (Place::Switch(switch), Place::Worker(rank), Content::FromSwitch(message)) => {
                self.workers[rank as usize].handle_switch(switch, &message);
            }
            other => panic!("{other:?}"),
        }
    }

    fn hear_server(&mut self, shard: u16, to: Place, message: &FromServer) {
        match (to, message) {
            (Place::Worker(rank), message) => {
                self.workers[rank as usize].handle_server(shard, message);
            }
            (Place::Switch(switch), FromServer::Acknowledgement { round, sequence }) => {
                let summer = &mut self.summers[usize::from(switch)];
                summer.handle_acknowledgement(shard, *round, *sequence);
            }
            (Place::Switch(switch), FromServer::Closed(closed)) => {
                self.summers[usize::from(switch)].handle_closed(shard, closed);
            }
            (Place::Coordinator, FromServer::Acknowledgement { round, .. }) => {
                self.coordinator.handle_acknowledgement(shard, *round);
            }
            other => panic!("{other:?}"),
        }
    }

    /// Snapshots, and kills.
    fn harm_servers(&mut self) {
        if self.faults.kills == 0.0 {
            return;
        }
        for shard in 0..self.servers.len() {
            self.write_snapshot(shard);
            if self.rng.chance(self.faults.kills) {
                self.kill(shard);
            }
        }
    }

    fn write_snapshot(&mut self, shard: usize) {
        let (server, disk) = (&mut self.servers[shard], &mut self.disks[shard]);
        if let Some(snapshot) = server.poll_snapshot() {
            let mut bytes = disk.part.take().expect("pieces come before the last one");
            bytes.extend(snapshot.last_piece);
            disk.whole = Some((snapshot.version, bytes));
            let (shard, version) = (shard as u16, snapshot.version);
            self.workers.iter_mut().for_each(|worker| worker.handle_snapshot(shard, version));
            self.summers.iter_mut().for_each(|summer| summer.handle_snapshot(shard, version));
            self.coordinator.handle_snapshot(shard, version);
        } else if let Some(bytes) = &mut disk.part {
            bytes.extend(server.walk_snapshot(self.rng.below(4) as usize));
        } else if self.rng.chance(0.05) {
            disk.part = Some(server.begin_snapshot());
        }
    }

    fn kill(&mut self, shard: usize) {
        self.seen.kills += 1;
        self.disks[shard].part = None;
        self.disks[shard].incarnation += 1;
        let spec = self.server_spec(shard as u16);
        let (version, server) = match &self.disks[shard].whole {
            None => (0, self.first_server(shard as u16)),
            Some((version, bytes)) => {
                self.seen.restores += 1;
                (*version, Server::restore(spec, &self.first_map, bytes).unwrap())
            }
        };
        self.servers[shard] = server;
        let shard = shard as u16;
        for worker in &mut self.workers {
            worker.handle_restart(shard, version).expect("what a snapshot lacks is kept");
        }
        self.summers.iter_mut().for_each(|summer| summer.handle_restart(shard, version));
        self.coordinator.handle_restart(shard, version);
        if shard == 0 {
            // The coordinator was beside it.
            (self.coordinator, self.decided) = (Coordinator::new(self.spec.shards), version);
        }
    }
}

fn stored(oracle: &Oracle, version: u32) -> BTreeMap<RowId, Vec<f32>> {
    oracle.ids().into_iter().map(|row| (row, oracle.row(row, version).values)).collect()
}

/// Nothing in most rounds, and never more than a table has room for: all keys have room.
fn some_puts(
    tables: &[TableSpec],
    workers: u32,
    rng: &mut Rng,
) -> BTreeMap<RowId, (usize, Vec<f32>)> {
    let mut puts = BTreeMap::new();
    for _ in 0..if rng.chance(0.4) { rng.below(12) } else { 0 } {
        let table = &tables[rng.below(tables.len() as u64) as usize];
        let row = RowId { table: table.id, key: rng.below(KEYS) };
        let values = (0..table.stride()).map(|_| rng.below(64) as f32 / 8.0).collect();
        puts.insert(row, (rng.below(workers.into()) as usize, values));
    }
    puts
}

fn link(faults: Faults) -> Conditions {
    let chance = faults.loss;
    Conditions {
        rate_bps: Some(1e9),
        delay_ps: 50 * US,
        loss: chance,
        duplication: chance,
        late_ps: 3_000 * US,
        reordering: 0.1,
        jitter_ps: 400 * US,
        damage: chance / 2.0,
        ..Conditions::PERFECT
    }
}

fn some_rows(tables: &[TableSpec], rng: &mut Rng) -> Vec<(RowId, Tier)> {
    let mut rows = BTreeMap::new();
    for _ in 0..rng.below(u64::from(POSITIONS)) {
        let table = tables[rng.below(tables.len() as u64) as usize].id;
        let tier = if rng.chance(0.7) { Tier::A } else { Tier::B };
        rows.insert(RowId { table, key: rng.below(1 + rng.clone().below(KEYS)) }, tier);
    }
    Vec::from_iter(rows)
}

fn first_map(tables: &[TableSpec], rng: &mut Rng) -> HotMap {
    let rows = (0..).zip(some_rows(tables, rng));
    let rows = rows.map(|(position, (row, tier))| HotRow { row, position, tier }).collect();
    let (version, dim) = (rng.below(100) as u32, tables[0].dim);
    let (positions, block, digest) = (POSITIONS, 0, None);
    HotMap::new(HotRows { format: FORMAT.into(), version, dim, positions, block, rows, digest })
        .unwrap()
}
