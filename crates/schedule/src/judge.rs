//! The rules of a timetable, for everybody's: ports, light, switches, links, places, bytes, pauses. What keeps them is
//! priced by [`crate::Cost`].

use std::collections::BTreeMap;

use crate::instance::{Darkens, Instance};
use crate::problem::{BITS, Problem};
use crate::timetable::{Interval, Rate};
use crate::{Cost, ScheduleError, Summed};

/// Relative slack of amounts, which the sum of many slots' roundings stays below.
pub(crate) const SLACK: f64 = 1e-6;

/// What a transfer has done so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub bytes: f64,
    pub summed: Option<Summed>,
    pub start_s: f64,
    pub end_s: f64,
}

/// Circuits that were set up, and what they carried.
#[derive(Clone, Debug, Default)]
pub(crate) struct Light {
    pub setups: u32,
    pub reconfigurations: u32,
    pub carried_bytes: f64,
    pub lit_bytes: f64,
}

/// Judges a timetable's intervals and prices them.
///
/// # Errors
/// [`ScheduleError::Broken`] names the first rule that is broken, when and by whom.
pub fn judge(instance: &Instance, intervals: &[Interval]) -> Result<Cost, ScheduleError> {
    let problem = Problem::new(instance, true)?;
    let mut judge = Judge::new(&problem);
    intervals.iter().try_for_each(|interval| judge.interval(interval))?;
    judge.ends(intervals.last().map_or(0.0, |last| last.until_s))?;
    Ok(Cost::new(&problem, &judge.progress, &judge.light))
}

struct Judge<'a> {
    problem: &'a Problem<'a>,
    units: BTreeMap<&'a str, usize>,
    transfers: BTreeMap<(u32, Option<[&'a str; 2]>), usize>,
    progress: Vec<Progress>,
    /// For each pair of units, when each of its circuits has light.
    lit_s: BTreeMap<[usize; 2], Vec<f64>>,
    light: Light,
    now_s: f64,
}

impl<'a> Judge<'a> {
    fn new(problem: &'a Problem<'a>) -> Self {
        let units = problem.instance.units.iter().enumerate();
        let transfers = problem.transfers.iter().enumerate().map(|(index, transfer)| {
            let id = problem.instance.jobs[transfer.job].id;
            ((id, problem.ends(transfer)), index)
        });
        let before = problem.pairs.iter().zip(&problem.before);
        Self {
            problem,
            units: units.map(|(index, unit)| (&*unit.name, index)).collect(),
            transfers: transfers.collect(),
            progress: vec![Progress::default(); problem.transfers.len()],
            lit_s: before.map(|(units, count)| (*units, vec![0.0; *count as usize])).collect(),
            light: Light::default(),
            now_s: 0.0,
        }
    }

    fn interval(&mut self, interval: &Interval) -> Result<(), ScheduleError> {
        let Interval { from_s, until_s, .. } = *interval;
        let slot_s = self.problem.instance.slot_s;
        let comes =
            from_s >= self.now_s - SLACK * slot_s && until_s > from_s && until_s.is_finite();
        self.rule(comes, from_s, || "intervals must follow each other".to_owned())?;
        let is_kept = !self.problem.instance.slots || interval.keeps(slot_s);
        self.rule(is_kept, from_s, || {
            format!("intervals must begin and end with slots of {slot_s} s")
        })?;
        let added = self.circuits(interval)?;
        let carried = self.rates(interval)?;
        self.light.reconfigurations += self.orders(interval, added);
        for (units, bytes) in carried {
            let light = self.light_bytes(units, from_s, until_s);
            let names = || units.map(|unit| &*self.problem.instance.units[unit].name).join(" and ");
            self.rule(bytes <= light * (1.0 + SLACK) + SLACK, from_s, || {
                format!("{bytes:.0} bytes between {} and light for {light:.0}", names())
            })?;
            self.light.carried_bytes += bytes;
        }
        let lit: Vec<[usize; 2]> = self.lit_s.keys().copied().collect();
        let lit = lit.into_iter().map(|units| self.light_bytes(units, from_s, until_s));
        self.light.lit_bytes += lit.sum::<f64>();
        self.now_s = until_s;
        Ok(())
    }

    /// Ports, and when every circuit has light; returns how many are new.
    fn circuits(
        &mut self,
        interval: &Interval,
    ) -> Result<BTreeMap<[usize; 2], usize>, ScheduleError> {
        let at_s = interval.from_s;
        let mut wanted = BTreeMap::new();
        let mut ports = vec![0u32; self.problem.units()];
        for circuits in &interval.circuits {
            let [a, b] = &circuits.between;
            let units = [self.unit(a, at_s)?, self.unit(b, at_s)?];
            self.rule(units[0] != units[1], at_s, || format!("a circuit joins {a} to itself"))?;
            for unit in units {
                ports[unit] = ports[unit].saturating_add(circuits.circuits);
                let has = self.problem.ports(unit);
                self.rule(ports[unit] <= has, at_s, || {
                    let name = &self.problem.instance.units[unit].name;
                    format!("{name} has {has} ports and {} circuits", ports[unit])
                })?;
            }
            let pair = [units[0].min(units[1]), units[0].max(units[1])];
            let is_first = wanted.insert(pair, circuits.circuits as usize).is_none();
            self.rule(is_first, at_s, || format!("{a} and {b} are listed twice"))?;
        }
        let light_s = at_s + self.problem.instance.dark_s;
        let mut added = BTreeMap::new();
        self.lit_s.retain(|pair, _| wanted.contains_key(pair));
        for (pair, count) in wanted {
            let lit = self.lit_s.entry(pair).or_default();
            if count > lit.len() {
                added.insert(pair, count - lit.len());
                self.light.setups += (count - lit.len()) as u32;
            }
            lit.resize(count, light_s);
        }
        self.darken(&added, light_s);
        Ok(added)
    }

    fn darken(&mut self, added: &BTreeMap<[usize; 2], usize>, light_s: f64) {
        let darkens = self.problem.instance.darkens;
        if darkens == Darkens::Added || added.is_empty() {
            return;
        }
        for (pair, lit) in &mut self.lit_s {
            let touches = added.keys().any(|new| new.iter().any(|unit| pair.contains(unit)));
            if darkens == Darkens::All || touches {
                lit.iter_mut().for_each(|lit_s| *lit_s = light_s);
            }
        }
    }

    fn light_bytes(&self, units: [usize; 2], from_s: f64, until_s: f64) -> f64 {
        let lit = self.lit_s.get(&units).into_iter().flatten();
        let seconds = lit.map(|lit_s| (until_s - lit_s.max(from_s)).max(0.0));
        seconds.fold(0.0, |sum, seconds| sum + seconds) * self.problem.instance.port_bps / BITS
    }

    /// Links, switches, places and progress; returns the bytes on each pair, of the busier direction.
    fn rates(&mut self, interval: &Interval) -> Result<BTreeMap<[usize; 2], f64>, ScheduleError> {
        let seconds = interval.until_s - interval.from_s;
        let slots = seconds / self.problem.instance.slot_s;
        let mut pools = vec![0.0; self.problem.pools.len()];
        let mut places = vec![0u32; self.problem.units()];
        let mut loads: BTreeMap<[usize; 2], [f64; 2]> = BTreeMap::new();
        for rate in &interval.rates {
            let index = self.transfer(rate, interval.from_s)?;
            let bytes = rate.rate_bps * seconds / BITS;
            self.progress(index, rate, bytes, interval)?;
            let mode = self.problem.transfers[index].mode(rate.by);
            self.rule(bytes <= mode.most * slots * (1.0 + SLACK), interval.from_s, || {
                format!("job {} sends faster than its own links", rate.job)
            })?;
            mode.pools.iter().for_each(|(pool, times)| pools[*pool] += bytes * times);
            mode.places.iter().for_each(|unit| places[*unit] += 1);
            for crossing in &mode.crossings {
                let load = loads.entry(self.problem.pairs[crossing.pair]).or_default();
                crossing.lanes().for_each(|lane| load[lane] += bytes * crossing.times);
            }
        }
        for (pool, bytes) in pools.iter().enumerate() {
            let most = self.problem.pools[pool] * slots;
            self.rule(*bytes <= most * (1.0 + SLACK), interval.from_s, || {
                let owner = self.problem.owner(pool);
                format!("{owner} passes {bytes:.0} bytes, and can pass {most:.0}")
            })?;
        }
        for (taken, unit) in places.iter().zip(&self.problem.instance.units) {
            self.rule(*taken <= unit.places, interval.from_s, || {
                format!("{} has {} places and sums {taken} jobs", unit.name, unit.places)
            })?;
        }
        Ok(loads.into_iter().map(|(units, [up, down])| (units, up.max(down))).collect())
    }

    fn progress(
        &mut self,
        index: usize,
        rate: &Rate,
        bytes: f64,
        interval: &Interval,
    ) -> Result<(), ScheduleError> {
        let Interval { from_s, until_s, .. } = *interval;
        let slack_s = SLACK * self.problem.instance.slot_s;
        let transfer = &self.problem.transfers[index];
        let job = &self.problem.instance.jobs[transfer.job];
        let done = &self.progress[index];
        let id = rate.job;
        self.rule(bytes > 0.0, from_s, || format!("job {id} is listed without a rate"))?;
        self.rule(from_s >= job.arrival_s - slack_s, from_s, || {
            format!("job {id} sends before it arrives, at {} s", job.arrival_s)
        })?;
        self.rule(transfer.can_be(rate.by), from_s, || {
            format!(
                "job {id} cannot be summed by a switch: its workers are not in one unit with places, \
                 nor in several with `trees`"
            )
        })?;
        let is_same = done.summed.is_none_or(|summed| summed == rate.by);
        self.rule(is_same, from_s, || format!("job {id} changes who sums it"))?;
        let goes_on = done.summed.is_none() || done.end_s >= from_s - slack_s;
        self.rule(goes_on || !transfer.contiguous, from_s, || format!("job {id} has paused"))?;
        // However short the interval: what ended with the one before has not been in this one.
        let is_new = done.summed.is_none() || done.end_s < until_s;
        self.rule(is_new, from_s, || format!("job {id} has two rates at a time"))?;
        let done = &mut self.progress[index];
        if done.summed.is_none() {
            done.start_s = from_s;
        }
        done.summed = Some(rate.by);
        done.bytes += bytes;
        done.end_s = until_s;
        Ok(())
    }

    /// Orders to the optical switch, if each job that begins or goes on orders the circuits that it lacks.
    fn orders(&self, interval: &Interval, mut added: BTreeMap<[usize; 2], usize>) -> u32 {
        let mut orders = 0;
        for rate in &interval.rates {
            let index = self.transfer(rate, interval.from_s).expect("a rate that was judged");
            let crossings = &self.problem.transfers[index].mode(rate.by).crossings;
            let pairs = crossings.iter().map(|crossing| self.problem.pairs[crossing.pair]);
            let ordered = pairs.filter(|pair| added.remove(pair).is_some()).count();
            orders += u32::from(ordered > 0);
        }
        orders + added.len() as u32
    }

    /// Whether all bytes are sent.
    fn ends(&self, now_s: f64) -> Result<(), ScheduleError> {
        for (transfer, done) in self.problem.transfers.iter().zip(&self.progress) {
            let is_all = (done.bytes - transfer.bytes).abs() <= SLACK * transfer.bytes;
            self.rule(is_all, now_s, || {
                let id = self.problem.instance.jobs[transfer.job].id;
                format!("job {id} has sent {:.0} of {:.0} bytes", done.bytes, transfer.bytes)
            })?;
        }
        Ok(())
    }

    fn transfer(&self, rate: &Rate, at_s: f64) -> Result<usize, ScheduleError> {
        let flow = rate.flow.as_ref().map(|names| names.each_ref().map(|name| &**name));
        let key = (rate.job, flow);
        self.transfers.get(&key).copied().ok_or_else(|| ScheduleError::Broken {
            at_s,
            problem: format!("the instance has no job {} with the flow {flow:?}", rate.job),
        })
    }

    fn unit(&self, name: &str, at_s: f64) -> Result<usize, ScheduleError> {
        let problem = || format!("the instance has no unit {name}");
        let found = self.units.get(name).copied();
        found.ok_or_else(|| ScheduleError::Broken { at_s, problem: problem() })
    }

    fn rule(
        &self,
        holds: bool,
        at_s: f64,
        problem: impl FnOnce() -> String,
    ) -> Result<(), ScheduleError> {
        if holds { Ok(()) } else { Err(ScheduleError::Broken { at_s, problem: problem() }) }
    }
}
