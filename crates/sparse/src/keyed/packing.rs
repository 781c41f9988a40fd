//! Which pairs go to the switch, and in which packets.

use std::collections::BTreeMap;

use wiresum_switch::keyed::Pair;

use crate::layout::{Layout, LayoutError, Packaging};

/// The map of hot keys as a worker uses it.
#[derive(Clone, Debug)]
pub struct HotKeys {
    positions: BTreeMap<u64, u32>,
    keys: Vec<u64>,
    layout: Layout,
    packaging: Packaging,
    pairs: u32,
}

/// Pairs by packet.
pub type Packed = Vec<Vec<Pair>>;

impl HotKeys {
    /// Keys by position, in registers by heat; packets of at most so many pairs.
    ///
    /// # Errors
    /// [`LayoutError`] if there are no registers or no pairs.
    pub fn new(
        keys: Vec<u64>,
        registers: u32,
        packaging: Packaging,
        pairs: u32,
    ) -> Result<Self, LayoutError> {
        let layout = Layout::by_heat(registers)?;
        packaging.pack(&[], &layout, pairs)?;
        let positions = keys.iter().copied().zip(0..).collect();
        Ok(Self { positions, keys, layout, packaging, pairs })
    }

    /// The packets of one iteration: to the switch, and to the server.
    #[must_use]
    pub fn pack(&self, gradients: &[Pair]) -> (Packed, Packed) {
        let (mut hot, mut cold) = (BTreeMap::new(), Vec::new());
        let mut order = Vec::new();
        for pair in gradients {
            match self.positions.get(&pair.key) {
                Some(position) => {
                    order.push(*position);
                    hot.insert(*position, pair.value);
                }
                None => cold.push(*pair),
            }
        }
        let packed = self.packaging.pack(&order, &self.layout, self.pairs).expect("tried before");
        let pair =
            |position: &u32| Pair { key: self.keys[*position as usize], value: hot[position] };
        let hot = packed.iter().map(|packet| packet.iter().map(pair).collect()).collect();
        (hot, chunks(&cold, self.pairs))
    }
}

/// Pairs in packets, in the given order.
pub(super) fn chunks(pairs: &[Pair], most: u32) -> Packed {
    pairs.chunks(most as usize).map(<[Pair]>::to_vec).collect()
}
