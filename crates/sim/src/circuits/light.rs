//! Which circuits are lit, which get light, and what they could carry so far.

use wiresum_schedule::Darkens;
use wiresum_schedule::problem::Problem;

use super::{Fault, Faulty};

/// Units that circuits may join, and how long a new one is dark.
#[derive(Clone, Debug)]
pub struct Fibres {
    /// The two units of each pair.
    pub pairs: Vec<[usize; 2]>,
    /// Circuits of each pair before anything is ordered.
    pub before: Vec<u32>,
    /// Ports of each unit.
    pub ports: Vec<u32>,
    pub dark_s: f64,
    pub darkens: Darkens,
    /// Bytes a second that a circuit carries, each direction.
    pub circuit_rate: f64,
}

impl Fibres {
    /// Those of an instance.
    pub fn of(problem: &Problem<'_>) -> Self {
        let instance = problem.instance;
        Self {
            pairs: problem.pairs.clone(),
            before: problem.before.clone(),
            ports: instance.units.iter().map(|unit| unit.ports).collect(),
            dark_s: instance.dark_s,
            darkens: instance.darkens,
            circuit_rate: problem.lit_bytes / instance.slot_s,
        }
    }
}

/// Circuits of every pair of units.
pub struct Light {
    fibres: Fibres,
    /// For each pair, when each of its circuits has light, oldest first; never for one that does not come up.
    lit_s: Vec<Vec<f64>>,
    faults: Vec<Fault>,
    /// Circuits that were added, and orders that added some.
    pub setups: u64,
    pub orders: u64,
    /// Bytes that each pair's circuits could have carried, each direction.
    pub bytes: Vec<f64>,
    now_s: f64,
}

impl Light {
    /// With what is lit before.
    pub fn new(fibres: Fibres, faults: &[Fault]) -> Self {
        Self {
            lit_s: fibres.before.iter().map(|count| vec![0.0; *count as usize]).collect(),
            faults: faults.to_vec(),
            setups: 0,
            orders: 0,
            bytes: vec![0.0; fibres.pairs.len()],
            fibres,
            now_s: 0.0,
        }
    }

    /// Bytes a second that a circuit carries.
    pub fn circuit_rate(&self) -> f64 {
        self.fibres.circuit_rate
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
        let coming = |lit: &Vec<f64>| lit.iter().filter(|at_s| at_s.is_finite()).count() as u32;
        self.lit_s.iter().map(coming).collect()
    }

    /// Ports of each unit that work.
    pub fn ports(&self) -> Vec<u32> {
        let mut ports = self.fibres.ports.clone();
        for fault in self.faults.iter().filter(|fault| fault.lasts(self.now_s)) {
            if let Faulty::Port(unit) = fault.what {
                ports[unit] = ports[unit].saturating_sub(1);
            }
        }
        ports
    }

    /// Obeys an order: what is not wanted goes at once, what is new has light after the dark time. What did not come up
    /// is tried again.
    pub fn order(&mut self, wanted: &[u32]) {
        let light_s = self.now_s + self.fibres.dark_s;
        let mut added = vec![false; wanted.len()];
        for (pair, lit) in self.lit_s.iter_mut().enumerate() {
            lit.retain(|at_s| at_s.is_finite());
            lit.truncate(wanted[pair] as usize);
        }
        self.fail();
        let mut free = self.free_ports();
        let before = self.setups;
        for (pair, lit) in self.lit_s.iter_mut().enumerate() {
            let [a, b] = self.fibres.pairs[pair];
            let is_in_vain = self.faults.iter().any(|fault| {
                matches!(fault.what, Faulty::Circuit(ends) if ends == [a, b] || ends == [b, a])
                    && fault.lasts(self.now_s)
            });
            while lit.len() < wanted[pair] as usize && free[a] > 0 && free[b] > 0 {
                lit.push(if is_in_vain { f64::INFINITY } else { light_s });
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
                let here = |pair: &usize| self.fibres.pairs[*pair].contains(&unit);
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
        let pairs = self.fibres.pairs.iter().zip(&self.lit_s);
        pairs.filter(|(pair, _)| pair.contains(&unit)).map(|(_, lit)| lit.len() as u32).sum()
    }

    fn free_ports(&self) -> Vec<u32> {
        let mut free = self.ports();
        for (pair, lit) in self.fibres.pairs.iter().zip(&self.lit_s) {
            pair.iter().for_each(|unit| free[*unit] = free[*unit].saturating_sub(lit.len() as u32));
        }
        free
    }

    /// What a change darkens beyond the new circuits.
    fn darken(&mut self, added: &[bool], light_s: f64) {
        let darkens = self.fibres.darkens;
        if darkens == Darkens::Added || !added.contains(&true) {
            return;
        }
        let mut touched = vec![darkens == Darkens::All; self.fibres.ports.len()];
        for (pair, _) in self.fibres.pairs.iter().zip(added).filter(|(_, added)| **added) {
            pair.iter().for_each(|unit| touched[*unit] = true);
        }
        for (pair, lit) in self.fibres.pairs.iter().zip(&mut self.lit_s) {
            if pair.iter().any(|unit| touched[*unit]) {
                lit.iter_mut().for_each(|at_s| *at_s = at_s.max(light_s));
            }
        }
    }
}

impl Fault {
    fn lasts(&self, now_s: f64) -> bool {
        self.at_s <= now_s && self.until_s.is_none_or(|until_s| now_s < until_s)
    }
}
