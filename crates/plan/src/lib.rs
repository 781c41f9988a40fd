//! Where each fragment of a job is summed: the plan as data, its rules, and everything that follows from it.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`Plan`], [`PlanStream`] | the document; `spec/plan.md` describes every field |
//! | `version1` | reads the format before this one |
//! | [`Exchanged`] | streams of fragments that not all workers give or take, and their rules |
//! | `validate` | what makes a plan one that every runner can honour |
//! | [`PlanSparse`] | the part about tables of rows, and its rules |
//! | [`fabric`] | the part about a network of switches, and its rules |
//! | [`Schedule`] | plans over time |
//! | [`Plan::group`] | jobs of some of its workers, which follow from it |
//! | `substitutes` | who stands in for a node of a tree that is gone |
//! | [`ways`] | the links that contributions take, and the sums that they end in |
//! | [`Forwarding`] | where a site's packets go next |
//! | [`Plan::site`], [`Plan::senders`] | what a node of a fabric, and a worker, do |
//! | [`Plan::derived`] | the same as a document, for those who do not speak Rust |
//!
//! A planner (Python) makes a plan, and every runner reads it. What a site does is derived here, once for all of them.

#![forbid(unsafe_code)]

mod contributors;
mod derived;
mod document;
mod exchanges;
pub mod fabric;
mod forwarding;
mod groups;
mod schedule;
mod site;
mod sparse;
mod stream;
mod substitutes;
mod validate;
mod version1;
pub mod ways;

pub use contributors::{Cohort, Contributors, MAX_COHORTS, Workers};
pub use derived::{Crossing, Derived, DerivedPlace, DerivedStream};
pub use document::*;
pub use exchanges::{BARRIER_FRAGMENTS, Exchanged};
pub use fabric::Fabric;
pub use forwarding::{Forwarding, Neighbour, UpKey};
pub use groups::{MAX_GROUPS, MAX_THREADS};
pub use schedule::{Circuit, Interval, SCHEDULE_FORMAT, Schedule};
pub use site::{Duties, Place, Sending, Serving, first_slot};
pub use sparse::{
    Ids, MAX_TABLE_ROWS, OptimizerName, PlanHot, PlanSparse, PlanTable, PlanTracking, RowInitial,
    RowOptimizer, RowSwitch, RowValue, TableServer,
};
pub use stream::{PlanStream, StreamLeg, StreamPlace};
pub use substitutes::{Refuge, Seat, Substitute};
