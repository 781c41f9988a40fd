//! How many fragments may be on their way.

use wiresum_wire::FragmentId;

/// A window between a least and a most size, in fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    size: u32,
    least: u32,
    most: u32,
    /// Below it every result makes room for one more fragment, above it every window of results.
    threshold: u32,
    /// Whether a mark lowers the threshold too.
    is_threshold_moved: bool,
    /// Results since the window last grew.
    credit: u32,
    /// Marks on positions before this one tell of congestion that was answered already.
    answered_until: Option<FragmentId>,
}

impl Window {
    /// Always `size`: clocked by results alone.
    #[must_use]
    pub fn fixed(size: u32) -> Self {
        Self {
            size,
            least: size,
            most: size,
            threshold: size,
            is_threshold_moved: false,
            credit: 0,
            answered_until: None,
        }
    }

    /// One more for each result up to `most`, half upon a mark (ATP).
    #[must_use]
    pub fn additive(initial: u32, most: u32) -> Self {
        Self { size: initial.clamp(1, most), least: 1, ..Self::fixed(most) }
    }

    /// As [`Self::additive`], but a mark leaves the threshold at the halved window (P4INC-AOI §VI-B). How the window grows above the
    /// threshold the paper leaves open; here by one for each window of results, as TCP's does.
    #[must_use]
    pub fn with_threshold(initial: u32, most: u32) -> Self {
        Self { is_threshold_moved: true, ..Self::additive(initial, most) }
    }

    /// Fragments that may be on their way.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Most that may ever be.
    #[must_use]
    pub fn most(&self) -> u32 {
        self.most
    }

    /// A result has come.
    pub(super) fn grow(&mut self) {
        self.credit += 1;
        if self.size < self.threshold || self.credit >= self.size {
            self.credit = 0;
            self.size = (self.size + 1).min(self.most);
        }
    }

    /// A mark has come with `position`, when `next` is the next one to be sent: answered once for each window.
    pub(super) fn shrink(&mut self, position: FragmentId, next: FragmentId) {
        if self.answered_until.is_some_and(|until| position.since(until) < 0) {
            return;
        }
        self.answered_until = Some(next);
        self.credit = 0;
        self.size = (self.size / 2).max(self.least);
        if self.is_threshold_moved {
            self.threshold = self.size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(mut window: Window, results: u32) -> u32 {
        (0..results).for_each(|_| window.grow());
        window.size()
    }

    #[test]
    fn a_fixed_window_heeds_nothing() {
        let mut window = Window::fixed(8);
        window.shrink(FragmentId(0), FragmentId(8));
        assert_eq!(grown(window, 100), 8);
    }

    #[test]
    fn an_additive_window_grows_with_each_result_up_to_its_bound() {
        assert_eq!(grown(Window::additive(2, 16), 5), 7);
        assert_eq!(grown(Window::additive(2, 16), 100), 16);
    }

    #[test]
    fn one_window_of_marks_halves_it_once() {
        let mut window = Window::additive(16, 16);
        for position in 0..16 {
            window.shrink(FragmentId(position), FragmentId(16));
        }
        assert_eq!(window.size(), 8);
        window.shrink(FragmentId(16), FragmentId(24));
        assert_eq!(window.size(), 4);
        assert_eq!(grown(window, 12), 16);
    }

    #[test]
    fn above_a_moved_threshold_a_window_of_results_makes_room_for_one() {
        let mut window = Window::with_threshold(16, 16);
        window.shrink(FragmentId(0), FragmentId(16));
        assert_eq!(grown(window, 7), 8);
        assert_eq!(grown(window, 8), 9);
        assert_eq!(grown(window, 17), 10);
    }

    #[test]
    fn it_never_closes() {
        let mut window = Window::additive(1, 4);
        window.shrink(FragmentId(0), FragmentId(1));
        assert_eq!(window.size(), 1);
    }
}
