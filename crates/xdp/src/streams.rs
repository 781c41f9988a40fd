//! From plans to the program's directory: which streams are served, and where their entries are.

use std::ops::Range;

use wiresum_protocol::Plan;
use wiresum_protocol::association::{GENERATIONS, RENEWALS};
use wiresum_protocol::plan::{Child, PlanStream, Seat};
use wiresum_wire::{Contributor, JobId, MAX_CONTRIBUTORS, NodeId, PAGE_PAYLOAD, SubModelId};
use zerocopy::FromZeros;

use crate::layout::{
    Directory, Endpoint, Entry, MAX_ENDPOINTS, MAX_JOBS, MAX_STREAMS, SeatKeyEntry, Stream,
    stream_key,
};
use crate::pool::Pool;
use crate::{Options, XdpError, require_a_page};

/// What the program knows of the jobs that are served, and how the daemon's names map to its indices.
pub struct Streams {
    /// As the program reads it.
    pub directory: Directory,
    /// Slot memory.
    pub pool: Pool,
    /// What each contributor's bit means, by stream.
    seats: [Vec<Seat>; MAX_STREAMS],
    /// By stream, the seats that nobody fills in the running incarnation.
    vacant: [u64; MAX_STREAMS],
    /// By stream, and by contributor: the keys of seats.
    pub keys: [Vec<SeatKeyEntry>; MAX_STREAMS],
    jobs: [Option<Placed>; MAX_JOBS],
}

/// A job at its node.
#[derive(Clone, Debug)]
struct Placed {
    job: JobId,
    entries: Range<u32>,
    endpoint: Endpoint,
}

impl Streams {
    /// No streams yet, and memory as the options say, or as much as these plans need.
    pub fn for_plans(plans: &[(Plan, NodeId)], options: &Options) -> Result<Self, XdpError> {
        let pool = match options.memory {
            Some(bytes) => Pool::new(entries_in(bytes), PAGE_PAYLOAD),
            None => pool_for(plans)?,
        };
        Ok(Self::with_pool(pool))
    }

    /// No streams yet.
    pub fn with_pool(pool: Pool) -> Self {
        Self {
            directory: Directory::new_zeroed(),
            pool,
            seats: [const { Vec::new() }; MAX_STREAMS],
            vacant: [0; MAX_STREAMS],
            keys: [const { Vec::new() }; MAX_STREAMS],
            jobs: [const { None }; MAX_JOBS],
        }
    }

    /// Those of another process, which serves these plans in this directory.
    pub fn inherit(
        directory: Directory,
        pool: Pool,
        plans: &[(Plan, NodeId)],
    ) -> Result<Self, XdpError> {
        let mut streams = Self { directory, ..Self::with_pool(pool) };
        for (plan, node) in plans {
            let misplaced = || {
                let problem = format!("its directory has job {} elsewhere", plan.job_id());
                XdpError::Layout(problem)
            };
            streams.inherit_job(plan, *node).ok_or_else(misplaced)?;
        }
        Ok(streams)
    }

    fn inherit_job(&mut self, plan: &Plan, node: NodeId) -> Option<()> {
        let endpoint = Endpoint::from(plan.node(node)?.address);
        let (mut first, mut end) = (u32::MAX, 0);
        let mut index = None;
        for sub_model in plan.streams.iter().filter(|s| s.place(node).is_some()) {
            let at = self.index(plan.job_id(), sub_model.id())?;
            let stream = self.directory.streams[at];
            first = first.min(stream.first_entry);
            end = end.max(stream.first_entry + stream.entry_mask + 1);
            index = Some(usize::from(stream.job_index));
            self.seats[at] = sub_model.seats(node);
        }
        let entries = first..end;
        let seat = self.jobs.get_mut(index?)?;
        *seat = Some(Placed { job: plan.job_id(), entries: entries.clone(), endpoint });
        self.pool.take_range(&entries).then_some(())
    }

    /// Places a job at a node, in a free range of the pool; returns its index. After an error
    /// everything is as it was.
    pub fn add(&mut self, plan: &Plan, node: NodeId) -> Result<usize, XdpError> {
        let job = plan.job_id();
        let refuse = |problem| XdpError::Plan { job, node, problem };
        let place = plan.node(node).ok_or_else(|| refuse("the plan has no such node"))?;
        if self.job_index(job).is_some() {
            return Err(refuse("another plan has the same job id: give each job its own"));
        }
        require_a_page(plan)?;
        if plan.payload_len() > self.pool.payload_len() {
            return Err(refuse(
                "its packets are longer than the slots here: start the daemon with --memory, which makes room for any",
            ));
        }
        let used = self.jobs.iter().flatten().count();
        limit("jobs in one program", used + 1, MAX_JOBS)?;
        let free = (0..MAX_STREAMS).filter(|i| self.directory.keys[*i] == 0).count();
        let sub_models = || plan.streams.iter().filter(|s| s.place(node).is_some());
        limit("sub-models of all jobs", MAX_STREAMS - free + sub_models().count(), MAX_STREAMS)?;
        let endpoint = Endpoint::from(place.address);
        let listening = self.endpoint_index(endpoint)?;
        let entries = self.take_entries(plan, node)?;
        let index = self.jobs.iter().position(Option::is_none).expect("counted before");
        self.directory.endpoints[listening] = endpoint;
        self.directory.endpoint_count = self.directory.endpoint_count.max(listening as u32 + 1);
        let mut first_entry = entries.start;
        for sub_model in sub_models() {
            let stream = stream(plan, sub_model, node, index, first_entry);
            first_entry += 2 * sub_model.slots();
            let at = self.put_stream(stream_key(job, sub_model.id()), stream);
            self.seats[at] = sub_model.seats(node);
            self.keys[at] = seat_keys(plan, sub_model, node);
        }
        self.jobs[index] = Some(Placed { job, entries, endpoint });
        Ok(index)
    }

    /// Forgets a job. Its entries stay taken until [`Self::release`].
    pub fn remove(&mut self, index: usize) -> Option<Range<u32>> {
        let placed = self.jobs[index].take()?;
        for stream in 0..MAX_STREAMS {
            let of_job = usize::from(self.directory.streams[stream].job_index) == index;
            if of_job && self.directory.keys[stream] != 0 {
                self.directory.keys[stream] = 0;
            }
        }
        let shared = self.jobs.iter().flatten().any(|other| other.endpoint == placed.endpoint);
        if !shared {
            for endpoint in &mut self.directory.endpoints {
                if *endpoint == placed.endpoint {
                    *endpoint = Endpoint::default();
                }
            }
        }
        Some(placed.entries)
    }

    /// Gives back entries that no CPU uses any more.
    pub fn release(&mut self, entries: &Range<u32>) {
        self.pool.give_back(entries);
    }

    fn put_stream(&mut self, key: u64, stream: Stream) -> usize {
        let free = self.directory.keys.iter().position(|key| *key == 0).expect("counted before");
        self.directory.keys[free] = key;
        self.directory.streams[free] = stream;
        self.directory.stream_count = self.directory.stream_count.max(free as u32 + 1);
        free
    }

    /// Where the address is listened on, or may be. The places of others stay what they are, as packets come in meanwhile.
    fn endpoint_index(&self, endpoint: Endpoint) -> Result<usize, XdpError> {
        let endpoints = &self.directory.endpoints;
        let found = endpoints.iter().position(|other| *other == endpoint);
        let free = || endpoints.iter().position(|other| *other == Endpoint::default());
        found.or_else(free).ok_or(XdpError::TooMany {
            what: "addresses to listen on",
            have: MAX_ENDPOINTS + 1,
            most: MAX_ENDPOINTS,
        })
    }

    fn take_entries(&mut self, plan: &Plan, node: NodeId) -> Result<Range<u32>, XdpError> {
        let entries = entries_of(plan, node)?;
        let taken = self.pool.take(entries);
        let (usage, needed) = (self.pool.usage(), self.pool.bytes(entries));
        taken.ok_or(XdpError::NoMemory {
            job: plan.job_id(),
            node,
            needed,
            free: usage.free,
            largest: usage.largest,
            total: usage.total,
        })
    }

    /// Bytes of slot memory that a job takes; too many to be had if its entries cannot be counted.
    pub fn bytes_for(&self, plan: &Plan, node: NodeId) -> usize {
        entries_of(plan, node).map_or(usize::MAX, |entries| self.pool.bytes(entries))
    }

    /// The index of a job.
    pub fn job_index(&self, job: JobId) -> Option<usize> {
        self.jobs.iter().position(|placed| placed.as_ref().is_some_and(|p| p.job == job))
    }

    /// The entries of a job.
    pub fn entries(&self, index: usize) -> Option<Range<u32>> {
        self.jobs[index].as_ref().map(|placed| placed.entries.clone())
    }

    /// Indices of a job's streams.
    pub fn of_job(&self, index: usize) -> Vec<usize> {
        let used = (0..MAX_STREAMS).filter(|stream| self.directory.keys[*stream] != 0);
        used.filter(|s| usize::from(self.directory.streams[*s].job_index) == index).collect()
    }

    /// The index of a sub-model's stream.
    pub fn index(&self, job: JobId, sub_model: SubModelId) -> Option<usize> {
        self.directory.keys.iter().position(|key| *key == stream_key(job, sub_model))
    }

    /// The job and sub-model of a stream; `None` if it is free.
    pub fn owner(&self, index: usize) -> Option<(JobId, SubModelId)> {
        let key = *self.directory.keys.get(index)?;
        (key != 0).then_some((JobId((key >> 16) as u16), SubModelId(key as u16)))
    }

    /// Nobody fills these seats of a stream.
    pub fn vacate(&mut self, index: usize, seats: u64) {
        let stream = &mut self.directory.streams[index];
        stream.expected = everyone(stream.child_count.into()) & !seats;
        self.vacant[index] = seats;
    }

    /// What a contributor's bit means in the running incarnation; `None` if there is no such seat.
    pub fn seat(&self, index: usize, contributor: usize) -> Option<Seat> {
        Some(self.seats[index].get(contributor)?.without(self.vacant[index]))
    }

    /// The stream with this index.
    pub fn stream(&self, index: usize) -> &Stream {
        &self.directory.streams[index]
    }
}

fn entries_in(bytes: usize) -> u32 {
    u32::try_from(bytes / (PAGE_PAYLOAD + size_of::<Entry>())).unwrap_or(u32::MAX).max(1)
}

/// As much as these plans need.
fn pool_for(plans: &[(Plan, NodeId)]) -> Result<Pool, XdpError> {
    let mut entry_count = 0u32;
    for (plan, node) in plans {
        require_a_page(plan)?;
        let problem = "more than 2^32 slot entries: ask for fewer slots";
        let too_many = || XdpError::Plan { job: plan.job_id(), node: *node, problem };
        entry_count = entry_count.checked_add(entries_of(plan, *node)?).ok_or_else(too_many)?;
    }
    let payload_len = plans.iter().map(|(plan, _)| plan.payload_len()).max().unwrap_or(0);
    Ok(Pool::new(entry_count, payload_len))
}

/// Entries of all sub-models that the node has a place in.
fn entries_of(plan: &Plan, node: NodeId) -> Result<u32, XdpError> {
    let placed = plan.streams.iter().filter(|s| s.place(node).is_some());
    let entries: u64 = placed.map(|s| 2 * u64::from(s.slots())).sum();
    let problem = "more than 2^32 slot entries: ask for fewer slots";
    u32::try_from(entries).map_err(|_| XdpError::Plan { job: plan.job_id(), node, problem })
}

fn stream(
    plan: &Plan,
    sub_model: &PlanStream,
    node: NodeId,
    job_index: usize,
    first_entry: u32,
) -> Stream {
    let children = sub_model.fan_in(node);
    let parent = sub_model.parent_of(Child::Node(node.0));
    let seat_above = |(above, index)| wiresum_keys::Seat::new(above, sub_model.id(), index);
    let parent_key = parent.and_then(|above| plan.keys().seat(seat_above(above)));
    let siblings = parent.map_or(0, |(above, _)| sub_model.fan_in(above));
    Stream {
        expected: everyone(children),
        parent_key: parent_key.map(SeatKeyEntry::from).unwrap_or_default().half,
        value_keys: [[0; GENERATIONS]; RENEWALS],
        node: node.0,
        parent_node: parent.map_or(0, |(above, _)| above.0),
        first_entry,
        entry_mask: 2 * sub_model.slots() - 1,
        max_payload: plan.payload_len() as u16,
        job_index: job_index as u8,
        child_count: children as u8,
        is_root: parent.is_none().into(),
        own_index: parent.map_or(0, |(_, index)| index.0),
        parent_children: siblings as u8,
        seat_count: sub_model.seats(node).len() as u8,
        check_shift: sub_model.check_interval().ilog2() as u8,
        is_proven: plan.job.proven.into(),
        round_shift: 0,
        reserved: 0,
    }
}

/// The bitmap of so many children.
fn everyone(children: usize) -> u64 {
    u64::MAX >> (MAX_CONTRIBUTORS - children)
}

/// By contributor, the keys of the node's seats. A seat without one is its plan's error; no hello has it.
fn seat_keys(plan: &Plan, sub_model: &PlanStream, node: NodeId) -> Vec<SeatKeyEntry> {
    let (keys, seats) = (plan.keys(), sub_model.seats(node).len());
    let contributors = (0..seats).map(|index| Contributor(index as u8));
    let seat = |index| keys.seat(wiresum_keys::Seat::new(node, sub_model.id(), index));
    contributors.map(|index| seat(index).map(SeatKeyEntry::from).unwrap_or_default()).collect()
}

/// Refuses more of something than the programs hold.
pub fn limit(what: &'static str, have: usize, most: usize) -> Result<(), XdpError> {
    if have <= most { Ok(()) } else { Err(XdpError::TooMany { what, have, most }) }
}
