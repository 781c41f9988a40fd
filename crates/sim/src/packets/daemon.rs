//! A summing node, as its daemon runs it: aggregators and transmitters by job and one negotiator, or a switch.

use std::net::SocketAddr;

use wiresum_protocol::rates::{Bounds, Negotiator};
use wiresum_protocol::{
    Aggregator, ControlHalf, Outcome, Plan, Recipients, Time, Transmitter, Verdict,
};
use wiresum_switch::live::StationError;
use wiresum_wire::{MAX_PACKET, NodeId, Packet};

use super::switch::Switch;

/// One job at a node.
struct Served<'a> {
    job: usize,
    plan: &'a Plan,
    aggregator: Aggregator,
    transmitter: Transmitter,
}

pub(super) struct Daemon<'a> {
    pub site: usize,
    pub address: SocketAddr,
    id: NodeId,
    jobs: Vec<Served<'a>>,
    negotiator: Negotiator,
    /// For plans with a fabric.
    switch: Option<Switch<'a>>,
    pub is_dead: bool,
    /// When its next alarm is in the queue.
    pub alarm: Option<Time>,
    /// Room for a packet: clearing some at each would cost a tenth of all instructions.
    buffer: Vec<u8>,
}

/// Datagrams to send: where to, and the job.
pub(super) type Outbox<'a> = dyn FnMut(usize, SocketAddr, &[u8]) + 'a;

impl<'a> Daemon<'a> {
    pub fn new(site: usize, address: SocketAddr, id: NodeId) -> Self {
        let negotiator = Negotiator::new(id, Bounds::default());
        let (jobs, switch, is_dead, alarm) = (Vec::new(), None, false, None);
        let buffer = vec![0; MAX_PACKET];
        Self { site, address, id, jobs, negotiator, switch, is_dead, alarm, buffer }
    }

    /// Serves one more job.
    ///
    /// # Errors
    /// A switch has no room for it, or runs another program.
    pub fn serve(&mut self, job: usize, plan: &'a Plan) -> Result<(), StationError> {
        if plan.fabric.is_none() {
            self.aggregate(job, plan);
            return Ok(());
        }
        let mut switch = self.switch.take().map_or_else(|| Switch::new(self.id), Ok)?;
        let served = switch.serve(job, plan);
        self.switch = Some(switch);
        served
    }

    fn aggregate(&mut self, job: usize, plan: &'a Plan) {
        self.negotiator.handle_job(plan);
        self.jobs.push(Served {
            job,
            plan,
            aggregator: Aggregator::new(plan, self.id),
            transmitter: Transmitter::new(plan, self.id),
        });
    }

    /// Starts again, having forgotten everything.
    pub fn restart(&mut self) {
        let jobs: Vec<_> = self.jobs.drain(..).map(|served| (served.job, served.plan)).collect();
        let (alarm, mut switch) = (self.alarm, self.switch.take());
        switch.iter_mut().for_each(Switch::restart);
        *self = Self { alarm, switch, ..Self::new(self.site, self.address, self.id) };
        jobs.into_iter().for_each(|(job, plan)| self.aggregate(job, plan));
    }

    pub fn handle(
        &mut self,
        job: usize,
        source: SocketAddr,
        datagram: &[u8],
        now: Time,
        send: &mut Outbox,
    ) {
        if let Some(switch) = self.switch.as_mut().filter(|switch| switch.serves(job)) {
            return switch.handle(job, source, datagram, now, send);
        }
        let Self { jobs, buffer, .. } = self;
        let Some(served) = jobs.iter_mut().find(|served| served.job == job) else { return };
        let len = datagram.len().min(MAX_PACKET);
        buffer[..len].copy_from_slice(&datagram[..len]);
        served.aggregator.set_clock(now.0);
        let outcome = served.aggregator.handle_datagram(source, buffer, len);
        let packet = &mut buffer[..outcome.len];
        match outcome.recipients {
            Recipients::None => {}
            Recipients::One(to) => send(job, to, packet),
            Recipients::ControlHalf => {
                served.transmitter.handle_status(packet, &mut served.aggregator, now);
            }
            Recipients::Children => {
                for child in 0..served.aggregator.child_count() {
                    if let Some(to) = served.aggregator.address_to_child(child, packet) {
                        send(job, to, packet);
                    }
                }
            }
        }
        self.tell_negotiator(job, source, outcome, datagram, now);
        self.advance(now, send);
    }

    /// Gives the negotiator what concerns it.
    fn tell_negotiator(
        &mut self,
        job: usize,
        source: SocketAddr,
        outcome: Outcome,
        datagram: &[u8],
        now: Time,
    ) {
        let Some(served) = self.jobs.iter().find(|served| served.job == job) else { return };
        if outcome.recipients == Recipients::ControlHalf {
            if let Ok(packet) = Packet::parse(datagram) {
                self.negotiator.handle_packet(source, &packet, now);
            }
        } else if outcome.verdict == Verdict::Control {
            let membership = served.aggregator.membership();
            self.negotiator.handle_membership(served.plan.job_id(), &membership, now);
        }
    }

    pub fn handle_timeout(&mut self, now: Time, send: &mut Outbox) {
        self.negotiator.handle_timeout(now);
        self.advance(now, send);
    }

    /// Lets transmitters and the negotiator do what is due.
    fn advance(&mut self, now: Time, send: &mut Outbox) {
        let Self { jobs, negotiator, buffer, .. } = self;
        for Served { job, aggregator, transmitter, .. } in jobs.iter_mut() {
            while let Some((to, len)) = aggregator.poll_notice(buffer) {
                send(*job, to, &buffer[..len]);
            }
            transmitter.follow(aggregator);
            transmitter.advance(aggregator, now);
            while let Some(transmit) = transmitter.poll_transmit(aggregator, now, buffer) {
                send(*job, transmit.destination, &buffer[..transmit.len]);
            }
            while let Some(sub_model) = transmitter.next_orphan() {
                let outcome = aggregator.lose_parent(sub_model, buffer);
                for child in 0..aggregator.child_count() {
                    let packet = &mut buffer[..outcome.len];
                    if let Some(to) = aggregator.address_to_child(child, packet) {
                        send(*job, to, packet);
                    }
                }
            }
        }
        while let Some(transmit) = negotiator.poll_transmit(now, buffer) {
            let packet = &buffer[..transmit.len];
            let job = Packet::parse_unchecked(packet).ok().map(|p| p.header.job.get());
            let served = jobs.iter().find(|served| Some(served.plan.job.id) == job);
            if let Some(served) = served {
                send(served.job, transmit.destination, packet);
            }
        }
    }

    pub fn poll_timeout(&self) -> Option<Time> {
        let transmitters = self.jobs.iter().filter_map(|served| served.transmitter.poll_timeout());
        transmitters.chain(self.negotiator.poll_timeout()).min()
    }

    /// What became of each job's packets.
    pub fn counters(&self) -> impl Iterator<Item = (usize, &'static str, u64)> {
        let of_aggregators = self.jobs.iter().flat_map(|served| {
            let verdicts = served.aggregator.counters().into_iter();
            verdicts.map(|(verdict, count)| (served.job, verdict.name(), count))
        });
        of_aggregators.chain(self.switch.iter().flat_map(Switch::counters))
    }
}
