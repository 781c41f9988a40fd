//! A job of pairs as a file: who takes part, where, which keys are hot, and what the switch's program is built with.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use wiresum_keys::{Keyring, Seat, SeatKey, Secret};
use wiresum_switch::keyed::{Arrangement, HotTable, KeyedSpec, MAX_WORKERS};
use wiresum_wire::{HEADER_LEN, JobId, JobKey, PAGE_PAYLOAD, ROW_HEADER_LEN, RowKind};

use crate::keyed::HotKeys;
use crate::layout::Packaging;
use crate::live::JobError;
use crate::live::job::{check_format, check_renewal, check_secret, parsed, wrong};
use crate::packet::Renewal;

/// The document's name and version.
pub const FORMAT: &str = "wiresum-keyed-job/1";
/// The server's number as a node.
pub const SERVER: u16 = 0;
/// The switch's number as a node.
pub const SWITCH: u16 = 1;
/// A job has one table.
pub(super) const TABLE: u16 = 0;
/// The map of hot keys does not change while the job runs.
pub const MAP_VERSION: u32 = 1;
/// Longest frames of an Ethernet link have datagrams of so many bytes.
const PACKET_BYTES: usize = 1472;
/// Recirculations that Zebra allows (§IV).
const RECIRCULATIONS: u32 = 1;

/// A job of Zebra's program: workers, a server and a switch between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyedJob {
    /// [`FORMAT`].
    pub format: String,
    /// Number of the job.
    pub id: u16,
    /// Workers.
    pub workers: u8,
    /// Where the server receives, which is node 0.
    pub server: SocketAddr,
    /// Where the switch receives, which is node 1.
    pub switch: SocketAddr,
    /// Hot keys, the most popular one first.
    pub hot: Vec<u64>,
    /// Register arrays of the program.
    pub registers: u32,
    /// Most pairs of a packet.
    pub pairs: u32,
    /// How workers pack pairs for the switch.
    #[serde(default = "packaging")]
    pub packaging: Packaging,
    /// Most times that a packet goes through the pipeline again.
    #[serde(default = "recirculations")]
    pub recirculations: u32,
    /// How often the keys of packets of pairs are renewed.
    #[serde(default, skip_serializing_if = "Renewal::is_default")]
    pub renewal: Renewal,
    /// What strangers do not know: 64 hexadecimal digits.
    pub secret: String,
}

fn packaging() -> Packaging {
    Packaging::Dealing
}

fn recirculations() -> u32 {
    RECIRCULATIONS
}

impl KeyedJob {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn from_json(text: &str) -> Result<Self, JobError> {
        let job: Self = parsed(text)?;
        job.validate()?;
        Ok(job)
    }

    fn validate(&self) -> Result<(), JobError> {
        check_format(&self.format, FORMAT)?;
        check_secret(&self.secret)?;
        check_renewal(&self.renewal)?;
        if self.server == self.switch {
            return Err(wrong("switch", "is at the server's address: give each its own"));
        }
        let room = PACKET_BYTES.min(PAGE_PAYLOAD + HEADER_LEN) - HEADER_LEN - ROW_HEADER_LEN;
        let most = RowKind::Push.rows_for(room, 1);
        if !(1..=most).contains(&(self.pairs as usize)) {
            let problem = format!("are {}: a packet has 1 to {most}", self.pairs);
            return Err(wrong("pairs", problem));
        }
        let arranged = Arrangement::of(self.spec(), &[self.hot_table()]);
        arranged.map(|_| ()).map_err(|error| wrong("hot", format!("cannot be summed: {error}")))
    }

    /// What the program is built with.
    #[must_use]
    pub fn spec(&self) -> KeyedSpec {
        let &Self { registers, pairs, recirculations, .. } = self;
        KeyedSpec { registers, pairs, recirculations }
    }

    fn hot_table(&self) -> HotTable {
        let (job, workers, keys) = (self.job_id(), self.workers, self.hot.clone());
        // A worker pushes each key once, so it has no more packets than hot keys.
        HotTable { job, table: TABLE, workers, packets: keys.len() as u32, keys }
    }

    /// What lies where in the switch's memory.
    ///
    /// # Panics
    /// If the job was not made by [`Self::from_json`].
    #[must_use]
    pub fn arrangement(&self) -> Arrangement {
        Arrangement::of(self.spec(), &[self.hot_table()]).expect("a job was validated")
    }

    /// The map as workers use it.
    pub(super) fn hot_keys(&self) -> HotKeys {
        let Self { registers, pairs, packaging, hot, .. } = self;
        HotKeys::new(hot.clone(), *registers, *packaging, *pairs).expect("a job was validated")
    }

    /// Its number.
    #[must_use]
    pub fn job_id(&self) -> JobId {
        JobId(self.id)
    }

    /// Where a node receives.
    #[must_use]
    pub fn address(&self, node: u16) -> Option<SocketAddr> {
        [self.server, self.switch].get(usize::from(node)).copied()
    }

    /// The number that the switch's station has as a sender: workers have those before.
    #[must_use]
    pub fn station(&self) -> u8 {
        self.workers
    }

    /// A fingerprint of all that participants have to agree on.
    pub(in crate::live) fn digest(&self) -> u64 {
        let same = Self { secret: String::new(), ..self.clone() };
        let text = serde_json::to_string(&same).expect("a job serialises");
        crate::fingerprint(text.as_bytes())
    }

    /// All keys of the job.
    #[must_use]
    pub fn keys(&self) -> Keyring {
        Keyring::whole(Secret::from_digits(&self.secret).expect("a job was validated"))
    }

    /// What tells packets of one incarnation from those of others.
    pub(in crate::live) fn key(&self, incarnation: u64) -> JobKey {
        self.keys().association(incarnation)
    }

    /// The key that a sender and a node share.
    pub(in crate::live) fn seat_key(&self, node: u16, sender: u8) -> Option<SeatKey> {
        self.keys().seat(Seat { node, stream: TABLE, contributor: sender })
    }
}

const _: () = assert!(MAX_WORKERS < u8::MAX, "the station has a number as well");

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn document() -> Value {
        json!({
            "format": FORMAT, "id": 3, "workers": 2, "server": "10.0.0.5:5747", "switch": "10.0.0.9:5748",
            "hot": [7, 5, 9], "registers": 2, "pairs": 10, "secret": "11".repeat(32),
        })
    }

    #[test]
    fn a_file_is_read_and_has_one_recirculation_unless_it_says_more() {
        let job = KeyedJob::from_json(&document().to_string()).expect("a job");
        assert_eq!(job.spec(), KeyedSpec { registers: 2, pairs: 10, recirculations: 1 });
        assert_eq!(job.arrangement().cells, 2);
        assert_eq!(job.address(SWITCH), Some(job.switch));
        assert_eq!(job.address(2), None);
    }

    #[test]
    fn what_cannot_be_is_named() {
        let cases = [
            ("format", json!("wiresum-sparse-job/1"), "this program reads wiresum-keyed-job/1"),
            ("secret", json!("11"), "secret is not 64 hexadecimal digits"),
            ("switch", json!("10.0.0.5:5747"), "switch is at the server's address"),
            ("pairs", json!(0), "pairs are 0: a packet has 1 to "),
            ("pairs", json!(4000), "pairs are 4000: a packet has 1 to "),
            ("registers", json!(0), "0 registers: a program has one at least"),
            ("workers", json!(33), "33 workers, 1 to 32 are possible"),
            ("hot", json!([7, 7]), "key 7 is hot twice"),
            ("renewal", json!({"rounds": 9, "interval_ms": 200}), "renewal rounds is 9"),
            ("more", json!(1), "unknown field `more`"),
        ];
        for (field, value, message) in cases {
            let mut document = document();
            document[field] = value;
            let error = KeyedJob::from_json(&document.to_string()).expect_err(field).to_string();
            assert!(error.contains(message), "{field}: {error}");
        }
    }

    #[test]
    fn participants_agree_on_all_but_the_secret() {
        let job = KeyedJob::from_json(&document().to_string()).expect("a job");
        let other = KeyedJob { secret: "22".repeat(32), ..job.clone() };
        assert_eq!(job.digest(), other.digest());
        let other = KeyedJob { hot: vec![5, 7, 9], ..job.clone() };
        assert_ne!(job.digest(), other.digest());
    }
}
