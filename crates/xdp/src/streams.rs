//! From plans to the program's constants.

use std::net::SocketAddr;

use wiresum_protocol::Plan;
use wiresum_protocol::plan::{Child, Seat, SubModel};
use wiresum_wire::{JobId, MAX_CONTRIBUTORS, NodeId, SubModelId};

use crate::layout::{Config, Endpoint, MAX_ENDPOINTS, MAX_JOBS, MAX_STREAMS, Stream};
use crate::{Options, XdpError};

/// What the program is to know from the start, and how the daemon's names map to its indices.
pub struct Streams {
    /// Constants of the program.
    pub config: Config,
    /// Jobs by index.
    pub jobs: Vec<JobId>,
    /// What each contributor's bit means, by stream.
    pub seats: Vec<Vec<Seat>>,
    /// Entries over all streams.
    pub entry_count: u32,
    /// Longest payload of any job, in bytes.
    pub payload_len: usize,
}

impl Streams {
    /// Lays out the streams of all plans.
    pub fn of(plans: &[(Plan, NodeId)], options: &Options) -> Result<Self, XdpError> {
        limit("jobs in one program", plans.len(), MAX_JOBS)?;
        let mut streams = Self {
            config: Config { lock_entries: options.lock_entries.into(), ..Config::default() },
            jobs: Vec::new(),
            seats: Vec::new(),
            entry_count: 0,
            payload_len: plans.iter().map(|(plan, _)| plan.payload_len()).max().unwrap_or(0),
        };
        streams.config.max_payload = streams.payload_len as u32;
        plans.iter().try_for_each(|(plan, node)| streams.add_job(plan, *node))?;
        Ok(streams)
    }

    fn add_job(&mut self, plan: &Plan, node: NodeId) -> Result<(), XdpError> {
        let job = plan.job_id();
        let refuse = |problem| XdpError::Plan { job, node, problem };
        let place = plan.node(node).ok_or_else(|| refuse("the plan has no such node"))?;
        if self.jobs.contains(&job) {
            return Err(refuse("another plan has the same job id: give each job its own"));
        }
        self.jobs.push(job);
        self.listen(place.address)?;
        for sub_model in plan.sub_models.iter().filter(|s| s.place(node).is_some()) {
            let stream = self.stream(plan, sub_model, node)?;
            self.config.streams[self.config.stream_count as usize] = stream;
            self.config.stream_count += 1;
            self.seats.push(sub_model.seats(node));
        }
        Ok(())
    }

    fn listen(&mut self, address: SocketAddr) -> Result<(), XdpError> {
        let endpoint = Endpoint::from(address);
        let count = self.config.endpoint_count as usize;
        if self.config.endpoints[..count].contains(&endpoint) {
            return Ok(());
        }
        limit("addresses to listen on", count + 1, MAX_ENDPOINTS)?;
        self.config.endpoints[count] = endpoint;
        self.config.endpoint_count += 1;
        Ok(())
    }

    fn stream(
        &mut self,
        plan: &Plan,
        sub_model: &SubModel,
        node: NodeId,
    ) -> Result<Stream, XdpError> {
        limit("sub-models of all jobs", self.config.stream_count as usize + 1, MAX_STREAMS)?;
        let problem = |problem| XdpError::Plan { job: plan.job_id(), node, problem };
        let place = sub_model.place(node).ok_or_else(|| problem("the node is not in the tree"))?;
        let parent = sub_model.parent_of(Child::Node(node.0));
        let siblings =
            parent.and_then(|(above, _)| sub_model.place(above)).map(|t| t.children.len());
        let first_entry = self.entry_count;
        let entries = 2 * sub_model.slots;
        self.entry_count = first_entry
            .checked_add(entries)
            .ok_or_else(|| problem("more than 2^32 slot entries: ask for fewer slots"))?;
        Ok(Stream {
            key: stream_key(plan.job_id(), sub_model.id()),
            node: node.0,
            parent_node: parent.map_or(0, |(above, _)| above.0),
            expected: u64::MAX >> (MAX_CONTRIBUTORS - place.children.len()),
            first_entry,
            entry_mask: entries - 1,
            max_payload: plan.payload_len() as u16,
            job_index: (self.jobs.len() - 1) as u8,
            child_count: place.children.len() as u8,
            is_root: parent.is_none().into(),
            own_index: parent.map_or(0, |(_, index)| index.0),
            parent_children: siblings.unwrap_or(0) as u8,
            seat_count: sub_model.seats(node).len() as u8,
        })
    }

    /// The index of a job.
    pub fn job_index(&self, job: JobId) -> Option<usize> {
        self.jobs.iter().position(|known| *known == job)
    }

    /// The index of a sub-model's stream.
    pub fn index(&self, job: JobId, sub_model: SubModelId) -> Option<usize> {
        self.all().iter().position(|stream| stream.key == stream_key(job, sub_model))
    }

    /// The streams in use.
    pub fn all(&self) -> &[Stream] {
        &self.config.streams[..self.config.stream_count as usize]
    }
}

fn stream_key(job: JobId, sub_model: SubModelId) -> u32 {
    u32::from(job.0) << 16 | u32::from(sub_model.0)
}

/// Refuses more of something than the programs hold.
pub fn limit(what: &'static str, have: usize, most: usize) -> Result<(), XdpError> {
    if have <= most { Ok(()) } else { Err(XdpError::TooMany { what, have, most }) }
}
