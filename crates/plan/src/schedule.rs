//! Plans over time: which jobs run by which plan, over which circuits, from when until when.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::document::Format;
use crate::validate::require;
use crate::{FORMAT, Plan, PlanError};

/// Value of [`Schedule::format`].
pub const SCHEDULE_FORMAT: &str = "wiresum-schedule/1";

/// Plans over time. Most schedules have one interval; a plan alone is one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// [`SCHEDULE_FORMAT`].
    pub format: String,
    /// One after another; between two of them nothing runs.
    pub intervals: Vec<Interval>,
}

/// A time in which neither plans nor circuits change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// When it begins, in seconds from the schedule's begin.
    pub from_s: f64,
    /// When it ends; absent for the last one where nothing ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_s: Option<f64>,
    /// What optical switches join; empty where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub circuits: Vec<Circuit>,
    /// How each job is summed, by the job's id.
    pub plans: BTreeMap<u16, Plan>,
    /// At most how fast each worker of a job sends, in bit/s on the cable; jobs without a rate send as they can.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rates_bps: BTreeMap<u16, f64>,
}

/// Two links that an optical switch joins to one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Circuit {
    /// The switch, by its name in the topology.
    pub switch: String,
    /// Ids of the two links.
    pub links: [String; 2],
}

impl Schedule {
    /// A plan, from the begin on and without an end.
    #[must_use]
    pub fn of(plan: Plan) -> Self {
        let plans = BTreeMap::from([(plan.job.id, plan)]);
        let interval = Interval {
            from_s: 0.0,
            until_s: None,
            circuits: Vec::new(),
            plans,
            rates_bps: BTreeMap::new(),
        };
        Self { format: SCHEDULE_FORMAT.to_owned(), intervals: vec![interval] }
    }

    /// Reads and validates a schedule, or a plan as a schedule of one interval.
    ///
    /// # Errors
    /// [`PlanError`] names the field and the remedy.
    pub fn from_json(text: &str) -> Result<Self, PlanError> {
        if Format::of(text)?.is_some_and(|format| format.starts_with("wiresum-plan/")) {
            return Plan::from_json(text).map(Self::of);
        }
        let schedule: Self = serde_json::from_str(text)?;
        schedule.validate()?;
        Ok(schedule)
    }

    /// Checks every field.
    ///
    /// # Errors
    /// The first [`PlanError::Field`] found.
    pub fn validate(&self) -> Result<(), PlanError> {
        let problem = format!("must be `{SCHEDULE_FORMAT}`, or that of a plan, `{FORMAT}`");
        require(self.format == SCHEDULE_FORMAT, "format", &problem)?;
        require(!self.intervals.is_empty(), "intervals", "a schedule needs at least one")?;
        let mut free_s = 0.0;
        for (index, interval) in self.intervals.iter().enumerate() {
            let field = |name: &str| format!("intervals[{index}].{name}");
            let begins = interval.from_s >= free_s && interval.from_s.is_finite();
            require(begins, &field("from_s"), "must not be before the interval before it ends")?;
            let end_s = interval.until_s.unwrap_or(f64::INFINITY);
            require(end_s > interval.from_s, &field("until_s"), "must be after `from_s`")?;
            interval.validate_circuits(&field("circuits"))?;
            interval.validate_plans(&field("plans"))?;
            interval.validate_rates(&field("rates_bps"))?;
            free_s = end_s;
        }
        Ok(())
    }
}

impl Interval {
    fn validate_circuits(&self, field: &str) -> Result<(), PlanError> {
        let mut taken = BTreeSet::new();
        for Circuit { switch, links } in &self.circuits {
            for link in links {
                let problem = format!("{switch} joins link {link} twice: a link is in one circuit");
                require(taken.insert((switch, link)), field, &problem)?;
            }
        }
        Ok(())
    }

    fn validate_plans(&self, field: &str) -> Result<(), PlanError> {
        for (id, plan) in &self.plans {
            let within = |error| match error {
                PlanError::Field { field: of, problem } => {
                    PlanError::Field { field: format!("{field}.{id}.{of}"), problem }
                }
                other => other,
            };
            plan.validate().map_err(within)?;
            let problem = format!("is the plan of job {}: list it under that number", plan.job.id);
            require(plan.job.id == *id, &format!("{field}.{id}"), &problem)?;
        }
        Ok(())
    }

    fn validate_rates(&self, field: &str) -> Result<(), PlanError> {
        for (id, rate_bps) in &self.rates_bps {
            let field = format!("{field}.{id}");
            require(
                self.plans.contains_key(id),
                &field,
                "is of a job without a plan: give it one",
            )?;
            require(*rate_bps >= 1.0 && rate_bps.is_finite(), &field, "must be at least 1 bit/s")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const TREE: &str = include_str!("../../protocol/tests/plans/tree.json");

    /// Two intervals, the first with a circuit.
    fn two() -> Value {
        let plan: Value = serde_json::from_str(TREE).expect("JSON");
        let id = plan["job"]["id"].to_string();
        json!({ "format": SCHEDULE_FORMAT, "intervals": [
            { "from_s": 0.0, "until_s": 1.5, "plans": { id.clone(): plan },
              "rates_bps": { id.clone(): 1e6 }, "circuits": [{ "switch": "ocs", "links": ["a-ocs", "b-ocs"] }] },
            { "from_s": 2.0, "plans": { id: plan } },
        ] })
    }

    #[test]
    fn a_schedule_survives_its_file() {
        let read = Schedule::from_json(&two().to_string()).expect("a schedule");
        assert_eq!(read.intervals.len(), 2);
        let written = serde_json::to_string(&read).expect("JSON");
        assert_eq!(Schedule::from_json(&written).expect("the same"), read);
    }

    #[test]
    fn a_plan_alone_is_a_schedule_without_an_end() {
        let read = Schedule::from_json(TREE).expect("a plan");
        let plan = Plan::from_json(TREE).expect("a plan");
        assert_eq!(read, Schedule::of(plan));
        read.validate().expect("as any schedule");
    }

    #[test]
    fn every_wrong_field_is_named() {
        let links = json!([{ "switch": "ocs", "links": ["a-ocs", "a-ocs"] }]);
        for (pointer, value, field) in [
            ("/format", json!("wiresum-schedule/9"), "format"),
            ("/intervals", json!([]), "intervals"),
            ("/intervals/0/from_s", json!(-1.0), "intervals[0].from_s"),
            ("/intervals/1/from_s", json!(1.0), "intervals[1].from_s"),
            ("/intervals/0/until_s", json!(null), "intervals[1].from_s"),
            ("/intervals/0/until_s", json!(0.0), "intervals[0].until_s"),
            ("/intervals/0/circuits", links, "intervals[0].circuits"),
            ("/intervals/0/rates_bps", json!({ "9": 1e6 }), "intervals[0].rates_bps.9"),
            ("/intervals/0/rates_bps", json!({ "7": 0.0 }), "intervals[0].rates_bps.7"),
        ] {
            let mut schedule = two();
            *schedule.pointer_mut(pointer).expect("a field") = value;
            let error = Schedule::from_json(&schedule.to_string()).expect_err(pointer).to_string();
            assert!(error.contains(&format!("`{field}`")), "{pointer}: {error}");
        }
    }

    #[test]
    fn plans_are_checked_under_their_jobs() {
        let plan: Value = serde_json::from_str(TREE).expect("JSON");
        let mut wrong = plan.clone();
        wrong["streams"][1]["places"][0]["slots"] = 12.into();
        let id = plan["job"]["id"].as_u64().expect("a number");
        for (key, plan, words) in [
            (id, wrong, format!("`intervals[0].plans.{id}.streams[1].places`")),
            (id + 1, plan, format!("is the plan of job {id}")),
        ] {
            let mut schedule = two();
            schedule["intervals"][0]["plans"] = json!({ key.to_string(): plan });
            let error = Schedule::from_json(&schedule.to_string()).expect_err("wrong").to_string();
            assert!(error.contains(&words), "{error}");
        }
    }
}
