//! What a worker does in a round, one thing after another: the same in packets and in flows.

use crate::SimulationError;
use crate::scenario::{Action, Job};

/// What a worker does next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Next {
    /// It computes for so many seconds.
    Compute(f64),
    /// It begins this collective of its job, which may be the first one of its round.
    Begin { collective: usize, is_first: bool },
    /// It waits until one more of its collectives has ended, or until it has computed.
    Wait,
    /// Its round is over.
    End,
}

/// A worker's place in its round.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    actions: Vec<Action>,
    /// The next of them.
    at: usize,
    /// Seconds of computing in this round.
    compute_s: f64,
    /// Whether it computes now, or has not begun the round.
    is_busy: bool,
    /// Collectives of this round that it has begun, and those of them that have ended.
    begun: usize,
    ended: usize,
}

impl Course {
    /// The course of each worker of a job.
    ///
    /// # Errors
    /// [`SimulationError::Job`], if there is an action that cannot be done.
    pub fn of(job: &Job) -> Result<Self, SimulationError> {
        let mut actions = job.actions.clone();
        if actions.is_empty() {
            actions.push(Action::Compute(1.0));
            actions.extend((0..job.collectives.len()).map(Action::Begin));
        }
        match problem(job, &actions) {
            None => Ok(Self { actions, at: 0, compute_s: 0.0, is_busy: true, begun: 0, ended: 0 }),
            Some(problem) => Err(SimulationError::Job { job: job.name.clone(), problem }),
        }
    }

    /// Gets ready for a round with so much computing. Seconds of it that come before anything else.
    pub fn start(&mut self, compute_s: f64) -> f64 {
        (self.at, self.begun, self.ended) = (0, 0, 0);
        (self.compute_s, self.is_busy) = (compute_s, true);
        match self.actions.first() {
            Some(Action::Compute(share)) => {
                self.at = 1;
                share * compute_s
            }
            _ => 0.0,
        }
    }

    /// It has computed what it was told to.
    pub fn note_computed(&mut self) {
        self.is_busy = false;
    }

    /// The oldest collective that had not ended has.
    pub fn note_end(&mut self) {
        self.ended += 1;
    }

    /// What comes next; an action is told once, but that it waits as often as it does.
    pub fn next(&mut self) -> Next {
        if self.is_busy {
            return Next::Wait;
        }
        loop {
            let Some(action) = self.actions.get(self.at) else {
                return if self.ended < self.begun { Next::Wait } else { Next::End };
            };
            match *action {
                Action::Wait(count) if self.ended < count => return Next::Wait,
                Action::Wait(_) => self.at += 1,
                Action::Compute(share) => {
                    self.at += 1;
                    self.is_busy = true;
                    return Next::Compute(share * self.compute_s);
                }
                Action::Begin(collective) => {
                    self.at += 1;
                    self.begun += 1;
                    return Next::Begin { collective, is_first: self.begun == 1 };
                }
            }
        }
    }
}

/// What is wrong with actions, if anything is.
fn problem(job: &Job, actions: &[Action]) -> Option<String> {
    let mut begun = 0;
    for action in actions {
        match *action {
            Action::Begin(collective) if collective >= job.collectives.len() => {
                return Some(format!("a round begins collective {collective}, which it lacks"));
            }
            Action::Begin(_) => begun += 1,
            Action::Wait(count) if count > begun => {
                return Some(format!("a round waits for {count} collectives when {begun} began"));
            }
            Action::Compute(share) if !(0.0..=1.0).contains(&share) => {
                return Some(format!("a part of a round computes {share} of its computing"));
            }
            Action::Wait(_) | Action::Compute(_) => {}
        }
    }
    (begun == 0).then(|| "a round begins no collective".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{GIGABIT, Tree, scenario};

    fn course(actions: &[Action]) -> Result<Course, SimulationError> {
        let mut made = scenario(&Tree::star(2), "pool", 4000, GIGABIT);
        made.jobs[0].actions = actions.to_vec();
        Course::of(&made.jobs[0])
    }

    const FIRST: Next = Next::Begin { collective: 0, is_first: true };
    const LATER: Next = Next::Begin { collective: 0, is_first: false };

    #[test]
    fn without_actions_a_worker_computes_and_begins_all() {
        let mut course = course(&[]).expect("a course");
        for _ in 0..2 {
            assert_eq!(course.start(3.0), 3.0);
            course.note_computed();
            assert_eq!([course.next(), course.next()], [FIRST, Next::Wait]);
            course.note_end();
            assert_eq!(course.next(), Next::End);
        }
    }

    #[test]
    fn a_worker_waits_where_it_says_so_and_at_the_end() {
        let actions = [Action::Begin(0), Action::Compute(0.25), Action::Wait(1), Action::Begin(0)];
        let mut course = course(&actions).expect("a course");
        assert_eq!(course.start(4.0), 0.0);
        course.note_computed();
        assert_eq!([course.next(), course.next()], [FIRST, Next::Compute(1.0)]);
        course.note_end();
        assert_eq!(course.next(), Next::Wait, "it computes");
        course.note_computed();
        assert_eq!([course.next(), course.next()], [LATER, Next::Wait]);
        course.note_end();
        assert_eq!(course.next(), Next::End);
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let begin = Action::Begin(0);
        let cases: [(&[Action], &str); 4] = [
            (&[Action::Begin(1)], "begins collective 1"),
            (&[begin, Action::Wait(2), begin], "waits for 2 collectives when 1 began"),
            (&[Action::Compute(1.5), begin], "computes 1.5"),
            (&[Action::Compute(1.0)], "begins no collective"),
        ];
        for (actions, problem) in cases {
            let refused = course(actions).expect_err("a refusal").to_string();
            assert!(refused.contains(problem), "{refused}");
        }
    }
}
