//! Parts of a collective whose results are written over its values.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use wiresum_wire::NOT_FINITE;
use wiresum_worker::{Collective, Source};

use super::wake::Wake;

/// What the parts of a collective wait for that are summed in place: whether all values can be summed. If one cannot, all
/// parts say so, on all ranks, and nothing is written; else a rank whose part is summed already could not do it again.
pub(super) struct Whole {
    unseen: AtomicUsize,
    is_sound: AtomicBool,
    waiting: Vec<Wake>,
}

impl Whole {
    /// A collective of so many parts, for which some of these threads wait.
    pub fn new(parts: usize, waiting: Vec<Wake>) -> Self {
        let unseen = AtomicUsize::new(parts);
        Self { unseen, is_sound: AtomicBool::new(true), waiting }
    }

    /// Looks through a part.
    pub fn look_at(&self, part: &dyn Source) {
        if part.exponent(0..part.len()) == NOT_FINITE {
            self.is_sound.store(false, Ordering::Relaxed);
        }
        // Whoever sees that all parts were looked at sees what was found in them.
        if self.unseen.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiting.iter().for_each(Wake::wake);
        }
    }

    /// Whether all parts were looked at.
    pub fn is_seen(&self) -> bool {
        self.unseen.load(Ordering::Acquire) == 0
    }

    /// The part as it has to be summed.
    pub fn judge(&self, part: Collective) -> Collective {
        if self.is_sound.load(Ordering::Relaxed) {
            return part;
        }
        Collective { source: Box::new(Unsound(part.source)), ..part }
    }
}

/// Values of a collective with others that cannot be summed.
struct Unsound(Box<dyn Source>);

impl Source for Unsound {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn signature(&self) -> u8 {
        self.0.signature()
    }

    fn width(&self) -> usize {
        self.0.width()
    }

    fn exponent(&self, _range: Range<usize>) -> i32 {
        NOT_FINITE
    }

    fn encode(&self, range: Range<usize>, exponent: i8, lanes: &mut [u8]) -> u32 {
        self.0.encode(range, exponent, lanes)
    }
}
