//! Jobs over optical circuits and places at switches: which jobs go now, which of them a switch sums, which circuits
//! the others get, and how far from the best that is.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`Instance`] | units, jobs and circuits before, as a document; `spec/schedule.md` describes every field |
//! | [`problem`] | the same in numbers |
//! | [`board`] | what is taken of every resource in every slot |
//! | [`Timetable`] | the answer, as a document |
//! | [`judge()`] | its rules, for everybody's, and its [`Cost`] |
//! | [`bound`] | a time before which no schedule completes all jobs |
//! | [`petersen`] | a multigraph of circuits, split into slots |
//! | [`scheduler`] | those who answer, one file each, and their registry |
//! | [`Dialogue`] | one of them, asked slot by slot by whoever drives devices |
//!
//! There is no clock, no thread and no chance but from a seed: equal questions have equal answers.

#![forbid(unsafe_code)]

pub mod board;
pub mod bound;
mod cost;
mod dialogue;
mod error;
mod instance;
mod judge;
pub mod petersen;
pub mod problem;
pub mod scheduler;
mod timetable;

pub use cost::{Cost, JobCost, Spread};
pub use dialogue::{Dialogue, Sight};
pub use error::ScheduleError;
pub use instance::{
    Before, Circuits, Darkens, Flow, INSTANCE_FORMAT, Instance, Job, Star, Traffic, Unit,
};
pub use judge::judge;
pub use scheduler::{Objective, Online, Options, SCHEDULERS, Scheduler, Share, Slot, schedule};
pub use timetable::{Interval, Rate, Status, Summed, TIMETABLE_FORMAT, Timetable, slots};
