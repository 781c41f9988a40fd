//! The packets that the kernel's switch takes: those of jobs that run, from neighbours that it knows.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use wiresum_protocol::association::ValueKeys;
use wiresum_switch::Neighbour;
use wiresum_wire::{JobId, JobKey, SubModelId};
use zerocopy::FromZeros;

use super::SwitchProgram;
use super::layout::{MAX_NEIGHBOURS, MAX_PLACES, SPARE_GROUP, StreamKeys};
use crate::XdpError;
use crate::layout::{Endpoint, Hearing, Peer, stream_key};

impl SwitchProgram {
    /// Takes packets of a job in this incarnation, until [`Self::stop`].
    ///
    /// # Errors
    /// [`XdpError::TooMany`], or the kernel's refusal.
    pub fn run(&mut self, job: JobId, key: JobKey) -> Result<(), XdpError> {
        self.stop(job)?;
        let index = self.admit(job)?;
        // That it runs comes last, so that no packet finds half an entry.
        self.table.jobs[index].key = key.0;
        self.publish()?;
        self.table.jobs[index].is_running = 1;
        self.publish()
    }

    /// From now on the values of a stream of a job that runs carry these keys. Before, all carry the incarnation's.
    ///
    /// # Errors
    /// [`XdpError::TooMany`], or the kernel's refusal.
    pub fn renew(
        &mut self,
        job: JobId,
        sub_model: SubModelId,
        keys: ValueKeys,
    ) -> Result<(), XdpError> {
        let stream = stream_key(job, sub_model);
        let streams = &mut self.table.streams;
        let own = streams.iter().position(|entry| entry.stream == stream);
        let index = own.or_else(|| streams.iter().position(|entry| entry.stream == 0));
        let too_many =
            XdpError::TooMany { what: "streams", have: MAX_PLACES + 1, most: MAX_PLACES };
        let index = index.ok_or(too_many)?;
        streams[index] = StreamKeys { stream, keys: keys.map(|keys| keys.map(|JobKey(key)| key)) };
        self.table.stream_count = self.table.stream_count.max(index as u32 + 1);
        self.publish()
    }

    /// Takes no packets of a job any more; when this returns, none is on its way through the program.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn stop(&mut self, job: JobId) -> Result<(), XdpError> {
        let entry = self.table.jobs.iter_mut().find(|e| e.is_running != 0 && e.job == job.0);
        let Some(entry) = entry else { return Ok(()) };
        entry.is_running = 0;
        for entry in &mut self.table.streams {
            if (entry.stream >> 16) as u16 == job.0 && entry.stream != 0 {
                *entry = StreamKeys::default();
            }
        }
        self.publish()?;
        self.wait_for_programs()
    }

    /// Returns when every run of the program has ended that may not have seen the last change of its table. The kernel waits for these
    /// when it replaces a map in a map.
    pub(super) fn wait_for_programs(&self) -> Result<(), XdpError> {
        let empty = self.kernel.new_broadcast()?;
        self.kernel.put("groups", &SPARE_GROUP, &empty.as_fd().as_raw_fd())
    }

    /// Takes packets that come from this address. Before [`Self::meet`], nothing is sent there.
    ///
    /// # Errors
    /// [`XdpError::TooMany`], or the kernel's refusal.
    pub fn expect(&mut self, address: SocketAddr) -> Result<(), XdpError> {
        self.expected.insert(address);
        super::forwarding::limit("neighbours of a switch", self.expected.len(), MAX_NEIGHBOURS)?;
        self.kernel.put("acquaintances", &endpoint(address), &Hearing::default())
    }

    /// Takes no packets from this address any more, and forgets how the neighbour there was reached. Nothing may lead there.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn unexpect(&mut self, neighbour: Neighbour, address: SocketAddr) -> Result<(), XdpError> {
        self.expected.remove(&address);
        self.met.remove(&address);
        if let Some(index) = self.tables.forget(neighbour) {
            self.kernel.put("neighbours", &index, &Peer::new_zeroed())?;
        }
        self.kernel.remove("acquaintances", &endpoint(address))
    }

    /// Learns how a neighbour is reached from its last hello, or answer to one; whether that has changed.
    ///
    /// # Errors
    /// [`XdpError::NotHeard`], [`XdpError::TooMany`], or the kernel's refusal.
    pub fn meet(&mut self, neighbour: Neighbour, address: SocketAddr) -> Result<bool, XdpError> {
        let hearing: Option<Hearing> = self.kernel.get("acquaintances", &endpoint(address))?;
        let hearing = hearing.filter(|hearing| hearing.ifindex != 0);
        let hearing = hearing.ok_or(XdpError::NotHeard(address))?;
        if self.met.get(&address) == Some(&hearing) {
            return Ok(false);
        }
        self.reach(neighbour, address, &hearing)?;
        self.met.insert(address, hearing);
        Ok(true)
    }
}

fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint::from(address)
}
