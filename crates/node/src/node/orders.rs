//! What clients of the control socket ask for, done between two batches of datagrams.

use std::time::Instant;

use serde_json::{Map, Value, json};
use wiresum_protocol::aggregator::Membership;
use wiresum_protocol::{Aggregator, Plan, Verdict};
use wiresum_wire::JobId;

use crate::aggregators::Server;
use crate::engine::format_of;
use crate::service::{JobQuota, Orders, Request, VERSION, exposition};
use crate::takeover::{Failed, Successor, Upgrade};

impl Server {
    pub(crate) fn answer_orders(&mut self) {
        while let Some(mut order) = self.orders.as_mut().and_then(|orders| orders.take()) {
            let answer = match order.successor.take() {
                Some(successor) => self.hand_over(successor),
                None => self.carry_out(&order.request),
            };
            if self.is_handed_over {
                // The successor answers the next client: the listener's thread waits for this answer until the process ends.
                std::mem::forget(order);
                return;
            }
            order.answer(answer);
        }
    }

    /// Null if the successor has been told already.
    fn hand_over(&mut self, mut successor: Successor) -> Value {
        let start = Instant::now();
        match successor.offer(self) {
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
        let upgrade = self.upgrade.as_ref().ok_or("this daemon cannot start a successor")?;
        upgrade.start().map(|process| json!({ "process": process }))
    }

    fn carry_out(&mut self, request: &Request) -> Value {
        let done = match request {
            Request::Add { plan, quota } => self.add_from_json(plan, *quota),
            Request::Remove { job } => self.remove_job(JobId(*job)),
            Request::Quota { job, quota } => self.change_quota(JobId(*job), *quota),
            Request::Upgrade => self.upgrade(),
            Request::TakeOver { .. } => Err("a successor needs a connection of its own".to_owned()),
            Request::Status => Ok(self.status()),
            Request::Metrics => Ok(json!({ "text": exposition(&self.status()) })),
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

    fn add_from_json(&mut self, plan: &Value, quota: JobQuota) -> Result<Value, String> {
        let plan = Plan::from_json(&plan.to_string()).map_err(|error| error.to_string())?;
        self.add_job(&plan, quota)
    }

    /// Serves one more job, if the limits allow it.
    ///
    /// # Errors
    /// Why not, with numbers and what to do.
    pub fn add_job(&mut self, plan: &Plan, quota: JobQuota) -> Result<Value, String> {
        format_of(plan).map_err(|error| error.to_string())?;
        let (job, node) = (plan.job_id(), self.node);
        if self.adder.jobs.index_of_job(job).is_some() {
            return Err(format!(
                "job {job} is served already: number the jobs, or remove it first"
            ));
        }
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
        if self.adder.outgoing.frames.is_some() {
            return Err("the engine `af_xdp` serves the jobs that it was started with: restart it with one more --plan".to_owned());
        }
        // The slots of a job in the kernel are the pool's, so what is needed there is more than the plan says.
        let aggregator = Aggregator::new(plan, node);
        let needed = match &self.adder.kernel {
            Some(kernel) => kernel.memory_for(plan, node),
            None => aggregator.memory_bytes(),
        } as u64;
        self.limits
            .admit(self.adder.jobs.load(), needed, quota)
            .map_err(|refusal| refusal.to_string())?;
        if let Some(kernel) = &mut self.adder.kernel {
            kernel.add_job(plan, node, quota.rate()).map_err(|error| error.to_string())?;
        }
        self.adder.jobs.add(job, aggregator, quota, needed);
        self.adder.jobs.control.handle_job(plan);
        self.adder.transmitters.add(plan, node);
        Ok(json!({ "job": job.0, "memory_bytes": needed }))
    }

    fn remove_job(&mut self, job: JobId) -> Result<Value, String> {
        let index = self.adder.jobs.remove(job).ok_or_else(|| unknown(job))?;
        self.adder.transmitters.remove(index);
        if let Some(kernel) = &mut self.adder.kernel {
            kernel.remove_job(job).map_err(|error| error.to_string())?;
        }
        Ok(json!({ "job": job.0 }))
    }

    /// Bounds a job anew, if the limits allow it.
    ///
    /// # Errors
    /// Why not, with numbers and what to do.
    pub fn change_quota(&mut self, job: JobId, quota: JobQuota) -> Result<Value, String> {
        let index = self.adder.jobs.index_of_job(job).ok_or_else(|| unknown(job))?;
        let others = self.adder.jobs.load().bytes_per_second - self.adder.jobs.rate_of(index);
        self.limits.admit_rate(others, quota).map_err(|refusal| refusal.to_string())?;
        if let Some(kernel) = &mut self.adder.kernel {
            kernel.set_quota(job, quota.rate()).map_err(|error| error.to_string())?;
        }
        self.adder.jobs.set_quota(index, quota);
        Ok(json!({ "job": job.0 }))
    }

    /// Jobs, members, memory and counters, for machines.
    #[must_use]
    pub fn status(&self) -> Value {
        let counters = self.counters();
        let jobs: Vec<Value> = (0..self.job_count()).map(|index| self.job_status(index)).collect();
        let totals: Map<_, _> =
            counters.totals().map(|(name, n)| (name.to_owned(), n.into())).collect();
        json!({
            "node": self.node.0,
            "engine": self.engine(),
            "listen": self.socket.local_address().ok(),
            "uptime_s": self.clock.now().0 as f64 / 1e6,
            "process": std::process::id(),
            "upgrade": self.upgrade.as_ref().map(Upgrade::status),
            "memory_bytes": self.memory_bytes(),
            "limits": {
                "jobs": self.limits.jobs,
                "memory_bytes": self.limits.memory_bytes,
                "bytes_per_second": self.limits.bytes_per_second,
            },
            "jobs": jobs,
            "verdicts": by_name(&counters.verdicts),
            "floods": self.guard.floods,
            "socket": totals,
        })
    }

    fn job_status(&self, index: usize) -> Value {
        let served = self.adder.jobs.served(index);
        let (mut verdicts, mut bytes) = (served.aggregator.counters(), served.bytes);
        if let Some(Ok((counted, of_kernel))) =
            self.adder.kernel.as_ref().map(|kernel| kernel.job_counters(served.job))
        {
            let summed = counted.into_iter().filter(|(verdict, _)| *verdict != Verdict::Control);
            summed.for_each(|(verdict, count)| verdicts[verdict as usize].1 += count);
            bytes = of_kernel;
        }
        let membership: Membership = served.aggregator.membership();
        json!({
            "job": served.job.0,
            "running": membership.key.is_some(),
            "members": membership.children.len(),
            "expected_members": served.aggregator.expected_members(),
            "memory_bytes": served.memory_bytes,
            "quota": {
                "memory_bytes": served.quota.memory_bytes,
                "bytes_per_second": served.quota.bytes_per_second,
            },
            "bytes": bytes,
            "verdicts": by_name(&verdicts),
        })
    }
}

fn by_name(verdicts: &[(Verdict, u64)]) -> Map<String, Value> {
    verdicts.iter().map(|(verdict, count)| (verdict.name().to_owned(), (*count).into())).collect()
}

fn unknown(job: JobId) -> String {
    format!("job {job} is not served here; `wiresum node status` lists those that are")
}
