//! Handing the program's maps and links from one process to the next, while packets flow.
//!
//! The successor loads its own program over the same maps, learns from them who takes part, and then puts the program on the same
//! links, which the kernel does between two packets. Its predecessor's program runs until then, so nothing is lost and nothing
//! waits.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use wiresum_protocol::{Plan, Verdict};
use wiresum_wire::{FragmentId, JobKey, MAX_CONTRIBUTORS, NodeId};
use zerocopy::FromZeros;

use crate::engine::{Group, XdpAggregator, child_index};
use crate::kernel::{self, AGGREGATOR, Kernel, MAP_SIZES};
use crate::layout::{Check, Directory, Job, MAX_JOBS, MAX_STREAMS, NO_JOB, Peer, Stream, Tally};
use crate::slots::CheckQueue;
use crate::streams::Streams;
use crate::{Estate, Options, XdpError};

/// Descriptors of what outlives a process; names and descriptors of maps, and links.
pub type Descriptors<'a> = (Vec<(String, BorrowedFd<'a>)>, Vec<BorrowedFd<'a>>);

impl XdpAggregator {
    /// What a successor needs, in the order in which [`Estate`] has it.
    #[must_use]
    pub fn descriptors(&self) -> Descriptors<'_> {
        (self.kernel().maps(), self.links.iter().map(AsFd::as_fd).collect())
    }

    /// Packets by verdict of jobs that are gone, for [`Estate::retired`].
    #[must_use]
    pub fn retired(&self) -> Vec<u64> {
        self.retired.verdicts[..Verdict::AGGREGATOR.len()].to_vec()
    }

    /// Goes on with what another process has begun: the jobs that it serves, with these plans.
    ///
    /// # Errors
    /// [`XdpError::Layout`] if its maps are not this program's; or the kernel's refusal. The other process's program goes on then,
    /// or does after its [`Self::reattach`].
    pub fn take_over(
        plans: &[(Plan, NodeId)],
        estate: Estate,
        options: &Options,
    ) -> Result<Self, XdpError> {
        Self::check_support()?;
        let kernel = Kernel::adopt(&AGGREGATOR, &estate.maps, &MAP_SIZES)?;
        let streams = Streams::inherit(kernel.get_directory()?, kernel.pool(), plans)?;
        let mut retired = Tally::new_zeroed();
        retired.verdicts.iter_mut().zip(&estate.retired).for_each(|(sum, count)| *sum = *count);
        let mut aggregator = Self {
            checks: CheckQueue::of(&kernel)?,
            kernel,
            streams,
            keys: [JobKey(0); MAX_JOBS],
            groups: (0..MAX_STREAMS).map(|_| None).collect(),
            mode: options.mode,
            links: estate.links,
            retired,
        };
        aggregator.recall_keys()?;
        for stream in 0..MAX_STREAMS {
            if aggregator.streams.owner(stream).is_some() {
                aggregator.recall_children(stream)?;
                aggregator.recall_position(stream)?;
            }
        }
        aggregator.relink()?;
        Ok(aggregator)
    }

    /// Takes everything back that a successor which has failed may have changed. Harmless if it has changed nothing.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn reattach(&self) -> Result<(), XdpError> {
        for (stream, group) in self.groups.iter().enumerate() {
            if let Some(group) = group {
                let descriptor = group.devmap.as_fd().as_raw_fd();
                self.kernel.put("broadcasts", &(stream as u32), &descriptor)?;
                self.reopen_outlets(stream)?;
            }
        }
        self.relink()
    }

    /// Puts this process's program on every link.
    fn relink(&self) -> Result<(), XdpError> {
        let program = self.kernel.program("aggregate");
        self.links.iter().try_for_each(|link| kernel::update_link(link.as_fd(), program.as_fd()))
    }

    fn recall_keys(&mut self) -> Result<(), XdpError> {
        for (index, key) in self.keys.iter_mut().enumerate().take(NO_JOB) {
            let job: Option<Job> = self.kernel.get("jobs", &(index as u32))?;
            *key = JobKey(job.unwrap_or_default().key);
        }
        Ok(())
    }

    /// Makes a broadcast group of a stream's children whose copies pass this process's program.
    fn recall_children(&mut self, stream: usize) -> Result<(), XdpError> {
        let devmap = self.kernel.new_broadcast()?;
        let mut group = Group { ports: [None; MAX_CONTRIBUTORS], devmap };
        for child in 0..MAX_CONTRIBUTORS {
            let peer: Option<Peer> = self.kernel.get("children", &child_index(stream, child))?;
            if let Some(peer) = peer.filter(|peer| peer.frame_len != 0) {
                group.ports[child] = Some(peer.ifindex);
                group.put(child, self.kernel.outlet(peer.ifindex))?;
            }
        }
        // The kernel exchanges a group for another at once, and comes back when no program uses the former one.
        self.kernel.put("broadcasts", &(stream as u32), &group.devmap.as_fd().as_raw_fd())?;
        self.groups[stream] = Some(group);
        self.reopen_outlets(stream)
    }

    /// Has what leaves for a stream's children and parent pass this process's program.
    fn reopen_outlets(&self, stream: usize) -> Result<(), XdpError> {
        let ports = self.groups[stream].iter().flat_map(|group| group.ports).flatten();
        let parent: Option<Peer> = self.kernel.get("parents", &(stream as u32))?;
        let above = parent.filter(|peer| peer.frame_len != 0).map(|peer| peer.ifindex);
        ports.chain(above).try_for_each(|ifindex| self.open_outlet(ifindex))
    }

    /// Notes the highest position that has gone up: the node's transmitter starts anew, and has to look there.
    fn recall_position(&self, stream: usize) -> Result<(), XdpError> {
        let &Stream { is_root, first_entry, entry_mask, job_index, .. } =
            self.streams.stream(stream);
        if is_root != 0 {
            return Ok(());
        }
        let key = self.keys[usize::from(job_index)].0;
        let entries = self.kernel.read_entries(first_entry..first_entry + entry_mask + 1)?;
        let live = entries.iter().filter(|entry| entry.job_key == key && entry.state != 0);
        let positions = live.map(|entry| FragmentId(entry.position));
        let highest = positions.reduce(|a, b| if a.since(b) > 0 { a } else { b });
        if let Some(FragmentId(position)) = highest {
            self.checks.note(Check { stream: stream as u32, position });
        }
        Ok(())
    }
}

impl Kernel {
    /// Loads an object over another process's maps, whose values have these sizes.
    pub fn adopt(
        image: &kernel::Image,
        maps: &[(String, OwnedFd)],
        sizes: &[(&str, usize)],
    ) -> Result<Self, XdpError> {
        let mut open = kernel::open(image)?;
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let handed = maps.iter().find(|(other, _)| *other == name);
            let (_, descriptor) = handed
                .ok_or_else(|| XdpError::Layout(format!("the running daemon has no `{name}`")))?;
            let reused = map.reuse_fd(descriptor.as_fd());
            reused.map_err(|error| kernel::refused(format!("reusing the map `{name}`"), &error))?;
        }
        kernel::compare_sizes(&open, sizes).map_err(XdpError::Layout)?;
        Ok(Self { object: kernel::load(open)? })
    }

    fn get_directory(&self) -> Result<Directory, XdpError> {
        let directory = self.get(".data.directory", &0u32)?;
        directory.ok_or_else(|| XdpError::Layout("the directory is empty".to_owned()))
    }
}
