//! How many fragments may be on their way.

use wiresum_wire::FragmentId;

/// What a policy's paper has its workers do upon a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marks {
    Ignored,
    Halve,
    /// The threshold goes down with the window.
    HalveThreshold,
}

/// A window of one fragment up to a most size. Losses halve it where they are known as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    size: u32,
    most: u32,
    /// Below it every result makes room for one more fragment, above it every window of results.
    threshold: u32,
    marks: Marks,
    /// Results since the window last grew.
    credit: u32,
    /// Marks on positions before this one, and losses of them, tell of congestion that was answered already.
    answered_until: Option<FragmentId>,
}

impl Window {
    /// `size` until something is lost: clocked by results alone.
    #[must_use]
    pub fn fixed(size: u32) -> Self {
        Self {
            size,
            most: size,
            threshold: size,
            marks: Marks::Ignored,
            credit: 0,
            answered_until: None,
        }
    }

    /// One more for each result up to `most`, half upon a mark (ATP).
    #[must_use]
    pub fn additive(initial: u32, most: u32) -> Self {
        Self { size: initial.clamp(1, most), marks: Marks::Halve, ..Self::fixed(most) }
    }

    /// As [`Self::additive`], but a mark leaves the threshold at the halved window (P4INC-AOI §VI-B). How the window grows above the
    /// threshold the paper leaves open; here by one for each window of results, as TCP's does.
    #[must_use]
    pub fn with_threshold(initial: u32, most: u32) -> Self {
        Self { marks: Marks::HalveThreshold, ..Self::additive(initial, most) }
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
    pub(super) fn heed_mark(&mut self, position: FragmentId, next: FragmentId) {
        if self.marks == Marks::Ignored || !self.halve(position, next) {
            return;
        }
        if self.marks == Marks::HalveThreshold {
            self.threshold = self.size;
        }
    }

    /// `position` was lost where a queue stands: likewise, and what was too much is approached slowly from here on.
    pub(super) fn heed_loss(&mut self, position: FragmentId, next: FragmentId) {
        if self.halve(position, next) {
            self.threshold = self.size;
        }
    }

    /// All but so many were lost at once: that is what there was room for.
    pub(super) fn keep(&mut self, fragments: u32) {
        self.size = fragments.clamp(1, self.size);
        self.threshold = self.size;
        self.credit = 0;
    }

    /// Whether this is the first news of its window.
    fn halve(&mut self, position: FragmentId, next: FragmentId) -> bool {
        let is_first = self.answered_until.is_none_or(|until| position.since(until) >= 0);
        if is_first {
            self.answered_until = Some(next);
            self.credit = 0;
            self.size = (self.size / 2).max(1);
        }
        is_first
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
    fn a_fixed_window_heeds_losses_alone() {
        let mut window = Window::fixed(8);
        window.heed_mark(FragmentId(0), FragmentId(8));
        assert_eq!(grown(window, 100), 8);
        window.heed_loss(FragmentId(0), FragmentId(8));
        assert_eq!(grown(window, 3), 4);
        assert_eq!(grown(window, 4), 5);
        assert_eq!(grown(window, 4 + 5 + 6 + 7 + 100), 8);
    }

    #[test]
    fn what_was_too_much_is_approached_slowly_whatever_marks_do() {
        let mut window = Window::additive(16, 16);
        window.heed_loss(FragmentId(0), FragmentId(16));
        assert_eq!(grown(window, 7), 8);
        assert_eq!(grown(window, 8), 9);
    }

    #[test]
    fn an_additive_window_grows_with_each_result_up_to_its_bound() {
        assert_eq!(grown(Window::additive(2, 16), 5), 7);
        assert_eq!(grown(Window::additive(2, 16), 100), 16);
    }

    #[test]
    fn after_a_burst_of_losses_it_has_room_for_what_was_not_lost() {
        let mut window = Window::fixed(16);
        window.keep(5);
        assert_eq!(grown(window, 4), 5);
        assert_eq!(grown(window, 5), 6);
        window.keep(0);
        assert_eq!(window.size(), 1);
        window.keep(9);
        assert_eq!(window.size(), 1, "no losses make it larger");
    }

    #[test]
    fn one_window_of_marks_halves_it_once() {
        let mut window = Window::additive(16, 16);
        for position in 0..16 {
            window.heed_mark(FragmentId(position), FragmentId(16));
        }
        assert_eq!(window.size(), 8);
        window.heed_mark(FragmentId(16), FragmentId(24));
        assert_eq!(window.size(), 4);
        assert_eq!(grown(window, 12), 16);
    }

    #[test]
    fn above_a_moved_threshold_a_window_of_results_makes_room_for_one() {
        let mut window = Window::with_threshold(16, 16);
        window.heed_mark(FragmentId(0), FragmentId(16));
        assert_eq!(grown(window, 7), 8);
        assert_eq!(grown(window, 8), 9);
        assert_eq!(grown(window, 17), 10);
    }

    #[test]
    fn it_never_closes() {
        let mut window = Window::additive(1, 4);
        window.heed_mark(FragmentId(0), FragmentId(1));
        assert_eq!(window.size(), 1);
    }
}
