//! Who takes part in a sparse job: servers of tables, switches of hot rows, and workers.

use std::net::SocketAddr;
use std::sync::Arc;

use wiresum_netem::Time;
use wiresum_sparse::live::Host;

use super::Rows;
use super::player::Player;
use crate::SimulationError;

/// Workers have addresses of their own, beyond those of all plans.
const WORKER_PORT: u16 = 1;
/// The only incarnation of a simulated host.
const INCARNATION: u32 = 1;

enum Role<'a> {
    Host(Box<Host>),
    Worker(Box<Player<'a>>),
}

/// A participant, and where it is.
pub struct Party<'a> {
    pub site: usize,
    pub address: SocketAddr,
    role: Role<'a>,
    /// When its next alarm is in the queue.
    pub alarm: Option<Time>,
}

impl<'a> Party<'a> {
    /// The participants of a job: its nodes, then its workers by rank.
    ///
    /// # Errors
    /// [`SimulationError::Job`]: a node cannot be.
    pub fn all(rows: &'a Rows) -> Result<Vec<Self>, SimulationError> {
        let job = Arc::new(rows.job.clone());
        let mut parties = Vec::new();
        for (node, site) in (0..).zip(&rows.hosts) {
            let host = Host::new(&job, node, INCARNATION);
            let host = host.map_err(|error| rows.wrong(error.to_string()))?;
            let address = job.address(node).ok_or_else(|| rows.wrong("a node has no address"))?;
            parties.push(Self::new(*site, address, Role::Host(Box::new(host))));
        }
        for (rank, (site, touched)) in (0..).zip(rows.workers.iter().zip(&rows.touched)) {
            let address = SocketAddr::from(([127, 255, 0, rank as u8], WORKER_PORT));
            let player = Player::new(&job, rank, touched);
            parties.push(Self::new(*site, address, Role::Worker(Box::new(player))));
        }
        Ok(parties)
    }

    fn new(site: usize, address: SocketAddr, role: Role<'a>) -> Self {
        Self { site, address, role, alarm: None }
    }

    pub fn player(&self) -> Option<&Player<'a>> {
        match &self.role {
            Role::Worker(player) => Some(player),
            Role::Host(_) => None,
        }
    }

    pub fn player_mut(&mut self) -> Option<&mut Player<'a>> {
        match &mut self.role {
            Role::Worker(player) => Some(player),
            Role::Host(_) => None,
        }
    }

    pub fn handle(&mut self, source: SocketAddr, datagram: &[u8], now: Time) {
        match &mut self.role {
            Role::Host(host) => host.handle(source, datagram, now),
            Role::Worker(player) => player.member.handle(source, datagram, now),
        }
    }

    /// Sends what it has to send, and says when it has to be asked again.
    pub fn poll(&mut self, now: Time, send: impl FnMut(SocketAddr, &[u8])) -> Option<Time> {
        match &mut self.role {
            Role::Host(host) => {
                host.poll(now, send);
                host.poll_timeout()
            }
            Role::Worker(player) => {
                player.member.poll(now, send);
                player.member.poll_timeout()
            }
        }
    }

    /// What it counts, and how often that was.
    pub fn counter(&self) -> (&'static str, u64) {
        match &self.role {
            Role::Host(host) => ("packets_taken", host.counters().taken),
            Role::Worker(player) => ("messages_repeated", player.member.worker().repeated()),
        }
    }
}
