//! The round under way: what was sent, and what has come.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::WorkerSpec;
use crate::hot::{HotMap, MapChange, RowId};
use crate::message::{Closed, HotSum, ToServer, ToSwitch};
use crate::sending::{END, Sending};
use crate::table::{Row, TableId};

/// What has come in a round.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) number: u32,
    pub(super) is_over: bool,
    /// By server.
    closed: Vec<Option<Arc<Closed>>>,
    /// By switch, the parts of its results; how many there are is known from the first on.
    results: Vec<Vec<Option<Arc<[HotSum]>>>>,
}

impl Round {
    pub(super) fn none(servers: u16, switches: u16) -> Self {
        Self { is_over: true, ..Self::begin(0, servers, switches) }
    }

    pub(super) fn begin(number: u32, servers: u16, switches: u16) -> Self {
        let closed = vec![None; usize::from(servers)];
        Self { number, is_over: false, closed, results: vec![Vec::new(); usize::from(switches)] }
    }

    pub(super) fn enter_closed(&mut self, server: u16, closed: &Arc<Closed>) {
        if closed.round == self.number {
            self.closed[usize::from(server)].get_or_insert_with(|| closed.clone());
        }
    }

    /// Takes a part of the results; whether all of this switch's are in.
    pub(super) fn enter_results(
        &mut self,
        switch: u16,
        part: u32,
        parts: u32,
        rows: &Arc<[HotSum]>,
    ) -> bool {
        let results = &mut self.results[usize::from(switch)];
        if results.is_empty() {
            results.resize(parts as usize, None);
        }
        if let Some(place) = results.get_mut(part as usize) {
            place.get_or_insert_with(|| rows.clone());
        }
        results.iter().all(Option::is_some)
    }

    pub(super) fn is_complete(&self) -> bool {
        let is_in = |parts: &Vec<Option<_>>| !parts.is_empty() && parts.iter().all(Option::is_some);
        self.closed.iter().all(Option::is_some) && self.results.iter().all(is_in)
    }

    /// Sums of hot rows: position, contributors, values.
    pub(super) fn results(&self) -> impl Iterator<Item = (u32, u32, &[f32])> {
        let parts = self.results.iter().flatten().flatten();
        parts.flat_map(|rows| rows.iter()).map(|sum| (sum.position, sum.contributors, &*sum.values))
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
    change: &'a Option<Arc<MapChange>>,
    /// By server and table.
    cold: BTreeMap<(u16, TableId), (Vec<u64>, Vec<f32>)>,
    /// By switch.
    hot: BTreeMap<u16, (Vec<u32>, Vec<f32>)>,
    returns: Vec<(RowId, Row)>,
}

impl<'a> Packets<'a> {
    pub(super) fn new(
        spec: &'a WorkerSpec,
        round: u32,
        map: &'a HotMap,
        change: &'a Option<Arc<MapChange>>,
    ) -> Self {
        let (cold, hot, returns) = Default::default();
        Self { spec, round, map, change, cold, hot, returns }
    }

    pub(super) fn add_cold(&mut self, row: RowId, gradient: &[f32]) {
        let (keys, values) = self.cold.entry((self.spec.server_of(row), row.table)).or_default();
        keys.push(row.key);
        values.extend_from_slice(gradient);
    }

    pub(super) fn add_hot(&mut self, position: u32, gradient: &[f32]) {
        let switch = (position % u32::from(self.spec.switches)) as u16;
        let (positions, values) = self.hot.entry(switch).or_default();
        positions.push(position);
        values.extend_from_slice(gradient);
    }

    pub(super) fn add_return(&mut self, row: RowId, values: Row) {
        self.returns.push((row, values));
    }

    pub(super) fn send(
        self,
        to_servers: &mut Sending<ToServer>,
        to_switches: &mut Sending<ToSwitch>,
        counts: &[(RowId, u32)],
    ) {
        self.send_to_servers(to_servers, counts);
        self.send_to_switches(to_switches);
    }

    fn send_to_servers(&self, sending: &mut Sending<ToServer>, counts: &[(RowId, u32)]) {
        let (round, map_version) = (self.round, self.map.version());
        let mut sent = vec![0u32; usize::from(self.spec.shards.0)];
        let mut next = |server: u16| {
            let sequence = sent[usize::from(server)];
            sent[usize::from(server)] += 1;
            sequence
        };
        for ((server, table), (keys, values)) in &self.cold {
            let rows = self.spec.rows_per_packet;
            let dim = values.len() / keys.len();
            for (keys, values) in keys.chunks(rows).zip(values.chunks(rows * dim)) {
                let sequence = next(*server);
                let (table, keys, values) = (*table, keys.to_vec(), values.to_vec());
                let push = ToServer::Push { round, sequence, map_version, table, keys, values };
                sending.send((*server, round, sequence), push);
            }
        }
        for (row, values) in &self.returns {
            let server = self.spec.server_of(*row);
            let sequence = next(server);
            let (row, values) = (*row, values.clone());
            let back = ToServer::Return { round, sequence, row, values };
            sending.send((server, round, sequence), back);
        }
        for (server, packets) in (0..).zip(sent) {
            let counts = self.counts_for(server, counts);
            sending.send((server, round, END), ToServer::End { round, packets, counts });
        }
    }

    /// Rank 0 tells each server about its hot rows.
    fn counts_for(&self, server: u16, counts: &[(RowId, u32)]) -> Vec<(RowId, u32)> {
        if self.spec.rank > 0 {
            return Vec::new();
        }
        counts.iter().filter(|(row, _)| self.spec.server_of(*row) == server).copied().collect()
    }

    fn send_to_switches(&self, sending: &mut Sending<ToSwitch>) {
        let (round, change) = (self.round, self.change);
        for switch in 0..self.spec.switches {
            let mut packets = 0;
            if let Some((positions, values)) = self.hot.get(&switch) {
                let rows = self.spec.rows_per_packet;
                let dim = values.len() / positions.len();
                for (positions, values) in positions.chunks(rows).zip(values.chunks(rows * dim)) {
                    let (sequence, change) = (packets, change.clone());
                    let (positions, values) = (positions.to_vec(), values.to_vec());
                    let rows = ToSwitch::Rows { round, sequence, change, positions, values };
                    sending.send((switch, round, sequence), rows);
                    packets += 1;
                }
            }
            let end = ToSwitch::End { round, packets, change: change.clone() };
            sending.send((switch, round, END), end);
        }
    }
}
