//! Prices at which a relaxation asks for more than there is.
//!
//! The question is the least t such that every resource's row holds with its limit and t times its size. Prices of the
//! resources, which sum to 1, split it into *parts*: what one pair's jobs take, each for itself at its cheapest. A part
//! has few jobs that may choose, so all its choices are listed, in whole numbers of circuits, which makes this stronger
//! than the linear programme. Whatever the prices, the cheapest choices prove a bound on t; if it is above 0, the
//! relaxation does not hold.
//!
//! Prices climb by the volume algorithm (Barahona and Anbil, Mathematical Programming 87, 2000): along the violations
//! of an average of the choices so far, which is at the same time an answer in shares, from whose violations follows
//! how far t can be above the bound. A step costs one look at every choice.

use std::collections::BTreeMap;

use super::relaxation::{Column, Name, Relaxation};

/// Steps for one programme: at least and at most.
const STEPS: [usize; 2] = [200, 4_000];
/// Terms that are looked at for one programme, between these limits: larger ones are answered less sharply.
const MOST_TERMS: usize = 12_000_000;
/// Choices of a part that are all listed, as whole numbers; parts with more are taken as linear.
const MOST_CHOICES: usize = 8;
/// A bound on t, or an excess, that counts as 0.
const NOTHING: f64 = 1e-7;
/// A number of circuits so little above a whole one is that.
const FRACTION: f64 = 1e-6;
/// In place of the size of a resource that has nothing left.
const SMALLEST_LIMIT: f64 = 1e-3;
/// Share of the newest choices in the average, at first and at least.
const NEWEST: [f64; 2] = [0.1, 0.01];
/// Length of a step, at first and at most, in parts of Polyak's.
const LENGTH: [f64; 2] = [1.0, 2.0];
/// Factor of the length after a step that goes on in the direction of those before.
const LONGER: f64 = 1.1;
/// An excess so little above the bound is not worth more steps.
const NEAR: f64 = 1e-5;
/// Steps without progress after which they get shorter, and by what factor.
const SHORTER: (usize, f64) = (10, 0.7);

/// One way in which a part can be: which of its jobs are summed by switches, and what that takes.
struct Way {
    /// Columns of those jobs.
    by_switch: Vec<usize>,
    /// Resource, and amount in its size.
    terms: Vec<(u32, f64)>,
}

/// Resources, in their size, and the ways of each part.
struct Question {
    limits: Vec<f64>,
    parts: Vec<Vec<Way>>,
    columns: usize,
}

/// Prices, what they prove, and the cheapest way of each part with what all of them take beyond the limits.
struct Point {
    prices: Vec<f64>,
    bound: f64,
    ways: Vec<usize>,
    over: Vec<f64>,
}

/// Where a search begins, and where the last one ended.
#[derive(Clone, Debug)]
pub struct Start {
    /// For each transfer, how much of it a switch sums, 0 to 1; of the last relaxation that was not refused.
    pub by_switch: Vec<f64>,
    prices: BTreeMap<Name, f64>,
}

impl Start {
    /// Knows nothing, of so many transfers.
    pub fn new(transfers: usize) -> Self {
        Self { by_switch: vec![0.5; transfers], prices: BTreeMap::new() }
    }
}

/// Whether a relaxation is proven not to hold.
pub fn refuses(relaxation: &Relaxation, start: &mut Start) -> bool {
    if relaxation.refused {
        return true;
    }
    let Some(question) = Question::new(relaxation) else { return true };
    if question.limits.is_empty() {
        return false;
    }
    let names: Vec<Name> =
        relaxation.rows.iter().filter(|row| row.is_resource).map(|row| row.name).collect();
    let known = names.iter().map(|name| start.prices.get(name).copied().unwrap_or(0.0));
    let (point, shares) = question.climb(known.collect());
    start.prices = names.into_iter().zip(point.prices).collect();
    let refused = point.bound > NOTHING;
    for (share, choice) in start.by_switch.iter_mut().zip(&relaxation.choices) {
        match choice {
            Some(column) if !refused => *share = shares[*column],
            _ => {}
        }
    }
    refused
}

impl Question {
    /// None if a part has no way at all.
    fn new(relaxation: &Relaxation) -> Option<Self> {
        let mut takes = vec![Vec::new(); relaxation.columns.len()];
        let mut limits = Vec::new();
        for row in relaxation.rows.iter().filter(|row| row.is_resource) {
            let size = row.limit.abs().max(SMALLEST_LIMIT);
            let terms = row.terms.iter();
            terms.for_each(|(at, factor)| takes[*at].push((limits.len() as u32, factor / size)));
            limits.push(row.limit / size);
        }
        let mut question = Self { limits, parts: Vec::new(), columns: takes.len() };
        for part in parts(relaxation) {
            if part.choices.len() > MOST_CHOICES {
                question.add_linear(relaxation, &takes, &part);
                continue;
            }
            let all = 0..1usize << part.choices.len();
            let ways = all.filter_map(|set| way(relaxation, &takes, &part, set));
            question.parts.push(ways.collect());
            if question.parts.last().is_some_and(Vec::is_empty) {
                return None;
            }
        }
        Some(question)
    }

    /// A part with many choices, each for itself: of all rows for a column of circuits, the one that asks for most
    /// while servers sum everything.
    fn add_linear(&mut self, relaxation: &Relaxation, takes: &[Vec<(u32, f64)>], part: &Part) {
        let mut less: BTreeMap<usize, Vec<(usize, f64)>> = BTreeMap::new();
        let mut fixed = Vec::new();
        for (column, rows) in &part.circuits {
            let rows = rows.iter().map(|row| &relaxation.rows[*row]);
            let Some(row) = rows.min_by(|a, b| a.limit.total_cmp(&b.limit)) else { continue };
            fixed.extend(takes[*column].iter().map(|(at, amount)| (*at, -row.limit * amount)));
            for (choice, factor) in &row.terms[1..] {
                less.entry(*choice).or_default().push((*column, *factor));
            }
        }
        self.parts.push(vec![Way { by_switch: Vec::new(), terms: fixed }]);
        for choice in &part.choices {
            let mut terms = takes[*choice].clone();
            for (column, factor) in less.get(choice).into_iter().flatten() {
                terms.extend(takes[*column].iter().map(|(at, amount)| (*at, factor * amount)));
            }
            let none = Way { by_switch: Vec::new(), terms: Vec::new() };
            self.parts.push(vec![none, Way { by_switch: vec![*choice], terms }]);
        }
    }

    /// Prices that prove something, or else the best ones that were found; and the shares of the average.
    fn climb(&self, known: Vec<f64>) -> (Point, Vec<f64>) {
        let mut best = self.at(onto_simplex(known));
        let mut over = best.over.clone();
        let mut shares = vec![0.0; self.columns];
        self.mix(&mut shares, &best.ways, 1.0);
        let terms = self.parts.iter().flatten().map(|way| way.terms.len() + 1).sum::<usize>();
        let (mut length, mut newest, mut idle) = (LENGTH[0], NEWEST[0], 0);
        for _ in 0..(MOST_TERMS / terms).clamp(STEPS[0], STEPS[1]) {
            let excess = over.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if best.bound > NOTHING || excess <= NOTHING || excess - best.bound < NEAR {
                break;
            }
            let stride = length * (excess - best.bound) / dot(&over, &over);
            let moved = best.prices.iter().zip(&over).map(|(price, over)| price + stride * over);
            let next = self.at(onto_simplex(moved.collect()));
            let share = newest_share(&over, &next.over, newest);
            over.iter_mut().zip(&next.over).for_each(|(mean, new)| *mean += share * (new - *mean));
            self.mix(&mut shares, &next.ways, share);
            if next.bound > best.bound {
                let goes_on = dot(&next.over, &over) >= 0.0;
                length = if goes_on { (length * LONGER).min(LENGTH[1]) } else { length };
                best = next;
                idle = 0;
            } else {
                idle += 1;
            }
            if idle == SHORTER.0 {
                length *= SHORTER.1;
                newest = (newest * SHORTER.1).max(NEWEST[1]);
                idle = 0;
            }
        }
        (best, shares)
    }

    /// Makes these ways that share of the average.
    fn mix(&self, shares: &mut [f64], ways: &[usize], share: f64) {
        shares.iter_mut().for_each(|old| *old *= 1.0 - share);
        for (part, way) in self.parts.iter().zip(ways) {
            part[*way].by_switch.iter().for_each(|column| shares[*column] += share);
        }
    }

    /// The cheapest way of each part.
    fn at(&self, prices: Vec<f64>) -> Point {
        let mut over: Vec<f64> = self.limits.iter().map(|limit| -limit).collect();
        let mut bound = -dot(&prices, &self.limits);
        let price = |way: &Way| -> f64 {
            way.terms.iter().map(|(at, amount)| prices[*at as usize] * amount).sum()
        };
        let mut ways = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let (mut cheapest, mut least) = (0, price(&part[0]));
            for (index, way) in part.iter().enumerate().skip(1) {
                let paid = price(way);
                if paid < least {
                    (cheapest, least) = (index, paid);
                }
            }
            bound += least;
            part[cheapest].terms.iter().for_each(|(at, amount)| over[*at as usize] += amount);
            ways.push(cheapest);
        }
        Point { prices, bound, ways, over }
    }
}

/// Columns that rows for circuits join.
#[derive(Default)]
struct Part {
    choices: Vec<usize>,
    /// Columns of circuits, and the rows that say how many are needed.
    circuits: Vec<(usize, Vec<usize>)>,
}

/// Splits a relaxation.
fn parts(relaxation: &Relaxation) -> Vec<Part> {
    let mut heads: Vec<usize> = (0..relaxation.columns.len()).collect();
    let mut rows_of = vec![Vec::new(); heads.len()];
    for (index, row) in relaxation.rows.iter().enumerate().filter(|(_, row)| !row.is_resource) {
        let (circuits, _) = row.terms[0];
        rows_of[circuits].push(index);
        for (choice, _) in &row.terms[1..] {
            let (a, b) = (head(&mut heads, circuits), head(&mut heads, *choice));
            heads[a] = b;
        }
    }
    let mut is_choice = vec![false; heads.len()];
    relaxation.choices.iter().flatten().for_each(|column| is_choice[*column] = true);
    let mut parts: BTreeMap<usize, Part> = BTreeMap::new();
    for (column, rows) in rows_of.into_iter().enumerate() {
        let part = parts.entry(head(&mut heads, column)).or_default();
        if is_choice[column] {
            part.choices.push(column);
        } else {
            part.circuits.push((column, rows));
        }
    }
    parts.into_values().collect()
}

/// The column that stands for all that are joined to one.
fn head(heads: &mut [usize], mut column: usize) -> usize {
    while heads[column] != column {
        heads[column] = heads[heads[column]];
        column = heads[column];
    }
    column
}

/// What a part takes if a set of its jobs is summed by switches; None if it cannot be.
fn way(relaxation: &Relaxation, takes: &[Vec<(u32, f64)>], part: &Part, set: usize) -> Option<Way> {
    let chosen = part.choices.iter().enumerate().filter(|(bit, _)| set >> bit & 1 == 1);
    let by_switch: Vec<usize> = chosen.map(|(_, column)| *column).collect();
    let mut terms: Vec<(u32, f64)> =
        by_switch.iter().flat_map(|column| &takes[*column]).copied().collect();
    for (column, rows) in &part.circuits {
        let Column { low, high } = relaxation.columns[*column];
        let asked = rows.iter().map(|row| {
            let row = &relaxation.rows[*row];
            let spared = row.terms[1..].iter().filter(|(choice, _)| by_switch.contains(choice));
            let least = spared.map(|(_, factor)| factor).sum::<f64>() - row.limit;
            (least - FRACTION).ceil()
        });
        let circuits = asked.fold(low, f64::max);
        if circuits > high {
            return None;
        }
        terms.extend(takes[*column].iter().map(|(at, amount)| (*at, circuits * amount)));
    }
    Some(Way { by_switch, terms })
}

/// The share of the newest in the average that makes the average smallest, within limits.
fn newest_share(mean: &[f64], newest: &[f64], most: f64) -> f64 {
    let (mut along, mut square) = (0.0, 0.0);
    for (mean, new) in mean.iter().zip(newest) {
        along -= mean * (new - mean);
        square += (new - mean) * (new - mean);
    }
    if square > 0.0 { (along / square).clamp(most / 10.0, most) } else { most }
}

/// The nearest prices that are not below 0 and sum to 1; all equal for none.
fn onto_simplex(mut prices: Vec<f64>) -> Vec<f64> {
    let mut sorted = prices.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (mut sum, mut lower) = (0.0, 0.0);
    for (count, price) in sorted.iter().enumerate() {
        sum += price;
        let by = (sum - 1.0) / (count + 1) as f64;
        if *price <= by {
            break;
        }
        lower = by;
    }
    prices.iter_mut().for_each(|price| *price = (*price - lower).max(0.0));
    prices
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
