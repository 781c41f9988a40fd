//! Both layouts and all ways of packing over the same pushes: the counts of ZEBRA's Fig. 10, and what else there is.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Layout, LayoutError, PACKAGINGS, Packaging, Packets};
use crate::keyed::recirculations;

/// Pushes to one switch.
#[derive(Clone, Copy, Debug)]
pub struct Pushes<'a> {
    /// Rows of the hot map: positions are below.
    pub rows: u32,
    /// The distinct positions of each push, in the order in which the worker meets them.
    pub positions: &'a [Vec<u32>],
}

/// What one layout with one packaging costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// `heat` or `random`.
    pub layout: &'static str,
    /// Name of the packaging.
    pub packaging: &'static str,
    /// Packets of all pushes.
    pub packets: u64,
    /// Packets of all pushes if every packet but a push's last were full.
    pub full_packets: u64,
    /// Recirculations a packet where a pass takes one pair, as in the released program.
    pub one_pair_a_pass: f64,
    /// Recirculations a packet where a pass takes one pair of each register.
    pub multiplicity: f64,
    /// The most recirculations of one packet, counted as for `multiplicity`.
    pub most: u32,
    /// Recirculations a packet that the switch program took for these packets; `None` if there are more registers than it
    /// can have.
    pub program: Option<f64>,
}

/// Counts for all layouts and packagings. The seed shuffles the random layout.
///
/// # Errors
/// [`LayoutError`]: no registers, no pairs, a position that is not a row's, or one that is pushed twice.
pub fn compare(
    pushes: Pushes<'_>,
    registers: u32,
    pairs: u32,
    seed: u64,
) -> Result<Vec<Comparison>, LayoutError> {
    pushes.positions.iter().try_for_each(|pushed| check(pushed, pushes.rows))?;
    let layouts = [
        ("random", Layout::at_random(registers, pushes.rows, seed)?),
        ("heat", Layout::by_heat(registers)?),
    ];
    let mut rows = Vec::new();
    for (name, layout) in &layouts {
        for packaging in PACKAGINGS {
            let pack = |push: &Vec<u32>| packaging.pack(push, layout, pairs);
            let packed = pushes.positions.iter().map(pack).collect::<Result<Vec<_>, _>>()?;
            let full_packets = full_packets(pushes.positions, pairs);
            let counted = count(name, packaging, &packed, layout);
            let program = by_program(&packed, layout, pushes.rows, pairs);
            rows.push(Comparison { full_packets, program, ..counted });
        }
    }
    Ok(rows)
}

fn by_program(packed: &[Packets], layout: &Layout, rows: u32, pairs: u32) -> Option<f64> {
    let packets: u64 = packed.iter().map(|push| push.len() as u64).sum();
    let of_push = |push: &Packets| recirculations(push, layout, rows, pairs);
    let all: u64 = packed.iter().map(of_push).sum::<Option<u64>>()?;
    Some(all as f64 / packets.max(1) as f64)
}

fn check(pushed: &[u32], rows: u32) -> Result<(), LayoutError> {
    let mut seen = BTreeSet::new();
    for &position in pushed {
        if position >= rows {
            return Err(LayoutError::Position { position, rows });
        }
        if !seen.insert(position) {
            return Err(LayoutError::Twice(position));
        }
    }
    Ok(())
}

fn full_packets(pushes: &[Vec<u32>], pairs: u32) -> u64 {
    pushes.iter().map(|push| push.len().div_ceil(pairs as usize) as u64).sum()
}

fn count(
    name: &'static str,
    packaging: Packaging,
    packed: &[Packets],
    layout: &Layout,
) -> Comparison {
    let packets: u64 = packed.iter().map(|push| push.len() as u64).sum();
    let recirculations: Vec<u32> =
        packed.iter().flat_map(|push| push.recirculations(layout)).collect();
    let one: u64 = packed.iter().map(Packets::one_pair_a_pass).sum();
    let sum: u64 = recirculations.iter().copied().map(u64::from).sum();
    let a_packet = |count: u64| count as f64 / packets.max(1) as f64;
    Comparison {
        layout: name,
        packaging: packaging.name(),
        packets,
        full_packets: 0,
        one_pair_a_pass: a_packet(one),
        multiplicity: a_packet(sum),
        most: recirculations.into_iter().max().unwrap_or_default(),
        program: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dealing_never_recirculates_and_the_released_program_does_not_care() {
        let pushed = vec![(0..600).map(|k| k * 7 % 1000).collect::<Vec<u32>>()];
        let rows = compare(Pushes { rows: 1000, positions: &pushed }, 32, 8, 1).unwrap();
        assert_eq!(rows.len(), 8);
        for row in rows {
            assert!((row.packaging != "dealing") || row.multiplicity == 0.0 && row.most == 0);
            assert!(row.packets >= row.full_packets && row.full_packets == 75);
            assert!(row.packets > 75 || row.one_pair_a_pass == 7.0);
            assert_eq!(row.program, Some(row.multiplicity), "the program passes as often as that");
        }
    }

    #[test]
    fn no_program_has_so_many_registers() {
        let pushed = [(0..20).collect::<Vec<u32>>()];
        let of = |registers| {
            let pushes = Pushes { rows: 20, positions: &pushed };
            compare(pushes, registers, 8, 1).unwrap()[0].program
        };
        assert!(of(45).is_some() && of(46).is_none());
    }

    #[test]
    fn wrong_pushes_are_named() {
        let compare = |pushed: Vec<u32>, pairs| {
            compare(Pushes { rows: 10, positions: &[pushed] }, 4, pairs, 1).map(|_| ())
        };
        assert_eq!(compare(vec![3, 10], 4), Err(LayoutError::Position { position: 10, rows: 10 }));
        assert_eq!(compare(vec![3, 4, 3], 4), Err(LayoutError::Twice(3)));
        assert_eq!(compare(vec![3], 0), Err(LayoutError::Pairs(0)));
        assert_eq!(compare(vec![], 4), Ok(()));
    }
}
