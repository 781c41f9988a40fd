//! Servers that are killed at any time, and restarted from a snapshot and what the workers kept: the same bits as without.

mod support;

use support::{Gradients, Oracle, gradients, no_map, tables};
use wiresum_netem::Rng;
use wiresum_sparse::message::{FromServer, Sender, ToServer};
use wiresum_sparse::server::{Server, ServerSpec};
use wiresum_sparse::table::{Shards, TableSpec};
use wiresum_testkit::seeds::for_each_seed;

const SEEDS: u64 = 400;
const ROUNDS: u32 = 12;

/// What a worker sends in a round, cut into packets of a few rows.
fn messages(
    round: u32,
    gradients: &Gradients,
    specs: &[TableSpec],
    rng: &mut Rng,
) -> Vec<ToServer> {
    let mut packets = Vec::new();
    for spec in specs {
        let rows: Vec<_> = gradients.iter().filter(|(row, _)| row.table == spec.id).collect();
        for part in rows.chunks(1 + rng.below(4) as usize) {
            packets.push(ToServer::Push {
                round,
                sequence: packets.len() as u32,
                map_version: 1,
                table: spec.id,
                keys: part.iter().map(|(row, _)| row.key).collect(),
                values: part.iter().flat_map(|(_, values)| values.iter().copied()).collect(),
            });
        }
    }
    let packets_before = packets.len() as u32;
    packets.push(ToServer::End { round, packets: packets_before });
    packets
}

/// A snapshot in the making, and the last whole one: its version and bytes.
#[derive(Default)]
struct Disk {
    part: Option<Vec<u8>>,
    whole: Option<(u32, Vec<u8>)>,
    restarts: u64,
}

impl Disk {
    /// Does something about snapshots, or nothing.
    fn act(&mut self, server: &mut Server, rng: &mut Rng) {
        if let Some(snapshot) = server.poll_snapshot() {
            let mut bytes = self.part.take().expect("pieces come before the last one");
            bytes.extend(snapshot.last_piece);
            self.whole = Some((snapshot.version, bytes));
        }
        match &mut self.part {
            Some(bytes) => bytes.extend(server.walk_snapshot(rng.below(9) as usize)),
            None if rng.chance(0.2) => self.part = Some(server.begin_snapshot()),
            None => {}
        }
    }

    /// A server as it is after a crash: what was being written is lost.
    fn restart(&mut self, spec: &ServerSpec) -> (u32, Server) {
        self.part = None;
        self.restarts += u64::from(self.whole.is_some());
        match &self.whole {
            Some((version, bytes)) => {
                let first_map = no_map(&spec.tables);
                (*version, Server::restore(spec.clone(), &first_map, bytes).unwrap())
            }
            None => (0, Server::new(spec.clone(), &no_map(&spec.tables)).unwrap()),
        }
    }
}

/// Sends messages in any order, some of them twice, to a server that is killed now and then, until the round is closed.
fn run_round(
    server: &mut Server,
    disk: &mut Disk,
    spec: &ServerSpec,
    log: &[Vec<(Sender, ToServer)>],
    rng: &mut Rng,
) {
    let last = log.len() as u32;
    let mut left: Vec<(Sender, ToServer)> = log.last().unwrap().clone();
    while server.open_round() <= last {
        assert!(!left.is_empty(), "everything has come, and round {last} is open");
        let next = rng.below(left.len() as u64) as usize;
        let (from, message) =
            if rng.chance(0.2) { left[next].clone() } else { left.swap_remove(next) };
        server.handle(from, &message);
        while let Some((_, answer)) = server.poll_transmit() {
            assert!(!matches!(answer, FromServer::Refusal { .. }), "{answer:?}");
        }
        disk.act(server, rng);
        if rng.chance(0.02) {
            let (version, restored) = disk.restart(spec);
            *server = restored;
            for round in &log[version as usize..log.len() - 1] {
                round.iter().for_each(|(from, message)| server.handle(*from, message));
            }
            assert_eq!(server.open_round(), last);
            left = log.last().unwrap().clone();
        }
    }
}

#[test]
fn a_killed_server_comes_back_to_the_same_bits() {
    let (mut seeds, mut restarts) = (0, 0);
    for_each_seed("-p wiresum-sparse --test snapshots", 0, SEEDS, |seed| {
        let mut rng = Rng::new(seed);
        let tables = tables(&mut rng);
        let workers = 1 + rng.below(5) as u32;
        let (shards, memory_bytes) = (Shards(1), 1 << 20);
        let tables_of = tables.clone();
        let spec = ServerSpec {
            shard: 0,
            shards,
            workers,
            switches: 0,
            roots: 0,
            tables: tables_of,
            memory_bytes,
            hot_set: None,
        };
        let (mut server, mut disk) =
            (Server::new(spec.clone(), &no_map(&spec.tables)).unwrap(), Disk::default());
        let (mut oracle, mut log) = (Oracle::new(&tables), Vec::new());
        for round in 1..=ROUNDS {
            let all: Vec<Gradients> = (0..workers).map(|_| gradients(&tables, &mut rng)).collect();
            oracle.round(round, &all);
            let mut sent = Vec::new();
            for (worker, gradients) in all.iter().enumerate() {
                let messages = messages(round, gradients, &tables, &mut rng);
                sent.extend(messages.into_iter().map(|message| (worker as Sender, message)));
            }
            log.push(sent);
            run_round(&mut server, &mut disk, &spec, &log, &mut rng);
            for row in oracle.ids() {
                let table = server.tables().iter().find(|table| table.spec().id == row.table);
                let mut weights = vec![0.0; usize::from(table.unwrap().spec().dim)];
                table.unwrap().read(row.key, round, &mut weights).unwrap();
                let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&weights), bits(&oracle.weights(row, round)), "{row:?}");
            }
        }
        (seeds, restarts) = (seeds + 1, restarts + disk.restarts);
    });
    assert!(seeds < SEEDS || restarts > SEEDS, "{restarts} restarts from a snapshot");
}
