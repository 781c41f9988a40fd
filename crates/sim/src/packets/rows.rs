//! A sparse job among the packets, and the rounds that its rows have together with a dense gradient.

use std::collections::BTreeMap;

use wiresum_protocol::Time;

use super::peers::Sender;
use super::world::{Endpoint, Event, World, is_due, schedule};
use crate::network::picoseconds;
use crate::rows::Rows;
use crate::rows::party::Party;
use crate::{SimulationError, Sink};

/// Number of the sparse job's rounds, and of its dense part among the jobs.
const TOGETHER: usize = 0;
/// The only collective of its dense part.
const DENSE: usize = 0;

impl<'a> World<'a> {
    /// Places the participants of a sparse job.
    pub(super) fn place_rows(&mut self, rows: &'a Rows) -> Result<(), SimulationError> {
        self.parties = Party::all(rows)?;
        let addresses = self.parties.iter().map(|party| party.address);
        let endpoints: BTreeMap<_, _> = addresses.zip((0..).map(Endpoint::Party)).collect();
        if endpoints.len() < self.parties.len() {
            return Err(rows.wrong("two participants have one address"));
        }
        self.endpoints.push(endpoints);
        for host in &rows.hosts {
            for other in rows.workers.iter().chain(&rows.hosts) {
                self.network.path(*other, *host)?;
                self.network.path(*host, *other)?;
            }
        }
        Ok(())
    }

    /// Lets a participant go on, and sends what it has to send.
    pub(super) fn drive_party(
        &mut self,
        party: usize,
        sink: &mut Sink,
    ) -> Result<(), SimulationError> {
        self.play(party, sink)?;
        let (now, job) = (self.now(), self.scenario.jobs.len());
        let mut outbox = std::mem::take(&mut self.outbox);
        let mut send = outbox.opening();
        let due = self.parties[party].poll(now, |to, datagram| send(job, to, datagram));
        drop(send);
        outbox.empty(|job, to, parcel| {
            self.send(Sender::Party(party), job, to, parcel);
        });
        self.outbox = outbox;
        // A deadline that has passed within this microsecond is heard in the next one.
        let due = due.map(|at| at.max(Time(now.0 + 1)));
        if let Some(at_ps) = schedule(&mut self.parties[party].alarm, due, self.now_ps) {
            self.queue.push(at_ps, Event::PartyAlarm(party as u32));
        }
        Ok(())
    }

    pub(super) fn ring_party(
        &mut self,
        party: usize,
        sink: &mut Sink,
    ) -> Result<(), SimulationError> {
        let now = self.now();
        if !is_due(&mut self.parties[party].alarm, now) {
            return Ok(());
        }
        self.drive_party(party, sink)
    }

    /// All workers of the dense part are there, so rounds can begin.
    pub(super) fn play_all(&mut self, sink: &mut Sink) -> Result<(), SimulationError> {
        (0..self.parties.len()).try_for_each(|party| self.drive_party(party, sink))
    }

    /// A worker has the sum of the dense gradient.
    pub(super) fn note_sum(&mut self, rank: usize, sink: &mut Sink) -> Result<(), SimulationError> {
        let nodes = self.scenario.rows.as_ref().map_or(0, |rows| rows.hosts.len());
        if let Some(player) = self.parties[nodes + rank].player_mut() {
            player.awaits_sum = false;
        }
        self.drive_party(nodes + rank, sink)
    }

    /// Ends the round of a worker that has its rows and its sum, and begins the next one.
    fn play(&mut self, party: usize, sink: &mut Sink) -> Result<(), SimulationError> {
        let Some(player) = self.parties[party].player_mut() else { return Ok(()) };
        if let (Some(error), Some(rows)) = (player.member.error(), &self.scenario.rows) {
            return Err(rows.wrong(error.to_string()));
        }
        let are_all_in = self.outside.iter().all(|missing| *missing == 0);
        if !are_all_in || !player.is_ready() || player.is_over() {
            return Ok(());
        }
        let rank = player.rank;
        if player.is_playing {
            let seen = self.scenario.check_sums.then_some(&mut self.seen);
            player.end(seen).map_err(|row| {
                let problem = format!("rank {rank} has other bits of row {row:?} than others");
                SimulationError::Invariant(problem)
            })?;
            self.rounds.finish(TOGETHER, rank, player.round - 1, self.now_ps, sink)?;
        }
        if player.is_over() { Ok(()) } else { self.begin_rows(party, rank, sink) }
    }

    /// Begins a worker's round: its rows, and then its dense gradient.
    fn begin_rows(
        &mut self,
        party: usize,
        rank: usize,
        sink: &mut Sink,
    ) -> Result<(), SimulationError> {
        let Some(player) = self.parties[party].player_mut() else { return Ok(()) };
        self.rounds.schedule(TOGETHER, rank, player.round, self.now_ps);
        self.rounds.begin(TOGETHER, rank, player.round, self.now_ps);
        player.awaits_sum = !self.hosts.is_empty();
        player.begin();
        if self.hosts.is_empty() {
            return Ok(());
        }
        let now = self.now();
        self.hosts[rank].submit(DENSE, self.findings.as_ref(), self.patience, now);
        self.drive(rank, sink)
    }

    /// Whether no worker has ended a round of rows for longer than one may take.
    pub(super) fn have_rows_stopped(&self) -> bool {
        !self.parties.is_empty()
            && self.now_ps - self.rounds.last_end_ps() > picoseconds(self.scenario.patience_s)
    }

    /// Whoever has not played all its rounds, and since when nobody has ended one.
    pub(super) fn waiting_players(&self) -> impl Iterator<Item = String> {
        let players = self.parties.iter().filter_map(|party| Some((party.site, party.player()?)));
        players.filter(|(_, player)| !player.is_over()).map(|(site, player)| {
            let name = &self.scenario.sites[site].name;
            format!("{name} waits in round {}", player.round + 1)
        })
    }
}
