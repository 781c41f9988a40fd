//! What clients of the control socket ask for, done between two batches of packets: admission, and reports.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value, json};
use wiresum_protocol::Plan;
use wiresum_sparse::live::Job;
use wiresum_wire::JobId;

use super::{JobReport, Node, StreamReport};
use crate::service::{JobQuota, Limits, Load, Orders, Request, VERSION};
use crate::takeover::{Failed, Successor, Upgrade};
use crate::tensor::Formats;

impl Node {
    pub(super) fn answer_orders(&mut self) {
        while let Some(mut order) = self.orders.as_mut().and_then(|orders| orders.take()) {
            let answer = match order.successor.take() {
                Some(successor) => self.hand_over(successor),
                None => self.carry_out(&order.request),
            };
            if self.is_handed_over {
                // The successor answers the next client: the listener's thread waits for this answer until the
                // process ends.
                std::mem::forget(order);
                return;
            }
            order.answer(answer);
        }
    }

    /// Null if the successor has been told already.
    fn hand_over(&mut self, mut successor: Successor) -> Value {
        let start = Instant::now();
        self.plane.pause();
        let offered = successor.offer(self);
        if offered.is_err() {
            self.plane.resume();
        }
        match offered {
            Ok(()) => {
                let pause_ms = start.elapsed().as_secs_f64() * 1e3;
                eprintln!(
                    "wiresum-node: another process has taken over; its socket waited {pause_ms:.1} ms"
                );
                self.is_handed_over = true;
                self.orders.iter_mut().for_each(Orders::let_go);
                Value::Null
            }
            Err(Failed::Refused(error)) => {
                json!({ "version": VERSION, "ok": false, "error": error })
            }
            Err(Failed::Broken(error)) => {
                eprintln!("wiresum-node: {error}");
                Value::Null
            }
        }
    }

    fn upgrade(&self) -> Result<Value, String> {
        // What cannot be handed over is said now, not by a successor in the log.
        self.plane.legacy()?;
        let upgrade = self.upgrade.as_ref().ok_or("this daemon cannot start a successor")?;
        upgrade.start().map(|process| json!({ "process": process }))
    }

    fn carry_out(&mut self, request: &Request) -> Value {
        let done = match request {
            Request::Add { plan, quota } => self.add_job(plan, *quota),
            Request::Readdress { plan } => self.readdress(plan),
            Request::AddTables { job, quota } => self.add_tables(job, *quota),
            Request::Remove { job } => self.remove_job(JobId(*job)),
            Request::Quota { job, quota } => self.change_quota(JobId(*job), *quota),
            Request::Upgrade {} => self.upgrade(),
            Request::TakeOver { .. } => Err("a successor needs a connection of its own".to_owned()),
            // Whoever asks makes text of it.
            Request::Status {} | Request::Metrics {} => Ok(self.status()),
        };
        match done {
            Ok(mut answer) => {
                answer["version"] = VERSION.into();
                answer["ok"] = true.into();
                answer
            }
            Err(error) => json!({ "version": VERSION, "ok": false, "error": error }),
        }
    }

    /// Serves one more job and its groups, each within the quota, if the limits allow it.
    ///
    /// # Errors
    /// Why not, with numbers and what to do; then nothing has changed.
    pub fn add_job(&mut self, plan: &Plan, quota: JobQuota) -> Result<Value, String> {
        Formats::new(plan).map_err(|error| error.to_string())?;
        self.require_new(plan.job_id())?;
        self.require_placed(plan)?;
        let held = plan.clone().held_by(self.id).and_then(|plan| plan.with_groups_at(self.id));
        let plans = held.map_err(|error| error.to_string())?;
        let mut memory_bytes = 0;
        for (index, one) in plans.iter().enumerate() {
            match self.add_one(one, quota) {
                Ok(bytes) => memory_bytes += bytes,
                Err(error) => {
                    plans[..index].iter().try_for_each(|added| self.end(added.job_id()))?;
                    return Err(error);
                }
            }
        }
        Ok(json!({ "job": plan.job.id, "memory_bytes": memory_bytes }))
    }

    fn require_placed(&self, plan: &Plan) -> Result<(), String> {
        let node = self.id;
        let placed = plan
            .node(node)
            .ok_or_else(|| format!("the plan has no node {node}, which this daemon is"))?;
        if let Some(address) = self.address
            && placed.address != address
        {
            return Err(format!(
                "the plan puts node {node} at {}, but this daemon is at {address}",
                placed.address
            ));
        }
        Ok(())
    }

    /// Bytes of memory that it takes.
    fn add_one(&mut self, held: &Plan, quota: JobQuota) -> Result<u64, String> {
        let job = held.job_id();
        self.require_new(job)?;
        let needed = self.plane.memory_for(held)?;
        self.admit(job, needed, quota)?;
        self.plane.add(held)?;
        self.bound_new(job, quota)?;
        Ok(needed)
    }

    fn readdress(&mut self, plan: &Plan) -> Result<Value, String> {
        self.require(plan.job_id())?;
        let held = plan.clone().held_by(self.id).map_err(|error| error.to_string())?;
        self.plane.readdress(&held)?;
        Ok(json!({ "job": plan.job.id }))
    }

    /// Serves one more sparse job, if the limits allow it.
    ///
    /// # Errors
    /// Why not, with numbers and what to do.
    pub fn add_tables(&mut self, job: &Arc<Job>, quota: JobQuota) -> Result<Value, String> {
        let id = job.job_id();
        self.require_new(id)?;
        let named = |problem: String| format!("job {id}: {problem}");
        let needed = self.plane.memory_for_tables(job).map_err(named)?;
        self.admit(id, needed, quota)?;
        self.plane.add_tables(job).map_err(named)?;
        self.bound_new(id, quota)?;
        Ok(json!({ "job": id.0, "memory_bytes": needed }))
    }

    fn require_new(&self, job: JobId) -> Result<(), String> {
        if self.is_served(job) {
            return Err(format!(
                "job {job} is served already: number the jobs, or remove it first"
            ));
        }
        Ok(())
    }

    fn admit(&self, job: JobId, needed: u64, quota: JobQuota) -> Result<(), String> {
        let admitted = self.limits.admit(self.load(), needed, quota);
        admitted.map_err(|refusal| format!("job {job}: {refusal}"))
    }

    /// Bounds a job that was added, or serves it no more.
    fn bound_new(&mut self, job: JobId, quota: JobQuota) -> Result<(), String> {
        if let Err(error) = self.bound(job, quota) {
            self.plane.remove(job)?;
            return Err(error);
        }
        Ok(())
    }

    /// Serves a job and its groups no more.
    fn remove_job(&mut self, job: JobId) -> Result<Value, String> {
        self.require(job)?;
        let report = self.plane.jobs().into_iter().find(|report| report.job == job);
        let groups = report.map_or_else(Vec::new, |report| report.groups);
        for one in groups.into_iter().chain([job]) {
            if self.is_served(one) {
                self.end(one)?;
            }
        }
        Ok(json!({ "job": job.0 }))
    }

    fn end(&mut self, job: JobId) -> Result<(), String> {
        self.plane.remove(job)?;
        self.quotas.remove(&job);
        Ok(())
    }

    /// Bounds a job anew, if the limits allow it.
    ///
    /// # Errors
    /// Why not, with numbers and what to do.
    pub fn change_quota(&mut self, job: JobId, quota: JobQuota) -> Result<Value, String> {
        self.require(job)?;
        let others = self.load().bytes_per_second - rate(self.quota(job));
        self.limits.admit_rate(others, quota).map_err(|refusal| refusal.to_string())?;
        self.bound(job, quota)?;
        Ok(json!({ "job": job.0 }))
    }

    /// Bounds the node, and jobs that it serves already.
    ///
    /// # Errors
    /// What does not fit, with numbers and what to do.
    pub fn limit(
        &mut self,
        limits: Limits,
        quotas: impl IntoIterator<Item = (JobId, JobQuota)>,
    ) -> Result<(), String> {
        for (job, quota) in quotas {
            self.require(job).and_then(|()| self.bound(job, quota))?;
        }
        let mut load = Load::default();
        for report in self.plane.jobs() {
            let quota = self.quota(report.job);
            let admitted = limits.admit(load, report.memory_bytes, quota);
            admitted.map_err(|refusal| format!("job {}: {refusal}", report.job))?;
            load.add(report.memory_bytes, rate(quota));
        }
        self.limits = limits;
        Ok(())
    }

    pub(super) fn bound(&mut self, job: JobId, quota: JobQuota) -> Result<(), String> {
        if quota.rate() != self.quota(job).rate() {
            self.plane.set_quota(job, quota.rate())?;
        }
        self.quotas.insert(job, quota);
        Ok(())
    }

    /// The bounds of a job.
    pub(crate) fn quota(&self, job: JobId) -> JobQuota {
        self.quotas.get(&job).copied().unwrap_or_default()
    }

    fn is_served(&self, job: JobId) -> bool {
        self.plane.jobs().iter().any(|report| report.job == job)
    }

    fn require(&self, job: JobId) -> Result<(), String> {
        let unknown =
            || format!("job {job} is not served here; `wiresum node status` lists those that are");
        self.is_served(job).then_some(()).ok_or_else(unknown)
    }

    /// What all jobs take.
    fn load(&self) -> Load {
        let mut load = Load::default();
        for report in self.plane.jobs() {
            load.add(report.memory_bytes, rate(self.quota(report.job)));
        }
        load
    }

    /// Jobs, members, memory and counters, for machines.
    #[must_use]
    pub fn status(&self) -> Value {
        let counters = self.counters();
        let jobs: Vec<Value> = self.plane.jobs().iter().map(|job| self.job_status(job)).collect();
        let totals: Vec<_> = counters.totals().collect();
        json!({
            "node": self.id.0,
            "engine": self.plane.engine(),
            "threads": self.plane.threads(),
            "listen": self.local_address().ok(),
            "uptime_s": self.begun.elapsed().as_secs_f64(),
            "process": std::process::id(),
            "upgrade": self.upgrade.as_ref().map(Upgrade::status),
            "memory_bytes": self.plane.memory_bytes(),
            "limits": {
                "jobs": self.limits.jobs,
                "memory_bytes": self.limits.memory_bytes,
                "bytes_per_second": self.limits.bytes_per_second,
            },
            "jobs": jobs,
            "verdicts": by_name(&counters.verdicts),
            "floods": self.plane.floods(),
            "socket": by_name(&totals),
        })
    }

    fn job_status(&self, report: &JobReport) -> Value {
        let quota = self.quota(report.job);
        let stream = |s: &StreamReport| json!({ "sub_model": s.sub_model.0, "arrived": s.arrived, "departed": s.departed });
        json!({
            "job": report.job.0,
            "running": report.is_running,
            "members": report.members,
            "expected_members": report.expected_members,
            "memory_bytes": report.memory_bytes,
            "quota": { "memory_bytes": quota.memory_bytes, "bytes_per_second": quota.bytes_per_second },
            "bytes": report.bytes,
            "verdicts": by_name(&report.verdicts),
            "streams": report.streams.iter().map(stream).collect::<Vec<_>>(),
            "tables": by_name(&report.tables),
        })
    }
}

fn rate(quota: JobQuota) -> u64 {
    quota.bytes_per_second.unwrap_or(0)
}

fn by_name(counts: &[(&'static str, u64)]) -> Map<String, Value> {
    counts.iter().map(|(name, count)| ((*name).to_owned(), (*count).into())).collect()
}
