//! Things in flight, by number.

/// Memory for as many things as are in flight at once; numbers of those that are gone are used again.
pub struct Slab<T> {
    entries: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T: Default> Slab<T> {
    /// A number, and the thing that has it: a new one, or an old one to be overwritten, whose memory is used again.
    #[inline]
    pub fn take(&mut self) -> (u32, &mut T) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.entries.push(T::default());
            (self.entries.len() - 1) as u32
        });
        (number, &mut self.entries[number as usize])
    }

    /// Gives a number back.
    #[inline]
    pub fn give_back(&mut self, number: u32) {
        self.free.push(number);
    }

    /// The thing with a number.
    #[inline]
    pub fn get(&self, number: u32) -> &T {
        &self.entries[number as usize]
    }

    /// The thing with a number.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> &mut T {
        &mut self.entries[number as usize]
    }
}
