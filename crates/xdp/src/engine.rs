//! The aggregator's handle: what the daemon tells the program, and what the program tells the daemon.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use wiresum_protocol::association::{GENERATIONS, RENEWALS, ValueKeys};
use wiresum_protocol::{Plan, Quota, Verdict};
use wiresum_wire::{Contributor, JobId, JobKey, MAX_CONTRIBUTORS, NodeId, SubModelId};
use zerocopy::{FromZeros, IntoBytes};

use crate::kernel::{self, AGGREGATOR, BENCH, Image, Kernel, PASS};
use crate::layout::{
    Budget, Config, DevmapValue, Endpoint, Hearing, MAX_JOBS, MAX_STREAMS, NO_JOB, Peer, Port,
    STRANGERS_BUDGET, Tally, ValueHashEntry, control_budget, values_budget,
};
use crate::peers;
use crate::slots::CheckQueue;
use crate::streams::Streams;
use crate::test_run::TestRun;
use crate::{AttachMode, Options, XdpError};

/// The map that holds the directory.
pub(crate) const DIRECTORY: &str = ".data.directory";

/// The aggregator in the kernel. Its programs run until it is dropped, or the process dies.
pub struct XdpAggregator {
    pub(crate) kernel: Kernel,
    pub(crate) streams: Streams,
    pub(crate) keys: [JobKey; MAX_JOBS],
    /// By stream.
    pub(crate) groups: Vec<Option<Group>>,
    pub(crate) mode: AttachMode,
    pub(crate) links: Vec<OwnedFd>,
    /// What jobs counted that are served no more.
    pub(crate) retired: Tally,
    pub(crate) checks: CheckQueue,
}

/// The admitted children of a stream: the port of each, and the devmap that results are broadcast through.
pub(crate) struct Group {
    pub ports: [Option<u32>; MAX_CONTRIBUTORS],
    pub devmap: MapHandle,
}

impl XdpAggregator {
    /// Whether [`Self::load`] may succeed here: built with the programs, and the process may load them.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn check_support() -> Result<(), XdpError> {
        if kernel::is_permitted() { Ok(()) } else { Err(XdpError::NotPermitted) }
    }

    /// Loads the program, allocates all slot memory it will ever have (see [`Options::memory`]), and adds the jobs of these plans,
    /// each as seen by one of its nodes.
    ///
    /// # Errors
    /// [`XdpError`] says what the kernel or the plans lack.
    pub fn load(plans: &[(Plan, NodeId)], options: &Options) -> Result<Self, XdpError> {
        Self::load_image(&AGGREGATOR, plans, options)
    }

    /// As [`Self::load`], with the programs that tests and benchmarks need.
    #[doc(hidden)]
    pub fn load_for_tests(plans: &[(Plan, NodeId)], options: &Options) -> Result<Self, XdpError> {
        Self::load_image(&BENCH, plans, options)
    }

    fn load_image(
        image: &Image,
        plans: &[(Plan, NodeId)],
        options: &Options,
    ) -> Result<Self, XdpError> {
        Self::check_support()?;
        let streams = Streams::for_plans(plans, options)?;
        let max_payload = streams.pool.payload_len() as u32;
        let config = Config { max_payload, lock_entries: options.lock_entries.into() };
        let kernel = Kernel::load(image, &streams.pool, &config)?;
        let mut aggregator = Self {
            checks: CheckQueue::of(&kernel)?,
            kernel,
            streams,
            keys: [JobKey(0); MAX_JOBS],
            groups: (0..MAX_STREAMS).map(|_| None).collect(),
            mode: options.mode,
            links: Vec::new(),
            retired: Tally::new_zeroed(),
        };
        aggregator.kernel.put("budgets", &STRANGERS_BUDGET, &Budget::from(Quota::strangers()))?;
        plans.iter().try_for_each(|(plan, node)| aggregator.add_job(plan, *node))?;
        Ok(aggregator)
    }

    /// Serves one more job, while the program runs. Its packets are foreign until [`Self::start_incarnation`].
    ///
    /// # Errors
    /// [`XdpError`] says what the pool or the plan lacks; then nothing has changed.
    pub fn add_job(&mut self, plan: &Plan, node: NodeId) -> Result<(), XdpError> {
        let index = self.streams.add(plan, node)?;
        let added = self.publish_job(plan, index);
        if added.is_err() {
            self.withdraw_job(index)?;
        }
        added
    }

    fn publish_job(&mut self, plan: &Plan, index: usize) -> Result<(), XdpError> {
        if let Some(entries) = self.streams.entries(index) {
            // No job ever sees what another has left.
            self.kernel.clear_entries(&entries)?;
        }
        for stream in self.streams.of_job(index) {
            let devmap = self.kernel.make_broadcast(stream as u32)?;
            self.groups[stream] = Some(Group { ports: [None; MAX_CONTRIBUTORS], devmap });
            for (contributor, key) in self.streams.keys[stream].iter().enumerate() {
                self.kernel.put("seat_keys", &child_index(stream, contributor), key)?;
            }
        }
        if let Some(hash) = plan.value_hash() {
            let entry = ValueHashEntry { words: *hash.words() };
            self.kernel.put("value_hashes", &(index as u32), &entry)?;
        }
        self.kernel.put("budgets", &values_budget(index), &Budget::default())?;
        self.kernel.put("budgets", &control_budget(index), &Budget::from(Quota::control()))?;
        self.kernel.put(DIRECTORY, &0u32, &self.streams.directory)
    }

    /// Serves a job no more: every packet of it is foreign, and its memory is free for others.
    ///
    /// # Errors
    /// [`XdpError::UnknownJob`], or the kernel's refusal.
    pub fn remove_job(&mut self, job: JobId) -> Result<(), XdpError> {
        let index = self.job_index(job)?;
        self.end_incarnation(job)?;
        self.withdraw_job(index)
    }

    fn withdraw_job(&mut self, index: usize) -> Result<(), XdpError> {
        let streams = self.streams.of_job(index);
        let Some(entries) = self.streams.remove(index) else { return Ok(()) };
        self.kernel.put(DIRECTORY, &0u32, &self.streams.directory)?;
        for &stream in &streams {
            self.groups[stream] = None;
            // The kernel comes back from a change to a map of maps when no program runs any more that had begun before it, so
            // nobody uses the job's entries after this.
            self.kernel.remove("broadcasts", &(stream as u32))?;
        }
        self.checks.forget(&streams);
        self.retired.add(&self.kernel.tally(index)?);
        self.kernel.clear_tally(index)?;
        self.streams.release(&entries);
        Ok(())
    }

    /// Bounds what the children of a job may send in values and probes; `None` for no bound.
    ///
    /// # Errors
    /// [`XdpError::UnknownJob`], or the kernel's refusal.
    pub fn set_quota(&mut self, job: JobId, quota: Option<Quota>) -> Result<(), XdpError> {
        let index = self.job_index(job)?;
        let budget = quota.map(Budget::from).unwrap_or_default();
        self.kernel.put("budgets", &values_budget(index), &budget)
    }

    /// Runs the program on a network interface of this namespace until this object is dropped, or the process dies.
    ///
    /// # Errors
    /// [`XdpError::NoInterface`], or the kernel's refusal.
    pub fn attach(&mut self, interface: &str) -> Result<(), XdpError> {
        self.attach_program("aggregate", interface)
    }

    /// As [`Self::attach`], with one of the programs for tests and benchmarks.
    #[doc(hidden)]
    pub fn attach_program(
        &mut self,
        program: &'static str,
        interface: &str,
    ) -> Result<(), XdpError> {
        let link = kernel::link(self.kernel.program(program).as_fd(), interface, self.mode)?;
        self.links.push(link);
        Ok(())
    }

    /// Begins an incarnation of a job: what the slots hold of older ones counts as empty, and its children and parents are
    /// to be admitted anew. Until [`Self::renew`], values carry the incarnation's key, wherever they are in a stream.
    ///
    /// # Errors
    /// [`XdpError::UnknownJob`].
    pub fn start_incarnation(&mut self, job: JobId, key: JobKey) -> Result<(), XdpError> {
        self.end_incarnation(job)?;
        let index = self.job_index(job)?;
        self.keys[index] = key;
        for stream in self.streams.of_job(index) {
            self.streams.directory.streams[stream].value_keys = [[key.0; GENERATIONS]; RENEWALS];
            self.streams.vacate(stream, 0);
        }
        self.kernel.put(DIRECTORY, &0u32, &self.streams.directory)?;
        self.kernel.run_job(index, key)
    }

    /// Nobody fills these seats of a sub-model in this incarnation, so nobody waits for them. To be called before children
    /// are admitted.
    ///
    /// # Errors
    /// [`XdpError::UnknownPeer`], or the kernel's refusal.
    pub fn vacate(
        &mut self,
        job: JobId,
        sub_model: SubModelId,
        seats: u64,
    ) -> Result<(), XdpError> {
        let stream = self.stream_index(job, sub_model, Contributor(0))?;
        self.streams.vacate(stream, seats);
        self.kernel.put(DIRECTORY, &0u32, &self.streams.directory)
    }

    /// The program knows already that nobody fills these seats, from the process before this one.
    pub fn remember_vacancies(&mut self, job: JobId, vacant: &BTreeMap<SubModelId, u64>) {
        for (&sub_model, &seats) in vacant {
            if let Some(stream) = self.streams.index(job, sub_model) {
                self.streams.vacate(stream, seats);
            }
        }
    }

    /// From now on the values of a sub-model carry these keys.
    ///
    /// # Errors
    /// [`XdpError::UnknownPeer`], or the kernel's refusal.
    pub fn renew(
        &mut self,
        job: JobId,
        sub_model: SubModelId,
        keys: ValueKeys,
    ) -> Result<(), XdpError> {
        let stream = self.stream_index(job, sub_model, Contributor(0))?;
        self.streams.directory.streams[stream].value_keys =
            keys.map(|keys| keys.map(|JobKey(key)| key));
        self.kernel.put(DIRECTORY, &0u32, &self.streams.directory)
    }

    /// Ends the job's incarnation: every further packet of it is foreign.
    ///
    /// # Errors
    /// As [`Self::start_incarnation`].
    pub fn end_incarnation(&mut self, job: JobId) -> Result<(), XdpError> {
        let index = self.job_index(job)?;
        self.kernel.stop_job(index)?;
        self.streams.of_job(index).into_iter().try_for_each(|stream| self.dismiss_everyone(stream))
    }

    fn dismiss_everyone(&mut self, stream: usize) -> Result<(), XdpError> {
        self.kernel.put("parents", &(stream as u32), &Peer::new_zeroed())?;
        (0..MAX_CONTRIBUTORS).try_for_each(|child| self.dismiss(stream, child))
    }

    /// Takes back [`Self::admit_child`]: what the child sends from now on is dropped, and it gets no results. Harmless when
    /// repeated.
    ///
    /// # Errors
    /// [`XdpError::UnknownPeer`], or the kernel's refusal.
    pub fn dismiss_child(
        &mut self,
        job: JobId,
        sub_model: SubModelId,
        contributor: Contributor,
    ) -> Result<(), XdpError> {
        let stream = self.stream_index(job, sub_model, contributor)?;
        self.dismiss(stream, usize::from(contributor.0) % MAX_CONTRIBUTORS)
    }

    fn dismiss(&mut self, stream: usize, child: usize) -> Result<(), XdpError> {
        let Some(group) = &mut self.groups[stream] else { return Ok(()) };
        let Some(ifindex) = group.ports[child].take() else { return Ok(()) };
        self.kernel.put("children", &child_index(stream, child), &Peer::new_zeroed())?;
        group.remove(child)?;
        self.note_port(stream, ifindex)
    }

    /// Admits the child or substitute that said hello from `address` as a contributor to a sub-model, or moves it there.
    ///
    /// # Errors
    /// [`XdpError::NotHeard`] if its hello did not come through the program; [`XdpError::UnknownPeer`].
    pub fn admit_child(
        &mut self,
        job: JobId,
        sub_model: SubModelId,
        contributor: Contributor,
        address: SocketAddr,
    ) -> Result<(), XdpError> {
        let child = usize::from(contributor.0);
        let stream = self.stream_index(job, sub_model, contributor)?;
        let unknown = XdpError::UnknownPeer { job, sub_model, contributor };
        let seat = self.streams.seat(stream, child).ok_or(unknown)?;
        let hearing = self.hearing(address)?;
        let mut peer = peers::peer(address, self.keys[self.job_index(job)?], &hearing);
        (peer.child, peer.team, peer.rivals) = (seat.child, seat.team, seat.rivals);
        self.open_outlet(hearing.ifindex)?;
        self.kernel.put("children", &child_index(stream, child), &peer)?;
        let group = self.groups[stream].as_mut().expect("a stream in use has a group");
        let former = group.ports[child].replace(hearing.ifindex);
        for ifindex in former.into_iter().chain([hearing.ifindex]) {
            self.note_port(stream, ifindex)?;
        }
        let group = self.groups[stream].as_ref().expect("a stream in use has a group");
        group.put(child, self.kernel.outlet(hearing.ifindex))
    }

    /// Lets packets leave by an interface.
    pub(crate) fn open_outlet(&self, ifindex: u32) -> Result<(), XdpError> {
        self.kernel.put("outlets", &ifindex, &self.kernel.outlet(ifindex))
    }

    /// Tells the program which children of a stream are behind a port.
    fn note_port(&self, stream: usize, ifindex: u32) -> Result<(), XdpError> {
        let key = Port { stream: stream as u32, ifindex };
        match self.groups[stream].as_ref().map_or(0, |group| group.behind(ifindex)) {
            0 => self.kernel.remove("ports", &key),
            children => self.kernel.put("ports", &key, &children),
        }
    }

    /// Sets the parent, whose welcome came from `address`.
    ///
    /// # Errors
    /// As [`Self::admit_child`].
    pub fn set_parent(
        &mut self,
        job: JobId,
        sub_model: SubModelId,
        address: SocketAddr,
    ) -> Result<(), XdpError> {
        let stream = self.stream_index(job, sub_model, Contributor(0))?;
        let key = self.keys[self.job_index(job)?];
        let hearing = self.hearing(address)?;
        self.open_outlet(hearing.ifindex)?;
        self.kernel.put("parents", &(stream as u32), &peers::peer(address, key, &hearing))
    }

    fn job_index(&self, job: JobId) -> Result<usize, XdpError> {
        self.streams.job_index(job).ok_or(XdpError::UnknownJob(job))
    }

    fn stream_index(
        &self,
        job: JobId,
        sub_model: SubModelId,
        contributor: Contributor,
    ) -> Result<usize, XdpError> {
        let index = self.streams.index(job, sub_model);
        index.ok_or(XdpError::UnknownPeer { job, sub_model, contributor })
    }

    fn hearing(&self, address: SocketAddr) -> Result<Hearing, XdpError> {
        let key = Endpoint { any_address: 0, ..Endpoint::from(address) };
        self.kernel.get("heard", &key)?.ok_or(XdpError::NotHeard(address))
    }

    /// Packets by verdict, summed over CPUs; [`Verdict::Control`] are those passed up to the daemon's socket.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn counters(&self) -> Result<Vec<(Verdict, u64)>, XdpError> {
        let mut sum = self.retired;
        (0..=NO_JOB).try_for_each(|index| self.kernel.tally(index).map(|tally| sum.add(&tally)))?;
        Ok(by_verdict(&sum))
    }

    /// As [`Self::counters`], of the packets that name one job, and their bytes.
    ///
    /// # Errors
    /// [`XdpError::UnknownJob`], or the kernel's refusal.
    pub fn job_counters(&self, job: JobId) -> Result<(Vec<(Verdict, u64)>, u64), XdpError> {
        let tally = self.kernel.tally(self.job_index(job)?)?;
        Ok((by_verdict(&tally), tally.bytes))
    }

    /// Packets of one verdict.
    #[doc(hidden)]
    pub fn counter(&self, verdict: Verdict) -> Result<u64, XdpError> {
        Ok(self.counters()?[verdict as usize].1)
    }

    /// Bytes of slot memory in the kernel, fixed at load.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.streams.pool.usage().total
    }

    /// Bytes of slot memory that a job takes here: slots are as long as the longest of any job.
    #[must_use]
    pub fn memory_for(&self, plan: &Plan, node: NodeId) -> usize {
        self.streams.bytes_for(plan, node)
    }

    #[doc(hidden)]
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// A descriptor of one of the object's programs, for test-runs on several CPUs at once.
    #[doc(hidden)]
    pub fn program(&self, name: &'static str) -> std::io::Result<OwnedFd> {
        self.kernel.program(name).as_fd().try_clone_to_owned()
    }

    #[doc(hidden)]
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    pub(crate) fn checks(&self) -> &CheckQueue {
        &self.checks
    }

    /// Key of the incarnation that was last started.
    pub(crate) fn running_key(&self, job: JobId) -> Option<JobKey> {
        self.streams.job_index(job).map(|index| self.keys[index])
    }

    /// Runs one of the object's programs on a frame in the kernel, without a network. For tests and benchmarks.
    #[doc(hidden)]
    pub fn test_run(
        &self,
        program: &'static str,
        frame: &[u8],
        repeat: u32,
    ) -> Result<TestRun, XdpError> {
        self.kernel.test_run(program, frame, repeat)
    }
}

impl Group {
    /// Bitmap of the children behind a port.
    fn behind(&self, ifindex: u32) -> u64 {
        let ports = self.ports.iter().enumerate();
        ports.filter(|(_, port)| **port == Some(ifindex)).map(|(child, _)| 1 << child).sum()
    }

    pub fn put(&self, child: usize, value: DevmapValue) -> Result<(), XdpError> {
        let put = self.devmap.update((child as u32).as_bytes(), value.as_bytes(), MapFlags::ANY);
        put.map_err(|error| kernel::refused("adding a port to the broadcast".to_owned(), &error))
    }

    fn remove(&self, child: usize) -> Result<(), XdpError> {
        let removed = self.devmap.delete((child as u32).as_bytes());
        removed.map_err(|error| {
            kernel::refused("removing a port from the broadcast".to_owned(), &error)
        })
    }
}

fn by_verdict(tally: &Tally) -> Vec<(Verdict, u64)> {
    Verdict::AGGREGATOR
        .into_iter()
        .map(|verdict| (verdict, tally.verdicts[verdict as usize]))
        .collect()
}

pub(crate) fn child_index(stream: usize, child: usize) -> u32 {
    (stream * MAX_CONTRIBUTORS + child) as u32
}

/// Attaches a program that passes every packet, until the interface is gone. The far end of a veth needs one: without it,
/// what an XDP program sends through the near end is counted as sent and lost.
///
/// # Errors
/// [`XdpError::NoInterface`], or the kernel's refusal.
pub fn attach_pass_program(interface: &str) -> Result<(), XdpError> {
    let pass = Kernel::load_plain(&PASS)?;
    kernel::attach(pass.program("pass").as_fd(), interface, AttachMode::Native)
}
