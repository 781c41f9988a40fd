//! Who answers, one file each; [`SCHEDULERS`] is the registry.

mod events;
mod fcfs;
mod fullest;
mod held;
mod matrices;
mod online;
mod ordered;
mod slots;
mod turns;
mod window;

pub use online::{Online, Share, Slot};
use serde::{Deserialize, Serialize};

use crate::board::{Board, Turn};
use crate::cost::{Cost, alone_s};
use crate::problem::Problem;
use crate::timetable::{Interval, Status, TIMETABLE_FORMAT, Timetable, intervals};
use crate::{Instance, ScheduleError, bound, judge};
use events::Events;
use slots::Slots;

/// Completion that is so little above the bound, relatively, is at the bound.
const AT_BOUND: f64 = 1e-9;

/// Makes a scheduler that decides with what it knows now.
type Slotwise = for<'a> fn(&'a Problem<'a>, &Options) -> Result<Slots<'a>, ScheduleError>;

/// Intervals, and a bound where the scheduler needed to know it, in seconds.
type Answer = Result<(Vec<Interval>, Option<f64>), ScheduleError>;

/// A scheduler: its name, and what it does in one line.
pub struct Scheduler {
    /// In commands and timetables.
    pub name: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    answers: Answers,
}

/// When a scheduler decides.
enum Answers {
    /// Circuits and rates change with slots.
    InSlots {
        slotwise: Slotwise,
        /// Where it can look ahead: all slots at once.
        ahead: Option<for<'a> fn(&'a Problem<'a>, &Options) -> Plan<'a>>,
    },
    /// They change whenever something happens.
    AtEvents {
        events: for<'a> fn(&'a Problem<'a>, &Options) -> Result<Events<'a>, ScheduleError>,
        /// All at once.
        ahead: for<'a> fn(&'a Problem<'a>, &Options) -> Result<Vec<Interval>, ScheduleError>,
    },
}

impl Scheduler {
    /// Whether its circuits and rates change with slots only.
    #[must_use]
    pub const fn keeps_slots(&self) -> bool {
        matches!(self.answers, Answers::InSlots { .. })
    }

    /// The scheduler of that name.
    fn named(name: &str) -> Result<&'static Self, ScheduleError> {
        let found = SCHEDULERS.iter().find(|scheduler| scheduler.name == name);
        found.ok_or_else(|| ScheduleError::Field {
            field: "scheduler".to_owned(),
            problem: format!(
                "there is no `{name}`; there are {}",
                SCHEDULERS.iter().map(|scheduler| scheduler.name).collect::<Vec<_>>().join(", ")
            ),
        })
    }
}

/// All schedulers. A new one is a file and a line.
pub const SCHEDULERS: &[Scheduler] = &[
    Scheduler {
        name: "turns",
        summary: "insertion at rates that fill the slot, then ruin and recreate towards the bound",
        answers: Answers::InSlots { slotwise: turns::online, ahead: Some(turns::run) },
    },
    Scheduler {
        name: "events",
        summary: "without slots: circuits change when something ends or comes; needs `slots: false`",
        answers: Answers::AtEvents { events: events::online, ahead: events::run },
    },
    slotwise(
        "window",
        "time windows of ports, slot by slot (P4INC-AOI, Alg. 1-3, corrected)",
        window::run,
    ),
    slotwise(
        "window-fixed",
        "as `window`, with the circuits that are lit before, and no others",
        window::run_fixed,
    ),
    slotwise("fcfs", "first come, first served, at the highest rate that is left", fcfs::run),
    slotwise(
        "varys",
        "smallest bottleneck first, at rates that end all flows of a job together",
        ordered::varys,
    ),
    slotwise(
        "sincronia",
        "order by the most loaded port, the largest weighted job on it last; then greedily",
        ordered::sincronia,
    ),
    slotwise(
        "matching",
        "circuits of a slot from matchings of the heaviest pairs (Helios)",
        ordered::matching,
    ),
    slotwise(
        "fullest",
        "circuits to the units that have most left, kept while these are little behind",
        fullest::run,
    ),
    slotwise(
        "round-robin",
        "circuits rotate over all pairs, whatever the demand (RotorNet)",
        ordered::round_robin,
    ),
    slotwise(
        "solstice",
        "matchings above a threshold that is halved, each for its least demand (Solstice)",
        matrices::solstice,
    ),
    slotwise(
        "eclipse",
        "always the matching and the stay that carry most in their time (Eclipse)",
        matrices::eclipse,
    ),
    slotwise(
        "spectra",
        "as few matchings as there can be, dealt to the ports and split evenly (Spectra)",
        matrices::spectra,
    ),
    slotwise(
        "sunflow",
        "shortest coflow first, a circuit for each flow from its begin to its end (Sunflow)",
        held::sunflow,
    ),
    slotwise(
        "k-core",
        "coflows in weighted order, a circuit for each flow until its end (K-core coflows)",
        held::k_core,
    ),
    slotwise(
        "uniform",
        "circuits spread over all pairs evenly, whatever the demand, and never changed",
        held::uniform,
    ),
];

/// A scheduler that decides with what it knows now.
const fn slotwise(name: &'static str, summary: &'static str, slotwise: Slotwise) -> Scheduler {
    Scheduler { name, summary, answers: Answers::InSlots { slotwise, ahead: None } }
}

/// What a schedule is to make small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// The completion of the last job, then the set-ups.
    #[default]
    Completion,
    /// The mean time from arrival to completion.
    Mean,
    /// The same, weighted by the jobs' weights.
    Weighted,
    /// The greatest slowdown: the time from arrival to completion, in parts of what the job takes alone.
    Fair,
}

impl Objective {
    /// What of a cost is to be small: then the set-ups.
    fn of(self, cost: &Cost) -> (f64, u32) {
        let value = match self {
            Self::Completion => cost.completion_s,
            Self::Mean => cost.sojourn_s.mean,
            Self::Weighted => cost.weighted_s,
            Self::Fair => cost.slowdown,
        };
        (value, cost.setups)
    }

    /// What is to be small, where jobs end then.
    fn value(self, problem: &Problem<'_>, ends_s: &[f64]) -> f64 {
        let jobs = &problem.instance.jobs;
        let sojourns = jobs.iter().zip(ends_s).map(|(job, end_s)| (job, end_s - job.arrival_s));
        match self {
            Self::Completion => ends_s.iter().copied().fold(0.0, f64::max),
            Self::Mean => sojourns.map(|(_, s)| s).sum(),
            Self::Weighted => sojourns.map(|(job, s)| job.weight * s).sum(),
            Self::Fair => {
                let alone_s = alone_s(problem).into_iter();
                sojourns.zip(alone_s).map(|((_, s), alone_s)| s / alone_s).fold(0.0, f64::max)
            }
        }
    }
}

/// What a scheduler may be told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Seed of the search.
    pub seed: u64,
    /// Whether switches may sum.
    pub sums: bool,
    /// What to make small; only `turns` obeys it, with foresight or `online`, and `events` with foresight.
    pub objective: Objective,
    /// Rounds of a search, of `turns` for each aim; 0: as many as the size of the instance asks for.
    pub rounds: usize,
    /// Whether jobs are known at their arrival only; `turns` and `events` alone look ahead otherwise.
    pub online: bool,
    /// Step of a worker's rate in `window`, in bit/s; halved where it does not fit.
    pub step_bps: f64,
    /// `fcfs`: whether nobody overtakes a job that cannot begin.
    pub blocking: bool,
    /// `fcfs`: whether circuits stay lit when their job is complete.
    pub keep_circuits: bool,
    /// Whether to prove a bound, too.
    pub bound: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            sums: true,
            objective: Objective::Completion,
            rounds: 0,
            online: false,
            step_bps: 10e9,
            blocking: false,
            keep_circuits: true,
            bound: true,
        }
    }
}

/// What a scheduler answers: a turn for each transfer, and the board with them and their circuits.
pub struct Plan<'a> {
    /// Circuits by slot.
    pub board: Board<'a>,
    /// By transfer.
    pub turns: Vec<Turn>,
    /// No schedule completes all jobs before, in seconds; where the scheduler needed to know.
    pub bound_s: Option<f64>,
}

/// A job that waits, and nothing would end that.
fn starves(problem: &Problem<'_>, left: &[f64]) -> ScheduleError {
    let waits = left.iter().position(|left| *left > 0.0).unwrap_or(0);
    ScheduleError::Infeasible {
        job: problem.instance.jobs[problem.transfers[waits].job].id,
        problem: "it finds no circuits, or no rate, however long it waits: \
                  let circuits change, or give its units more ports"
            .to_owned(),
    }
}

/// The intervals of a plan, and its bound, which is true of schedules in slots.
fn in_slots(plan: Plan<'_>) -> (Vec<Interval>, Option<f64>) {
    let bound_s = plan.bound_s.filter(|_| plan.board.problem.instance.slots);
    (intervals(&plan.board, &plan.turns), bound_s)
}

/// What a scheduler that looks ahead answers; nothing where it does not.
fn ahead(answers: &Answers, problem: &Problem<'_>, options: &Options) -> Option<Answer> {
    match answers {
        _ if options.online => None,
        Answers::InSlots { ahead, .. } => ahead.map(|ahead| Ok(in_slots(ahead(problem, options)))),
        Answers::AtEvents { ahead, .. } => Some(ahead(problem, options).map(|all| (all, None))),
    }
}

/// The intervals, or those without sums of several units where these are better: a search that has more choices may
/// find less, and whatever keeps the rules without trees keeps them with trees.
fn better_without_trees(
    instance: &Instance,
    answers: &Answers,
    options: &Options,
    intervals: Vec<Interval>,
) -> Result<Vec<Interval>, ScheduleError> {
    if !instance.trees {
        return Ok(intervals);
    }
    let plain = Instance { trees: false, ..instance.clone() };
    // A job in more units than ports has a schedule with trees alone.
    let Ok(problem) = Problem::new(&plain, options.sums) else { return Ok(intervals) };
    let Some(Ok((others, _))) = ahead(answers, &problem, options) else { return Ok(intervals) };
    let [before, after] = [judge(instance, &intervals)?, judge(instance, &others)?];
    let is_better = options.objective.of(&after) < options.objective.of(&before);
    Ok(if is_better { others } else { intervals })
}

/// Schedules an instance by the scheduler of that name, and judges the answer.
///
/// # Errors
/// There is no such scheduler; the instance is wrong, or a job of it cannot be served.
pub fn schedule(
    instance: &Instance,
    name: &str,
    options: &Options,
) -> Result<Timetable, ScheduleError> {
    let scheduler = Scheduler::named(name)?;
    instance.validate()?;
    let problem = Problem::new(instance, options.sums)?;
    let (intervals, bound_s) =
        match (ahead(&scheduler.answers, &problem, options), &scheduler.answers) {
            (Some(answer), answers) => {
                let (intervals, bound_s) = answer?;
                (better_without_trees(instance, answers, options, intervals)?, bound_s)
            }
            (None, Answers::InSlots { slotwise, .. }) => {
                in_slots(slotwise(&problem, options)?.finish()?)
            }
            (None, Answers::AtEvents { events, .. }) => {
                (events(&problem, options)?.finish()?, None)
            }
        };
    let cost = judge(instance, &intervals)?;
    let proven = || bound_s.unwrap_or_else(|| bound::proven_s(&problem));
    let bound_s = options.bound.then(proven);
    let gap = bound_s.map(|bound_s| (cost.completion_s / bound_s - 1.0).max(0.0));
    Ok(Timetable {
        format: TIMETABLE_FORMAT.to_owned(),
        scheduler: name.to_owned(),
        seed: options.seed,
        bound_s,
        gap,
        status: match gap {
            Some(gap) if gap <= AT_BOUND => Status::Optimal,
            _ => Status::Feasible,
        },
        slots: instance.slots || intervals.iter().all(|one| one.keeps(instance.slot_s)),
        cost,
        intervals,
    })
}
