//! What a picture over time needs, in bounded memory: however long a run is, it has at most so many slices, and they grow with it.

use crate::network::seconds;
use crate::record::tell;
use crate::{Record, Scenario, SimulationError, Sink};

/// Slices at most; when they are full, two become one. A picture is hardly wider.
const MOST_SLICES: usize = 256;
/// Width of the first slices: shorter than anything that a picture shows.
const FIRST_WIDTH_PS: u64 = 1_000_000;
/// Directions whose slices are told, the busiest ones: a picture has no room for more.
const MOST_TOLD: usize = 64;

/// Bytes that each direction sent, by slice of time.
pub(crate) struct Loads {
    width_ps: u64,
    /// By direction; empty until something is sent.
    slices: Vec<Vec<f64>>,
}

impl Loads {
    /// The timeline of so many directions.
    pub fn new(directions: usize) -> Self {
        Self { width_ps: FIRST_WIDTH_PS, slices: vec![Vec::new(); directions] }
    }

    /// Bytes that a direction sends evenly from one time to another.
    pub fn note(&mut self, direction: u32, from_ps: u64, until_ps: u64, bytes: f64) {
        while until_ps / self.width_ps >= MOST_SLICES as u64 {
            self.merge();
        }
        let (first, last) = (from_ps / self.width_ps, until_ps / self.width_ps);
        let Some(slices) = self.slices.get_mut(direction as usize) else { return };
        if slices.len() <= last as usize {
            slices.resize(last as usize + 1, 0.0);
        }
        let span_ps = (until_ps - from_ps) as f64;
        for slice in first..=last {
            let (begin, end) = (slice * self.width_ps, (slice + 1) * self.width_ps);
            let inside_ps = (end.min(until_ps) - begin.max(from_ps)) as f64;
            let part = if span_ps > 0.0 { inside_ps / span_ps } else { 1.0 };
            slices[slice as usize] += part * bytes;
        }
    }

    /// Makes slices twice as wide.
    fn merge(&mut self) {
        self.width_ps *= 2;
        for slices in &mut self.slices {
            *slices = slices.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
    }

    /// Tells the busiest directions of the scenario's links.
    pub fn tell(&self, scenario: &Scenario, sink: &mut Sink) -> Result<(), SimulationError> {
        let mut busiest: Vec<usize> = (0..2 * scenario.links.len())
            .filter(|direction| !self.slices[*direction].is_empty())
            .collect();
        let busy_s = |direction: &usize| {
            let link = &scenario.links[direction / 2];
            let given = if direction.is_multiple_of(2) { link.forward } else { link.backward };
            self.slices[*direction].iter().sum::<f64>() / given.rate_bps.unwrap_or(f64::INFINITY)
        };
        busiest.sort_by(|a, b| busy_s(b).total_cmp(&busy_s(a)));
        busiest.truncate(MOST_TOLD);
        busiest.into_iter().try_for_each(|direction| self.tell_one(scenario, direction, sink))
    }

    fn tell_one(
        &self,
        scenario: &Scenario,
        direction: usize,
        sink: &mut Sink,
    ) -> Result<(), SimulationError> {
        let link = &scenario.links[direction / 2];
        let (source, target) = if direction.is_multiple_of(2) {
            (link.source, link.target)
        } else {
            (link.target, link.source)
        };
        for (slice, &bytes) in (0u64..).zip(&self.slices[direction]).filter(|(_, b)| **b > 0.0) {
            let record = Record::Slice {
                link: link.id.clone(),
                source: scenario.sites[source].name.clone(),
                target: scenario.sites[target].name.clone(),
                at_s: seconds(slice * self.width_ps),
                until_s: seconds((slice + 1) * self.width_ps),
                wire_bytes: bytes,
            };
            tell(sink, &record)?;
        }
        Ok(())
    }
}

/// How many fragments each switch held, sampled now and then.
pub(crate) struct Samples {
    every_ps: u64,
    next_ps: u64,
    /// A time, and a number for each site that is sampled.
    taken: Vec<(u64, Vec<u32>)>,
}

impl Default for Samples {
    fn default() -> Self {
        Self { every_ps: FIRST_WIDTH_PS, next_ps: 0, taken: Vec::new() }
    }
}

impl Samples {
    /// Whether the next sample is due.
    #[inline]
    pub fn is_due(&self, now_ps: u64) -> bool {
        now_ps >= self.next_ps
    }

    /// Takes one.
    pub fn take(&mut self, now_ps: u64, held: Vec<u32>) {
        self.taken.push((now_ps, held));
        if self.taken.len() > MOST_SLICES {
            let mut ordinal = 0;
            self.taken.retain(|_| {
                ordinal += 1;
                ordinal % 2 == 1
            });
            self.every_ps *= 2;
        }
        // A run that is longer than its first slices widens them at once, not sample by sample.
        self.every_ps = self.every_ps.max(now_ps / MOST_SLICES as u64);
        self.next_ps = now_ps + self.every_ps;
    }

    /// Tells all of them; `sites` has their sites, in the order of the numbers.
    pub fn tell(
        &self,
        scenario: &Scenario,
        sites: &[usize],
        sink: &mut Sink,
    ) -> Result<(), SimulationError> {
        for (at_ps, held) in &self.taken {
            for (&site, &held) in sites.iter().zip(held) {
                let name = scenario.sites[site].name.clone();
                tell(sink, &Record::Slots { site: name, at_s: seconds(*at_ps), held })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_byte_is_lost_however_far_slices_grow() {
        let mut loads = Loads::new(1);
        let mut sent = 0.0;
        for step in 0..2000u64 {
            let from_ps = step * step * 1_000;
            loads.note(0, from_ps, from_ps + step * 997, 10.0);
            sent += 10.0;
        }
        assert!(loads.slices[0].len() <= MOST_SLICES && loads.slices[0].len() > MOST_SLICES / 4);
        let kept: f64 = loads.slices[0].iter().sum();
        assert!((kept - sent).abs() < 1e-6, "{kept} of {sent} bytes");
    }

    #[test]
    fn bytes_are_where_they_were_sent() {
        let mut loads = Loads::new(2);
        loads.note(1, FIRST_WIDTH_PS / 2, 2 * FIRST_WIDTH_PS, 3.0);
        assert!(loads.slices[0].is_empty());
        assert_eq!(loads.slices[1], [1.0, 2.0, 0.0]);
    }

    #[test]
    fn samples_stay_few() {
        let mut samples = Samples::default();
        for now_ps in (0..10_000_000_000).step_by(1_000_000) {
            if samples.is_due(now_ps) {
                samples.take(now_ps, vec![1]);
            }
        }
        assert!(samples.taken.len() <= MOST_SLICES && samples.taken.len() > MOST_SLICES / 8);
        assert!(samples.taken.is_sorted_by_key(|(at_ps, _)| *at_ps));
    }
}
