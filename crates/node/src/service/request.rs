//! What clients ask for: one JSON object on a line.

use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use wiresum_protocol::{Plan, Quota};
use wiresum_sparse::live::Job;

use super::VERSION;
use crate::takeover::Versions;

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Serve one more job.
    Add {
        /// The plan itself. It is read and checked where requests are, so that sums do not wait for it.
        #[serde(deserialize_with = "plan")]
        plan: Box<Plan>,
        /// Its bounds.
        #[serde(default)]
        quota: JobQuota,
    },
    /// Reach a job's neighbours at the addresses of this plan from now on, while it runs.
    Readdress {
        /// The job's plan, which differs in addresses of links alone.
        #[serde(deserialize_with = "plan")]
        plan: Box<Plan>,
    },
    /// Serve one more sparse job.
    AddTables {
        /// What its file says, read and checked as plans are.
        #[serde(deserialize_with = "sparse_job")]
        job: Arc<Job>,
        /// Its bounds.
        #[serde(default)]
        quota: JobQuota,
    },
    /// Serve a job no more.
    Remove {
        /// Its number.
        job: u16,
    },
    /// Change a job's bounds.
    Quota {
        /// Its number.
        job: u16,
        /// The new ones; those left out are lifted.
        #[serde(default)]
        quota: JobQuota,
    },
    /// Start the binary that is there now, and let it take over.
    Upgrade {},
    /// Hand everything over to the process that asks.
    TakeOver {
        /// What it has to agree on with this one.
        versions: Versions,
    },
    /// Jobs, members, memory, counters.
    Status {},
    /// The same for Prometheus.
    Metrics {},
}

/// Bounds of one job; absent ones do not bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobQuota {
    /// Most bytes of slot memory, or of rows.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Most bytes per second that its children send together.
    #[serde(default)]
    pub bytes_per_second: Option<u64>,
}

impl JobQuota {
    /// The bound on the rate.
    #[must_use]
    pub fn rate(&self) -> Option<Quota> {
        self.bytes_per_second.map(Quota::bytes_per_second)
    }
}

fn plan<'de, D: Deserializer<'de>>(from: D) -> Result<Box<Plan>, D::Error> {
    let text = Value::deserialize(from)?.to_string();
    let plan = Plan::from_json(&text).and_then(|plan| plan.with_secret(None));
    plan.map(Box::new).map_err(D::Error::custom)
}

fn sparse_job<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<Job>, D::Error> {
    let text = Value::deserialize(from)?.to_string();
    let job = Job::from_json(&text).map(Arc::new);
    job.map_err(|error| D::Error::custom(format!("sparse job: {error}")))
}

impl Request {
    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(line: &str) -> Result<Self, String> {
        let mut value: Value =
            serde_json::from_str(line).map_err(|error| format!("not JSON: {error}"))?;
        let version = value.as_object_mut().and_then(|fields| fields.remove("version"));
        if version != Some(VERSION.into()) {
            return Err(format!(
                "this daemon speaks version {VERSION}: say `\"version\": {VERSION}`"
            ));
        }
        serde_json::from_value(value)
            .map_err(|error| format!("no request of this version: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        let quota = r#"{"version":1,"request":"quota","job":7,"quota":{"bytes_per_second":5}}"#;
        let limited = JobQuota { memory_bytes: None, bytes_per_second: Some(5) };
        assert_eq!(Request::parse(quota), Ok(Request::Quota { job: 7, quota: limited }));
        assert_eq!(Request::parse(r#"{"version":1,"request":"status"}"#), Ok(Request::Status {}));
    }

    #[test]
    fn anything_else_is_refused_with_a_reason() {
        for (line, reason) in [
            ("hello", "not JSON"),
            (r#"{"request":"status"}"#, "version 1"),
            (r#"{"version":2,"request":"status"}"#, "version 1"),
            (r#"{"version":1,"request":"dance"}"#, "dance"),
            (r#"{"version":1,"request":"remove"}"#, "job"),
            (r#"{"version":1,"request":"quota","job":1,"quota":{"speed":1}}"#, "speed"),
            (r#"{"version":1,"request":"status","x":1}"#, "x"),
            (r#"{"version":1,"request":"upgrade","dry_run":true}"#, "dry_run"),
        ] {
            let error = Request::parse(line).expect_err(line);
            assert!(error.contains(reason), "{line}: {error}");
        }
    }
}
