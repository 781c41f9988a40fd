//! A multigraph of circuits split into slots, so that no unit needs more ports in a slot than it has.
//!
//! Petersen (1891): a regular multigraph of even degree is a union of 2-factors. So circuits of which each unit has
//! P × S, P even, can be dealt to S slots with P in each: nothing is lost by counting circuits over all slots. Euler
//! tours direct the edges, so that half of each unit's circuits leave it; what leaves and what arrives is a bipartite
//! multigraph, whose edges are coloured with as many colours as its degree (König); P / 2 colours make a slot.

use std::collections::BTreeMap;

/// Circuits by slot: units, how many.
pub type Slots = Vec<Vec<([usize; 2], u32)>>;

/// No arc, or no colour.
const NONE: usize = usize::MAX;

/// Deals circuits to slots; of an odd number of ports, one is left out. Returns those that found no slot, too: there
/// are none unless a unit has more than slots × (even part of the ports).
#[must_use]
pub fn split(
    units: usize,
    ports: u32,
    slots: usize,
    circuits: &[([usize; 2], u32)],
) -> (Slots, Vec<[usize; 2]>) {
    let half = (ports / 2) as usize;
    let mut edges = Vec::new();
    for (pair, count) in circuits {
        edges.extend(std::iter::repeat_n(*pair, *count as usize));
    }
    let (colour_of, left) = coloured(units, half * slots, &directed(units, &edges));
    let mut dealt = vec![BTreeMap::new(); slots];
    for (edge, colour) in colour_of.into_iter().enumerate().filter(|(_, colour)| *colour != NONE) {
        *dealt[colour / half].entry(edges[edge]).or_insert(0) += 1;
    }
    let slots = dealt.into_iter().map(|slot| slot.into_iter().collect()).collect();
    (slots, left.into_iter().map(|edge| edges[edge]).collect())
}

/// Directs every edge so that at each unit as many leave as arrive, or one more or less: Euler tours, where units of
/// odd degree are joined to an extra one.
fn directed(units: usize, edges: &[[usize; 2]]) -> Vec<[usize; 2]> {
    let mut degree = vec![0; units + 1];
    edges.iter().flatten().for_each(|unit| degree[*unit] += 1);
    let odd = (0..units).filter(|unit| degree[*unit] % 2 == 1).map(|unit| [unit, units]);
    let all: Vec<[usize; 2]> = edges.iter().copied().chain(odd).collect();
    let mut at = vec![Vec::new(); units + 1];
    for (edge, ends) in all.iter().enumerate() {
        ends.iter().for_each(|unit| at[*unit].push(edge));
    }
    let mut arcs = vec![None; all.len()];
    for start in 0..=units {
        // A walk ends where it began, as all degrees are even; several walks are as good as one tour.
        let mut unit = start;
        while let Some(edge) = at[unit].pop() {
            if arcs[edge].is_none() {
                let [a, b] = all[edge];
                let next = if a == unit { b } else { a };
                arcs[edge] = Some([unit, next]);
                unit = next;
            }
        }
    }
    arcs.into_iter().take(edges.len()).map(|arc| arc.expect("every edge is walked")).collect()
}

/// Colours arcs so that no two of a colour leave, or enter, the same unit. Alternating paths make room, which always
/// succeeds while no unit has more than `colours` arcs on a side. Returns those that found none, too.
fn coloured(units: usize, colours: usize, arcs: &[[usize; 2]]) -> (Vec<usize>, Vec<usize>) {
    // The arc of a colour at a unit's out side and in side.
    let mut taken = [vec![NONE; units * colours], vec![NONE; units * colours]];
    let mut colour_of = vec![NONE; arcs.len()];
    let mut left = Vec::new();
    for arc in 0..arcs.len() {
        let [from, to] = arcs[arc];
        let free = |taken: &[Vec<usize>; 2], side: usize, unit: usize| {
            (0..colours).find(|colour| taken[side][unit * colours + colour] == NONE)
        };
        let (Some(a), Some(b)) = (free(&taken, 0, from), free(&taken, 1, to)) else {
            left.push(arc);
            continue;
        };
        if taken[1][to * colours + a] != NONE {
            swap(arcs, colours, &mut taken, &mut colour_of, to, a, b);
        }
        taken[0][from * colours + a] = arc;
        taken[1][to * colours + a] = arc;
        colour_of[arc] = a;
    }
    (colour_of, left)
}

/// Swaps colours a and b along the path that begins with the arc of colour a into `unit`.
fn swap(
    arcs: &[[usize; 2]],
    colours: usize,
    taken: &mut [Vec<usize>; 2],
    colour_of: &mut [usize],
    mut unit: usize,
    mut a: usize,
    mut b: usize,
) {
    let mut path = Vec::new();
    let mut side = 1;
    while let Some(arc) = Some(taken[side][unit * colours + a]).filter(|arc| *arc != NONE) {
        path.push((arc, b));
        side = 1 - side;
        unit = arcs[arc][side];
        std::mem::swap(&mut a, &mut b);
    }
    for (arc, _) in &path {
        for (side, taken) in taken.iter_mut().enumerate() {
            taken[arcs[*arc][side] * colours + colour_of[*arc]] = NONE;
        }
    }
    for (arc, colour) in path {
        for (side, taken) in taken.iter_mut().enumerate() {
            taken[arcs[arc][side] * colours + colour] = arc;
        }
        colour_of[arc] = colour;
    }
}
