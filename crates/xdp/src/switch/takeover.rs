//! Handing a switch's maps and links from one process to the next, as [`crate::takeover`] does for an aggregator's.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::MapCore;
use wiresum_switch::{Cohort, Neighbour, Place, Table};
use wiresum_wire::{JobId, SubModelId};
use zerocopy::{FromBytes, FromZeros};

use super::forwarding::{Tables, make_group, name};
use super::layout::{Down, MAX_NEIGHBOURS, MAX_PLACES, StreamName, TableEntry, Tally, WayKey};
use super::{MAP_SIZES, SwitchProgram, TABLE, image};
use crate::engine::XdpAggregator;
use crate::kernel::{self, Image, Kernel};
use crate::layout::{Endpoint, Peer};
use crate::takeover::Descriptors;
use crate::{Estate, SwitchOptions, XdpError};

impl SwitchProgram {
    /// What a successor needs, in the order in which [`Estate`] has it.
    #[must_use]
    pub fn descriptors(&self) -> Descriptors<'_> {
        (self.kernel.maps(), self.links.iter().map(AsFd::as_fd).collect())
    }

    /// Packets by verdict of jobs that are gone, for [`Estate::retired`].
    #[must_use]
    pub fn retired(&self) -> Vec<u64> {
        self.retired.verdicts.to_vec()
    }

    /// Goes on with what another process has begun under the same options, between these neighbours. Who runs, what is
    /// summed and what is forwarded is read from the maps.
    ///
    /// # Errors
    /// [`XdpError::Layout`] if its maps are not this program's; or the kernel's refusal. The other process's program goes
    /// on then, or does after its [`Self::reattach`].
    pub fn take_over(
        options: SwitchOptions,
        estate: Estate,
        neighbours: &BTreeMap<SocketAddr, Neighbour>,
    ) -> Result<Self, XdpError> {
        Self::take_over_image(&image(options.policy), options, estate, neighbours)
    }

    /// The same switch as another process has it that takes over, for tests.
    ///
    /// # Errors
    /// As [`Self::take_over`].
    #[doc(hidden)]
    pub fn successor(
        &self,
        neighbours: &BTreeMap<SocketAddr, Neighbour>,
    ) -> Result<Self, XdpError> {
        let own = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().expect("fewer descriptors");
        let (maps, links) = self.descriptors();
        let estate = Estate {
            maps: maps.into_iter().map(|(name, map)| (name, own(map))).collect(),
            links: links.into_iter().map(own).collect(),
            retired: self.retired(),
        };
        let image = super::image_for_tests(self.options.policy);
        Self::take_over_image(&image, self.options, estate, neighbours)
    }

    fn take_over_image(
        image: &Image,
        options: SwitchOptions,
        estate: Estate,
        neighbours: &BTreeMap<SocketAddr, Neighbour>,
    ) -> Result<Self, XdpError> {
        XdpAggregator::check_support()?;
        let kernel = Kernel::adopt(image, &estate.maps, &MAP_SIZES)?;
        let table: TableEntry = kernel
            .get(TABLE, &0u32)?
            .ok_or_else(|| XdpError::Layout(format!("`{TABLE}` is empty")))?;
        let mut retired = Tally::new_zeroed();
        retired.verdicts.iter_mut().zip(&estate.retired).for_each(|(sum, count)| *sum = *count);
        let mut program = Self {
            streams: Table::of(options.slots, MAX_PLACES, places(&table)),
            numbers: numbers(&table),
            tables: recall_tables(&kernel)?,
            expected: neighbours.keys().copied().collect(),
            // How they were heard since is learned from their next hellos.
            met: BTreeMap::new(),
            links: estate.links,
            kernel,
            options,
            table,
            retired,
        };
        neighbours.iter().try_for_each(|(at, name)| program.recall_neighbour(*at, *name))?;
        program.reattach()?;
        Ok(program)
    }

    /// Another policy or memory on the same links, where no job is served any more. What was counted stays.
    ///
    /// # Errors
    /// The kernel's refusal; then nothing has changed.
    pub fn replace(&mut self, options: SwitchOptions) -> Result<(), XdpError> {
        let mut other = Self::load(options)?;
        other.retired = self.total()?;
        std::mem::swap(&mut self.links, &mut other.links);
        if let Err(error) = other.reattach() {
            std::mem::swap(&mut self.links, &mut other.links);
            self.reattach()?;
            return Err(error);
        }
        *self = other;
        Ok(())
    }

    /// Whether packets are sent to a neighbour.
    #[must_use]
    pub fn reaches(&self, neighbour: Neighbour) -> bool {
        self.tables.neighbours.contains_key(&neighbour)
    }

    /// Puts this process's programs on every link, and on all that leaves: after a take-over, or to take back what a
    /// successor has changed that has failed.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn reattach(&self) -> Result<(), XdpError> {
        for (index, ifindex) in self.tables.neighbours.values() {
            self.kernel.put("outlets", index, &self.kernel.outlet(*ifindex))?;
        }
        for (stream, index) in &self.tables.groups {
            if let Some(down) = self.kernel.get::<_, Down>("downs", &name(*stream))? {
                let group = make_group(&self.kernel, &down)?;
                self.kernel.put("groups", index, &group.as_fd().as_raw_fd())?;
            }
        }
        let program = self.kernel.program("forward_packet");
        self.links.iter().try_for_each(|link| kernel::update_link(link.as_fd(), program.as_fd()))
    }

    fn recall_neighbour(
        &mut self,
        address: SocketAddr,
        neighbour: Neighbour,
    ) -> Result<(), XdpError> {
        for index in 0..MAX_NEIGHBOURS as u32 {
            let peer: Option<Peer> = self.kernel.get("neighbours", &index)?;
            if let Some(peer) = peer.filter(|peer| peer.source == Endpoint::from(address)) {
                self.tables.neighbours.insert(neighbour, (index, peer.ifindex));
            }
        }
        Ok(())
    }
}

fn places(table: &TableEntry) -> Vec<Option<Place>> {
    let entries = table.keys.iter().zip(&table.places);
    entries.map(|(key, place)| (*key != 0).then(|| place.place(*key))).collect()
}

fn numbers(table: &TableEntry) -> BTreeMap<JobId, usize> {
    let jobs = table.jobs.iter().enumerate().filter(|(_, job)| job.is_admitted != 0);
    jobs.map(|(index, job)| (JobId(job.job), index)).collect()
}

/// What is forwarded, but for the neighbours, whom maps know by their addresses.
fn recall_tables(kernel: &Kernel) -> Result<Tables, XdpError> {
    let mut tables = Tables::default();
    for key in kernel.map("ups").keys() {
        let way = WayKey::read_from_bytes(&key).expect("sizes were compared");
        if let Some(next) = kernel.get("ups", &way)? {
            tables.ways.insert(way, next);
        }
    }
    for key in kernel.map("downs").keys() {
        let name = StreamName::read_from_bytes(&key).expect("sizes were compared");
        if let Some(down) = kernel.get::<_, Down>("downs", &name)? {
            let cohort = Cohort(name.cohort as u8);
            let stream = (JobId(name.job), SubModelId(name.sub_model), cohort);
            tables.groups.insert(stream, down.group);
        }
    }
    Ok(tables)
}
