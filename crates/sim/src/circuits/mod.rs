//! Jobs over optical circuits that change: rates, from one change to the next.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `light` | which circuits are lit, and what they could carry |
//! | `pace` | who sends how fast at a moment |
//! | `world` | the loop of slots, or of intervals of any length, and events |
//! | `report` | what is checked, and what a run says |
//! | `turns` | the same light with the names of links, for packets and trains |
//!
//! A timetable is followed, or a scheduler is asked slot by slot, or at each event: the code of `crates/schedule`, which
//! is told what was really sent and what is really lit. Within a slot, or an interval of a timetable, each transfer is
//! paced so that its share ends with it; who is held up by darkness sends faster afterwards. What a timetable's share
//! could not send by then is *late*: it goes on with what others leave.

mod light;
mod pace;
mod report;
#[cfg(test)]
mod tests;
pub mod turns;
mod world;

use serde::Deserialize;
use wiresum_schedule::problem::Problem;
use wiresum_schedule::{Instance, Interval, Online, Options, judge, slots};

use crate::{SimulationError, Sink};
use world::{Source, World};

/// Jobs, the network of circuits, and who decides.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Circuits {
    /// Units and jobs.
    pub instance: Instance,
    /// Name of the optical switch, for records.
    pub switch: String,
    /// Names of the jobs, in the order of the instance, for records.
    pub names: Vec<String>,
    /// What is followed; a scheduler is asked where absent.
    #[serde(default)]
    pub timetable: Option<Vec<Interval>>,
    /// Who is asked.
    pub scheduler: String,
    /// What it is told.
    #[serde(default)]
    pub options: Options,
    /// Ports that fail.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

/// What fails of an optical switch.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What.
    pub what: Faulty,
    /// When.
    pub at_s: f64,
    /// When it works again; never where absent.
    pub until_s: Option<f64>,
}

/// What is not as ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Faulty {
    /// A port of the unit of this index is stuck: its circuit goes dark at once, and the unit has one port fewer.
    Port(usize),
    /// Circuits between these two units that are ordered meanwhile do not come up. The next order tries again.
    Circuit([usize; 2]),
}

/// Simulates jobs over circuits.
///
/// # Errors
/// [`SimulationError`] says what stopped it.
pub fn run(circuits: &Circuits, sink: &mut Sink) -> Result<(), SimulationError> {
    let refused = |error: wiresum_schedule::ScheduleError| {
        SimulationError::Unsupported(format!("circuits: {error}"))
    };
    circuits.instance.validate().map_err(refused)?;
    let problem = Problem::new(&circuits.instance, circuits.options.sums).map_err(refused)?;
    let source = match &circuits.timetable {
        Some(intervals) => {
            judge(&circuits.instance, intervals).map_err(refused)?;
            Source::Timetable(slots(&problem, intervals).into_iter())
        }
        None => Source::Scheduler(Box::new(
            Online::new(&problem, &circuits.scheduler, &circuits.options).map_err(refused)?,
        )),
    };
    World::new(circuits, &problem, source).run(sink)
}
