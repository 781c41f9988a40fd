//! The aggregator's handle: what the daemon tells the program, and what the program tells the daemon.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use wiresum_protocol::{Plan, Verdict};
use wiresum_wire::{Contributor, JobId, JobKey, MAX_CONTRIBUTORS, NodeId, SubModelId};
use zerocopy::{FromZeros, IntoBytes};

use crate::kernel::{self, AGGREGATOR, BENCH, Image, Kernel, PASS, TestRun};
use crate::layout::{DevmapValue, Endpoint, Entry, Hearing, Job, Peer, Port};
use crate::peers;
use crate::streams::Streams;
use crate::{AttachMode, Options, XdpError};

/// The aggregator in the kernel. Its programs run until it is dropped, or the process dies.
pub struct XdpAggregator {
    kernel: Kernel,
    streams: Streams,
    keys: Vec<JobKey>,
    groups: Vec<Group>,
    mode: AttachMode,
    links: Vec<OwnedFd>,
}

/// The admitted children of a stream: the port of each, and the devmap that results are broadcast through.
struct Group {
    ports: [Option<u32>; MAX_CONTRIBUTORS],
    devmap: MapHandle,
}

impl XdpAggregator {
    /// Whether [`Self::load`] may succeed here: built with the programs, and the process may load them.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn check_support() -> Result<(), XdpError> {
        if kernel::is_permitted() { Ok(()) } else { Err(XdpError::NotPermitted) }
    }

    /// Loads the program for these plans, each as seen by one of its nodes, and allocates all memory they will ever need.
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
        let streams = Streams::of(plans, options)?;
        let kernel = Kernel::load(image, &streams)?;
        let group = |index| {
            let devmap = kernel.make_broadcast(index)?;
            Ok(Group { ports: [None; MAX_CONTRIBUTORS], devmap })
        };
        let groups =
            (0..streams.config.stream_count).map(group).collect::<Result<_, XdpError>>()?;
        let keys = vec![JobKey(0); streams.jobs.len()];
        Ok(Self { kernel, streams, keys, groups, mode: options.mode, links: Vec::new() })
    }

    /// Runs the program on a network interface of this namespace until this object is dropped, or the process dies.
    ///
    /// # Errors
    /// [`XdpError::NoInterface`], or the kernel's refusal.
    pub fn attach(&mut self, interface: &str) -> Result<(), XdpError> {
        let link = kernel::link(self.kernel.program("aggregate").as_fd(), interface, self.mode)?;
        self.links.push(link);
        Ok(())
    }

    /// Begins an incarnation of a job: what the slots hold of older ones counts as empty, and its children and parents are
    /// to be admitted anew.
    ///
    /// # Errors
    /// [`XdpError::UnknownJob`].
    pub fn start_incarnation(&mut self, job: JobId, key: JobKey) -> Result<(), XdpError> {
        self.end_incarnation(job)?;
        let index = self.job_index(job)?;
        self.keys[index] = key;
        self.kernel.put("jobs", &(index as u32), &Job { key: key.0, running: 1 })
    }

    /// Ends the job's incarnation: every further packet of it is foreign.
    ///
    /// # Errors
    /// As [`Self::start_incarnation`].
    pub fn end_incarnation(&mut self, job: JobId) -> Result<(), XdpError> {
        let index = self.job_index(job)?;
        self.kernel.put("jobs", &(index as u32), &Job::default())?;
        for stream in 0..self.groups.len() {
            if usize::from(self.streams.all()[stream].job_index) == index {
                self.dismiss_everyone(stream)?;
            }
        }
        Ok(())
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
        let Some(ifindex) = self.groups[stream].ports[child].take() else { return Ok(()) };
        self.kernel.put("children", &child_index(stream, child), &Peer::new_zeroed())?;
        self.groups[stream].remove(child)?;
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
        let seat = *self.streams.seats[stream].get(child).ok_or(unknown)?;
        let hearing = self.hearing(address)?;
        let mut peer = peers::peer(address, self.keys[self.job_index(job)?], &hearing);
        (peer.child, peer.team, peer.rivals) = (seat.child, seat.team, seat.rivals);
        self.kernel.put("children", &child_index(stream, child), &peer)?;
        let former = self.groups[stream].ports[child].replace(hearing.ifindex);
        for ifindex in former.into_iter().chain([hearing.ifindex]) {
            self.note_port(stream, ifindex)?;
        }
        let program = self.kernel.program("send_copy");
        self.groups[stream].put(child, hearing.ifindex, program.as_fd().as_raw_fd())
    }

    /// Tells the program which children of a stream are behind a port.
    fn note_port(&self, stream: usize, ifindex: u32) -> Result<(), XdpError> {
        let key = Port { stream: stream as u32, ifindex };
        match self.groups[stream].behind(ifindex) {
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
        let peer = peers::peer(address, key, &self.hearing(address)?);
        self.kernel.put("parents", &(stream as u32), &peer)
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
        let counter = |verdict: Verdict| Ok((verdict, self.kernel.counter(verdict as u32)?));
        Verdict::ALL.into_iter().map(counter).collect()
    }

    /// Packets of one verdict.
    #[doc(hidden)]
    pub fn counter(&self, verdict: Verdict) -> Result<u64, XdpError> {
        self.kernel.counter(verdict as u32)
    }

    /// Bytes of slot memory in the kernel, fixed at load.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.streams.entry_count as usize * (self.streams.payload_len + size_of::<Entry>())
    }

    pub(crate) fn kernel(&self) -> &Kernel {
        &self.kernel
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

    fn put(&self, child: usize, ifindex: u32, program: i32) -> Result<(), XdpError> {
        let value = DevmapValue { ifindex, program };
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

fn child_index(stream: usize, child: usize) -> u32 {
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
