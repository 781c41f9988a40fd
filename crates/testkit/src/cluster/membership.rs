//! Who takes part in an incarnation, and what they pass.

use std::time::Duration;

use wiresum_wire::control::Absent;
use wiresum_worker::Members;

use super::{Call, Cluster, Integers, PATIENCE, Tensor};

impl Cluster {
    /// Starts every worker anew, in the next incarnation.
    pub fn restart(&mut self) {
        self.incarnation += 1;
        self.start_workers();
    }

    /// Starts every worker but these anew, in the next incarnation, which goes on without these.
    pub fn restart_without(&mut self, ranks: &[u32]) {
        self.absent = Absent::of(ranks.iter().copied()).expect("ranks that can be named");
        self.members = None;
        self.restart();
    }

    /// Starts the workers of these seats anew, in the next incarnation, in which they are ranks in this order.
    pub fn restart_as(&mut self, seats: &[u32]) {
        let members = Members::of(seats).expect("seats that can be named");
        self.absent = members.vacant(self.plan.workers.len());
        self.members = Some(members);
        self.restart();
    }

    /// A worker's next values, for the group that it is in.
    fn next_tensor(&self, seat: usize, size: usize) -> Tensor {
        let tensor = Tensor::of(&self.plan, seat, self.hosts[seat].tensors.len(), size);
        let place = self.members.map(|members| (members.rank_of(seat), members.ranks() as usize));
        match place {
            Some((Some(rank), ranks)) => tensor.of_rank(rank, ranks),
            _ => tensor,
        }
    }

    /// Ranks that take part.
    pub(super) fn present(&self) -> impl Iterator<Item = usize> + use<> {
        let absent = self.absent;
        (0..self.hosts.len()).filter(move |rank| !absent.holds(*rank as u32))
    }

    /// Passes a worker's next tensor, with all the time in the world.
    pub fn submit(&mut self, rank: usize, tensor: Tensor) {
        self.submit_within(rank, tensor, PATIENCE);
    }

    /// Passes a worker's next tensor; its round fails after `patience`.
    pub fn submit_within(&mut self, rank: usize, tensor: Tensor, patience: Duration) {
        let now = self.now();
        let host = &mut self.hosts[rank];
        host.tensors.push(tensor.clone());
        let missing = if self.members.is_some() { Absent::default() } else { self.absent };
        let collective = Integers::new(&self.plan, tensor).without(missing).collective();
        host.session.submit(collective, now.plus(patience), now);
        self.drive(rank);
    }

    /// Passes collectives of the same kinds and sizes on every rank, all at once, each with values of its own.
    pub fn submit_calls(&mut self, calls: &[Call]) {
        for rank in self.present() {
            calls.iter().for_each(|call| self.submit_next(rank, *call));
        }
    }

    /// Passes a worker's next collective, with results in place or not.
    pub fn submit_next(&mut self, rank: usize, call: Call) {
        let round = self.hosts[rank].tensors.len();
        let tensor = self.next_tensor(rank, call.size).of_kind(call.kind, call.root);
        let is_apart = (rank + round).is_multiple_of(2);
        self.submit(rank, if is_apart { tensor.out_of_place() } else { tensor });
    }

    /// Passes the same sizes on every rank, all at once, each with values of its own.
    pub fn submit_all(&mut self, sizes: &[usize]) {
        for rank in self.present() {
            for size in sizes {
                let tensor = self.next_tensor(rank, *size);
                self.submit(rank, tensor);
            }
        }
    }
}
