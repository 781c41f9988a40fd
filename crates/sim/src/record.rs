//! What a run says while it goes on: one record a line.

use serde::Serialize;

use crate::network::Links;
use crate::{Scenario, SimulationError};

/// A line of the output. Times are virtual seconds since the beginning.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// How far it is.
    Progress {
        /// Virtual time.
        at_s: f64,
        /// Events so far.
        events: u64,
        /// Collectives that have ended on all of their workers.
        rounds: u64,
        /// Collectives in all.
        of_rounds: u64,
    },
    /// A worker's part of a collective.
    Worker {
        /// The job's name.
        job: String,
        /// Its rank.
        rank: usize,
        /// The collective.
        round: u32,
        /// When it began to compute.
        compute_s: f64,
        /// When it had its gradients.
        begin_s: f64,
        /// When it had the sums.
        end_s: f64,
    },
    /// A collective.
    Round {
        /// The job's name.
        job: String,
        /// The collective.
        round: u32,
        /// When the first worker had its gradients.
        begin_s: f64,
        /// When the last one had.
        last_begin_s: f64,
        /// When the last worker had the sums.
        end_s: f64,
    },
    /// What crossed one direction of a link in the whole run.
    Link {
        /// The link's name.
        link: String,
        /// The site that sends.
        source: String,
        /// The site that receives.
        target: String,
        /// bit/s; absent without a limit.
        rate_bps: Option<f64>,
        /// Bytes on the wire that arrived.
        wire_bytes: f64,
        /// Bytes that the queue had no room for.
        dropped_bytes: u64,
        /// Bytes that were lost on the way.
        lost_bytes: u64,
        /// Packets that were marked.
        marked_packets: u64,
        /// Most bytes that waited.
        queue_bytes_max: u64,
    },
    /// What one of the busiest directions sent in a slice of time; only where a timeline was asked for.
    Slice {
        /// The link's name.
        link: String,
        /// The site that sends.
        source: String,
        /// The site that receives.
        target: String,
        /// Begin of the slice.
        at_s: f64,
        /// Its end.
        until_s: f64,
        /// Bytes on the wire.
        wire_bytes: f64,
    },
    /// Fragments that a switch was summing at a moment; only where a timeline was asked for.
    Slots {
        /// The switch.
        site: String,
        /// The moment.
        at_s: f64,
        /// Slots with a sum of some of their workers, but not of all.
        held: u32,
    },
    /// A counter of a summing node or a worker.
    Counter {
        /// The node or worker that counted.
        site: String,
        /// The job's name.
        job: String,
        /// What was counted.
        name: String,
        /// How often.
        count: u64,
    },
    /// What the driver of a scheduler sees when a run stops at the end of a slot; its last line then.
    Sight {
        /// The end of the slot.
        at_s: f64,
        /// For each job, packets of sums that all of its workers have, at least.
        results: Vec<u64>,
        /// For each job, whether it has all its sums.
        is_over: Vec<bool>,
        /// Indices of the circuits that are lit, or getting light.
        circuits: Vec<usize>,
        /// Ports of each unit that work.
        ports: Vec<u32>,
    },
    /// The last line.
    End {
        /// When the last collective ended.
        at_s: f64,
        /// Events, or rate changes.
        events: u64,
        /// Packets that were put on a link, each at each hop.
        packet_hops: u64,
        /// Hash of everything that happened, in hexadecimal digits.
        trace: String,
        /// Values whose sums were compared.
        checked_values: u64,
    },
}

/// Takes records as they come; says whether to go on.
pub type Sink<'a> = dyn FnMut(&Record) -> bool + 'a;

/// Passes a record on.
pub(crate) fn tell(sink: &mut Sink, record: &Record) -> Result<(), SimulationError> {
    if sink(record) { Ok(()) } else { Err(SimulationError::Stopped) }
}

/// What crossed each direction of the scenario's links.
pub(crate) fn tell_links(
    scenario: &Scenario,
    links: &Links,
    sink: &mut Sink,
) -> Result<(), SimulationError> {
    for (index, link) in scenario.links.iter().enumerate() {
        let ends = [(link.source, link.target), (link.target, link.source)];
        for (direction, (source, target)) in (2 * index as u32..).zip(ends) {
            let load = links.load(direction);
            tell(
                sink,
                &Record::Link {
                    link: link.id.clone(),
                    source: scenario.sites[source].name.clone(),
                    target: scenario.sites[target].name.clone(),
                    rate_bps: links.rate_bps(direction),
                    wire_bytes: load.bytes_out as f64,
                    dropped_bytes: load.bytes_dropped,
                    lost_bytes: load.bytes_lost,
                    marked_packets: load.packets_marked,
                    queue_bytes_max: load.queue_bytes_max,
                },
            )?;
        }
    }
    Ok(())
}
