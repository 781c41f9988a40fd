use super::waiting::MAX_WAITING;
use super::*;
use crate::hot::{FORMAT, HotRow, HotRows, Tier};
use crate::message::HotSums;
use crate::optimizer::{Optimizer, Sgd};
use crate::table::{Initial, Row, RowIds, ValueType};
use crate::tracking::{Decaying, Tracking};

const TABLE: TableId = TableId(0);

fn spec(workers: u32, switches: u32, period: u32) -> ServerSpec {
    let table = TableSpec {
        id: TABLE,
        name: "ads".into(),
        rows: RowIds::Counted(100),
        dim: 2,
        value: ValueType::default(),
        optimizer: Optimizer::Sgd(Sgd { lr: 1.0 }),
        initial: Initial::Zeros,
        seed: 1,
        is_averaged: false,
        steps_before: 0,
        expire_after: None,
    };
    let (shard, shards, memory_bytes) = (0, Shards(1), 1 << 20);
    let hot_set = (period > 0).then(|| HotSet {
        tracking: Tracking::Decaying(Decaying::every(period)),
        replicated: 3,
        summed: 0,
    });
    let (roots, tables) = (switches, vec![table]);
    ServerSpec { shard, shards, workers, switches, roots, tables, memory_bytes, hot_set }
}

fn map_of(rows: &[(RowId, u32, Tier)]) -> HotMap {
    let (version, dim, positions, block, digest) = (1, 2, 10, 0, None);
    let hot = |(row, position, tier): &(RowId, u32, Tier)| HotRow {
        row: *row,
        position: *position,
        tier: *tier,
    };
    let (format, rows) = (FORMAT.into(), rows.iter().map(hot).collect());
    HotMap::new(HotRows { format, version, dim, positions, block, rows, digest }).unwrap()
}

fn no_map() -> HotMap {
    map_of(&[])
}

/// A sum of two values of 4.
fn sum(position: u32, contributors: u8) -> ToServer {
    let (positions, contributors, values) = (vec![position], vec![contributors], vec![4.0; 2]);
    let rows = Arc::new(HotSums { positions, contributors, values });
    ToServer::Sums { round: 1, sequence: 0, map_version: 1, rows }
}

fn server(workers: u32) -> Server {
    Server::new(spec(workers, 1, 0), &no_map()).unwrap()
}

fn push(round: u32, sequence: u32, key: u64, value: f32) -> ToServer {
    let (keys, values) = (vec![key], vec![value; 2]);
    ToServer::Push { round, sequence, map_version: 1, table: TABLE, keys, values }
}

fn end(round: u32, packets: u32) -> ToServer {
    ToServer::End { round, packets }
}

fn pull(version: u32, keys: &[u64]) -> ToServer {
    let (keys, with_state) = (keys.to_vec(), false);
    ToServer::Pull { version, request: 9, table: TABLE, keys, with_state }
}

fn said(server: &mut Server) -> Vec<(Sender, FromServer)> {
    std::iter::from_fn(|| server.poll_transmit()).collect()
}

fn closed(round: u32) -> FromServer {
    FromServer::Closed(Arc::new(Closed { round, ..Closed::default() }))
}

#[test]
fn a_round_closes_when_all_packets_of_all_senders_are_in() {
    let mut server = server(2);
    server.handle(1, &end(1, 1));
    server.handle(0, &push(1, 0, 7, 1.0));
    server.handle(0, &end(1, 1));
    server.handle(2, &end(1, 0));
    assert_eq!(server.open_round(), 1, "a packet of worker 1 is missing");
    said(&mut server);
    server.handle(1, &push(1, 0, 7, 2.0));
    assert_eq!(server.open_round(), 2);
    let acknowledgement = FromServer::Acknowledgement { round: 1, sequence: 0 };
    let news = [(1, acknowledgement), (0, closed(1)), (1, closed(1)), (2, closed(1))];
    assert_eq!(said(&mut server), news);
    server.handle(0, &pull(1, &[7, 8]));
    let values = vec![-3.0, -3.0, 0.0, 0.0];
    let rows = FromServer::Rows { version: 1, request: 9, table: TABLE, dim: 2, values };
    assert_eq!(said(&mut server), [(0, rows)]);
    assert_eq!(server.popularity(), [(RowId { table: TABLE, key: 7 }, 2)]);
}

#[test]
fn what_comes_twice_late_or_early_changes_nothing() {
    let mut server = server(1);
    for _ in 0..3 {
        server.handle(0, &push(1, 0, 7, 1.0));
    }
    server.handle(0, &push(2, 0, 7, 1.0));
    server.handle(0, &end(2, 1));
    server.handle(0, &pull(2, &[7]));
    server.handle(1, &end(1, 0));
    server.handle(1, &end(1, 0));
    server.handle(0, &end(1, 1));
    assert_eq!(server.open_round(), 2);
    let counters = server.counters();
    assert_eq!((counters.rows, counters.duplicates, counters.early), (1, 3, 3));
    said(&mut server);
    server.handle(0, &push(1, 0, 7, 1.0));
    server.handle(0, &end(1, 1));
    server.handle(0, &pull(0, &[7]));
    assert_eq!(server.counters().late, 3);
    let acknowledgement = FromServer::Acknowledgement { round: 1, sequence: 0 };
    assert_eq!(said(&mut server), [(0, acknowledgement), (0, closed(1))]);
}

#[test]
fn sums_from_switches_count_as_their_workers() {
    let row = RowId { table: TABLE, key: 5 };
    let mut server = Server::new(spec(3, 1, 0), &map_of(&[(row, 8, Tier::B)])).unwrap();
    let problem = |server: &mut Server, from, message: ToServer| {
        server.handle(from, &message);
        match said(server).pop() {
            Some((_, FromServer::Refusal { problem, .. })) => problem,
            other => panic!("{other:?}"),
        }
    };
    for (from, message, says) in [
        (0, push(1, 0, 5, 1.0), "row 5 is summed by a switch"),
        (3, sum(8, 4), "a sum came of 4 workers"),
        (3, sum(8, 0), "a sum came of 0 workers"),
        (1, sum(8, 2), "only switches send sums"),
        (3, sum(7, 2), "no row is at position 7"),
    ] {
        let problem = problem(&mut server, from, message);
        assert!(problem.contains(says), "{problem}");
    }
    server.handle(3, &sum(8, 2));
    (0..4).for_each(|sender| server.handle(sender, &end(1, u32::from(sender == 3))));
    let mut weights = [0.0; 2];
    server.tables()[0].read(5, 1, &mut weights).unwrap();
    assert_eq!(weights, [-4.0; 2]);
    assert_eq!(server.popularity(), [(row, 2)]);
}

/// Weights that were told.
fn told(server: &mut Server) -> Vec<(Sender, Vec<f32>)> {
    let rows = |(to, message)| match message {
        FromServer::Rows { values, .. } => Some((to, values)),
        _ => None,
    };
    said(server).into_iter().filter_map(rows).collect()
}

#[test]
fn weights_are_told_as_soon_as_nobody_can_push_more() {
    let row = RowId { table: TABLE, key: 5 };
    let mut server = Server::new(spec(2, 1, 0), &map_of(&[(row, 8, Tier::B)])).unwrap();
    (0..2).for_each(|rank| server.handle(rank, &pull(1, &[7])));
    server.handle(1, &pull(1, &[5]));
    let held = FromServer::Acknowledgement { round: 1, sequence: 9 };
    assert_eq!(said(&mut server), [(0, held.clone()), (1, held.clone()), (1, held)]);
    server.handle(0, &push(1, 0, 7, 1.0));
    server.handle(1, &push(1, 1, 7, 2.0));
    assert_eq!(told(&mut server), [], "packet 0 of worker 1 is missing");
    server.handle(1, &push(1, 0, 3, 2.0));
    assert_eq!(
        told(&mut server),
        [(0, vec![-3.0; 2])],
        "the last question of an asker and number counts"
    );
    server.handle(0, &pull(1, &[8]));
    server.handle(0, &end(1, 1));
    assert_eq!(told(&mut server), [], "worker 1 may have row 8");
    server.handle(1, &push(1, 2, 9, 4.0));
    assert_eq!(told(&mut server), [(0, vec![0.0; 2])]);
    server.handle(2, &sum(8, 2));
    assert_eq!(told(&mut server), [(1, vec![-4.0; 2])]);
    assert_eq!(server.open_round(), 1);
    let mut now = [0.0; 2];
    server.tables()[0].read(7, 0, &mut now).unwrap();
    assert_eq!(now, [0.0; 2], "nothing was stepped");
    server.handle(0, &pull(1, &[50]));
    server.handle(2, &end(1, 1));
    server.handle(1, &end(1, 3));
    assert_eq!((told(&mut server), server.open_round()), (vec![(0, vec![0.0; 2])], 2));
    server.handle(1, &pull(2, &[5, 7, 9]));
    (0..3).for_each(|sender| server.handle(sender, &end(2, 0)));
    let weights = vec![-4.0, -4.0, -3.0, -3.0, -4.0, -4.0];
    assert_eq!(told(&mut server), [(1, weights)]);
}

#[test]
fn a_flood_of_questions_takes_no_more_than_its_askers_room() {
    let mut server = server(2);
    let ask = |server: &mut Server, from, request| {
        let (keys, with_state) = (vec![7], false);
        server
            .handle(from, &ToServer::Pull { version: 1, request, table: TABLE, keys, with_state });
    };
    (0..2 * MAX_WAITING as u32).for_each(|request| ask(&mut server, 0, request));
    assert_eq!(said(&mut server).len(), MAX_WAITING, "the others come again");
    assert_eq!(server.counters().early, MAX_WAITING as u64);
    ask(&mut server, 1, 0);
    assert_eq!(said(&mut server).len(), 1, "another asker has room of its own");
    (0..3).for_each(|sender| server.handle(sender, &end(1, 0)));
    assert_eq!(told(&mut server).len(), MAX_WAITING + 1);
}

#[test]
fn rows_out_of_order_are_refused() {
    let mut server = server(1);
    server.handle(0, &push(1, 0, 7, 1.0));
    said(&mut server);
    server.handle(0, &push(1, 1, 6, 1.0));
    let refused = said(&mut server).pop();
    assert!(
        matches!(&refused, Some((0, FromServer::Refusal { problem, .. })) if problem.contains("out of order"))
    );
}

#[test]
fn what_cannot_be_taken_is_named() {
    let mut server = server(2);
    let problem = |server: &mut Server, message: ToServer| {
        server.handle(0, &message);
        match said(server).pop() {
            Some((0, FromServer::Refusal { problem, .. })) => problem,
            other => panic!("{message:?}: {other:?}"),
        }
    };
    let push = |table, map_version, keys: &[u64], values: &[f32]| ToServer::Push {
        round: 1,
        sequence: 3,
        map_version,
        table: TableId(table),
        keys: keys.to_vec(),
        values: values.to_vec(),
    };
    for (message, expected) in [
        (push(4, 1, &[1], &[1.0; 2]), "there is no table 4"),
        (push(0, 2, &[1], &[1.0; 2]), "sorted by version 2 of the hot map"),
        (push(0, 1, &[1], &[1.0; 3]), "3 came for 1 rows"),
        (push(0, 1, &[100], &[1.0; 2]), "has no row 100"),
        (push(0, 1, &[1, 1], &[1.0; 4]), "row 1 was given before"),
        (push(0, 1, &[1], &[1.0, f32::NAN]), "not finite"),
        (pull(0, &[100]), "has no row 100"),
        (pull(1, &[100]), "has no row 100"),
    ] {
        let problem = problem(&mut server, message);
        assert!(problem.contains(expected), "{problem}");
    }
    assert_eq!(server.counters().refused, 8);
    server.handle(0, &push(0, 1, &[1], &[1.0; 2]));
    said(&mut server);
    let short = problem(&mut server, end(1, 2));
    assert!(short.contains("2 packets were announced, and 4 or more"), "{short}");
}

#[test]
fn tables_beyond_the_memory_are_refused() {
    let small = ServerSpec { memory_bytes: 815, ..spec(1, 0, 0) };
    let problem = Server::new(small.clone(), &no_map()).unwrap_err().to_string();
    assert!(problem.contains("take 816 bytes here, and 815 are left"), "{problem}");
    assert!(Server::new(ServerSpec { memory_bytes: 816, ..small }, &no_map()).is_ok());
}

#[test]
fn rows_are_lent_with_their_state_and_come_back_before_the_next_round_closes() {
    let mut server = Server::new(spec(2, 0, 2), &no_map()).unwrap();
    let row = RowId { table: TABLE, key: 7 };
    let rounds = |server: &mut Server, round, decision: Option<MapChange>| {
        server.handle(0, &end(round, 0));
        server.handle(1, &end(round, 0));
        let change = decision.map(Arc::new);
        server.handle(0, &ToServer::Decision { round, change });
        said(server)
    };
    server.handle(0, &push(1, 0, 7, 1.0));
    server.handle(0, &end(1, 1));
    server.handle(1, &end(1, 0));
    assert_eq!(server.open_round(), 2);
    let hot = HotRow { row, position: 0, tier: Tier::A };
    let promoted = MapChange { version: 2, promoted: vec![hot], demoted: vec![] };
    let lent = match rounds(&mut server, 2, Some(promoted)).pop() {
        Some((1, FromServer::Closed(closed))) => closed.lent.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(lent, [(row, Row { values: vec![-1.0; 2], changed: 0 })]);
    server.handle(0, &push(3, 0, 7, 1.0));
    assert_eq!(server.counters().refused, 1, "version 1 of the map is over");
    rounds(&mut server, 3, None);
    let demoted = MapChange { version: 3, promoted: vec![], demoted: vec![row] };
    rounds(&mut server, 4, Some(demoted));
    assert_eq!(server.open_round(), 5);
    server.handle(0, &end(5, 0));
    server.handle(1, &end(5, 1));
    let back = Row { values: vec![8.0, 9.0], changed: 0 };
    server.handle(1, &ToServer::Return { round: 5, sequence: 0, row, values: back.clone() });
    assert_eq!(server.open_round(), 6);
    assert_eq!(server.tables()[0].rows(5), [(7, back)]);
}

#[test]
fn damaged_and_foreign_snapshots_are_refused() {
    let mut server = server(1);
    let mut bytes = server.begin_snapshot();
    server.handle(0, &push(1, 0, 7, 1.0));
    bytes.extend(server.walk_snapshot(1000));
    server.handle(0, &end(1, 1));
    server.handle(1, &end(1, 0));
    let snapshot = server.poll_snapshot().unwrap();
    assert_eq!((snapshot.version, server.poll_snapshot()), (0, None));
    bytes.extend(snapshot.last_piece);
    assert_eq!(Server::restore(spec(1, 1, 0), &no_map(), &bytes).unwrap().open_round(), 1);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(Server::restore(spec(1, 1, 0), &no_map(), &damaged).is_err(), "byte {at}");
        assert!(Server::restore(spec(1, 1, 0), &no_map(), &bytes[..at]).is_err());
    }
    let mut other = spec(1, 1, 0);
    other.tables[0].dim = 3;
    assert_eq!(Server::restore(other, &no_map(), &bytes).unwrap_err(), SnapshotError::Foreign);
}

fn put(sequence: u32, keys: &[u64]) -> ToServer {
    let (keys, values) = (keys.to_vec(), vec![4.0; 2 * keys.len()]);
    ToServer::Put { round: 1, sequence, table: TABLE, keys, values }
}

#[test]
fn a_row_that_was_put_is_that_after_the_round_whatever_its_gradient() {
    let mut server = server(1);
    let rows = |values| FromServer::Rows { version: 1, request: 9, table: TABLE, dim: 2, values };
    server.handle(0, &put(0, &[7, 9]));
    server.handle(0, &put(0, &[7, 9])); // repeated by the network
    server.handle(1, &end(1, 0));
    said(&mut server);
    server.handle(0, &pull(1, &[7]));
    let held = FromServer::Acknowledgement { round: 1, sequence: 9 };
    assert_eq!(said(&mut server), [(0, held)], "more may be put");
    server.handle(0, &push(1, 1, 7, 1.0));
    let told = (0, rows(vec![4.0, 4.0]));
    assert!(said(&mut server).contains(&told), "the round is open, and nothing can come for row 7");
    server.handle(0, &end(1, 2));
    said(&mut server);
    server.handle(0, &pull(1, &[7, 8, 9]));
    assert_eq!(said(&mut server), [(0, rows(vec![4.0, 4.0, 0.0, 0.0, 4.0, 4.0]))]);
}

#[test]
fn rows_that_are_put_wrongly_are_refused_by_name() {
    for (wrong, says) in [
        (put(1, &[3]), "row 3 was put twice"),
        (put(1, &[5, 5]), "row 5 was put twice"),
        (put(1, &[100]), "no row 100"),
        (
            ToServer::Put { round: 1, sequence: 1, table: TABLE, keys: vec![4], values: vec![1.0] },
            "rows of 2 numbers, and 1 came",
        ),
    ] {
        let mut server = server(2);
        server.handle(0, &put(0, &[3]));
        said(&mut server);
        server.handle(1, &wrong);
        let answers = said(&mut server);
        let [(1, FromServer::Refusal { problem, .. })] = &answers[..] else {
            panic!("{answers:?}")
        };
        assert!(problem.contains(says), "{problem}");
    }
}
