//! Sealed sums (`spec/security.md`): how a job's rounds get their seals, and who is suspected when one is broken.

use std::sync::Arc;

use wiresum_keys::SealingKey;
use wiresum_protocol::Plan;
use wiresum_protocol::plan::PlanStream;
use wiresum_seal::{Counts, Fragment, Seal};
use wiresum_wire::LaneType;

use super::format::Format;
use super::layout::{Layout, split};
use super::ordered;
use super::shape::Shape;

/// What a check is sealed for, by which shapes are compared; no collective has it.
const UNKNOWN: Shape = Shape { elements: -1, signature: 0 };
/// The only fragment of a check.
const CHECK: Fragment = Fragment { index: 0, exponent: 0 };

/// What the rounds of a sealed job have in common.
pub(super) struct Sealing {
    key: SealingKey,
    format: Format,
    /// Shares of the streams of values.
    shares: Vec<f64>,
    /// Names of the nodes that sum each stream, that of the agreement first.
    nodes: Vec<Vec<String>>,
}

impl Sealing {
    /// The seals of a worker's rounds; `None` if the job's sums are open.
    ///
    /// # Panics
    /// If the plan has the keys of a node in place of the job's secret.
    pub fn of(plan: &Plan, format: Format, incarnation: u64) -> Option<Arc<Self>> {
        if !plan.job.sealed {
            return None;
        }
        let name = |node: u16| plan.nodes.iter().find(|n| n.id == node).map(|n| n.name.clone());
        let names = |stream: &PlanStream| {
            stream.places.iter().filter_map(|place| name(place.node)).collect()
        };
        Some(Arc::new(Self {
            key: plan.keys().sealing(incarnation).expect("a rank has the job's secret"),
            format,
            shares: ordered(plan).skip(1).map(|stream| stream.share).collect(),
            nodes: ordered(plan).map(names).collect(),
        }))
    }

    fn seal(&self, ordinal: u64, of: Shape, lanes: LaneType) -> Seal {
        let key = self.key.round(ordinal, of.elements, of.signature);
        // Masks cancel out between neighbours, so those who take part are numbered anew.
        let index = self.format.present().take_while(|seat| *seat < self.format.seat).count();
        Seal::new(key, index as u32, self.format.present().count() as u32, lanes)
    }

    /// The same in an incarnation that goes on without some ranks, as this format says.
    pub fn with(&self, format: Format) -> Self {
        Self {
            key: self.key.clone(),
            format,
            shares: self.shares.clone(),
            nodes: self.nodes.clone(),
        }
    }

    /// Names of the nodes that sum a fragment.
    pub fn nodes(&self, layout: Layout, fragment: u32) -> Vec<String> {
        let parts = split(layout.fragments(), &self.shares);
        let stream = parts.iter().position(|part| part.contains(&fragment));
        self.nodes[1 + stream.unwrap_or(0)].clone()
    }

    /// Names of the nodes that agreements go through.
    pub fn agreement_nodes(&self) -> Vec<String> {
        self.nodes[0].clone()
    }
}

/// The seals of one round.
pub(super) struct Seals {
    pub sealing: Arc<Sealing>,
    /// The number of the round, which never restarts.
    ordinal: u64,
    values: Option<Seal>,
    /// What was opened last.
    opened: Vec<u8>,
}

impl Seals {
    /// Those of the round with this number.
    pub fn new(sealing: Arc<Sealing>, ordinal: u64) -> Self {
        Self { sealing, ordinal, values: None, opened: Vec::new() }
    }

    /// Seals values of a collective of this shape, and returns the sum of the lanes.
    pub fn seal(&mut self, of: Shape, fragment: Fragment, counts: Counts, lanes: &mut [u8]) -> u32 {
        self.of_values(of).seal(fragment, counts, lanes)
    }

    /// The summed values of a fragment and what the ranks say of them, if it is what ranks that have agreed on this
    /// shape sent.
    pub fn open(
        &mut self,
        of: Shape,
        fragment: Fragment,
        lanes: &[u8],
    ) -> Option<(Counts, Vec<u8>)> {
        let mut opened = std::mem::take(&mut self.opened);
        opened.clear();
        opened.extend_from_slice(lanes);
        let counts = self.of_values(of).open(fragment, &mut opened)?;
        opened.truncate(lanes.len() - wiresum_seal::SEAL_LEN);
        Some((counts, opened))
    }

    /// Gives back what was opened, so that its memory is used again.
    pub fn recycle(&mut self, opened: Vec<u8>) {
        self.opened = opened;
    }

    /// Seals a check, and returns the sum of the lanes.
    pub fn seal_check(&self, lanes: &mut [u8]) -> u32 {
        let counts = Counts { took_part: 1, ..Counts::default() };
        self.of_check().seal(CHECK, counts, lanes)
    }

    /// The summed check, if it is what all ranks sent.
    pub fn open_check(&self, lanes: &[u8]) -> Option<Vec<u8>> {
        let mut opened = lanes.to_vec();
        self.of_check().open(CHECK, &mut opened).map(|_| opened)
    }

    fn of_values(&mut self, of: Shape) -> &mut Seal {
        let (sealing, ordinal) = (&self.sealing, self.ordinal);
        let new = || sealing.seal(ordinal, of, sealing.format.lane_type(of));
        self.values.get_or_insert_with(new)
    }

    fn of_check(&self) -> Seal {
        self.sealing.seal(self.ordinal, UNKNOWN, self.sealing.format.wide)
    }
}
