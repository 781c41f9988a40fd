//! What is checked, and what a run says.

use wiresum_schedule::Summed;

use super::pace::Pace;
use super::world::World;
use crate::record::tell;
use crate::{Record, SimulationError, Sink};

/// Relative excess that rounding explains.
const SLACK: f64 = 1e-6;

impl World<'_> {
    /// Jobs that are complete, but for updates.
    pub fn ended(&self) -> u64 {
        let mut open = vec![false; self.circuits.instance.jobs.len()];
        for (transfer, left) in self.problem.transfers.iter().zip(&self.left) {
            open[transfer.job] |= *left > 0.0;
        }
        open.iter().filter(|is_open| !**is_open).count() as u64
    }

    /// Nothing crosses a dark circuit, and no switch passes or sums more than it can, at the moment.
    ///
    /// # Errors
    /// [`SimulationError::Invariant`].
    pub fn check_paces(&self, paces: &[Pace]) -> Result<(), SimulationError> {
        let mut lanes = vec![0.0; self.carried.len()];
        let mut pools = vec![0.0; self.problem.pools.len()];
        let mut places = vec![0; self.problem.units()];
        for (due, pace) in self.dues.iter().zip(paces) {
            let mode = self.problem.transfers[due.transfer].mode(due.summed);
            for crossing in &mode.crossings {
                for lane in self.problem.lanes_of(crossing) {
                    lanes[lane] += pace.total() * crossing.times;
                }
            }
            mode.pools.iter().for_each(|(pool, times)| pools[*pool] += pace.total() * times);
            if pace.total() > 0.0 {
                mode.places.iter().for_each(|unit| places[*unit] += 1);
            }
        }
        for (lane, rate) in lanes.iter().enumerate() {
            let pair = lane / self.problem.lanes;
            let light = f64::from(self.light.lit(pair)) * self.light.circuit_rate();
            self.require(*rate <= light * (1.0 + SLACK), || {
                format!("{rate} bytes/s cross {}, whose circuits carry {light}", self.between(pair))
            })?;
        }
        for (pool, rate) in pools.iter().enumerate() {
            let most = self.problem.pools[pool] / self.problem.instance.slot_s;
            self.require(*rate <= most * (1.0 + SLACK), || {
                format!("{} passes too much", self.problem.owner(pool))
            })?;
        }
        let units = self.problem.instance.units.iter();
        units.zip(places).try_for_each(|(unit, taken)| {
            self.require(taken <= unit.places, || format!("{} sums {taken} jobs", unit.name))
        })
    }

    /// Circuits carried no more than their light.
    ///
    /// # Errors
    /// [`SimulationError::Invariant`].
    pub fn check(&self) -> Result<(), SimulationError> {
        self.carried.iter().enumerate().try_for_each(|(lane, bytes)| {
            let pair = lane / self.problem.lanes;
            let light = self.light.bytes[pair];
            self.require(*bytes <= light * (1.0 + SLACK) + SLACK, || {
                format!(
                    "{bytes} bytes crossed {}, and there was light for {light}",
                    self.between(pair)
                )
            })
        })
    }

    fn require(&self, holds: bool, what: impl FnOnce() -> String) -> Result<(), SimulationError> {
        let told = || SimulationError::Invariant(format!("at {} s {}", self.now_s, what()));
        if holds { Ok(()) } else { Err(told()) }
    }

    fn between(&self, pair: usize) -> String {
        self.problem.pairs[pair].map(|unit| &*self.problem.instance.units[unit].name).join("-")
    }

    pub fn stuck(&self) -> SimulationError {
        let transfers = self.problem.transfers.iter().zip(&self.left);
        let waits = transfers.filter(|(_, left)| **left > 0.0).map(|(transfer, left)| {
            format!(
                "job {} has {left:.0} of {:.0} bytes to send, and nothing carries them any more",
                self.circuits.names[transfer.job], transfer.bytes
            )
        });
        SimulationError::Stuck { at_s: self.now_s, waits: waits.collect() }
    }

    /// Times of jobs, bytes and light of pairs, what was set up.
    pub fn report(&self, sink: &mut Sink) -> Result<(), SimulationError> {
        let completion_s = self.tell_jobs(sink)?;
        self.tell_pairs(sink)?;
        let summed = |wanted: Summed| {
            let all = self.problem.transfers.iter().zip(&self.done);
            let of_stars = all.filter(|(transfer, _)| self.problem.ends(transfer).is_none());
            of_stars.filter(|(_, done)| done.summed == wanted).count() as u64
        };
        for (name, count) in [
            ("setups", self.light.setups),
            ("orders", self.light.orders),
            ("late_bytes", self.late_bytes.round() as u64),
            ("jobs_by_switch", summed(Summed::BySwitch)),
            ("jobs_by_server", summed(Summed::ByServer)),
        ] {
            let site = self.circuits.switch.clone();
            let counter =
                Record::Counter { site, job: String::new(), name: name.to_owned(), count };
            tell(sink, &counter)?;
        }
        tell(
            sink,
            &Record::End {
                at_s: completion_s,
                events: self.events,
                packet_hops: 0,
                trace: format!("{:016x}", self.trace.hash()),
                checked_values: 0,
            },
        )
    }

    /// A collective for each job, from its arrival to its end; returns when the last one ends.
    fn tell_jobs(&self, sink: &mut Sink) -> Result<f64, SimulationError> {
        let mut times = vec![(f64::INFINITY, 0.0f64); self.circuits.names.len()];
        for (transfer, done) in self.problem.transfers.iter().zip(&self.done) {
            let end_s = done.end_s.unwrap_or(self.now_s) + transfer.mode(done.summed).update_s;
            let (start_s, last_s) = &mut times[transfer.job];
            *start_s = start_s.min(done.start_s.unwrap_or(end_s));
            *last_s = last_s.max(end_s);
        }
        let mut order: Vec<usize> = (0..times.len()).collect();
        order.sort_by(|a, b| times[*a].1.total_cmp(&times[*b].1).then(a.cmp(b)));
        for index in order {
            let (job, arrival_s) =
                (&self.circuits.names[index], self.circuits.instance.jobs[index].arrival_s);
            let (start_s, end_s) = times[index];
            tell(
                sink,
                &Record::Worker {
                    job: job.clone(),
                    rank: 0,
                    round: 0,
                    compute_s: arrival_s,
                    begin_s: start_s,
                    end_s,
                },
            )?;
            tell(
                sink,
                &Record::Round {
                    job: job.clone(),
                    round: 0,
                    begin_s: arrival_s,
                    last_begin_s: start_s,
                    end_s,
                },
            )?;
        }
        Ok(times.iter().map(|(_, end_s)| *end_s).fold(0.0, f64::max))
    }

    /// What crossed each pair's circuits; their rate is the mean over the run, with darkness.
    fn tell_pairs(&self, sink: &mut Sink) -> Result<(), SimulationError> {
        for (lane, bytes) in self.carried.iter().enumerate() {
            let (pair, is_back) = (lane / self.problem.lanes, lane % self.problem.lanes == 1);
            let mut units = self.problem.pairs[pair];
            if is_back {
                units.reverse();
            }
            let [source, target] = units.map(|unit| self.problem.instance.units[unit].name.clone());
            tell(
                sink,
                &Record::Link {
                    link: self.between(pair),
                    source,
                    target,
                    rate_bps: Some(8.0 * self.light.bytes[pair] / self.now_s),
                    wire_bytes: *bytes,
                    dropped_bytes: 0,
                    lost_bytes: 0,
                    marked_packets: 0,
                    queue_bytes_max: 0,
                },
            )?;
        }
        Ok(())
    }
}
