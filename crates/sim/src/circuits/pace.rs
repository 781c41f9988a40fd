//! Who sends how fast at a moment: shares are paced to end with their slot, and what is late takes the rest.

use wiresum_schedule::Summed;
use wiresum_schedule::problem::{Mode, Problem};

use super::light::Light;

/// What a transfer has still to send in this slot.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    /// Index of the transfer.
    pub transfer: usize,
    /// Who sums it.
    pub summed: Summed,
    /// Bytes of its share.
    pub bytes: f64,
    /// Bytes of shares of earlier slots.
    pub late_bytes: f64,
}

/// Bytes a second of a transfer's share, and of what is late.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    pub share: f64,
    pub late: f64,
}

impl Pace {
    pub fn total(self) -> f64 {
        self.share + self.late
    }
}

/// What is free at the moment, in bytes a second, and places.
struct Free<'a> {
    problem: &'a Problem<'a>,
    lanes: Vec<f64>,
    pools: Vec<f64>,
    places: Vec<u32>,
}

/// The pace of each, with so many seconds of the slot left.
///
/// Shares get what ends them with the slot; where darkness leaves too little, those go first that could make up for it
/// least. Only while circuits are dark, others may then be ahead, so that they need less afterwards.
pub fn paces(problem: &Problem<'_>, light: &Light, dues: &[Due], left_s: f64) -> Vec<Pace> {
    let mut free = Free::new(problem, light);
    let mut paces = vec![Pace::default(); dues.len()];
    let slack = |index: &usize| slack(problem, light, &dues[*index], left_s);
    let mut order: Vec<usize> = (0..dues.len()).collect();
    order.sort_by(|a, b| slack(a).total_cmp(&slack(b)).then(a.cmp(b)));
    let slot_s = problem.instance.slot_s;
    let mode = |index: usize| problem.transfers[dues[index].transfer].mode(dues[index].summed);
    for &index in order.iter().filter(|index| dues[**index].bytes > 0.0) {
        free.place(mode(index));
        let most = (dues[index].bytes / left_s).min(mode(index).most / slot_s);
        paces[index].share = free.take(mode(index), most);
    }
    let is_dark = light.is_dark_somewhere();
    for index in order {
        let (due, own) = (dues[index], mode(index).most / slot_s);
        if is_dark && due.bytes > 0.0 {
            paces[index].share += free.take(mode(index), own - paces[index].share);
        }
        if due.late_bytes > 0.0 && (due.bytes > 0.0 || free.place(mode(index))) {
            paces[index].late = free.take(mode(index), own - paces[index].share);
        }
    }
    paces
}

/// Part of the time left that a transfer could wait and still end its share; who has none goes first.
fn slack(problem: &Problem<'_>, light: &Light, due: &Due, left_s: f64) -> f64 {
    let mode = problem.transfers[due.transfer].mode(due.summed);
    let dark_s =
        mode.crossings.iter().map(|crossing| light.dark_s(crossing.pair)).fold(0.0, f64::max);
    let needed_s = due.bytes / mode.most * problem.instance.slot_s;
    if due.bytes > 0.0 { (left_s - dark_s - needed_s) / left_s } else { f64::INFINITY }
}

impl<'a> Free<'a> {
    fn new(problem: &'a Problem<'a>, light: &Light) -> Self {
        let slot_s = problem.instance.slot_s;
        let rate = |pair: usize| f64::from(light.lit(pair)) * light.circuit_rate();
        let pairs = 0..problem.pairs.len();
        Self {
            problem,
            lanes: pairs.flat_map(|pair| vec![rate(pair); problem.lanes]).collect(),
            pools: problem.pools.iter().map(|bytes| bytes / slot_s).collect(),
            places: problem.instance.units.iter().map(|unit| unit.places).collect(),
        }
    }

    /// Takes a place at each switch that sums it; whether it has what it needs.
    fn place(&mut self, mode: &Mode) -> bool {
        let is_free = mode.places.iter().all(|unit| self.places[*unit] > 0);
        if is_free {
            mode.places.iter().for_each(|unit| self.places[*unit] -= 1);
        }
        is_free
    }

    /// Takes so much at most, on all ways at once; how much it was.
    fn take(&mut self, mode: &Mode, most: f64) -> f64 {
        let lanes = mode.crossings.iter().flat_map(|crossing| {
            self.problem.lanes_of(crossing).map(|lane| self.lanes[lane] / crossing.times)
        });
        let pools = mode.pools.iter().map(|(pool, times)| self.pools[*pool] / times);
        let rate = lanes.chain(pools).fold(most, f64::min).max(0.0);
        for crossing in &mode.crossings {
            for lane in self.problem.lanes_of(crossing) {
                self.lanes[lane] -= rate * crossing.times;
            }
        }
        for (pool, times) in &mode.pools {
            self.pools[*pool] -= rate * times;
        }
        rate
    }
}
