//! Admission: what a daemon takes on, as a pure decision with its reason.

use std::fs;

use thiserror::Error;

use super::JobQuota;

/// Jobs of one daemon, as many as one XDP program holds.
pub const MAX_JOBS: usize = 16;

/// Bounds of a daemon; absent ones do not bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Jobs.
    pub jobs: usize,
    /// Bytes of slot memory, or of rows, of all jobs.
    pub memory_bytes: Option<u64>,
    /// Bytes per second of all jobs; then every job must have a quota.
    pub bytes_per_second: Option<u64>,
}

/// The part of the memory that is free at the start which slots may take if nobody says how much: the rest is for the
/// host's other programs, and for what a daemon keeps beside slots.
const MEMORY_SHARE: f64 = 0.75;

/// What slots may take by default: a share of what the kernel calls available; no bound where it does not say.
#[must_use]
pub fn usual_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((kilobytes as f64 * 1024.0 * MEMORY_SHARE) as u64)
}

impl Default for Limits {
    fn default() -> Self {
        Self { jobs: MAX_JOBS, memory_bytes: None, bytes_per_second: None }
    }
}

/// What a daemon has taken on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Jobs.
    pub jobs: usize,
    /// Their bytes of slot memory, or of rows.
    pub memory_bytes: u64,
    /// The sum of their quotas.
    pub bytes_per_second: u64,
}

impl Load {
    /// Takes one more job on.
    pub fn add(&mut self, memory_bytes: u64, bytes_per_second: u64) {
        self.jobs += 1;
        self.memory_bytes += memory_bytes;
        self.bytes_per_second += bytes_per_second;
    }
}

/// Why a job is not taken on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Too many.
    #[error(
        "{0} jobs are served, the most of this daemon: remove one, or raise --max-jobs (at most {MAX_JOBS})"
    )]
    Jobs(usize),
    /// The job's own bound.
    #[error(
        "it needs {needed} bytes of memory here, and its quota is {quota}: plan it with fewer slots or rows, or raise its quota"
    )]
    OwnMemory {
        /// Bytes that the job needs at this node.
        needed: u64,
        /// Bytes of the quota.
        quota: u64,
    },
    /// The daemon's bound.
    #[error(
        "it needs {needed} bytes of memory here, and {free} of this daemon's {total} are free: plan it with fewer slots or rows, remove a job, or raise --memory"
    )]
    Memory {
        /// Bytes that the job needs at this node.
        needed: u64,
        /// Bytes that no job has.
        free: u64,
        /// Bytes in all.
        total: u64,
    },
    /// No rate was asked for.
    #[error(
        "this daemon shares {} bit/s among its jobs: give the job a quota with a rate, as --quota JOB=RATE at the start or `wiresum node quota JOB --rate RATE`",
        .total * 8
    )]
    NoRate {
        /// Bytes per second in all.
        total: u64,
    },
    /// Too high a rate.
    #[error(
        "the job asks for {} bit/s, and {} of this daemon's {} are free: ask for less, or lower another job's quota",
        .needed * 8, .free * 8, .total * 8
    )]
    Rate {
        /// Bytes per second that the job asks for.
        needed: u64,
        /// Bytes per second that no job has.
        free: u64,
        /// Bytes per second in all.
        total: u64,
    },
}

impl Limits {
    /// Whether a job that needs so many bytes of memory may be taken on beside the others.
    ///
    /// # Errors
    /// The first bound that it would cross.
    pub fn admit(&self, load: Load, memory: u64, quota: JobQuota) -> Result<(), Refusal> {
        if load.jobs >= self.jobs {
            return Err(Refusal::Jobs(load.jobs));
        }
        if let Some(bound) = quota.memory_bytes
            && memory > bound
        {
            return Err(Refusal::OwnMemory { needed: memory, quota: bound });
        }
        if let Some(total) = self.memory_bytes {
            let free = total.saturating_sub(load.memory_bytes);
            if memory > free {
                return Err(Refusal::Memory { needed: memory, free, total });
            }
        }
        self.admit_rate(load.bytes_per_second, quota)
    }

    /// Whether a quota fits beside those of the others.
    ///
    /// # Errors
    /// [`Refusal`] if it does not.
    pub fn admit_rate(&self, others: u64, quota: JobQuota) -> Result<(), Refusal> {
        let Some(total) = self.bytes_per_second else { return Ok(()) };
        let needed = quota.bytes_per_second.ok_or(Refusal::NoRate { total })?;
        let free = total.saturating_sub(others);
        if needed > free { Err(Refusal::Rate { needed, free, total }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { jobs: 2, memory_bytes: Some(1000), bytes_per_second: Some(100) };
    const ONE: Load = Load { jobs: 1, memory_bytes: 600, bytes_per_second: 70 };

    fn quota(rate: u64) -> JobQuota {
        JobQuota { memory_bytes: None, bytes_per_second: Some(rate) }
    }

    #[test]
    fn the_kernel_says_what_is_free() {
        let usual = usual_memory().expect("Linux says so");
        assert!((1 << 20..1 << 50).contains(&usual), "{usual}");
    }

    #[test]
    fn what_fits_is_admitted() {
        assert_eq!(LIMITS.admit(ONE, 400, quota(30)), Ok(()));
        assert_eq!(Limits::default().admit(ONE, u64::MAX, JobQuota::default()), Ok(()));
    }

    #[test]
    fn each_bound_refuses_with_its_numbers() {
        let full = Load { jobs: 2, ..ONE };
        assert_eq!(LIMITS.admit(full, 1, quota(1)), Err(Refusal::Jobs(2)));
        let memory = Refusal::Memory { needed: 401, free: 400, total: 1000 };
        assert_eq!(LIMITS.admit(ONE, 401, quota(1)), Err(memory));
        let own = JobQuota { memory_bytes: Some(10), bytes_per_second: Some(1) };
        assert_eq!(LIMITS.admit(ONE, 11, own), Err(Refusal::OwnMemory { needed: 11, quota: 10 }));
        let rate = Refusal::Rate { needed: 31, free: 30, total: 100 };
        assert_eq!(LIMITS.admit(ONE, 1, quota(31)), Err(rate));
        let none = JobQuota::default();
        assert_eq!(LIMITS.admit(ONE, 1, none), Err(Refusal::NoRate { total: 100 }));
    }
}
