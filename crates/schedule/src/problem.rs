//! An instance in numbers: resources by index, and for each transfer what a byte of it takes from them.
//!
//! A *transfer* is what has a rate of its own: a synchronous job, all of whose workers send at one rate, or a flow of a
//! coflow. Its amount is in bytes of one worker, or of the flow.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;

use crate::instance::{Before, Darkens, Instance, Star, Traffic};
use crate::{ScheduleError, Summed};

/// Relative slack of every comparison of amounts.
pub const EPSILON: f64 = 1e-9;
/// Relative error that sums and differences of a slot's amounts stay below.
pub(crate) const NOISE: f64 = 1e-12;
/// Bits of a byte.
pub(crate) const BITS: f64 = 8.0;

/// What a transfer takes if it is summed in one way.
#[derive(Clone, Debug, Serialize)]
pub struct Mode {
    /// Most bytes in a slot, from its own links.
    pub most: f64,
    /// Circuits: pairs and their lanes, and bytes on these for each byte of the transfer. At most one for each lane.
    pub crossings: Vec<Crossing>,
    /// Switches: index of the pool, bytes through it for each byte of the transfer.
    pub pools: Vec<(usize, f64)>,
    /// The units that have to give a place each.
    pub places: Vec<usize>,
    /// From the last byte to the end of the job, in seconds.
    pub update_s: f64,
}

/// A transfer's part on one pair of units.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Crossing {
    /// Index of the pair.
    pub pair: usize,
    /// Direction in which it sends, or 0 where both share.
    pub lane: usize,
    /// Whether results come back in the other direction, as much as was sent.
    pub is_answered: bool,
    /// Bytes on each of its lanes for each byte of the transfer.
    pub times: f64,
}

impl Crossing {
    /// Every lane that it takes.
    #[must_use]
    pub fn lanes(&self) -> Range<usize> {
        if self.is_answered { 0..2 } else { self.lane..self.lane + 1 }
    }

    /// Whether both take the same lanes.
    fn meets(&self, other: &Self) -> bool {
        self.pair == other.pair && (self.is_answered || self.lane == other.lane)
    }
}

/// What has a rate of its own.
#[derive(Clone, Debug, Serialize)]
pub struct Transfer {
    /// Index of its job.
    pub job: usize,
    /// Index of the flow within a coflow; 0 for a synchronous job.
    pub flow: usize,
    /// Amount, in bytes.
    pub bytes: f64,
    /// The first slot in which it may send.
    pub release: usize,
    /// Whether it must not pause.
    pub contiguous: bool,
    /// By a server, and by switches where that is possible.
    pub modes: [Option<Mode>; 2],
}

impl Transfer {
    /// How it is carried when summed like that.
    ///
    /// # Panics
    /// It cannot be.
    #[must_use]
    pub fn mode(&self, summed: Summed) -> &Mode {
        self.modes[summed as usize].as_ref().expect("a mode of this transfer")
    }

    /// The ways in which it can be summed.
    pub fn ways(&self) -> impl DoubleEndedIterator<Item = Summed> + '_ {
        Summed::ALL.into_iter().filter(|summed| self.can_be(*summed))
    }

    /// The shortest update after its last byte, in seconds, whoever sums it.
    #[must_use]
    pub fn least_update_s(&self) -> f64 {
        self.modes.iter().flatten().map(|mode| mode.update_s).fold(f64::INFINITY, f64::min)
    }

    /// Whether it can be summed like that.
    #[must_use]
    pub fn can_be(&self, summed: Summed) -> bool {
        self.modes[summed as usize].is_some()
    }

    /// Whether switches of several units may sum it together.
    #[must_use]
    pub fn may_be_tree(&self) -> bool {
        self.modes[Summed::BySwitch as usize].as_ref().is_some_and(|mode| mode.places.len() > 1)
    }

    /// Bytes on a lane of a pair, for each byte of it, however it is summed.
    #[must_use]
    pub fn least_times(&self, crossing: Crossing) -> f64 {
        let Some(tree) =
            self.modes[Summed::BySwitch as usize].as_ref().filter(|_| self.may_be_tree())
        else {
            return crossing.times;
        };
        tree.crossings
            .iter()
            .find(|one| one.meets(&crossing))
            .map_or(0.0, |one| one.times.min(crossing.times))
    }

    /// Bytes through a switch, for each byte of it, however it is summed.
    #[must_use]
    pub fn least_passed(&self, pool: usize) -> f64 {
        let passed = |mode: &Mode| {
            let times = mode.pools.iter().find(|(index, _)| *index == pool);
            times.map_or(0.0, |(_, times)| *times)
        };
        self.modes.iter().flatten().map(passed).fold(f64::INFINITY, f64::min)
    }

    /// Slots that it needs at least.
    #[must_use]
    pub fn least_slots(&self, summed: Summed) -> usize {
        whole(self.bytes / self.mode(summed).most) as usize
    }
}

/// An instance in numbers. Serialises for solvers that do not speak Rust.
#[derive(Clone, Debug, Serialize)]
pub struct Problem<'a> {
    /// Where it comes from.
    #[serde(skip)]
    pub instance: &'a Instance,
    /// The two units of each pair, ascending; only pairs that a transfer crosses or that are lit before.
    pub pairs: Vec<[usize; 2]>,
    /// Circuits of each pair before the first slot.
    pub before: Vec<u32>,
    /// Bytes that each pool passes in a slot: a unit's switch has one for each lane; after these, one for the link of
    /// each server that several jobs name.
    pub pools: Vec<f64>,
    /// The unit and the name of each such server.
    #[serde(skip)]
    pub servers: Vec<(usize, &'a str)>,
    /// Lanes of a pair, and of a switch: 2 where directions are apart.
    pub lanes: usize,
    /// In the order of jobs.
    pub transfers: Vec<Transfer>,
    /// Bytes that a circuit carries in a slot if it was lit before.
    pub lit_bytes: f64,
    /// Bytes that a circuit loses when it is new.
    pub dark_bytes: f64,
}

impl<'a> Problem<'a> {
    /// Numbers an instance that is valid.
    ///
    /// # Errors
    /// A job that no schedule can serve, with the remedy.
    pub fn new(instance: &'a Instance, sums: bool) -> Result<Self, ScheduleError> {
        let names: BTreeMap<&str, usize> =
            instance.units.iter().enumerate().map(|(index, unit)| (&*unit.name, index)).collect();
        let slot_bytes = |bps: f64| bps / BITS * instance.slot_s;
        let pools = if instance.paper {
            instance.units.iter().map(|unit| slot_bytes(unit.switch_bps)).collect()
        } else {
            instance.units.iter().flat_map(|u| [slot_bytes(u.switch_bps) / 2.0; 2]).collect()
        };
        let mut problem = Self {
            instance,
            pairs: Vec::new(),
            before: Vec::new(),
            pools,
            servers: Vec::new(),
            lanes: if instance.paper { 1 } else { 2 },
            transfers: Vec::new(),
            lit_bytes: slot_bytes(instance.port_bps),
            dark_bytes: instance.port_bps / BITS * instance.dark_s,
        };
        problem.share_servers(&names);
        let mut pairs = BTreeMap::new();
        for (units, circuits) in problem.lit_before(&names) {
            let pair = problem.pair(&mut pairs, units);
            problem.before[pair] += circuits;
        }
        for (index, job) in instance.jobs.iter().enumerate() {
            let release = whole(job.arrival_s / instance.slot_s) as usize;
            let transfer = Transfer {
                job: index,
                flow: 0,
                bytes: 0.0,
                release,
                contiguous: false,
                modes: [None, None],
            };
            match &job.traffic {
                Traffic::Star(star) => {
                    let modes = problem.star(star, &names, &mut pairs, sums);
                    let contiguous = instance.contiguous;
                    let transfer = Transfer { bytes: star.bytes, contiguous, modes, ..transfer };
                    problem.transfers.push(transfer);
                }
                Traffic::Flows(flows) => {
                    for (number, flow) in flows.iter().enumerate() {
                        let (from, to) = (names[&*flow.from], names[&*flow.to]);
                        let via = flow.via.as_ref().map(|relay| names[&**relay]);
                        let modes = [Some(problem.flow(&mut pairs, [from, to], via)), None];
                        let bytes = flow.bytes;
                        let transfer = Transfer { flow: number, bytes, modes, ..transfer.clone() };
                        problem.transfers.push(transfer);
                    }
                }
            }
        }
        problem.transfers.iter().try_for_each(|transfer| problem.check(transfer))?;
        Ok(problem)
    }

    /// Numbers of the lanes that a transfer takes of a pair, among those of all pairs.
    #[must_use]
    pub fn lanes_of(&self, crossing: &Crossing) -> Range<usize> {
        let first = crossing.pair * self.lanes;
        let Range { start, end } = crossing.lanes();
        first + start..first + end
    }

    /// Number of units.
    #[must_use]
    pub fn units(&self) -> usize {
        self.instance.units.len()
    }

    /// The unit whose switch, or one of whose servers, has a pool.
    #[must_use]
    pub fn unit_of_pool(&self, pool: usize) -> usize {
        match pool.checked_sub(self.units() * self.lanes) {
            Some(server) => self.servers[server].0,
            None => pool / self.lanes,
        }
    }

    /// Whether a pool is a switch's; others are links of servers.
    #[must_use]
    pub fn is_switch(&self, pool: usize) -> bool {
        pool < self.units() * self.lanes
    }

    /// Bytes through switches, for each byte of a transfer that is carried so.
    #[must_use]
    pub fn passed(&self, mode: &Mode) -> f64 {
        let switches = mode.pools.iter().filter(|(pool, _)| self.is_switch(*pool));
        switches.map(|(_, times)| times).sum()
    }

    /// What has a pool, in words.
    #[must_use]
    pub fn owner(&self, pool: usize) -> String {
        match pool.checked_sub(self.units() * self.lanes) {
            Some(server) => format!("the link of server {}", self.servers[server].1),
            None => format!("the switch of {}", self.instance.units[pool / self.lanes].name),
        }
    }

    /// The two units of a transfer that is a flow; None for a synchronous job.
    #[must_use]
    pub fn ends(&self, transfer: &Transfer) -> Option<[&'a str; 2]> {
        match &self.instance.jobs[transfer.job].traffic {
            Traffic::Star(_) => None,
            Traffic::Flows(flows) => Some([&*flows[transfer.flow].from, &*flows[transfer.flow].to]),
        }
    }

    /// Ports of a unit.
    #[must_use]
    pub fn ports(&self, unit: usize) -> u32 {
        self.instance.units[unit].ports
    }

    /// Bytes that circuits carry in a slot, where so many were lit in the slot before. What a change darkens beyond the
    /// new circuits is taken to be dark in every slot.
    #[must_use]
    pub fn carried(&self, circuits: u32, lit: u32) -> f64 {
        let dark = match self.instance.darkens {
            Darkens::Added => circuits.saturating_sub(lit),
            Darkens::Units | Darkens::All => circuits,
        };
        f64::from(circuits) * self.lit_bytes - f64::from(dark) * self.dark_bytes
    }

    /// The least number of circuits that carry so much, where so many were lit in the slot before.
    #[must_use]
    pub fn needed(&self, bytes: f64, lit: u32) -> u32 {
        let kept = if self.instance.darkens == Darkens::Added { lit } else { 0 };
        // The slack is a part of all the bytes: a part of those on new circuits alone may be below their rounding.
        let rest = bytes - f64::from(kept) * self.lit_bytes - EPSILON * bytes.max(self.lit_bytes);
        if rest <= 0.0 {
            return (whole(bytes / self.lit_bytes) as u32).max(u32::from(bytes > 0.0));
        }
        kept + (rest / (self.lit_bytes - self.dark_bytes)).ceil() as u32
    }

    /// Bytes of some transfers on the ports of each unit, where servers sum them.
    #[must_use]
    pub fn port_loads(&self, transfers: &[usize], bytes: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut loads = vec![0.0; self.units()];
        for index in transfers {
            for crossing in &self.transfers[*index].mode(Summed::ByServer).crossings {
                for unit in self.pairs[crossing.pair] {
                    loads[unit] += bytes(*index) * crossing.times;
                }
            }
        }
        loads
    }

    /// Slots that some transfers need if they are alone and servers sum them: on their ports, and by their own links.
    #[must_use]
    pub fn slots_alone(&self, transfers: &[usize], bytes: impl Fn(usize) -> f64) -> f64 {
        let loads = self.port_loads(transfers, &bytes).into_iter().enumerate();
        let ports =
            loads.map(|(unit, load)| load / (f64::from(self.ports(unit).max(1)) * self.lit_bytes));
        let links = transfers.iter().map(|index| {
            bytes(*index) / self.transfers[*index].mode(Summed::ByServer).most.max(EPSILON)
        });
        ports.chain(links).fold(0.0, f64::max)
    }

    /// A pool for the link of each server that several jobs name.
    fn share_servers(&mut self, names: &BTreeMap<&str, usize>) {
        if self.instance.paper {
            return;
        }
        let stars = self.instance.jobs.iter().filter_map(|job| match &job.traffic {
            Traffic::Star(star) => Some((&**star.server_host.as_ref()?, names[&*star.server])),
            Traffic::Flows(_) => None,
        });
        let mut jobs: BTreeMap<&'a str, (usize, u32)> = BTreeMap::new();
        for (server, unit) in stars {
            jobs.entry(server).or_insert((unit, 0)).1 += 1;
        }
        let bps = self.instance.server_bps.unwrap_or(self.instance.host_bps);
        for (server, (unit, _)) in jobs.into_iter().filter(|(_, (_, count))| *count > 1) {
            self.servers.push((unit, server));
            self.pools.push(bps / BITS * self.instance.slot_s);
        }
    }

    fn pair(&mut self, pairs: &mut BTreeMap<[usize; 2], usize>, [a, b]: [usize; 2]) -> usize {
        let units = [a.min(b), a.max(b)];
        *pairs.entry(units).or_insert_with(|| {
            self.pairs.push(units);
            self.before.push(0);
            self.pairs.len() - 1
        })
    }

    /// One unit's servers send to another's.
    fn crossing(
        &mut self,
        pairs: &mut BTreeMap<[usize; 2], usize>,
        from: usize,
        to: usize,
        times: f64,
    ) -> Crossing {
        let pair = self.pair(pairs, [from, to]);
        Crossing { pair, lane: usize::from(from > to) % self.lanes, is_answered: false, times }
    }

    /// Sums come back the way that gradients went, where directions are apart.
    fn answered(&self, crossing: Crossing) -> Crossing {
        Crossing { is_answered: self.lanes > 1, ..crossing }
    }

    /// What one unit's servers send to another's, over one circuit or by a relay over two; nothing within a unit. A
    /// relay's own servers have nothing of it.
    fn way(
        &mut self,
        pairs: &mut BTreeMap<[usize; 2], usize>,
        [from, to]: [usize; 2],
        via: Option<usize>,
        times: f64,
    ) -> Vec<Crossing> {
        let stations: Vec<usize> = [Some(from), via, Some(to)].into_iter().flatten().collect();
        let legs = stations.windows(2).filter(|leg| leg[0] != leg[1]);
        legs.map(|leg| self.crossing(pairs, leg[0], leg[1], times)).collect()
    }

    /// Loads on pools: what hosts of units send up, and what they receive.
    fn pool_loads(&self, up: &[(usize, f64)], down: &[(usize, f64)]) -> Vec<(usize, f64)> {
        let mut loads = BTreeMap::new();
        for (lane, ends) in [(0, up), (self.lanes - 1, down)] {
            for (unit, times) in ends {
                *loads.entry(unit * self.lanes + lane).or_insert(0.0) += times;
            }
        }
        loads.into_iter().collect()
    }

    /// As [`Self::pool_loads`] of gradients; where directions are apart, sums go back to where gradients came from.
    fn answered_loads(&self, up: &[(usize, f64)], down: &[(usize, f64)]) -> Vec<(usize, f64)> {
        if self.lanes == 1 {
            return self.pool_loads(up, down);
        }
        let all = [up, down].concat();
        self.pool_loads(&all, &all)
    }

    fn star(
        &mut self,
        star: &Star,
        names: &BTreeMap<&str, usize>,
        pairs: &mut BTreeMap<[usize; 2], usize>,
        sums: bool,
    ) -> [Option<Mode>; 2] {
        let slot_bytes = |bps: f64| bps / BITS * self.instance.slot_s;
        let server = names[&*star.server];
        let up: Vec<(usize, f64)> =
            star.workers.iter().map(|(name, count)| (names[&**name], f64::from(*count))).collect();
        let workers: f64 = up.iter().map(|(_, count)| count).sum();
        let host = slot_bytes(star.host_bps.unwrap_or(self.instance.host_bps));
        let link = slot_bytes(self.instance.server_bps.unwrap_or(self.instance.host_bps)) / workers;
        let most = if self.instance.paper { host } else { host.min(link) };
        let crossings = star.workers.iter().flat_map(|(name, count)| {
            let via = star.via.get(name).map(|relay| names[&**relay]);
            self.way(pairs, [names[&**name], server], via, f64::from(*count))
        });
        let crossings: Vec<Crossing> = crossings.collect();
        let crossings = together(crossings.into_iter().map(|one| self.answered(one)).collect());
        let mut pools = self.answered_loads(&up, &[(server, workers)]);
        let is_its = |(_, name): &(usize, &str)| star.server_host.as_deref() == Some(*name);
        let shared = self.servers.iter().position(is_its);
        pools.extend(shared.map(|index| (self.units() * self.lanes + index, workers)));
        let by_server =
            Mode { most, crossings, pools, places: Vec::new(), update_s: star.update_s };
        let units: Vec<usize> = up.iter().map(|(unit, _)| *unit).collect();
        let tree = if sums { self.tree(&units, server) } else { None };
        let by_switch = tree.map(|edges| Mode {
            most: host,
            crossings: edges
                .into_iter()
                .map(|[child, parent]| {
                    let crossing = self.crossing(pairs, child, parent, 1.0);
                    self.answered(crossing)
                })
                .collect(),
            pools: self.answered_loads(&up, &[]),
            places: units,
            update_s: 0.0,
        });
        [Some(by_server), by_switch]
    }

    /// How switches sum a job together: each unit but the first sends one gradient to its parent. The server's unit is
    /// the first, or the one with most ports; others join the first that has a port left, those with most ports first.
    /// None if a switch has no place, or the units have too few ports.
    fn tree(&self, units: &[usize], server: usize) -> Option<Vec<[usize; 2]>> {
        let has_places = units.iter().all(|unit| self.instance.units[*unit].places > 0);
        if !has_places || (units.len() > 1 && !self.instance.trees) {
            return None;
        }
        let mut order = units.to_vec();
        order.sort_by_key(|unit| (*unit != server, std::cmp::Reverse(self.ports(*unit)), *unit));
        let mut free: Vec<(usize, u32)> = Vec::new();
        let mut edges = Vec::new();
        for unit in order {
            let ports = self.ports(unit);
            if free.is_empty() {
                free.push((unit, ports));
                continue;
            }
            let (parent, left) = free.iter_mut().find(|(_, left)| *left > 0)?;
            *left -= 1;
            edges.push([unit, *parent]);
            free.push((unit, ports.checked_sub(1)?));
        }
        Some(edges)
    }

    fn flow(
        &mut self,
        pairs: &mut BTreeMap<[usize; 2], usize>,
        [from, to]: [usize; 2],
        via: Option<usize>,
    ) -> Mode {
        let crossings = self.way(pairs, [from, to], via, 1.0);
        let pools = self.pool_loads(&[(from, 1.0)], &[(to, 1.0)]);
        let most = pools.iter().map(|(pool, times)| self.pools[*pool] / times);
        let most = most.fold(f64::INFINITY, f64::min);
        Mode { most, crossings, pools, places: Vec::new(), update_s: 0.0 }
    }

    fn lit_before(&self, names: &BTreeMap<&str, usize>) -> Vec<([usize; 2], u32)> {
        match &self.instance.before {
            Before::None => Vec::new(),
            Before::Given(given) => given
                .iter()
                .map(|circuits| {
                    (circuits.between.each_ref().map(|name| names[&**name]), circuits.circuits)
                })
                .collect(),
            Before::Even => even(&self.instance.units.iter().map(|u| u.ports).collect::<Vec<_>>()),
        }
    }

    /// Refuses a synchronous job whose server's unit has too few ports: its pairs meet there, all at once.
    fn check(&self, transfer: &Transfer) -> Result<(), ScheduleError> {
        if transfer.can_be(Summed::BySwitch) {
            return Ok(());
        }
        let mode = transfer.mode(Summed::ByServer);
        let mut meets = BTreeMap::new();
        for crossing in &mode.crossings {
            for unit in self.pairs[crossing.pair] {
                *meets.entry(unit).or_insert(0u32) += 1;
            }
        }
        let short = meets.iter().find(|(unit, circuits)| self.ports(**unit) < **circuits);
        let Some((unit, circuits)) = short else { return Ok(()) };
        Err(ScheduleError::Infeasible {
            job: self.instance.jobs[transfer.job].id,
            problem: format!(
                "unit {} has {} ports, and the job needs {circuits} circuits there at once: \
                 give it more ports, place the job in fewer units, let switches of all its units sum it (`trees`), or \
                 list it as `flows`",
                self.instance.units[*unit].name,
                self.ports(*unit),
            ),
        })
    }
}

/// Crossings of the same lanes as one, in the order of the first.
fn together(crossings: Vec<Crossing>) -> Vec<Crossing> {
    let mut merged: Vec<Crossing> = Vec::with_capacity(crossings.len());
    for next in crossings {
        match merged.iter_mut().find(|one| one.meets(&next)) {
            Some(one) => one.times += next.times,
            None => merged.push(next),
        }
    }
    merged
}

/// Circuits of each unit to the next ones around a ring, then to those after them, while both ends have ports.
pub(crate) fn even(ports: &[u32]) -> Vec<([usize; 2], u32)> {
    let count = ports.len();
    let mut free = ports.to_vec();
    let mut circuits = BTreeMap::new();
    loop {
        let mut added = false;
        for step in 1..=count / 2 {
            for a in 0..if 2 * step == count { step } else { count } {
                let b = (a + step) % count;
                if free[a] > 0 && free[b] > 0 {
                    free[a] -= 1;
                    free[b] -= 1;
                    *circuits.entry([a.min(b), a.max(b)]).or_insert(0) += 1;
                    added = true;
                }
            }
        }
        if !added {
            return circuits.into_iter().collect();
        }
    }
}

/// The least whole number that is not below, but for rounding.
pub(crate) fn whole(number: f64) -> f64 {
    (number - EPSILON * number.max(1.0)).ceil().max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_circuits_are_uniform_where_ports_suffice_and_a_ring_where_not() {
        let uniform = even(&[3; 4]);
        assert_eq!(uniform.len(), 6);
        assert!(uniform.iter().all(|(_, circuits)| *circuits == 1));
        assert_eq!(even(&[2; 5]), [[0, 1], [0, 4], [1, 2], [2, 3], [3, 4]].map(|p| (p, 1)));
        assert_eq!(even(&[5; 2]), [([0, 1], 5)]);
    }
}
