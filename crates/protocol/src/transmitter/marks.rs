//! A set of positions that lie within one slot count of each other, one bit each.

use wiresum_wire::FragmentId;

pub(super) struct Marks {
    words: Vec<u64>,
    mask: u32,
}

impl Marks {
    /// An empty set, for positions within `slots` of each other; a power of two.
    pub fn new(slots: u32) -> Self {
        Self { words: vec![0; slots.div_ceil(u64::BITS) as usize], mask: slots - 1 }
    }

    fn place(&self, position: FragmentId) -> (usize, u64) {
        let index = position.0 & self.mask;
        ((index / u64::BITS) as usize, 1 << (index % u64::BITS))
    }

    pub fn contains(&self, position: FragmentId) -> bool {
        let (word, bit) = self.place(position);
        self.words[word] & bit != 0
    }

    pub fn insert(&mut self, position: FragmentId) {
        let (word, bit) = self.place(position);
        self.words[word] |= bit;
    }

    /// Takes a position out; whether it was in.
    pub fn remove(&mut self, position: FragmentId) -> bool {
        let (word, bit) = self.place(position);
        let was_in = self.words[word] & bit != 0;
        self.words[word] &= !bit;
        was_in
    }

    pub fn clear(&mut self) {
        self.words.fill(0);
    }
}
