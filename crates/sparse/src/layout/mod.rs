//! Which register of a switch holds which hot row, and which pairs of a push share a packet (ZEBRA, §III-D).
//!
//! A switch reaches each register once while a packet passes. A packet with two pairs of one register has to pass a second
//! time, which is a *recirculation*. Two choices decide how many there are: the [`Layout`] puts positions into registers,
//! the [`Packaging`] puts the pairs of one push into packets.

mod compare;
mod packaging;
mod packets;

pub use compare::{Comparison, Pushes, compare};
pub use packaging::{PACKAGINGS, Packaging};
pub use packets::Packets;

use thiserror::Error;

/// Most registers of a layout, and most pairs of a packet: numbers of both fit 16 bits in a plan.
pub const MAX_REGISTERS: u32 = 1 << 16;

/// A layout or a packet that cannot be.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum LayoutError {
    /// Too few or too many registers.
    #[error("{0} registers: a layout has 1 to {MAX_REGISTERS}")]
    Registers(u32),
    /// Too few or too many pairs.
    #[error("{0} pairs a packet: a packet holds 1 to {MAX_REGISTERS}")]
    Pairs(u32),
    /// A position that the layout does not have.
    #[error("position {position} is pushed, but the layout has {rows} rows, counted from 0")]
    Position {
        /// The position.
        position: u32,
        /// Rows of the layout.
        rows: u32,
    },
    /// A push that has a row twice.
    #[error("position {0} is pushed twice: merge equal keys before they are packed")]
    Twice(u32),
}

/// Which register holds which position. Position 0 is the most popular row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    registers: u32,
    /// The place of each position, where they are shuffled; its own number where not.
    places: Option<Vec<u32>>,
}

impl Layout {
    /// The paper's layout by heat: θ_{i + mj} is in register i of m, for j below ⌈n/m⌉. Positions i and i + m differ most in
    /// popularity, so they rarely meet where packets are filled in order of rank.
    ///
    /// # Errors
    /// [`LayoutError::Registers`].
    pub fn by_heat(registers: u32) -> Result<Self, LayoutError> {
        if !(1..=MAX_REGISTERS).contains(&registers) {
            return Err(LayoutError::Registers(registers));
        }
        Ok(Self { registers, places: None })
    }

    /// The paper's baseline: `rows` positions, shuffled, then dealt to the registers in turn.
    ///
    /// # Errors
    /// [`LayoutError::Registers`].
    pub fn at_random(registers: u32, rows: u32, seed: u64) -> Result<Self, LayoutError> {
        let mut places: Vec<u32> = (0..rows).collect();
        for last in (1..rows).rev() {
            let other = crate::mix(seed ^ u64::from(last) << 32) % (u64::from(last) + 1);
            places.swap(last as usize, other as usize);
        }
        Ok(Self { places: Some(places), ..Self::by_heat(registers)? })
    }

    /// The number of registers.
    #[must_use]
    pub fn registers(&self) -> u32 {
        self.registers
    }

    /// The register of a position.
    ///
    /// # Panics
    /// If the positions are shuffled, and this is none of them.
    #[must_use]
    #[inline]
    pub fn register(&self, position: u32) -> u32 {
        self.place(position) % self.registers
    }

    /// The place of a position: places go to the registers in turn.
    ///
    /// # Panics
    /// As [`Self::register`].
    #[must_use]
    #[inline]
    pub fn place(&self, position: u32) -> u32 {
        self.places.as_ref().map_or(position, |places| places[position as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_puts_every_mth_position_into_one_register() {
        let layout = Layout::by_heat(4).unwrap();
        let registers: Vec<u32> = (0..9).map(|position| layout.register(position)).collect();
        assert_eq!(registers, [0, 1, 2, 3, 0, 1, 2, 3, 0]);
    }

    #[test]
    fn at_random_registers_are_equally_full_and_the_seed_decides() {
        let layout = Layout::at_random(8, 80, 1).unwrap();
        let mut rows = [0; 8];
        (0..80).for_each(|position| rows[layout.register(position) as usize] += 1);
        assert_eq!(rows, [10; 8]);
        assert_eq!(layout, Layout::at_random(8, 80, 1).unwrap());
        assert_ne!(layout, Layout::at_random(8, 80, 2).unwrap());
    }

    #[test]
    fn a_layout_needs_registers() {
        assert_eq!(Layout::by_heat(0), Err(LayoutError::Registers(0)));
        assert_eq!(Layout::by_heat(65_537), Err(LayoutError::Registers(65_537)));
    }
}
