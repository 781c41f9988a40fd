//! Where the kernel's switch sends what leaves it: the tables of [`wiresum_switch::Forwarding`], and how its neighbours are reached.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use wiresum_switch::{Cohort, Contributors, Forwarding, Neighbour};
use wiresum_wire::{JobId, JobKey, SubModelId};
use zerocopy::{FromZeros, IntoBytes};

use super::SwitchProgram;
use super::layout::{ANY_WORKER, Down, MAX_FORWARDED, MAX_NEIGHBOURS, StreamName, WayKey};
use crate::kernel::{self, Kernel};
use crate::layout::{Endpoint, Hearing};
use crate::{AttachMode, XdpError, peers};

/// How a neighbour is reached: what goes before a packet to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The interface of this switch that its link is at. Several neighbours have one where an optical switch joins it to
    /// one after another.
    pub interface: String,
    /// Its end of the link.
    pub address: SocketAddr,
    /// The switch's end.
    pub local: SocketAddr,
    /// Ethernet address of its end, or of the router on the way.
    pub mac: [u8; 6],
    /// Ethernet address of the interface.
    pub local_mac: [u8; 6],
}

/// What results go down as: a cohort's part of a stream.
type Stream = (JobId, SubModelId, Cohort);

/// What the program's tables hold.
#[derive(Default)]
pub(super) struct Tables {
    /// Index and interface of each neighbour.
    pub neighbours: BTreeMap<Neighbour, (u32, u32)>,
    pub ways: BTreeMap<WayKey, u32>,
    /// The index of each stream's broadcast group.
    pub groups: BTreeMap<Stream, u32>,
}

impl SwitchProgram {
    /// Runs the program on a network interface of this namespace until this object is dropped, or the process dies.
    ///
    /// # Errors
    /// [`XdpError::NoInterface`], or the kernel's refusal.
    pub fn attach(&mut self, interface: &str, mode: AttachMode) -> Result<(), XdpError> {
        let program = self.kernel.program("forward_packet");
        self.links.push(kernel::link(program.as_fd(), interface, mode)?);
        Ok(())
    }

    /// Says how a neighbour is reached, before anything is sent to it.
    ///
    /// # Errors
    /// [`XdpError::NoInterface`], [`XdpError::TooMany`], or the kernel's refusal.
    pub fn set_neighbour(&mut self, neighbour: Neighbour, reach: &Reach) -> Result<(), XdpError> {
        let hearing = Hearing {
            local: Endpoint::from(reach.local),
            ifindex: kernel::interface_index(&reach.interface)?,
            peer_mac: reach.mac,
            local_mac: reach.local_mac,
        };
        self.reach(neighbour, reach.address, &hearing)
    }

    /// Sends to a neighbour the way that it was heard.
    pub(super) fn reach(
        &mut self,
        neighbour: Neighbour,
        address: SocketAddr,
        hearing: &Hearing,
    ) -> Result<(), XdpError> {
        let (known, ifindex) = (&self.tables.neighbours, hearing.ifindex);
        let is_free = |index: &u32| known.values().all(|(taken, _)| taken != index);
        let free = || (0..).find(is_free).expect("numbers never end");
        let index = known.get(&neighbour).map_or_else(free, |(index, _)| *index);
        limit("neighbours of a switch", index as usize + 1, MAX_NEIGHBOURS)?;
        let peer = peers::peer(address, JobKey(0), hearing);
        self.kernel.put("neighbours", &index, &peer)?;
        self.kernel.put("outlets", &index, &self.kernel.outlet(ifindex))?;
        self.tables.neighbours.insert(neighbour, (index, ifindex));
        Ok(())
    }

    /// Forwards by these tables from now on. What is not in them is dropped.
    ///
    /// # Errors
    /// [`XdpError::UnknownNeighbour`] if [`Self::set_neighbour`] has not been told of one, or
    /// [`XdpError::SharedInterface`] if the results of one stream would have to leave twice by one interface; then
    /// nothing has changed. Else [`XdpError::TooMany`], or the kernel's refusal.
    pub fn forward(&mut self, forwarding: &Forwarding) -> Result<(), XdpError> {
        let ways = self.tables.ways_of(forwarding)?;
        let downs = self.tables.downs_of(forwarding)?;
        limit("streams that a switch forwards", downs.len(), MAX_FORWARDED)?;
        ways.iter().try_for_each(|(way, next)| self.kernel.put("ups", way, next))?;
        for way in self.tables.ways.keys().filter(|way| !ways.contains_key(*way)) {
            self.kernel.remove("ups", way)?;
        }
        self.tables.ways = ways;
        self.forward_down(downs)
    }

    fn forward_down(&mut self, downs: BTreeMap<Stream, Down>) -> Result<(), XdpError> {
        let gone: Vec<Stream> = self
            .tables
            .groups
            .keys()
            .copied()
            .filter(|stream| !downs.contains_key(stream))
            .collect();
        for stream in gone {
            self.kernel.remove("downs", &name(stream))?;
            self.tables.groups.remove(&stream);
        }
        for (stream, mut down) in downs {
            down.group = self.tables.group_for(stream);
            let group = make_group(&self.kernel, &down)?;
            self.kernel.put("groups", &down.group, &group.as_fd().as_raw_fd())?;
            self.kernel.put("downs", &name(stream), &down)?;
        }
        Ok(())
    }

    /// Runs the whole program on a frame, forwarding included: an action and the frame as it was left.
    ///
    /// # Errors
    /// The kernel's refusal.
    #[doc(hidden)]
    pub fn forward_in_test(&self, frame: &[u8]) -> Result<(u32, Vec<u8>), XdpError> {
        let run = self.kernel.test_run("forward_packet", frame, 1)?;
        Ok((run.action, run.frame))
    }

    /// The copy of a broadcast that leaves through an interface, if one does.
    ///
    /// # Errors
    /// The kernel's refusal.
    #[doc(hidden)]
    pub fn copy_in_test(&self, frame: &[u8], ifindex: u32) -> Result<Option<Vec<u8>>, XdpError> {
        self.kernel.put(".data.copy_test", &0u32, &ifindex)?;
        let run = self.kernel.test_run("test_copy", frame, 1)?;
        Ok((run.action == PASS).then_some(run.frame))
    }
}

/// The action that lets a copy out.
const PASS: u32 = 2;

impl Tables {
    /// Its index, which may be another neighbour's then.
    pub(super) fn forget(&mut self, neighbour: Neighbour) -> Option<u32> {
        self.neighbours.remove(&neighbour).map(|(index, _)| index)
    }

    fn neighbour(&self, neighbour: Neighbour) -> Result<(u32, u32), XdpError> {
        let known = self.neighbours.get(&neighbour).copied();
        known.ok_or_else(|| XdpError::UnknownNeighbour(format!("{neighbour:?}")))
    }

    fn ways_of(&self, forwarding: &Forwarding) -> Result<BTreeMap<WayKey, u32>, XdpError> {
        let way = |(key, next): (wiresum_switch::UpKey, Neighbour)| {
            let (job, sub_model, node) = (key.job.0, key.sub_model.0, key.node.0);
            let worker = key.worker.map_or(ANY_WORKER, u16::from);
            Ok((WayKey { job, sub_model, node, worker }, self.neighbour(next)?.0))
        };
        forwarding.ups().map(way).collect()
    }

    fn downs_of(&self, forwarding: &Forwarding) -> Result<BTreeMap<Stream, Down>, XdpError> {
        let mut downs = BTreeMap::new();
        for (job, sub_model, cohort, next, behind) in forwarding.downs() {
            let down: &mut Down =
                downs.entry((job, sub_model, cohort)).or_insert_with(Down::new_zeroed);
            self.append(down, next, behind)?;
        }
        Ok(downs)
    }

    /// Adds a neighbour to a stream's list; there are no more of them than neighbours. The program knows a copy of a
    /// broadcast by the interface that it leaves by.
    fn append(
        &self,
        down: &mut Down,
        next: Neighbour,
        behind: Contributors,
    ) -> Result<(), XdpError> {
        let (index, ifindex) = self.neighbour(next)?;
        let place = down.neighbour_count as usize;
        if down.ifindices[..place].contains(&ifindex) {
            return Err(XdpError::SharedInterface(kernel::interface_name(ifindex)));
        }
        (down.neighbours[place], down.ifindices[place]) = (index, ifindex);
        down.behind[place] = behind.0;
        down.neighbour_count += 1;
        Ok(())
    }

    /// The least index that no stream has; its own, if it has one.
    fn group_for(&mut self, stream: Stream) -> u32 {
        let taken: Vec<u32> = self.groups.values().copied().collect();
        let free = (0..).find(|index| !taken.contains(index)).expect("numbers never end");
        *self.groups.entry(stream).or_insert(free)
    }
}

pub(super) fn name((job, sub_model, cohort): Stream) -> StreamName {
    StreamName { job: job.0, sub_model: sub_model.0, cohort: cohort.0.into(), reserved: 0 }
}

/// The interfaces that a stream's results leave through.
pub(super) fn make_group(kernel: &Kernel, down: &Down) -> Result<MapHandle, XdpError> {
    let group = kernel.new_broadcast()?;
    for place in 0..down.neighbour_count {
        let value = kernel.outlet(down.ifindices[place as usize]);
        group.update(place.as_bytes(), value.as_bytes(), MapFlags::ANY).map_err(|error| {
            kernel::refused("adding an interface to a broadcast group".to_owned(), &error)
        })?;
    }
    Ok(group)
}

pub(super) fn limit(what: &'static str, have: usize, most: usize) -> Result<(), XdpError> {
    if have <= most { Ok(()) } else { Err(XdpError::TooMany { what, have, most }) }
}
