//! What a run says.

use wiresum_switch::Verdict;

use super::content::Content;
use super::summer::Summer;
use super::yard::Yard;
use crate::network::seconds;
use crate::record::{tell, tell_links};
use crate::{Record, SimulationError, Sink};

impl<V: Content> Yard<'_, V> {
    pub(super) fn progress(&self) -> Record {
        Record::Progress {
            at_s: seconds(self.now_ps),
            events: self.handled,
            rounds: self.rounds.ended(),
            of_rounds: self.rounds.total(),
        }
    }

    pub(super) fn stuck(&self) -> SimulationError {
        let mut waits = Vec::new();
        for job in &self.jobs {
            for (rank, host) in job.hosts.iter().enumerate().filter(|(_, host)| host.is_busy) {
                let waiting = host.workers.iter().find(|worker| !worker.is_done());
                let oldest = waiting.map_or(0, |worker| worker.oldest().0);
                let (round, position) = (host.round - 1, oldest);
                let name = &self.scenario.sites[host.site].name;
                waits.push(format!(
                    "{name} (rank {rank} of {}) waits in round {round} for the result of position {position}",
                    job.name
                ));
            }
        }
        SimulationError::Stuck { at_s: seconds(self.progress_ps), waits }
    }

    /// How many unfinished sums each switch holds now.
    pub(super) fn sample(&mut self) {
        let unfinished = |site: &usize| self.summers[*site].unfinished().unwrap_or(0);
        let held = self.switches.iter().map(unfinished).collect();
        if let Some(samples) = &mut self.samples {
            samples.take(self.now_ps, held);
        }
    }

    /// Links were what they are, sums were exact, and roots got what they sum.
    ///
    /// # Errors
    /// [`SimulationError::Invariant`].
    pub(super) fn check(&self) -> Result<(), SimulationError> {
        self.network.links.check_arrivals().map_err(SimulationError::Invariant)?;
        if self.wrong > 0 {
            let what = format!("{} of {} sums were wrong", self.wrong, self.checked);
            return Err(SimulationError::Invariant(what));
        }
        for (job, program) in self.scenario.programs.iter().enumerate() {
            let fragments = program.streams.iter().map(|stream| u64::from(stream.fragments));
            let least = fragments.sum::<u64>() * u64::from(program.rounds);
            let got = self.ingress[job];
            if got < least {
                let name = &program.name;
                let what = format!("job {name}: the root got {got} fragments of {least}");
                return Err(SimulationError::Invariant(what));
            }
        }
        Ok(())
    }

    /// Says what there was.
    pub(super) fn report(&self, sink: &mut Sink) -> Result<(), SimulationError> {
        self.report_counters(sink)?;
        self.turns.as_ref().map_or(Ok(()), |turns| turns.report(sink))?;
        tell_links(self.scenario, &self.network.links, sink)?;
        if let Some(timeline) = self.network.links.timeline() {
            timeline.tell(self.scenario, sink)?;
        }
        if let Some(samples) = &self.samples {
            samples.tell(self.scenario, &self.switches, sink)?;
        }
        tell(
            sink,
            &Record::End {
                at_s: seconds(self.rounds.last_end_ps()),
                events: self.handled,
                packet_hops: self.hops,
                trace: format!("{:016x}", self.trace.hash()),
                checked_values: self.checked,
            },
        )
    }

    fn report_counters(&self, sink: &mut Sink) -> Result<(), SimulationError> {
        for (site, summer) in self.summers.iter().enumerate() {
            let counters = match summer {
                Summer::Nobody => continue,
                Summer::Switch { switch, .. } => switch.counters(),
                Summer::Server(server) => server.counters(),
            };
            for verdict in Verdict::STATION {
                let count = counters.get(verdict);
                if count > 0 {
                    let site = self.scenario.sites[site].name.clone();
                    let (job, name) = (String::new(), verdict.name().to_owned());
                    tell(sink, &Record::Counter { site, job, name, count })?;
                }
            }
        }
        Ok(())
    }
}
