//! Who answers, one file each; [`SCHEDULERS`] is the registry.

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
use crate::problem::Problem;
use crate::timetable::{Status, TIMETABLE_FORMAT, Timetable, intervals};
use crate::{Instance, ScheduleError, bound, judge};
use slots::Slots;

/// Completion that is so little above the bound, relatively, is at the bound.
const AT_BOUND: f64 = 1e-9;

/// Makes a scheduler that decides with what it knows now.
type Slotwise = for<'a> fn(&'a Problem<'a>, &Options) -> Result<Slots<'a>, ScheduleError>;

/// A scheduler: its name, and what it does in one line.
pub struct Scheduler {
    /// In commands and timetables.
    pub name: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    slotwise: Slotwise,
    /// Where it can look ahead: all slots at once.
    ahead: Option<for<'a> fn(&'a Problem<'a>, &Options) -> Plan<'a>>,
}

impl Scheduler {
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
        slotwise: turns::online,
        ahead: Some(turns::run),
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
    Scheduler { name, summary, slotwise, ahead: None }
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

/// What a scheduler may be told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Seed of the search.
    pub seed: u64,
    /// Whether switches may sum.
    pub sums: bool,
    /// What to make small; only `turns` obeys it, with foresight or `online`.
    pub objective: Objective,
    /// Rounds of `turns`' search, for each aim; 0: as many as the size of the instance asks for.
    pub rounds: usize,
    /// Whether jobs are known at their arrival only; `turns` alone looks ahead otherwise.
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
    let Plan { board, turns, bound_s } = match scheduler.ahead {
        Some(ahead) if !options.online => ahead(&problem, options),
        _ => (scheduler.slotwise)(&problem, options)?.finish()?,
    };
    let intervals = intervals(&board, &turns);
    let cost = judge(instance, &intervals)?;
    let proven = || bound_s.unwrap_or_else(|| bound::completion(&problem).completion_s);
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
        cost,
        intervals,
    })
}
