//! What a transmitter counts.

/// Counts since the transmitter's construction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Notes taken off the check queue.
    pub checks: u64,
    /// Surveys of a group of slots.
    pub surveys: u64,
    /// Questions to parents.
    pub questions: u64,
    /// Groups that a parent has reported on.
    pub groups_checked: u64,
    /// Sums that a parent lacked, or had a result for that was not here: the lost list.
    pub lost: u64,
    /// Sums sent again.
    pub sent_again: u64,
    /// Questions because nothing had moved for a timeout.
    pub tail_checks: u64,
}

impl Counters {
    /// Names and values, in a fixed order.
    pub fn list(&self) -> [(&'static str, u64); 7] {
        [
            ("checks", self.checks),
            ("surveys", self.surveys),
            ("questions", self.questions),
            ("groups_checked", self.groups_checked),
            ("lost", self.lost),
            ("sent_again", self.sent_again),
            ("tail_checks", self.tail_checks),
        ]
    }

    /// Adds another transmitter's.
    pub fn add(&mut self, other: &Self) {
        self.checks += other.checks;
        self.surveys += other.surveys;
        self.questions += other.questions;
        self.groups_checked += other.groups_checked;
        self.lost += other.lost;
        self.sent_again += other.sent_again;
        self.tail_checks += other.tail_checks;
    }
}
