//! Which circuits are lit, which get light, and what they could carry so far.

use wiresum_schedule::Darkens;
use wiresum_schedule::problem::Problem;

use super::Fault;

/// Circuits of every pair of units.
pub struct Light<'a> {
    problem: &'a Problem<'a>,
    /// For each pair, when each of its circuits has light, oldest first.
    lit_s: Vec<Vec<f64>>,
    faults: Vec<Fault>,
    /// Circuits that were added, and orders that added some.
    pub setups: u64,
    pub orders: u64,
    /// Bytes that each pair's circuits could have carried, each direction.
    pub bytes: Vec<f64>,
    now_s: f64,
}

impl<'a> Light<'a> {
    /// With what is lit before.
    pub fn new(problem: &'a Problem<'a>, faults: &[Fault]) -> Self {
        Self {
            problem,
            lit_s: problem.before.iter().map(|count| vec![0.0; *count as usize]).collect(),
            faults: faults.to_vec(),
            setups: 0,
            orders: 0,
            bytes: vec![0.0; problem.pairs.len()],
            now_s: 0.0,
        }
    }

    /// Bytes a second that a circuit carries.
    pub fn circuit_rate(&self) -> f64 {
        self.problem.lit_bytes / self.problem.instance.slot_s
    }

    /// Circuits of a pair with light now.
    pub fn lit(&self, pair: usize) -> u32 {
        self.lit_s[pair].iter().filter(|at_s| **at_s <= self.now_s).count() as u32
    }

    /// Seconds until a pair has light.
    pub fn dark_s(&self, pair: usize) -> f64 {
        let first_s = self.lit_s[pair].iter().copied().fold(f64::INFINITY, f64::min);
        (first_s - self.now_s).max(0.0)
    }

    /// Whether a circuit has no light yet.
    pub fn is_dark_somewhere(&self) -> bool {
        self.lit_s.iter().flatten().any(|at_s| *at_s > self.now_s)
    }

    /// Circuits of each pair, lit or getting light.
    pub fn circuits(&self) -> Vec<u32> {
        self.lit_s.iter().map(|lit| lit.len() as u32).collect()
    }

    /// Ports of each unit that work.
    pub fn ports(&self) -> Vec<u32> {
        let mut ports: Vec<u32> =
            (0..self.problem.units()).map(|u| self.problem.ports(u)).collect();
        for fault in self.faults.iter().filter(|fault| fault.lasts(self.now_s)) {
            ports[fault.unit] = ports[fault.unit].saturating_sub(1);
        }
        ports
    }

    /// Obeys an order: what is not wanted goes at once, what is new has light after the dark time.
    pub fn order(&mut self, wanted: &[u32]) {
        let light_s = self.now_s + self.problem.instance.dark_s;
        let mut added = vec![false; wanted.len()];
        for (pair, lit) in self.lit_s.iter_mut().enumerate() {
            lit.truncate(wanted[pair] as usize);
        }
        self.fail();
        let mut free = self.free_ports();
        let before = self.setups;
        for (pair, lit) in self.lit_s.iter_mut().enumerate() {
            let [a, b] = self.problem.pairs[pair];
            while lit.len() < wanted[pair] as usize && free[a] > 0 && free[b] > 0 {
                lit.push(light_s);
                added[pair] = true;
                self.setups += 1;
                free[a] -= 1;
                free[b] -= 1;
            }
        }
        self.orders += u64::from(self.setups > before);
        self.darken(&added, light_s);
    }

    /// Takes circuits away, the newest first, where a unit has fewer ports that work.
    pub fn fail(&mut self) {
        for (unit, ports) in self.ports().into_iter().enumerate() {
            while self.used_ports(unit) > ports {
                let here = |pair: &usize| self.problem.pairs[*pair].contains(&unit);
                let newest = (0..self.lit_s.len())
                    .filter(|pair| here(pair) && !self.lit_s[*pair].is_empty())
                    .max_by(|a, b| self.newest_s(*a).total_cmp(&self.newest_s(*b)));
                let Some(pair) = newest else { break };
                self.lit_s[pair].pop();
            }
        }
    }

    /// When something changes next by itself.
    pub fn next_s(&self) -> f64 {
        let faults = self.faults.iter().flat_map(|fault| [Some(fault.at_s), fault.until_s]);
        let times = self.lit_s.iter().flatten().copied().chain(faults.flatten());
        times.filter(|at_s| *at_s > self.now_s).fold(f64::INFINITY, f64::min)
    }

    /// Lets time pass in which nothing changes.
    pub fn shine_until(&mut self, next_s: f64) {
        for pair in 0..self.lit_s.len() {
            self.bytes[pair] +=
                f64::from(self.lit(pair)) * self.circuit_rate() * (next_s - self.now_s);
        }
        self.now_s = next_s;
    }

    fn newest_s(&self, pair: usize) -> f64 {
        self.lit_s[pair].last().copied().unwrap_or(0.0)
    }

    fn used_ports(&self, unit: usize) -> u32 {
        let pairs = self.problem.pairs.iter().zip(&self.lit_s);
        pairs.filter(|(pair, _)| pair.contains(&unit)).map(|(_, lit)| lit.len() as u32).sum()
    }

    fn free_ports(&self) -> Vec<u32> {
        let mut free = self.ports();
        for (pair, lit) in self.problem.pairs.iter().zip(&self.lit_s) {
            pair.iter().for_each(|unit| free[*unit] = free[*unit].saturating_sub(lit.len() as u32));
        }
        free
    }

    /// What a change darkens beyond the new circuits.
    fn darken(&mut self, added: &[bool], light_s: f64) {
        let darkens = self.problem.instance.darkens;
        if darkens == Darkens::Added || !added.contains(&true) {
            return;
        }
        let mut touched = vec![darkens == Darkens::All; self.problem.units()];
        for (pair, _) in self.problem.pairs.iter().zip(added).filter(|(_, added)| **added) {
            pair.iter().for_each(|unit| touched[*unit] = true);
        }
        for (pair, lit) in self.problem.pairs.iter().zip(&mut self.lit_s) {
            if pair.iter().any(|unit| touched[*unit]) {
                lit.iter_mut().for_each(|at_s| *at_s = light_s);
            }
        }
    }
}

impl Fault {
    fn lasts(&self, now_s: f64) -> bool {
        self.at_s <= now_s && self.until_s.is_none_or(|until_s| now_s < until_s)
    }
}
