//! Ways that packets take, side by side in memory: a large network's routes are too many for a cache, the ways in use are not.

use std::collections::BTreeMap;

use super::RoutedLinks;

/// After the last step.
const END: u32 = u32::MAX;

/// Ways by number; one more than the number of a way is that of its rest.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    steps: Vec<u32>,
    known: BTreeMap<(u32, u32), Option<u32>>,
}

impl Paths {
    /// The way from one site to another; `None` if there is none.
    pub fn way(&mut self, network: &mut RoutedLinks, source: usize, target: usize) -> Option<u32> {
        let Self { steps, known } = self;
        *known.entry((source as u32, target as u32)).or_insert_with(|| {
            let path = network.path(source, target).ok()?;
            let begin = steps.len() as u32;
            steps.extend(path);
            steps.push(END);
            Some(begin)
        })
    }

    /// The way over one direction.
    pub fn alone(&mut self, direction: u32) -> u32 {
        let begin = self.steps.len() as u32;
        self.steps.extend([direction, END]);
        begin
    }

    /// The next direction of a way; `None` at its end.
    #[inline]
    #[must_use]
    pub fn step(&self, way: u32) -> Option<u32> {
        Some(self.steps[way as usize]).filter(|direction| *direction != END)
    }
}
