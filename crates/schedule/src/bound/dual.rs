//! Prices at which a relaxation asks for more than there is, by a primal-dual method of first order.
//!
//! The programme is: the least t such that every resource's row holds with (1 + t) times its limit. Chambolle and
//! Pock's iteration with diagonal steps (ICCV '11), restarted from averages as in PDLP (NeurIPS '21), walks towards its
//! saddle point. Whatever it reaches proves something, as any prices give a bound on t: if that is above 0, the
//! relaxation does not hold. So it needs no exact optimum, and no factorisation: a step costs two products with a
//! sparse matrix.

use super::relaxation::{Column, Relaxation};

/// Most steps for one programme.
const MOST_STEPS: usize = 4_000;
/// Terms that may be multiplied for one programme, which bounds the time on large ones.
const MOST_TERMS: usize = 150_000_000;
/// Steps between two looks at what is reached.
const LOOK: usize = 40;
/// Length of steps of prices over that of other steps, at first.
const FIRST_WEIGHT: f64 = 0.01;
/// A bound on t, or an excess, that counts as 0.
const NOTHING: f64 = 1e-7;
/// In place of the limit of a resource that has nothing left.
const SMALLEST_LIMIT: f64 = 1e-3;
/// Limits of t: below, every row holds with ease.
const EXCESS: Column = Column { low: -1.0, high: 4.0 };

/// Rows of a matrix by rows, or its columns by columns.
struct Sparse {
    starts: Vec<usize>,
    terms: Vec<(u32, f64)>,
}

impl Sparse {
    fn new(lists: &[Vec<(u32, f64)>]) -> Self {
        let mut starts = vec![0];
        starts.extend(lists.iter().scan(0, |total, list| {
            *total += list.len();
            Some(*total)
        }));
        Self { starts, terms: lists.concat() }
    }

    fn dot(&self, index: usize, vector: &[f64]) -> f64 {
        let terms = &self.terms[self.starts[index]..self.starts[index + 1]];
        terms.iter().map(|(at, factor)| factor * vector[*at as usize]).sum()
    }

    /// For each list, one over the sum of its factors' sizes.
    fn steps(&self) -> Vec<f64> {
        let sum = |range: &[usize]| {
            self.terms[range[0]..range[1]].iter().map(|(_, factor)| factor.abs()).sum::<f64>()
        };
        self.starts.windows(2).map(|range| 1.0 / sum(range).max(f64::MIN_POSITIVE)).collect()
    }
}

/// The programme with t as its last column.
struct Programme {
    rows: Sparse,
    columns: Sparse,
    limits: Vec<f64>,
    boxes: Vec<Column>,
}

/// Whether a relaxation is proven not to hold. `by_switch` is where the search begins; where nothing is proven, it
/// becomes what the search reached.
pub fn refuses(relaxation: &Relaxation, by_switch: &mut [f64]) -> bool {
    if relaxation.refused {
        return true;
    }
    if relaxation.rows.is_empty() {
        return false;
    }
    let programme = Programme::new(relaxation);
    let mut x: Vec<f64> = programme.boxes.iter().map(|column| column.low).collect();
    for (choice, share) in relaxation.choices.iter().zip(by_switch.iter()) {
        if let Some(column) = choice {
            x[*column] = *share;
        }
    }
    let (refused, x) = programme.search(x, relaxation);
    if !refused {
        for (choice, share) in relaxation.choices.iter().zip(by_switch) {
            if let Some(column) = choice {
                *share = x[*column];
            }
        }
    }
    refused
}

impl Programme {
    fn new(relaxation: &Relaxation) -> Self {
        let excess = relaxation.columns.len();
        let mut rows = Vec::with_capacity(relaxation.rows.len());
        let mut columns = vec![Vec::new(); excess + 1];
        let mut limits = Vec::with_capacity(relaxation.rows.len());
        for (index, row) in relaxation.rows.iter().enumerate() {
            let scale = if row.is_resource { row.limit.abs().max(SMALLEST_LIMIT) } else { 1.0 };
            let slack = if row.is_resource { vec![(excess, -scale)] } else { vec![] };
            let terms: Vec<(u32, f64)> = row
                .terms
                .iter()
                .copied()
                .chain(slack)
                .map(|(column, factor)| (column as u32, factor / scale))
                .collect();
            terms
                .iter()
                .for_each(|(at, factor)| columns[*at as usize].push((index as u32, *factor)));
            rows.push(terms);
            limits.push(row.limit / scale);
        }
        let boxes = relaxation.columns.iter().copied().chain([EXCESS]).collect();
        Self { rows: Sparse::new(&rows), columns: Sparse::new(&columns), limits, boxes }
    }

    /// Whether it is refused, and the last point.
    fn search(&self, mut x: Vec<f64>, relaxation: &Relaxation) -> (bool, Vec<f64>) {
        let (taus, sigmas) = (self.columns.steps(), self.rows.steps());
        let excess = self.boxes.len() - 1;
        let cost = |column: usize| if column == excess { 1.0 } else { 0.0 };
        let mut y = vec![0.0; self.limits.len()];
        let (mut x_sum, mut y_sum) = (vec![0.0; x.len()], vec![0.0; y.len()]);
        let mut ahead = x.clone();
        let steps = MOST_STEPS.min(MOST_TERMS / self.rows.terms.len().max(1)).max(LOOK);
        let (mut summed, mut next_restart) = (0usize, 2 * LOOK);
        let mut weight = FIRST_WEIGHT;
        let (mut x_start, mut y_start) = (x.clone(), y.clone());
        let mut best = f64::NEG_INFINITY;
        for step in 1..=steps {
            for column in 0..x.len() {
                let slope = cost(column) + self.columns.dot(column, &y);
                let Column { low, high } = self.boxes[column];
                let moved = (x[column] - taus[column] / weight * slope).clamp(low, high);
                ahead[column] = 2.0 * moved - x[column];
                x[column] = moved;
                x_sum[column] += moved;
            }
            for row in 0..y.len() {
                let over = self.rows.dot(row, &ahead) - self.limits[row];
                y[row] = (y[row] + sigmas[row] * weight * over).max(0.0);
                y_sum[row] += y[row];
            }
            summed += 1;
            if step % LOOK != 0 {
                continue;
            }
            let mean =
                |sums: &[f64]| sums.iter().map(|sum| sum / summed as f64).collect::<Vec<_>>();
            let (x_mean, y_mean) = (mean(&x_sum), mean(&y_sum));
            let (by_last, by_mean) = (self.bound(&y), self.bound(&y_mean));
            best = best.max(by_last).max(by_mean);
            if best > NOTHING {
                return (true, x);
            }
            if excess_of(relaxation, &x_mean) <= NOTHING {
                return (false, x_mean);
            }
            if step >= next_restart {
                if by_mean >= by_last {
                    (x, y) = (x_mean, y_mean);
                }
                weight = reweighted(weight, distance(&x, &x_start), distance(&y, &y_start));
                (x_start, y_start) = (x.clone(), y.clone());
                x_sum.fill(0.0);
                y_sum.fill(0.0);
                summed = 0;
                next_restart = step + step / 2 + LOOK;
            }
        }
        (false, x)
    }

    /// What prices prove: t is at least this.
    fn bound(&self, prices: &[f64]) -> f64 {
        let paid: f64 = prices.iter().zip(&self.limits).map(|(price, limit)| price * limit).sum();
        let excess = self.boxes.len() - 1;
        let least = |column: usize| {
            let slope = self.columns.dot(column, prices) + if column == excess { 1.0 } else { 0.0 };
            let Column { low, high } = self.boxes[column];
            (slope * low).min(slope * high)
        };
        (0..=excess).map(least).sum::<f64>() - paid
    }
}

/// The weight of prices that makes both walk equally far, half of the way to it from the one before (PDLP, §3.3).
fn reweighted(weight: f64, walked: f64, prices_walked: f64) -> f64 {
    if walked > 0.0 && prices_walked > 0.0 {
        (0.5 * (prices_walked / walked).ln() + 0.5 * weight.ln()).exp()
    } else {
        weight
    }
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

/// The least t with these choices: circuits are what the choices need.
fn excess_of(relaxation: &Relaxation, x: &[f64]) -> f64 {
    let mut needed: Vec<f64> = relaxation.columns.iter().map(|column| column.low).collect();
    for choice in relaxation.choices.iter().flatten() {
        needed[*choice] = x[*choice];
    }
    for row in relaxation.rows.iter().filter(|row| !row.is_resource) {
        let (column, _) = row.terms[0];
        let choices: f64 = row.terms[1..].iter().map(|(at, factor)| factor * needed[*at]).sum();
        needed[column] = needed[column].max(choices - row.limit);
    }
    let over = relaxation.rows.iter().filter(|row| row.is_resource).map(|row| {
        let sum: f64 = row.terms.iter().map(|(at, factor)| factor * needed[*at]).sum();
        (sum - row.limit) / row.limit.abs().max(SMALLEST_LIMIT)
    });
    over.fold(EXCESS.low, f64::max)
}
