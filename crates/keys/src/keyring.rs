//! What one participant holds.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use wiresum_wire::{Contributor, JobKey, NodeId, SubModelId};

use crate::hash::ValueHash;
use crate::secret::{Key, Secret};
use crate::tag::SeatKey;

/// Value of a node's key file's `format`.
const FORMAT: &str = "wiresum-node-keys/1";

/// A place among the children of a node in one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// The node.
    pub node: u16,
    /// The stream.
    pub stream: u16,
    /// The child's index there, those of substitutes included.
    pub contributor: u8,
}

impl Seat {
    /// The seat with these names.
    #[must_use]
    pub fn new(node: NodeId, stream: SubModelId, contributor: Contributor) -> Self {
        Self { node: node.0, stream: stream.0, contributor: contributor.0 }
    }
}

/// Why a text is neither a secret nor a node's keys. The text is not quoted, as it may be half a secret.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0}: give the file with the job's secret, 64 hexadecimal digits, or the keys of this node (`wiresum keys`)"
)]
pub struct KeyringError(String);

/// The keys of one participant: a rank has the secret, a node the share that [`Keyring::of_node`] makes.
#[derive(Clone, PartialEq, Eq)]
pub struct Keyring(Holding);

#[derive(Clone, PartialEq, Eq)]
enum Holding {
    All(Secret),
    Node(NodeKeys),
}

/// A node's key file.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeKeys {
    format: String,
    node: u16,
    /// See [`Secret::incarnations`].
    incarnations: Key,
    /// See [`Secret::workers`].
    workers: Key,
    /// The node's own, from which follow those of its seats.
    own: Key,
    /// Its seats at its parents.
    parents: Vec<Parent>,
    /// Its keys in groups of the job's workers, by number: jobs whose secrets follow from the job's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    groups: BTreeMap<u16, NodeKeys>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parent {
    seat: Seat,
    key: Key,
}

impl Keyring {
    /// Everything.
    #[must_use]
    pub fn whole(secret: Secret) -> Self {
        Self(Holding::All(secret))
    }

    /// Reads what [`Self::to_text`] or an owner of the secret wrote to a file.
    ///
    /// # Errors
    /// [`KeyringError`].
    pub fn from_text(text: &str) -> Result<Self, KeyringError> {
        let text = text.trim();
        if let Some(secret) = Secret::from_digits(text) {
            return Ok(Self::whole(secret));
        }
        // An error of the reader would quote the text.
        let keys = serde_json::from_str::<NodeKeys>(text);
        let keys = keys.map_err(|_| KeyringError("this is no secret".to_owned()))?;
        if keys.format != FORMAT {
            return Err(KeyringError(format!("these are no keys of the format {FORMAT}")));
        }
        Ok(Self(Holding::Node(keys)))
    }

    /// What a node is to have: its own key, and those of its seats at its parents. `None` of a ring that is a node's.
    #[must_use]
    pub fn of_node(&self, node: NodeId, parents: &[Seat]) -> Option<Self> {
        let Holding::All(secret) = &self.0 else { return None };
        let parent = |&seat: &Seat| Parent { seat, key: secret.node(seat.node).of_seat(seat) };
        Some(Self(Holding::Node(NodeKeys {
            format: FORMAT.to_owned(),
            node: node.0,
            incarnations: secret.incarnations(),
            workers: secret.workers(),
            own: secret.node(node.0),
            parents: parents.iter().map(parent).collect(),
            groups: BTreeMap::new(),
        })))
    }

    /// A node's keys with those that it has in groups of the job; the owner's ring as it is, as it has them all.
    #[must_use]
    pub fn with_groups(mut self, groups: impl IntoIterator<Item = (u16, Self)>) -> Self {
        let Holding::Node(keys) = &mut self.0 else { return self };
        let of_node = |(number, ring): (u16, Self)| match ring.0 {
            Holding::Node(keys) => Some((number, keys)),
            Holding::All(_) => None,
        };
        keys.groups.extend(groups.into_iter().filter_map(of_node));
        self
    }

    /// What this participant has in a group, as [`Self::from_text`] reads it: the group's secret, or a node's keys there.
    /// `None` for a node without a part in the group.
    #[must_use]
    pub fn text_of_group(&self, number: u16) -> Option<String> {
        match &self.0 {
            Holding::All(secret) => Some(secret.of_group(number)),
            Holding::Node(keys) => serde_json::to_string_pretty(keys.groups.get(&number)?).ok(),
        }
    }

    /// A node's keys as its key file has them; `None` of the secret's owner.
    #[must_use]
    pub fn to_text(&self) -> Option<String> {
        match &self.0 {
            Holding::All(_) => None,
            Holding::Node(keys) => serde_json::to_string_pretty(keys).ok(),
        }
    }

    /// The node that has these keys alone; `None` for the owner of the secret.
    #[must_use]
    pub fn node(&self) -> Option<NodeId> {
        match &self.0 {
            Holding::All(_) => None,
            Holding::Node(keys) => Some(NodeId(keys.node)),
        }
    }

    /// The number that packets of an incarnation carry. Who has no key cannot guess it; who sees a packet has it.
    #[must_use]
    pub fn association(&self, incarnation: u64) -> JobKey {
        JobKey(u64::from_be_bytes(self.incarnations().expand("association", &[incarnation])))
    }

    /// The number that values of a generation of a stream's positions carry when it was renewed by time so often; that of
    /// all packets before the first renewal of the first generation.
    #[must_use]
    pub fn values(&self, incarnation: u64, generation: u32, renewal: u32) -> JobKey {
        let (generation, renewal) = (generation.into(), renewal.into());
        JobKey(u64::from_be_bytes(match (generation, renewal) {
            (0, 0) => return self.association(incarnation),
            (_, 0) => self.incarnations().expand("generation", &[incarnation, generation]),
            _ => self.incarnations().expand("renewal", &[incarnation, generation, renewal]),
        }))
    }

    fn incarnations(&self) -> Key {
        match &self.0 {
            Holding::All(secret) => secret.incarnations(),
            Holding::Node(keys) => keys.incarnations.clone(),
        }
    }

    /// The key by which ranks seal the sums of an incarnation; `None` of a node's ring, which must not have it.
    #[must_use]
    pub fn sealing(&self, incarnation: u64) -> Option<SealingKey> {
        let Holding::All(secret) = &self.0 else { return None };
        Some(SealingKey(secret.ranks().derive("incarnation", &[incarnation])))
    }

    /// The key that a seat's holder and its node share; `None` if this participant is neither.
    #[must_use]
    pub fn seat(&self, seat: Seat) -> Option<SeatKey> {
        let key = match &self.0 {
            Holding::All(secret) => secret.node(seat.node).of_seat(seat),
            Holding::Node(keys) if keys.node == seat.node => keys.own.of_seat(seat),
            Holding::Node(keys) => keys.parents.iter().find(|p| p.seat == seat)?.key.clone(),
        };
        Some(SeatKey(key.expand("tags", &[])))
    }

    /// The key by which all participants hash the values that they prove.
    #[must_use]
    pub fn value_hash(&self) -> ValueHash {
        let key = match &self.0 {
            Holding::All(secret) => &secret.workers(),
            Holding::Node(keys) => &keys.workers,
        };
        ValueHash::new(&key.expand("hash", &[]))
    }

    /// The key by which a worker of a network of switches says hello to all nodes at once.
    #[must_use]
    pub fn hello(&self, worker: u8) -> SeatKey {
        let key = match &self.0 {
            Holding::All(secret) => &secret.workers(),
            Holding::Node(keys) => &keys.workers,
        };
        SeatKey(key.expand("worker", &[worker.into()]))
    }

    /// The key by which a node of such a network answers a worker; `None` if this participant is neither.
    #[must_use]
    pub fn answer(&self, node: NodeId, worker: u8) -> Option<SeatKey> {
        let key = match &self.0 {
            Holding::All(secret) => &secret.node(node.0),
            Holding::Node(keys) if keys.node == node.0 => &keys.own,
            Holding::Node(_) => return None,
        };
        Some(SeatKey(key.expand("answer", &[worker.into()])))
    }
}

/// The key by which ranks seal the sums of one incarnation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SealingKey(Key);

impl SealingKey {
    /// The key of one round, counted from 0 without end, of so many elements and this signature: ranks that do not agree
    /// on them cannot open their sums.
    #[must_use]
    pub fn round(&self, ordinal: u64, elements: i32, signature: i32) -> [u8; 16] {
        self.0.expand("round", &[ordinal, elements as u64, signature as u64])
    }
}

impl fmt::Debug for Keyring {
    /// Says whose keys these are, and not which.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyring({:?})", self.node())
    }
}

impl Key {
    fn of_seat(&self, seat: Seat) -> Self {
        self.derive("seat", &[seat.stream.into(), seat.contributor.into()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Seat = Seat { node: 1, stream: 2, contributor: 3 };
    const AT_PARENT: Seat = Seat { node: 0, stream: 2, contributor: 5 };
    const SIBLINGS: Seat = Seat { contributor: 4, ..AT_PARENT };

    fn whole() -> Keyring {
        Keyring::whole(Secret::from_bytes(b"of a test"))
    }

    #[test]
    fn a_node_shares_keys_with_its_children_and_parents_and_has_no_others() {
        let text = whole().of_node(NodeId(1), &[AT_PARENT]).and_then(|ring| ring.to_text());
        let node = Keyring::from_text(&text.expect("a node's")).expect("as it was written");
        assert_eq!(node.node(), Some(NodeId(1)));
        for shared in [OWN, AT_PARENT] {
            assert_eq!(node.seat(shared), whole().seat(shared));
        }
        assert_eq!(node.association(77), whole().association(77));
        assert_eq!(node.values(77, 5, 6), whole().values(77, 5, 6));
        assert_eq!(node.hello(9), whole().hello(9));
        assert_eq!(node.answer(NodeId(1), 9), whole().answer(NodeId(1), 9));
        assert_eq!(node.value_hash(), whole().value_hash());
        assert_eq!(node.seat(SIBLINGS), None);
        assert_eq!(node.answer(NodeId(0), 9), None);
        assert_eq!(node.of_node(NodeId(1), &[]), None, "it cannot make keys of nodes");
    }

    #[test]
    fn groups_share_no_keys_with_the_job_or_with_each_other_and_nodes_have_their_own_alone() {
        let group = |number| {
            Keyring::from_text(&whole().text_of_group(number).expect("the owner's"))
                .expect("a ring")
        };
        let rings = [whole(), group(1), group(2)];
        let tags = rings.clone().map(|ring| ring.seat(OWN).expect("the owner's").bytes());
        assert!(tags[0] != tags[1] && tags[0] != tags[2] && tags[1] != tags[2]);
        let runs: std::collections::BTreeSet<_> =
            rings.iter().map(|r| r.association(5).0).collect();
        assert_eq!(runs.len(), 3);
        let of_node = |ring: &Keyring| ring.of_node(NodeId(1), &[AT_PARENT]).expect("a node's");
        let held = of_node(&whole()).with_groups([(2, of_node(&group(2)))]);
        let held =
            Keyring::from_text(&held.to_text().expect("a node's")).expect("as it was written");
        assert_eq!(held.text_of_group(1), None, "no part in it");
        let own = Keyring::from_text(&held.text_of_group(2).expect("a part")).expect("a ring");
        assert_eq!(own.seat(OWN), group(2).seat(OWN));
        assert_eq!(own.seat(SIBLINGS), None);
        assert_eq!(own.association(5), group(2).association(5));
    }

    #[test]
    fn no_two_keys_are_alike() {
        let ring = whole();
        let other = Keyring::whole(Secret::from_bytes(b"of another job"));
        let seats = [OWN, AT_PARENT, SIBLINGS, Seat { stream: 3, ..OWN }, Seat { node: 2, ..OWN }];
        let mut keys: Vec<_> = seats.iter().filter_map(|seat| ring.seat(*seat)).collect();
        keys.extend([ring.hello(3), ring.hello(4)]);
        keys.extend(ring.answer(NodeId(1), 3).into_iter().chain(ring.answer(NodeId(0), 3)));
        keys.extend([other.hello(3)].into_iter().chain(other.seat(OWN)));
        let mut bytes: Vec<_> = keys.iter().map(SeatKey::bytes).collect();
        bytes.sort_unstable();
        bytes.dedup();
        assert_eq!(bytes.len(), 11);
        assert_ne!(ring.value_hash(), other.value_hash());
        assert_ne!(ring.association(1), ring.association(2));
        assert_ne!(ring.association(1), other.association(1));
        let ages = [(1, 0, 0), (1, 1, 0), (1, 2, 0), (2, 1, 0), (1, 0, 1), (1, 1, 1), (1, 1, 2)];
        let values = ages.map(|(run, generation, renewal)| ring.values(run, generation, renewal).0);
        let values = values.into_iter().chain([other.values(1, 1, 0).0, ring.association(2).0]);
        assert_eq!(values.collect::<std::collections::BTreeSet<_>>().len(), ages.len() + 2);
    }

    #[test]
    fn rounds_have_keys_of_their_own_which_no_node_has() {
        let key = whole().sealing(1).expect("a rank's");
        let other = Keyring::whole(Secret::from_bytes(b"of another job")).sealing(1);
        let mut keys = vec![whole().sealing(2).expect("a rank's").round(0, 10, 3)];
        keys.extend(other.map(|key| key.round(0, 10, 3)));
        for shape in [(0, 10, 3), (1, 10, 3), (1 << 32, 10, 3), (0, 11, 3), (0, 10, 4), (0, -1, 0)]
        {
            keys.push(key.round(shape.0, shape.1, shape.2));
        }
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!((keys.len(), count), (8, 8));
        let node = whole().of_node(NodeId(1), &[AT_PARENT]).expect("a node's");
        assert_eq!(node.sealing(1), None);
    }

    #[test]
    fn what_is_no_ring_is_refused_without_being_quoted() {
        let keys =
            whole().of_node(NodeId(1), &[]).and_then(|ring| ring.to_text()).expect("a node's");
        let canary = "c0ffee".repeat(10);
        for wrong in [&canary, "{}", &keys.replace("keys/1", "keys/9"), &keys.replace("own", "0wn")]
        {
            let problem = Keyring::from_text(wrong).expect_err("no ring").to_string();
            assert!(problem.contains("wiresum keys") && !problem.contains("c0ffee"), "{problem}");
        }
        assert!(!format!("{:?}", whole()).contains("test"));
    }
}
