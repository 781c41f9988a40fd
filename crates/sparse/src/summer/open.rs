//! A set of positions of which the smallest ones leave: a bit each, as most positions of the map have a sum in a round.

/// Positions that have a sum which has not left.
#[derive(Clone, Debug, Default)]
pub(super) struct Open {
    words: Vec<u64>,
    /// No word before it has a bit.
    first: usize,
}

impl Open {
    pub(super) fn insert(&mut self, position: u32) {
        let word = position as usize / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (position % 64);
        self.first = self.first.min(word);
    }

    /// The smallest one.
    pub(super) fn first(&mut self) -> Option<u32> {
        let rest = self.words.get(self.first..)?;
        let skipped = rest.iter().position(|word| *word != 0).unwrap_or(rest.len());
        self.first += skipped;
        let word = self.words.get(self.first)?;
        Some(self.first as u32 * 64 + word.trailing_zeros())
    }

    /// Takes the one that [`Self::first`] has told of.
    pub(super) fn remove_first(&mut self) {
        let word = &mut self.words[self.first];
        *word &= *word - 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(steps in prop::collection::vec(prop::option::of(0u32..300), 0..200)) {
            let (mut open, mut expected) = (Open::default(), BTreeSet::new());
            for step in steps {
                match step {
                    Some(position) => {
                        open.insert(position);
                        expected.insert(position);
                    }
                    None if expected.pop_first().is_some() => open.remove_first(),
                    None => {}
                }
                prop_assert_eq!(open.first(), expected.first().copied());
            }
        }
    }
}
