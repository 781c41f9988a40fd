//! What there is to schedule: units with ports, switches and places, and jobs. `spec/schedule.md` describes every field.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::ScheduleError;

/// Value of [`Instance::format`].
pub const INSTANCE_FORMAT: &str = "wiresum-circuit-instance/1";
/// Units of one instance: pairs grow with their square.
pub const MAX_UNITS: usize = 4096;
/// Jobs of one instance: their ids are those of plans, 16 bits.
pub const MAX_JOBS: usize = 1 << 16;

/// Units that an optical switch joins, and the jobs that run in them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// [`INSTANCE_FORMAT`].
    pub format: String,
    /// Time after which circuits and rates may change, in seconds.
    pub slot_s: f64,
    /// Time in which a new circuit carries nothing, in seconds; shorter than a slot.
    pub dark_s: f64,
    /// Which circuits are dark after a change.
    #[serde(default)]
    pub darkens: Darkens,
    /// Rate of an optical port, each direction, in bit/s.
    pub port_bps: f64,
    /// Rate of a worker's link, in bit/s.
    pub host_bps: f64,
    /// Rate of the link of a parameter server, in bit/s; `host_bps` where absent. Mode `paper` leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_bps: Option<f64>,
    /// Racks or pods.
    pub units: Vec<Unit>,
    /// Circuits that are lit before the first slot.
    #[serde(default)]
    pub before: Before,
    /// What runs.
    pub jobs: Vec<Job>,
    /// Count as P4INC-AOI does: both directions share a circuit's rate and a switch's, and servers have no link.
    #[serde(default)]
    pub paper: bool,
    /// A synchronous job, once begun, sends in every slot until it ends.
    #[serde(default = "yes")]
    pub contiguous: bool,
    /// Switches of several units may sum a job together: each sends one gradient to the next.
    #[serde(default)]
    pub trees: bool,
    /// Circuits and rates change with slots only; otherwise at any time.
    #[serde(default = "yes")]
    pub slots: bool,
}

fn yes() -> bool {
    true
}

/// What a new circuit darkens, for [`Instance::dark_s`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Darkens {
    /// The new circuit alone.
    #[default]
    Added,
    /// All circuits of the two units.
    Units,
    /// All circuits.
    All,
}

/// A rack or pod: servers behind one switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    /// Name in jobs and circuits.
    pub name: String,
    /// Ports to the optical switch.
    pub ports: u32,
    /// Rate of the switch: both directions between it and its servers together, in bit/s.
    pub switch_bps: f64,
    /// Jobs that the switch can sum at a time.
    pub places: u32,
}

/// Circuits that are lit before the first slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Before {
    /// All ports are dark.
    #[default]
    None,
    /// The ports of a unit are spread over all others evenly, nearest in the list first.
    Even,
    /// These.
    Given(Vec<Circuits>),
}

/// Parallel circuits between two units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Circuits {
    /// Names of the two units.
    pub between: [String; 2],
    /// Number of them.
    pub circuits: u32,
}

/// One iteration of a job's communication.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Distinct from all others.
    pub id: u32,
    /// When it may begin, in seconds.
    #[serde(default)]
    pub arrival_s: f64,
    /// Weight of its completion, for the objective `weighted`.
    #[serde(default = "one")]
    pub weight: f64,
    /// Who sends what to whom.
    pub traffic: Traffic,
}

fn one() -> f64 {
    1.0
}

/// Who sends what to whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Traffic {
    /// Workers send to one parameter server, all at one rate.
    Star(Star),
    /// A coflow: flows that do not wait for each other, at most one for each pair and direction. The job ends with the
    /// last one.
    Flows(Vec<Flow>),
}

/// A synchronous job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Star {
    /// Number of workers by unit.
    pub workers: BTreeMap<String, u32>,
    /// Unit of the parameter server.
    pub server: String,
    /// Name of that server, if it has others: jobs that name the same share its link. Each has its own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_host: Option<String>,
    /// Bytes that each worker sends.
    pub bytes: f64,
    /// Time of the update at the server, in seconds; a switch needs none.
    #[serde(default)]
    pub update_s: f64,
    /// Rate of its workers' links, in bit/s; the instance's where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_bps: Option<f64>,
    /// Units of workers, and the unit whose switch relays what they send to the server, over two circuits. Not where
    /// switches sum.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub via: BTreeMap<String, String>,
}

/// Bytes from one unit to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Name of the unit that sends.
    pub from: String,
    /// Name of the unit that receives; it may be the same.
    pub to: String,
    /// How many.
    pub bytes: f64,
    /// Name of the unit whose switch relays them, over two circuits; none where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
}

impl Instance {
    /// Reads and checks an instance.
    ///
    /// # Errors
    /// [`ScheduleError`] names the job, the field and the remedy.
    pub fn from_json(text: &str) -> Result<Self, ScheduleError> {
        let instance: Self = serde_json::from_str(text)?;
        instance.validate()?;
        Ok(instance)
    }

    /// Checks every field.
    ///
    /// # Errors
    /// The first [`ScheduleError::Field`] found.
    pub fn validate(&self) -> Result<(), ScheduleError> {
        require(self.format == INSTANCE_FORMAT, "format", || {
            format!("must be `{INSTANCE_FORMAT}`")
        })?;
        for (field, value) in [
            ("slot_s", self.slot_s),
            ("port_bps", self.port_bps),
            ("host_bps", self.host_bps),
            ("server_bps", self.server_bps.unwrap_or(1.0)),
        ] {
            positive(value, || field.to_owned())?;
        }
        let is_short = self.dark_s >= 0.0 && self.dark_s < self.slot_s;
        require(is_short, "dark_s", || {
            "must be shorter than `slot_s`: make slots longer".to_owned()
        })?;
        self.validate_units()?;
        self.validate_before()?;
        let is_bounded = (1..=MAX_JOBS).contains(&self.jobs.len());
        require(is_bounded, "jobs", || format!("there must be 1 to {MAX_JOBS}"))?;
        let mut ids = BTreeSet::new();
        for job in &self.jobs {
            let field = |name: &str| format!("jobs[id {}].{name}", job.id);
            require(ids.insert(job.id), &field("id"), || {
                "two jobs have it: give each its own".into()
            })?;
            let arrives = job.arrival_s >= 0.0 && job.arrival_s.is_finite();
            require(arrives, &field("arrival_s"), || "must be 0 or later".to_owned())?;
            positive(job.weight, || field("weight"))?;
            self.validate_traffic(job, &field)?;
        }
        Ok(())
    }

    fn validate_units(&self) -> Result<(), ScheduleError> {
        let is_bounded = (1..=MAX_UNITS).contains(&self.units.len());
        require(is_bounded, "units", || format!("there must be 1 to {MAX_UNITS}"))?;
        let names: BTreeSet<_> = self.units.iter().map(|unit| &unit.name).collect();
        let apart = names.len() == self.units.len();
        require(apart, "units", || "two have the same name: give each its own".to_owned())?;
        for (index, unit) in self.units.iter().enumerate() {
            positive(unit.switch_bps, || format!("units[{index}].switch_bps"))?;
        }
        Ok(())
    }

    fn validate_before(&self) -> Result<(), ScheduleError> {
        let Before::Given(given) = &self.before else { return Ok(()) };
        let mut used: BTreeMap<&str, u32> = BTreeMap::new();
        for (index, Circuits { between: [a, b], circuits }) in given.iter().enumerate() {
            let field = format!("before.given[{index}].between");
            require(a != b, &field, || format!("joins {a} to itself: name two units"))?;
            for name in [a, b] {
                let unit = &self.units[self.unit(name, &field)?];
                let used = used.entry(name).or_default();
                *used = used.saturating_add(*circuits);
                require(*used <= unit.ports, &field, || {
                    format!("{name} has {} ports and {used} circuits: take some away", unit.ports)
                })?;
            }
        }
        Ok(())
    }

    fn validate_traffic(
        &self,
        job: &Job,
        field: &impl Fn(&str) -> String,
    ) -> Result<(), ScheduleError> {
        match &job.traffic {
            Traffic::Star(star) => {
                positive(star.bytes, || field("bytes"))?;
                positive(star.host_bps.unwrap_or(1.0), || field("host_bps"))?;
                let updates = star.update_s >= 0.0 && star.update_s.is_finite();
                require(updates, &field("update_s"), || "must be 0 or more".to_owned())?;
                self.unit(&star.server, &field("server"))?;
                let workers = field("workers");
                star.workers.keys().try_for_each(|name| self.unit(name, &workers).map(drop))?;
                for (unit, relay) in &star.via {
                    let is_remote = star.workers.contains_key(unit) && *unit != star.server;
                    require(is_remote, &field("via"), || {
                        format!("{unit} sends nothing to another unit: leave it out")
                    })?;
                    self.relay(relay, [unit, &star.server], &field("via"))?;
                }
                let has_workers = !star.workers.is_empty() && star.workers.values().all(|n| *n > 0);
                require(has_workers, &workers, || "every unit listed needs at least one".to_owned())
            }
            Traffic::Flows(flows) => {
                require(!flows.is_empty(), &field("flows"), || "a job needs one".to_owned())?;
                let mut seen = BTreeSet::new();
                for (index, flow) in flows.iter().enumerate() {
                    let part = |name: &str| field(&format!("flows[{index}].{name}"));
                    self.unit(&flow.from, &part("from"))?;
                    self.unit(&flow.to, &part("to"))?;
                    positive(flow.bytes, || part("bytes"))?;
                    let relay = flow.via.iter();
                    let ends = [&*flow.from, &*flow.to];
                    relay.into_iter().try_for_each(|via| self.relay(via, ends, &part("via")))?;
                    let is_first = seen.insert((&flow.from, &flow.to));
                    require(is_first, &part("to"), || {
                        format!("a second flow from {} to {}: add their bytes", flow.from, flow.to)
                    })?;
                }
                Ok(())
            }
        }
    }

    /// A relay is a unit beside the two that it joins.
    fn relay(&self, via: &str, [from, to]: [&str; 2], field: &str) -> Result<(), ScheduleError> {
        self.unit(via, field)?;
        require(from != to && ![from, to].contains(&via), field, || {
            format!("{via} does not lie between {from} and {to}: name a third unit")
        })
    }

    /// Index of a unit.
    ///
    /// # Errors
    /// There is none of that name; the error is about `field`.
    pub(crate) fn unit(&self, name: &str, field: &str) -> Result<usize, ScheduleError> {
        let found = self.units.iter().position(|unit| unit.name == name);
        found.ok_or_else(|| ScheduleError::Field {
            field: field.to_owned(),
            problem: format!("there is no unit {name}"),
        })
    }
}

fn require(
    holds: bool,
    field: &str,
    problem: impl FnOnce() -> String,
) -> Result<(), ScheduleError> {
    let error = || ScheduleError::Field { field: field.to_owned(), problem: problem() };
    if holds { Ok(()) } else { Err(error()) }
}

fn positive(value: f64, field: impl FnOnce() -> String) -> Result<(), ScheduleError> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(ScheduleError::Field { field: field(), problem: "must be above 0".to_owned() })
}
