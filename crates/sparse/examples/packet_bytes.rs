//! Prints bytes a row of 16 float32 on the wire, for some ways to say which row it is: `cargo run --release -p
//! wiresum-sparse --example packet_bytes`.
//!
//! Pushes are the distinct rows among lookups by Zipf's law (exponent 1.05, a million rows); the first 30,000 ranks are hot,
//! and positions are ranks. Packets have 1472 bytes with the header of 38, and 66 on the wire beside.

#[path = "support/zipf.rs"]
mod zipf;

use wiresum_netem::{OVERHEAD_BYTES, Rng};
use zipf::Zipf;

const ROWS: usize = 1_000_000;
const HOT: u64 = 30_000;
const EXPONENT: f64 = 1.05;
const VALUES: usize = 64;
const ROOM: usize = 1472 - HEADER;
const HEADER: usize = 38;

fn main() {
    println!(
        "{:<10}{:<10}{:<44}{:>10}{:>12}",
        "lookups", "rows", "  which row", "packets", "bytes / row"
    );
    let (mut rng, zipf) = (Rng::new(1), Zipf::new(ROWS, EXPONENT));
    for lookups in [4_000, 16_000, 64_000] {
        let pushed = push(&mut rng, &zipf, lookups);
        let (hot, cold): (Vec<u64>, Vec<u64>) = pushed.into_iter().partition(|row| *row < HOT);
        // Cold rows are named by key, which has nothing to do with rank.
        let mut cold: Vec<u64> = cold.into_iter().map(|row| row * 740_629 % ROWS as u64).collect();
        cold.sort_unstable();
        report(lookups, cold.len(), "  cold: key, 8 bytes", packets(&cold, 8, 8));
        report(lookups, cold.len(), "  cold: key in the table, 4 bytes", packets(&cold, 8, 4));
        report(
            lookups,
            cold.len(),
            "  cold: gap to the key before, 1 to 10 bytes",
            packets_of_gaps(&cold),
        );
        report(lookups, hot.len(), "  hot: position, 4 bytes", packets(&hot, 4, 4));
        report(
            lookups,
            hot.len(),
            "  hot: offset from the packet's base, 2 bytes",
            packets(&hot, 8, 2),
        );
        report(
            lookups,
            hot.len(),
            "  hot: gap to the position before, 1 to 5",
            packets_of_gaps(&hot),
        );
        report(lookups, hot.len(), "  hot: bit in a map of the packet's range", bitmaps(&hot));
        report(
            lookups,
            hot.len(),
            "  hot: all 30,000 as blocks",
            packets(&Vec::from_iter(0..HOT), 8, 0),
        );
    }
}

/// Packets, and their bytes on the wire.
type Cost = (usize, usize);

fn report(lookups: usize, rows: usize, name: &str, (packets, bytes): Cost) {
    println!("{lookups:<10}{rows:<10}{name:<44}{packets:>10}{:>12.1}", bytes as f64 / rows as f64);
}

/// Rows whose names take `name` bytes, after `extra` bytes in each packet.
fn packets(rows: &[u64], extra: usize, name: usize) -> Cost {
    packed(rows, extra, |_, _| name)
}

/// Rows that are named by how far they are from the one before, also across packets.
fn packets_of_gaps(rows: &[u64]) -> Cost {
    packed(rows, 8, |before, row| varint(row - before.unwrap_or(row)))
}

fn packed(rows: &[u64], extra: usize, name: impl Fn(Option<u64>, u64) -> usize) -> Cost {
    let (mut packets, mut bytes, mut used, mut before) = (0, 0, ROOM, None);
    for row in rows {
        let next = name(before, *row) + VALUES;
        if used + next > ROOM {
            packets += 1;
            used = extra;
            bytes += HEADER + OVERHEAD_BYTES as usize + extra;
        }
        used += next;
        bytes += next;
        before = Some(*row);
    }
    (packets, bytes)
}

/// Each packet has a bit for every position from its first row to its last one.
fn bitmaps(rows: &[u64]) -> Cost {
    let (mut packets, mut bytes, mut first) = (0, 0, 0);
    while first < rows.len() {
        let map = |last: usize| ((rows[last] - rows[first] + 1) as usize).div_ceil(8);
        let fits = |last: &usize| 8 + map(*last) + (last - first + 1) * VALUES <= ROOM;
        let last = (first..rows.len()).take_while(fits).last().expect("one row fits");
        packets += 1;
        bytes += HEADER + OVERHEAD_BYTES as usize + 8 + map(last) + (last - first + 1) * VALUES;
        first = last + 1;
    }
    (packets, bytes)
}

fn varint(number: u64) -> usize {
    (64 - number.leading_zeros() as usize).div_ceil(7).max(1)
}

fn push(rng: &mut Rng, zipf: &Zipf, lookups: usize) -> Vec<u64> {
    let mut rows: Vec<u64> = (0..lookups).map(|_| zipf.draw(rng) as u64).collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}
