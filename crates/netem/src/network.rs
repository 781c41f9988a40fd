//! A network for tests: who flies where, and when.

use std::collections::BTreeMap;

use crate::time::PS_PER_US;
use crate::{Conditions, Links, Queue, Rng, Time};

/// What flies.
pub trait Cargo: Clone {
    /// What it takes on the wire.
    fn wire_bytes(&self) -> u64;

    /// A link says that it was congested.
    fn mark(&mut self) {}

    /// A link damages it.
    fn damage(&mut self, rng: &mut Rng);
}

/// Ethernet with its preamble and gap, IPv4 and UDP: what a datagram takes on a wire beyond itself.
pub const OVERHEAD_BYTES: u64 = 38 + 20 + 8;

/// A datagram.
impl Cargo for Vec<u8> {
    fn wire_bytes(&self) -> u64 {
        self.len() as u64 + OVERHEAD_BYTES
    }

    /// The end is cut off, or a bit flips.
    fn damage(&mut self, rng: &mut Rng) {
        if self.is_empty() {
            return;
        }
        if rng.below(4) == 0 {
            self.truncate(rng.below(self.len() as u64) as usize);
        } else {
            let bit = rng.below(8 * self.len() as u64) as usize;
            self[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// Something on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flight<P, C> {
    /// Who sent it.
    pub from: P,
    /// Who gets it.
    pub to: P,
    /// What it is.
    pub cargo: C,
}

/// What happens next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<P, C> {
    /// The time of the earliest timer has come: whoever is due acts.
    Timers,
    /// This has arrived.
    Arrival(Flight<P, C>),
}

/// Links between places, one in each direction between any two, made when they are first used; and what is on them.
///
/// # Order
/// Time never goes back. Of what happens at one time,
/// 1. timers come before arrivals: a deadline and the answer that it waits for meet as badly as they can;
/// 2. arrivals come in the order in which they were sent; what was sent by [`Self::release`] counts as sent then.
///
/// Callers see to it that timers of one time act in a fixed order, by their owners' numbers. Then a run depends on its seed alone.
///
/// Links reckon in picoseconds, timers and whoever reads the clock in microseconds.
pub struct Network<P, C> {
    links: Links,
    directions: BTreeMap<(P, P), u32>,
    queue: Queue<Ticket>,
    /// By number; what was held back is gone before its turn comes.
    flights: Vec<Option<Flight<P, C>>>,
    free: Vec<u32>,
    now_ps: u64,
    rng: Rng,
}

/// A flight in the queue, and what to enter into the books of which direction when it ends.
#[derive(Clone, Copy)]
struct Ticket {
    flight: u32,
    crossing: Option<(u32, u64)>,
}

impl<P: Copy + Ord, C: Cargo> Network<P, C> {
    /// With nothing on its way, at time 0. Equal seeds and equal calls give equal runs.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            links: Links::new(seed),
            directions: BTreeMap::new(),
            queue: Queue::default(),
            flights: Vec::new(),
            free: Vec::new(),
            now_ps: 0,
            rng: Rng::new(!seed),
        }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Time {
        Time(self.now_ps / PS_PER_US)
    }

    /// Sends something over the link between two places, which is as `conditions` say from now on.
    pub fn send(&mut self, conditions: &Conditions, from: P, to: P, mut cargo: C) {
        let links = &mut self.links;
        let direction =
            *self.directions.entry((from, to)).or_insert_with(|| links.add(0, conditions));
        links.set(direction, conditions);
        let bytes = cargo.wire_bytes();
        let carried = links.carry(direction, self.now_ps, bytes);
        if carried.is_marked {
            cargo.mark();
        }
        let crossing = Some((direction, bytes));
        if let Some(at_ps) = carried.again_ps {
            self.put(at_ps, Flight { from, to, cargo: cargo.clone() }, crossing);
        }
        if let Some(at_ps) = carried.at_ps {
            if carried.is_damaged {
                cargo.damage(&mut self.rng);
            }
            self.put(at_ps, Flight { from, to, cargo }, crossing);
        }
    }

    fn put(&mut self, at_ps: u64, flight: Flight<P, C>, crossing: Option<(u32, u64)>) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() as u32 - 1
        });
        self.flights[number as usize] = Some(flight);
        self.queue.push(at_ps, Ticket { flight: number, crossing });
    }

    /// When the next thing happens, if the earliest timer is at `timer`.
    #[must_use]
    pub fn next_at(&self, timer: Option<Time>) -> Option<Time> {
        let arrival = self.queue.next_at().map(|at_ps| Time(at_ps / PS_PER_US));
        let next = arrival.into_iter().chain(timer).min()?;
        Some(next.max(self.now()))
    }

    /// Goes to the next thing that happens, if the earliest timer is at `timer`; `None` if nothing will.
    pub fn advance(&mut self, timer: Option<Time>) -> Option<Next<P, C>> {
        loop {
            let timer_ps = timer.map(|at| at.0.saturating_mul(PS_PER_US));
            let arrival_ps = self.queue.next_at();
            if let Some(at_ps) = timer_ps.filter(|at| arrival_ps.is_none_or(|next| *at <= next)) {
                self.now_ps = self.now_ps.max(at_ps);
                return Some(Next::Timers);
            }
            let (at_ps, ticket) = self.queue.pop()?;
            if let Some((direction, bytes)) = ticket.crossing {
                self.links.arrive(direction, bytes);
            }
            self.free.push(ticket.flight);
            if let Some(flight) = self.flights[ticket.flight as usize].take() {
                self.now_ps = self.now_ps.max(at_ps);
                return Some(Next::Arrival(flight));
            }
        }
    }

    /// Lets time pass until `until`, before which nothing happens.
    ///
    /// # Panics
    /// If something does.
    pub fn wait_until(&mut self, until: Time) {
        let until_ps = until.0.saturating_mul(PS_PER_US);
        let is_quiet = self.queue.next_at().is_none_or(|next| next >= until_ps);
        assert!(is_quiet, "something arrives before {until:?}");
        self.now_ps = self.now_ps.max(until_ps);
    }

    /// What is on its way.
    pub fn flights(&self) -> impl Iterator<Item = &Flight<P, C>> {
        self.flights.iter().flatten()
    }

    /// What is on its way, to be tampered with.
    pub fn flights_mut(&mut self) -> impl Iterator<Item = &mut Flight<P, C>> {
        self.flights.iter_mut().flatten()
    }

    /// Takes what `is_held` says off its way.
    pub fn hold_back(&mut self, is_held: impl Fn(&Flight<P, C>) -> bool) -> Vec<Flight<P, C>> {
        let held = self.flights.iter_mut().filter(|slot| slot.as_ref().is_some_and(&is_held));
        held.filter_map(Option::take).collect()
    }

    /// Delivers something now that was held back, or that nobody sent.
    pub fn release(&mut self, flight: Flight<P, C>) {
        self.put(self.now_ps, flight, None);
    }

    /// What went in has come out, was lost or is on its way, and nothing was faster than its link.
    ///
    /// # Errors
    /// Says which rule is broken, and on which link.
    pub fn check(&self) -> Result<(), String> {
        self.links.check()
    }
}
