//! Collectives whose parts end on several threads: each ends with its last part, in order of submission.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::completion::{Done, Outcome};
use super::statistics::Outcomes;

/// What was submitted and has not ended, or is not told yet.
#[derive(Default)]
pub(super) struct Gathering(Mutex<State>);

#[derive(Default)]
struct State {
    /// Oldest first.
    open: VecDeque<Open>,
    /// Number of the oldest one.
    first: u64,
    /// A thread tells how collectives have ended, and goes on until there is none left to tell of.
    is_telling: bool,
    outcomes: Outcomes,
}

/// A collective with parts that have not ended.
struct Open {
    parts: usize,
    /// The worst so far.
    outcome: Option<Outcome>,
    done: Done,
}

impl Gathering {
    /// Notes a collective of so many parts; its number.
    pub fn open(&self, parts: usize, done: Done) -> u64 {
        let mut state = self.lock();
        state.open.push_back(Open { parts, outcome: None, done });
        state.first + state.open.len() as u64 - 1
    }

    /// The last one that was opened has not begun, and is not told of.
    pub fn withdraw_last(&self) {
        self.lock().open.pop_back();
    }

    /// A part has ended.
    pub fn note(&self, number: u64, outcome: Outcome) {
        let mut state = self.lock();
        let index = number.checked_sub(state.first).and_then(|index| usize::try_from(index).ok());
        let Some(open) = index.and_then(|index| state.open.get_mut(index)) else { return };
        open.parts -= 1;
        open.outcome = Some(match open.outcome.take() {
            Some(worst) if badness(&worst) >= badness(&outcome) => worst,
            _ => outcome,
        });
    }

    /// A collective without order has ended.
    pub fn count(&self, outcome: &Outcome) {
        self.lock().outcomes.count(outcome);
    }

    pub fn outcomes(&self) -> Outcomes {
        self.lock().outcomes.clone()
    }

    /// Tells of all that have ended, but for those behind one that has not. Who is told may submit.
    pub fn tell(&self) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_telling, true) {
            return;
        }
        while let Some(Open { outcome: Some(outcome), done, .. }) = state.next_to_tell() {
            state.outcomes.count(&outcome);
            drop(state);
            done(outcome);
            state = self.lock();
        }
        state.is_telling = false;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next_to_tell(&mut self) -> Option<Open> {
        let has_ended = self.open.front().is_some_and(|open| open.parts == 0);
        self.first += u64::from(has_ended);
        has_ended.then(|| self.open.pop_front()).flatten()
    }
}

/// How much has ended with it.
fn badness(outcome: &Outcome) -> u8 {
    outcome.as_ref().err().map_or(0, |error| error.badness())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wiresum_worker::{Failure, Participation};

    use super::super::errors::CollectiveError;
    use super::*;

    fn summed() -> Outcome {
        Ok(Participation { ranks: 2, is_own_in: true })
    }

    fn failed(failure: Failure) -> Outcome {
        Err(CollectiveError::Protocol { failure, remark: String::new() })
    }

    /// What was told, in order.
    type Told = Arc<Mutex<Vec<(u32, String)>>>;

    fn note(told: &Told, name: u32) -> Done {
        let told = Arc::clone(told);
        Box::new(move |outcome| {
            let words = outcome.map_or_else(|error| error.to_string(), |_| String::new());
            told.lock().expect("one at a time").push((name, words));
        })
    }

    fn end(gathering: &Gathering, number: u64, outcome: Outcome) {
        gathering.note(number, outcome);
        gathering.tell();
    }

    fn names(told: &Told) -> Vec<u32> {
        told.lock().expect("nobody panics").iter().map(|(name, _)| *name).collect()
    }

    #[test]
    fn a_collective_ends_with_its_last_part_and_after_those_before_it() {
        let (gathering, told) = (Gathering::default(), Told::default());
        let numbers = [2, 1, 2].map(|parts| gathering.open(parts, note(&told, parts as u32)));
        assert_eq!(numbers, [0, 1, 2]);
        for number in [1, 2, 0] {
            end(&gathering, number, summed());
            assert!(names(&told).is_empty());
        }
        end(&gathering, 0, summed());
        assert_eq!(names(&told), [2, 1]);
        end(&gathering, 2, summed());
        assert_eq!(names(&told), [2, 1, 2]);
        assert_eq!(gathering.outcomes().summed, 3);
    }

    #[test]
    fn the_worst_outcome_counts_and_of_two_as_bad_the_first() {
        let why = |why: &str| why.to_owned();
        for (first, second, expected) in [
            (summed(), failed(Failure::NotFinite), "NaN"),
            (
                failed(Failure::NotServed { why: why("elsewhere") }),
                failed(Failure::NotFinite),
                "elsewhere",
            ),
            (
                failed(Failure::Ended { why: why("root") }),
                failed(Failure::Ended { why: why("later") }),
                "root",
            ),
            (failed(Failure::NotServed { why: why("elsewhere") }), failed(Failure::Left), "left"),
        ] {
            let (gathering, told) = (Gathering::default(), Told::default());
            gathering.open(2, note(&told, 0));
            end(&gathering, 0, first);
            end(&gathering, 0, second);
            let told = told.lock().expect("nobody panics");
            assert!(told[0].1.contains(expected), "{:?}", told[0]);
        }
    }

    #[test]
    fn who_is_told_may_submit() {
        let gathering = Arc::new(Gathering::default());
        let told = Told::default();
        let (again, next) = (Arc::clone(&gathering), note(&told, 1));
        gathering.open(1, Box::new(move |_| assert_eq!(again.open(1, next), 1)));
        end(&gathering, 0, summed());
        assert!(names(&told).is_empty());
        end(&gathering, 1, summed());
        assert_eq!(names(&told), [1]);
    }

    #[test]
    fn what_has_not_begun_is_not_told_of() {
        let (gathering, told) = (Gathering::default(), Told::default());
        gathering.open(1, note(&told, 0));
        gathering.withdraw_last();
        assert_eq!(gathering.open(1, note(&told, 1)), 0);
        end(&gathering, 0, summed());
        assert_eq!(names(&told), [1]);
    }
}
