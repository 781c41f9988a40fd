//! What any schedule needs that completes all jobs by T: circuits of pairs, places and switches, summed over slots.
//!
//! A *window* is a run of slots; a job by server whose bytes must lie in it counts there. For each window and pair,
//! n is the number of circuits, summed over the slots. It carries the bytes less the dark time of set-ups, of which
//! there are at least n / slots less the circuits before. Since n and the choice of who sums are whole numbers, rows
//! are rounded (mixed-integer rounding). What is left out is that jobs do not pause, and that the pairs of a job have
//! one rate.

use serde::Serialize;

use super::slots_until;
use crate::Summed;
use crate::problem::{Problem, Transfer};

/// Windows by their end, and as many by their begin: few say nearly all, and each adds rows.
const MOST_WINDOWS: usize = 6;
/// Fractions nearer to a whole number are not rounded up: they may be rounding errors.
const FRACTION: f64 = 1e-6;

/// A linear programme: whether columns can be so that all rows hold. Serialises for an integer solver.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Relaxation {
    /// First the transfers that may be summed either way (1: by the switch), then circuits of windows and pairs.
    pub columns: Vec<Column>,
    /// Each is a sum that is at most its limit.
    pub rows: Vec<Row>,
    /// For each transfer, its column, where it has one.
    pub choices: Vec<Option<usize>>,
    /// Whether it cannot hold, as constants show.
    pub refused: bool,
    /// Windows after the one whose rows are added.
    #[serde(skip)]
    later: usize,
}

/// A whole number within limits.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Column {
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
}

/// Σ factor × column ≤ limit.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Column and factor.
    pub terms: Vec<(usize, f64)>,
    /// What the sum must not exceed.
    pub limit: f64,
    /// Whether the limit is that of a resource; others say how many circuits, in the first term, choices need.
    pub is_resource: bool,
    /// Which resource; that of any where it is none.
    #[serde(skip)]
    pub name: Name,
}

/// A resource in a window, by which relaxations of two times know it as the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    kind: Kind,
    /// Number of the unit or pool.
    index: usize,
    /// Windows after this one.
    later: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    #[default]
    Ports,
    Places,
    Pool,
}

/// Slots from one (included) until another (excluded).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Window {
    from: usize,
    until: usize,
}

/// What a pair has to carry in a window.
#[derive(Clone, Debug, Default)]
struct Demand {
    /// Circuit-slots for each lane that nobody can avoid.
    fixed: [f64; 2],
    /// Most slots that one of them must send in: a circuit has to be there in each.
    fixed_slots: f64,
    /// Column, circuit-slots for each lane, and slots to send in, of jobs that a switch may sum instead.
    optional: Vec<(usize, [f64; 2], f64)>,
}

impl Relaxation {
    /// For one time.
    #[must_use]
    pub fn new(problem: &Problem<'_>, completion_s: f64) -> Self {
        let mut relaxation =
            Self { choices: vec![None; problem.transfers.len()], ..Self::default() };
        let slots = slots_until(problem, completion_s);
        // Until when a transfer by server must be sent; None if it cannot be.
        let mut deadlines = vec![None; problem.transfers.len()];
        let mut by_switch = vec![false; problem.transfers.len()];
        for (index, transfer) in problem.transfers.iter().enumerate() {
            let ends = |summed: Summed| {
                let latest_s = completion_s - transfer.mode(summed).update_s;
                let until = slots_until(problem, latest_s);
                (transfer.release + transfer.least_slots(summed) <= until).then_some(until)
            };
            if transfer.may_be_tree() {
                // However it is summed, it takes the least of what it might.
                deadlines[index] = transfer.ways().filter_map(ends).max();
                relaxation.refused |= deadlines[index].is_none();
                continue;
            }
            deadlines[index] = ends(Summed::ByServer);
            by_switch[index] =
                transfer.can_be(Summed::BySwitch) && ends(Summed::BySwitch).is_some();
            match (deadlines[index], by_switch[index]) {
                (None, false) => relaxation.refused = true,
                (Some(_), true) => relaxation.choices[index] = Some(relaxation.column(0.0, 1.0)),
                _ => {}
            }
        }
        if relaxation.refused {
            return relaxation;
        }
        let windows = windows(problem, &deadlines, slots);
        relaxation.later = windows.len();
        for window in windows {
            relaxation.later -= 1;
            relaxation.circuits(problem, &deadlines, window);
            relaxation.pools(problem, &deadlines, &by_switch, window, slots);
            if window.until == slots {
                relaxation.places(problem, &deadlines, &by_switch, window);
            }
        }
        relaxation
    }

    fn column(&mut self, low: f64, high: f64) -> usize {
        self.columns.push(Column { low, high });
        self.columns.len() - 1
    }

    /// Adds a resource's rows; without columns they hold or refuse at once.
    fn resources(&mut self, kind: Kind, terms: Vec<Vec<(usize, f64)>>, limits: Vec<f64>) {
        let later = self.later;
        for (index, (terms, limit)) in terms.into_iter().zip(limits).enumerate() {
            self.resource(Name { kind, index, later }, terms, limit);
        }
    }

    fn resource(&mut self, name: Name, terms: Vec<(usize, f64)>, limit: f64) {
        let most: f64 =
            terms.iter().map(|(column, f)| (f * self.columns[*column].high).max(0.0)).sum();
        let least: f64 = terms
            .iter()
            .map(|(column, f)| (f * self.columns[*column].low).min(f * self.columns[*column].high))
            .sum();
        let slack = FRACTION * limit.abs().max(1.0);
        self.refused |= least > limit + slack;
        if most > limit {
            self.rows.push(Row { terms, limit, is_resource: true, name });
        }
    }

    /// Circuits of each pair in a window, and the ports that they take.
    fn circuits(&mut self, problem: &Problem<'_>, deadlines: &[Option<usize>], window: Window) {
        let mut demands = vec![Demand::default(); problem.pairs.len()];
        for (index, transfer) in problem.transfers.iter().enumerate() {
            if !window.has(transfer, deadlines[index]) {
                continue;
            }
            let sends = if transfer.may_be_tree() {
                transfer.ways().map(|summed| transfer.least_slots(summed)).min().unwrap_or(0)
            } else {
                transfer.least_slots(Summed::ByServer)
            };
            let sends = sends as f64;
            for crossing in &transfer.mode(Summed::ByServer).crossings {
                let demand = &mut demands[crossing.pair];
                let slots = transfer.bytes * transfer.least_times(*crossing) / problem.lit_bytes;
                if slots == 0.0 {
                    continue;
                }
                match self.choices[index] {
                    None => {
                        crossing.lanes().for_each(|lane| demand.fixed[lane] += slots);
                        demand.fixed_slots = demand.fixed_slots.max(sends);
                    }
                    Some(column) => {
                        let mut lanes = [0.0; 2];
                        crossing.lanes().for_each(|lane| lanes[lane] = slots);
                        demand.optional.push((column, lanes, sends));
                    }
                }
            }
        }
        let mut at_units = vec![Vec::new(); problem.units()];
        let mut most = vec![0.0; problem.units()];
        for (unit, most) in most.iter_mut().enumerate() {
            *most = f64::from(problem.ports(unit)) * window.slots();
        }
        for (pair, demand) in demands.iter().enumerate() {
            if demand.fixed == [0.0; 2] && demand.optional.is_empty() {
                continue;
            }
            let units = problem.pairs[pair];
            let high = units.map(|unit| most[unit]).into_iter().fold(f64::INFINITY, f64::min);
            let column = self.column(0.0, high);
            self.demand(problem, pair, demand, column, window);
            units.iter().for_each(|unit| at_units[*unit].push((column, 1.0)));
        }
        self.resources(Kind::Ports, at_units, most);
    }

    /// How many circuits a pair needs.
    fn demand(
        &mut self,
        problem: &Problem<'_>,
        pair: usize,
        demand: &Demand,
        column: usize,
        window: Window,
    ) {
        for lane in 0..problem.lanes {
            let optional: Vec<(usize, f64)> = demand
                .optional
                .iter()
                .map(|(choice, lanes, _)| (*choice, lanes[lane]))
                .filter(|(_, slots)| *slots > 0.0)
                .collect();
            let fixed = demand.fixed[lane];
            self.covers(column, fixed, &optional);
            if window.from == 0 {
                // n − dark × (n / slots − before) carries it, where that many are set up.
                let dark = problem.dark_bytes / problem.lit_bytes;
                let lit = dark * f64::from(problem.before[pair]);
                let kept = 1.0 - dark / window.slots();
                let scaled: Vec<_> = optional.iter().map(|(c, slots)| (*c, slots / kept)).collect();
                self.covers(column, (fixed - lit) / kept, &scaled);
            }
        }
        self.columns[column].low = self.columns[column].low.max(demand.fixed_slots);
        for (choice, _, sends) in &demand.optional {
            self.cover_row(column, &[(*choice, *sends)], *sends);
        }
        let Column { low, high } = self.columns[column];
        self.refused |= low > high;
    }

    /// n ≥ fixed + Σ optional × (1 − choice), as it is and rounded.
    fn covers(&mut self, column: usize, fixed: f64, optional: &[(usize, f64)]) {
        let low = &mut self.columns[column].low;
        *low = low.max((fixed - FRACTION).ceil());
        if optional.is_empty() {
            return;
        }
        let all = fixed + optional.iter().map(|(_, slots)| slots).sum::<f64>();
        self.cover_row(column, optional, all);
        let fraction = all - all.floor();
        if (FRACTION..1.0 - FRACTION).contains(&fraction) {
            let rounded = optional.iter().map(|(choice, slots)| {
                (*choice, slots.floor() + ((slots - slots.floor()) / fraction).min(1.0))
            });
            self.cover_row(column, &rounded.collect::<Vec<_>>(), all.ceil());
        }
    }

    /// n + Σ factor × choice ≥ least.
    fn cover_row(&mut self, column: usize, choices: &[(usize, f64)], least: f64) {
        if least <= self.columns[column].low {
            return;
        }
        let choices = choices.iter().map(|(choice, factor)| (*choice, -factor));
        let terms = [(column, -1.0)].into_iter().chain(choices).collect();
        let name = Name::default();
        self.rows.push(Row { terms, limit: -least, is_resource: false, name });
    }

    /// Places of each unit, for those that arrive within the window.
    fn places(
        &mut self,
        problem: &Problem<'_>,
        deadlines: &[Option<usize>],
        by_switch: &[bool],
        window: Window,
    ) {
        let units = problem.instance.units.iter();
        let mut limits: Vec<f64> =
            units.map(|unit| f64::from(unit.places) * window.slots()).collect();
        let mut terms = vec![Vec::new(); limits.len()];
        for (index, transfer) in problem.transfers.iter().enumerate() {
            if !by_switch[index] || transfer.release < window.from {
                continue;
            }
            let unit = transfer.mode(Summed::BySwitch).places[0];
            let slots = transfer.least_slots(Summed::BySwitch) as f64;
            match (self.choices[index], deadlines[index]) {
                (Some(column), _) => terms[unit].push((column, slots)),
                (None, None) => limits[unit] -= slots,
                (None, Some(_)) => {}
            }
        }
        self.resources(Kind::Places, terms, limits);
    }

    /// Bytes through switches, in slots of each.
    fn pools(
        &mut self,
        problem: &Problem<'_>,
        deadlines: &[Option<usize>],
        by_switch: &[bool],
        window: Window,
        slots: usize,
    ) {
        let mut limits = vec![window.slots(); problem.pools.len()];
        let mut terms: Vec<Vec<(usize, f64)>> = vec![Vec::new(); limits.len()];
        for (index, transfer) in problem.transfers.iter().enumerate() {
            let is_here = [
                window.has(transfer, deadlines[index]),
                by_switch[index] && window.until == slots && transfer.release >= window.from,
            ];
            for summed in Summed::ALL.into_iter().filter(|summed| is_here[*summed as usize]) {
                for (pool, times) in &transfer.mode(summed).pools {
                    let least =
                        if transfer.may_be_tree() { transfer.least_passed(*pool) } else { *times };
                    let load = transfer.bytes * least / problem.pools[*pool];
                    match (self.choices[index], summed) {
                        (None, Summed::BySwitch) if deadlines[index].is_some() => {}
                        (None, _) => limits[*pool] -= load,
                        (Some(column), Summed::BySwitch) => terms[*pool].push((column, load)),
                        (Some(column), Summed::ByServer) => {
                            limits[*pool] -= load;
                            terms[*pool].push((column, -load));
                        }
                    }
                }
            }
        }
        for terms in &mut terms {
            terms.sort_by_key(|(column, _)| *column);
            terms.dedup_by(|next, kept| {
                let is_same = next.0 == kept.0;
                kept.1 += if is_same { next.1 } else { 0.0 };
                is_same
            });
        }
        self.resources(Kind::Pool, terms, limits);
    }
}

impl Window {
    fn slots(self) -> f64 {
        (self.until - self.from) as f64
    }

    /// Whether a transfer's bytes lie in it if it is not summed at the switch.
    fn has(self, transfer: &Transfer, deadline: Option<usize>) -> bool {
        deadline.is_some_and(|deadline| deadline <= self.until && transfer.release >= self.from)
    }
}

/// From 0 until some of the deadlines, and from some of the releases until the end.
fn windows(problem: &Problem<'_>, deadlines: &[Option<usize>], slots: usize) -> Vec<Window> {
    let mut untils: Vec<usize> = deadlines.iter().flatten().copied().chain([slots]).collect();
    let mut froms: Vec<usize> = problem.transfers.iter().map(|transfer| transfer.release).collect();
    let untils = some_of(&mut untils).into_iter().filter(|until| *until > 0);
    let froms = some_of(&mut froms).into_iter().filter(|from| *from < slots);
    let mut windows: Vec<Window> = untils
        .map(|until| Window { from: 0, until })
        .chain(froms.map(|from| Window { from, until: slots }))
        .collect();
    windows.sort();
    windows.dedup();
    windows
}

/// The last of some numbers, and others evenly before it.
fn some_of(numbers: &mut Vec<usize>) -> Vec<usize> {
    numbers.sort_unstable();
    numbers.dedup();
    let count = numbers.len().min(MOST_WINDOWS);
    (1..=count).map(|part| numbers[part * numbers.len() / count - 1]).collect()
}
