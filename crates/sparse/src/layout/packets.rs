//! The pairs of one push in packets, and what they cost a switch.

use super::Layout;

/// The positions of one push, packet by packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    /// Positions, those of the first packet first.
    positions: Vec<u32>,
    /// Where each packet ends.
    ends: Vec<u32>,
}

impl Packets {
    /// Packets of these positions, which end where `ends` says.
    pub(super) fn new(positions: Vec<u32>, ends: Vec<u32>) -> Self {
        debug_assert_eq!(ends.last().copied().unwrap_or_default() as usize, positions.len());
        Self { positions, ends }
    }

    /// The positions of each packet.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        (0..self.ends.len()).map(|packet| {
            let begin = packet.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.positions[begin as usize..self.ends[packet] as usize]
        })
    }

    /// The number of packets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether nothing was pushed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Recirculations of all packets together in a program that takes one pair a pass, as the authors' released one does:
    /// each pair but a packet's last one costs one.
    #[must_use]
    pub fn one_pair_a_pass(&self) -> u64 {
        (self.positions.len() - self.len()) as u64
    }

    /// Recirculations of each packet in a program that takes one pair of each register a pass: the most pairs that one
    /// register has in the packet, less one.
    #[must_use]
    pub fn recirculations(&self, layout: &Layout) -> Vec<u32> {
        let mut pairs = vec![0u32; layout.registers() as usize];
        let mut of_packet = |packet: &[u32]| {
            let mut most = 0;
            for position in packet {
                let count = &mut pairs[layout.register(*position) as usize];
                *count += 1;
                most = most.max(*count);
            }
            packet.iter().for_each(|position| pairs[layout.register(*position) as usize] = 0);
            most.saturating_sub(1)
        };
        self.iter().map(&mut of_packet).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_counting() {
        let layout = Layout::by_heat(4).unwrap();
        let packets = Packets::new(vec![0, 4, 8, 1, 0, 1, 2], vec![4, 7]);
        assert_eq!(packets.one_pair_a_pass(), 5);
        assert_eq!(packets.recirculations(&layout), [2, 0]);
    }
}
