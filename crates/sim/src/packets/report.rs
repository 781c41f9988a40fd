//! What a run says.

use super::host::Host;
use super::world::World;
use crate::network::seconds;
use crate::record::{tell, tell_links};
use crate::{Record, SimulationError, Sink};

impl World<'_> {
    pub(super) fn progress(&self) -> Record {
        Record::Progress {
            at_s: seconds(self.now_ps),
            events: self.events,
            rounds: self.rounds.ended(),
            of_rounds: self.rounds.total(),
        }
    }

    pub(super) fn stuck(mut self) -> SimulationError {
        if !self.parties.is_empty() && self.complaints.is_empty() {
            self.complaints = self.waiting_players().collect();
        } else if self.complaints.is_empty() {
            let open = |host: &Host| format!("{} waits in round {}", host.name(), host.round + 1);
            self.complaints = self.hosts.iter().filter(|h| !h.is_dead).map(open).collect();
        }
        SimulationError::Stuck { at_s: seconds(self.now_ps), waits: self.complaints }
    }

    pub(super) fn report(&self, sink: &mut Sink) -> Result<(), SimulationError> {
        self.report_counters(sink)?;
        self.turns.as_ref().map_or(Ok(()), |turns| turns.report(sink))?;
        tell_links(self.scenario, &self.network.links, sink)?;
        if let Some(timeline) = self.network.links.timeline() {
            timeline.tell(self.scenario, sink)?;
        }
        tell(
            sink,
            &Record::End {
                at_s: seconds(self.rounds.last_end_ps()),
                events: self.events,
                packet_hops: self.hops,
                trace: format!("{:016x}", self.trace.hash()),
                checked_values: self.checked_values(),
            },
        )
    }

    pub(super) fn report_counters(&self, sink: &mut Sink) -> Result<(), SimulationError> {
        let mut tell = |site: usize, job: usize, name: &str, count: u64| {
            let record = Record::Counter {
                site: self.scenario.sites[site].name.clone(),
                job: self.scenario.jobs[job].name.clone(),
                name: name.to_owned(),
                count,
            };
            if count > 0 { tell(sink, &record) } else { Ok(()) }
        };
        for daemon in &self.daemons {
            for (job, name, count) in daemon.counters() {
                tell(daemon.site, job, name, count)?;
            }
        }
        for host in &self.hosts {
            for (name, count) in host.counters() {
                tell(host.site, host.job, name, count)?;
            }
        }
        self.report_parties(sink)
    }

    fn report_parties(&self, sink: &mut Sink) -> Result<(), SimulationError> {
        let Some(rows) = &self.scenario.rows else { return Ok(()) };
        for party in &self.parties {
            let (name, count) = party.counter();
            let site = self.scenario.sites[party.site].name.clone();
            let (job, name) = (rows.name.clone(), name.to_owned());
            if count > 0 {
                tell(sink, &Record::Counter { site, job, name, count })?;
            }
        }
        Ok(())
    }
}
