//! The round under way: what was sent, and what has come.

use std::collections::BTreeMap;
use std::sync::Arc;

use wiresum_wire::RowKind;

use super::WorkerSpec;
use crate::hot::{Finder, HotMap, MapChange, RowId};
use crate::message::{Closed, HotSums, ToServer, ToSwitch};
use crate::packet::FARTHEST_OFFSET;
use crate::sending::{END, Sending};
use crate::sum::RowValues;
use crate::table::{Row, TableId};

/// What has come in a round.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) number: u32,
    pub(super) is_over: bool,
    /// By server.
    closed: Vec<Option<Arc<Closed>>>,
    /// By switch.
    results: Vec<Results>,
}

/// What has come of a switch's results.
#[derive(Clone, Debug, Default)]
struct Results {
    parts: Vec<Option<Arc<HotSums>>>,
    /// How many there are, once the last one has come.
    count: Option<u32>,
}

impl Results {
    /// Takes a part; `count` is 0 where its switch does not know yet how many there are.
    fn enter(&mut self, part: u32, count: u32, rows: &Arc<HotSums>) {
        if count > 0 {
            self.count.get_or_insert(count);
        }
        let end = (part as usize + 1).max(self.parts.len());
        self.parts.resize(end, None);
        self.parts[part as usize].get_or_insert_with(|| rows.clone());
    }

    fn are_in(&self) -> bool {
        let is_whole = |count| count as usize == self.parts.len();
        self.count.is_some_and(is_whole) && self.parts.iter().all(Option::is_some)
    }
}

impl Round {
    pub(super) fn none(servers: u16, switches: u16) -> Self {
        Self { is_over: true, ..Self::begin(0, servers, switches) }
    }

    pub(super) fn begin(number: u32, servers: u16, switches: u16) -> Self {
        let closed = vec![None; usize::from(servers)];
        let results = vec![Results::default(); usize::from(switches)];
        Self { number, is_over: false, closed, results }
    }

    pub(super) fn enter_closed(&mut self, server: u16, closed: &Arc<Closed>) {
        if closed.round == self.number {
            self.closed[usize::from(server)].get_or_insert_with(|| closed.clone());
        }
    }

    /// Whether a server has closed a round, as far as is known.
    pub(super) fn is_closed(&self, server: u16, round: u32) -> bool {
        round < self.number || self.closed[usize::from(server)].is_some()
    }

    /// Takes a part of the results; whether all of this switch's are in.
    pub(super) fn enter_results(
        &mut self,
        switch: u16,
        part: u32,
        parts: u32,
        rows: &Arc<HotSums>,
    ) -> bool {
        let results = &mut self.results[usize::from(switch)];
        results.enter(part, parts, rows);
        results.are_in()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.closed.iter().all(Option::is_some) && self.results.iter().all(Results::are_in)
    }

    /// Sums of hot rows: position, contributors, values.
    pub(super) fn results(&self) -> impl Iterator<Item = (u32, u32, &[f32])> {
        let parts = self.results.iter().flat_map(|results| results.parts.iter().flatten());
        parts.flat_map(|rows| rows.iter())
    }

    pub(super) fn change(&self) -> Option<Arc<MapChange>> {
        self.closed.iter().flatten().find_map(|closed| closed.change.clone())
    }

    pub(super) fn lent(&self) -> impl Iterator<Item = &(RowId, Row)> {
        self.closed.iter().flatten().flat_map(|closed| &closed.lent)
    }
}

/// What is to be sent in a round, sorted by receiver.
pub(super) struct Packets<'a> {
    spec: &'a WorkerSpec,
    round: u32,
    map: &'a HotMap,
    finder: Finder<'a>,
    /// By table and server.
    cold: Vec<(TableId, Vec<Cold>)>,
    /// By switch and position.
    hot: Vec<((u16, u32), &'a [f32])>,
    returns: Vec<(RowId, Row)>,
    /// By server and table.
    puts: BTreeMap<(u16, TableId), (Vec<u64>, Vec<f32>)>,
    /// Packets to each server so far.
    sent: Vec<u32>,
}

/// Rows of one table for one server.
#[derive(Clone, Debug, Default)]
struct Cold {
    keys: Vec<u64>,
    values: Vec<f32>,
}

impl Cold {
    fn add(&mut self, key: u64, gradient: &[f32]) {
        self.keys.push(key);
        self.values.extend_from_slice(gradient);
    }
}

impl<'a> Packets<'a> {
    pub(super) fn new(spec: &'a WorkerSpec, round: u32, map: &'a HotMap) -> Self {
        let (cold, hot, returns, puts) = Default::default();
        let (finder, sent) = (map.finder(), vec![0; usize::from(spec.shards.0)]);
        Self { spec, round, map, finder, cold, hot, returns, puts, sent }
    }

    /// Sorts the gradients of a table: hot rows by position, others by server.
    pub(super) fn add_gradients(&mut self, table: TableId, rows: &'a RowValues) {
        let mut cold = vec![Cold::default(); usize::from(self.spec.shards.0)];
        let server_of = self.spec.servers_of(table);
        for (key, gradient) in rows.in_order() {
            match self.finder.place(RowId { table, key }) {
                Some(place) => self.add_hot(place.position, gradient),
                None => cold[usize::from(server_of(key))].add(key, gradient),
            }
        }
        self.cold.push((table, cold));
    }

    fn add_hot(&mut self, position: u32, gradient: &'a [f32]) {
        let switch = (position % u32::from(self.spec.switches)) as u16;
        self.hot.push(((switch, position), gradient));
    }

    pub(super) fn add_return(&mut self, row: RowId, values: Row) {
        self.returns.push((row, values));
    }

    pub(super) fn add_put(&mut self, row: RowId, values: &[f32]) {
        let (keys, all) = self.puts.entry((self.spec.server_of(row), row.table)).or_default();
        keys.push(row.key);
        all.extend_from_slice(values);
    }

    pub(super) fn send(
        mut self,
        to_servers: &mut Sending<ToServer>,
        to_switches: &mut Sending<ToSwitch>,
        counts: &[(RowId, u32)],
    ) {
        // Servers tell rows of after the round once all that were put are in.
        self.send_puts(to_servers);
        self.send_cold(to_servers);
        self.send_returns(to_servers);
        self.send_counts(to_servers, counts);
        for (server, packets) in (0..).zip(&self.sent) {
            let end = ToServer::End { round: self.round, packets: *packets };
            to_servers.send((server, self.round, END), end);
        }
        self.hot.sort_unstable_by_key(|(place, _)| *place);
        let switches: Vec<_> = self.hot.chunk_by(|one, next| one.0.0 == next.0.0).collect();
        for switch in 0..self.spec.switches {
            let hot = switches.iter().find(|hot| hot[0].0.0 == switch).copied();
            self.send_hot(switch, hot.unwrap_or_default(), to_switches);
        }
    }

    /// The number of the next packet to a server.
    fn next(&mut self, server: u16) -> u32 {
        let sent = &mut self.sent[usize::from(server)];
        *sent += 1;
        *sent - 1
    }

    fn send_cold(&mut self, sending: &mut Sending<ToServer>) {
        let (round, map_version) = (self.round, self.map.version());
        for (table, cold) in std::mem::take(&mut self.cold) {
            for (server, Cold { keys, values }) in (0..).zip(cold) {
                let dim = values.len().checked_div(keys.len()).unwrap_or(0);
                let (mut keys, mut values) = (&keys[..], &values[..]);
                while !keys.is_empty() {
                    let rows = self.spec.rows_of_push(table, dim, values).min(keys.len());
                    let (first, rest) = (keys.split_at(rows), values.split_at(rows * dim));
                    (keys, values) = (first.1, rest.1);
                    let sequence = self.next(server);
                    let (keys, values) = (first.0.to_vec(), rest.0.to_vec());
                    let push = ToServer::Push { round, sequence, map_version, table, keys, values };
                    sending.send((server, round, sequence), push);
                }
            }
        }
    }

    fn send_returns(&mut self, sending: &mut Sending<ToServer>) {
        let round = self.round;
        for (row, values) in std::mem::take(&mut self.returns) {
            let server = self.spec.server_of(row);
            let sequence = self.next(server);
            let back = ToServer::Return { round, sequence, row, values };
            sending.send((server, round, sequence), back);
        }
    }

    fn send_puts(&mut self, sending: &mut Sending<ToServer>) {
        let round = self.round;
        for ((server, table), (keys, values)) in std::mem::take(&mut self.puts) {
            let rows = self.spec.rows_stored(RowKind::Put, table, true);
            let len = values.len() / keys.len();
            for (keys, values) in keys.chunks(rows).zip(values.chunks(rows * len)) {
                let sequence = self.next(server);
                let (keys, values) = (keys.to_vec(), values.to_vec());
                let put = ToServer::Put { round, sequence, table, keys, values };
                sending.send((server, round, sequence), put);
            }
        }
    }

    /// Rank 0 tells each server about its replicated rows.
    fn send_counts(&mut self, sending: &mut Sending<ToServer>, counts: &[(RowId, u32)]) {
        if self.spec.rank > 0 {
            return;
        }
        let mut sorted: BTreeMap<(u16, TableId), Vec<(u64, u8)>> = BTreeMap::new();
        for (row, count) in counts {
            let of_table = sorted.entry((self.spec.server_of(*row), row.table)).or_default();
            of_table.push((row.key, *count as u8));
        }
        let (round, rows) = (self.round, RowKind::Counts.rows_for(self.spec.room, 0).max(1));
        for ((server, table), counts) in sorted {
            for part in counts.chunks(rows) {
                let sequence = self.next(server);
                let (keys, counts) = part.iter().copied().unzip();
                let counts = ToServer::Counts { round, sequence, table, keys, counts };
                sending.send((server, round, sequence), counts);
            }
        }
    }

    fn send_hot(&self, switch: u16, hot: &[((u16, u32), &[f32])], sending: &mut Sending<ToSwitch>) {
        let (round, map_version) = (self.round, self.map.version());
        let dim = self.map.document().dim.into();
        let (mut sequence, mut rest) = (0, hot);
        while let Some(((_, base), _)) = rest.first() {
            let is_near = |((_, position), _): &((u16, u32), _)| position - base <= FARTHEST_OFFSET;
            let near = &rest[..rest.partition_point(is_near)];
            let rows = self.spec.rows_of_hot(dim, near.iter().map(|(_, values)| *values));
            let (part, behind) = rest.split_at(rows.min(near.len()));
            let positions = part.iter().map(|((_, position), _)| *position).collect();
            let values: Vec<&[f32]> = part.iter().map(|(_, values)| *values).collect();
            let values = values.concat();
            let rows = ToSwitch::Rows { round, sequence, map_version, positions, values };
            sending.send((switch, round, sequence), rows);
            (sequence, rest) = (sequence + 1, behind);
        }
        let end = ToSwitch::End { round, packets: sequence, map_version };
        sending.send((switch, round, END), end);
    }
}
