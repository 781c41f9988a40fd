//! What is checked, and what a run says.

use super::flowing::{Stage, TOLERANCE};
use super::fluid::Fluid;
use crate::network::seconds;
use crate::record::tell;
use crate::{Record, SimulationError, Sink};

/// Relative; what rounding may add up to over a run.
const SLACK: f64 = 1e-6;

impl Fluid<'_> {
    pub(super) fn progress(&self) -> Record {
        Record::Progress {
            at_s: self.flowing.now_s,
            events: self.events,
            rounds: self.rounds.ended(),
            of_rounds: self.rounds.total(),
        }
    }

    pub(super) fn stuck(&self) -> SimulationError {
        let name = |site: usize| self.scenario.sites[site].name.clone();
        let wait = |number: &u32| {
            let current = &self.flowing.currents[*number as usize];
            let template = self.flowing.template(current);
            let (from, to) = (name(template.source), name(template.target));
            let (sent, all) = (current.sent_bytes, template.wire_bytes);
            format!("{to} has {sent:.0} of {all:.0} bytes of round {} from {from}", current.round)
        };
        // Who waits for one that waits is not to blame.
        let is_first = |number: &&u32| {
            let current = &self.flowing.currents[**number as usize];
            let mut feeds = self.flowing.template(current).feeds.iter();
            feeds.all(|f| self.flowing.currents[(current.base + f) as usize].stage == Stage::Ended)
        };
        let waits = self.flowing.open.iter().filter(is_first).map(wait).collect();
        SimulationError::Stuck { at_s: self.flowing.now_s, waits }
    }

    /// A current that ends has brought what it should, and nothing that was not brought to it.
    ///
    /// # Errors
    /// [`SimulationError::Invariant`].
    pub(super) fn check_current(&self, number: u32) -> Result<(), SimulationError> {
        let current = &self.flowing.currents[number as usize];
        let template = self.flowing.template(current);
        let slack_bytes = 2.0 * TOLERANCE * template.wire_bytes;
        let mut feeds = template.feeds.iter().map(|feed| current.base + feed);
        let is_short = |feed: &u32| {
            let feed = &self.flowing.currents[*feed as usize];
            feed.stage != Stage::Ended && feed.sent_bytes + slack_bytes < current.sent_bytes
        };
        let excess_bytes = current.sent_bytes - template.wire_bytes;
        if excess_bytes.abs() <= slack_bytes && !feeds.any(|feed| is_short(&feed)) {
            return Ok(());
        }
        let (sent, all) = (current.sent_bytes, template.wire_bytes);
        let name = &self.scenario.jobs[current.job as usize].name;
        let what = format!(
            "job {name}, current {}: {sent} of {all} bytes, or more than its feeds",
            current.template
        );
        Err(SimulationError::Invariant(what))
    }

    /// Nothing was faster than its rate, by what has crossed it.
    ///
    /// # Errors
    /// [`SimulationError::Invariant`].
    pub(super) fn check_rates(&self) -> Result<(), SimulationError> {
        for (direction, &carried_bytes) in self.carried_bytes.iter().enumerate() {
            let most_bytes = self.leftover.full_bps(direction) / 8.0 * self.flowing.now_s;
            if carried_bytes > most_bytes * (1.0 + SLACK) {
                let what = format!(
                    "direction {direction}: {carried_bytes} bytes in time for {most_bytes}"
                );
                return Err(SimulationError::Invariant(what));
            }
        }
        Ok(())
    }

    /// Links were what they are, and roots got what they sum.
    ///
    /// # Errors
    /// [`SimulationError::Invariant`].
    pub(super) fn check(&self) -> Result<(), SimulationError> {
        self.check_rates()?;
        for (job, got_bytes) in self.scenario.jobs.iter().zip(&self.ingress_bytes) {
            let of_collective = |collective| {
                let streams =
                    job.streams.iter().filter(move |stream| stream.collective == collective);
                streams.map(|stream| stream.wire_bytes).sum::<f64>()
            };
            let least_bytes = job.begun().map(of_collective).sum::<f64>() * f64::from(job.rounds);
            if *got_bytes < least_bytes * (1.0 - SLACK) {
                let name = &job.name;
                let what = format!("job {name}: the root got {got_bytes} bytes of {least_bytes}");
                return Err(SimulationError::Invariant(what));
            }
        }
        Ok(())
    }

    pub(super) fn report(&self, sink: &mut Sink) -> Result<(), SimulationError> {
        for (index, link) in self.scenario.links.iter().enumerate() {
            let ends = [(link.source, link.target), (link.target, link.source)];
            for (direction, (source, target)) in (2 * index..).zip(ends) {
                tell(
                    sink,
                    &Record::Link {
                        link: link.id.clone(),
                        source: self.scenario.sites[source].name.clone(),
                        target: self.scenario.sites[target].name.clone(),
                        rate_bps: self.network.links.rate_bps(direction as u32),
                        wire_bytes: self.carried_bytes[direction],
                        dropped_bytes: 0,
                        lost_bytes: 0,
                        marked_packets: 0,
                        queue_bytes_max: 0,
                    },
                )?;
            }
        }
        if let Some(timeline) = &self.timeline {
            timeline.tell(self.scenario, sink)?;
        }
        tell(
            sink,
            &Record::End {
                at_s: seconds(self.rounds.last_end_ps()),
                events: self.events,
                packet_hops: 0,
                trace: format!("{:016x}", self.trace.hash()),
                checked_values: 0,
            },
        )
    }
}
