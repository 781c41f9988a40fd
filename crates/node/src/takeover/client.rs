//! The successor's side.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use thiserror::Error;
use wiresum_protocol::Plan;
use wiresum_wire::{JobId, NodeId};
use wiresum_xdp::Estate;

use super::descriptors::receive;
use super::{Head, MAX_HEAD_BYTES, READY, Remains, Versions, YOURS};
use crate::service::{JobQuota, VERSION};

/// How long the running daemon may take to make its offer: it finishes a batch, and copies its slots.
const OFFER_PATIENCE: Duration = Duration::from_secs(20);

/// Daemons that may end, one after another, while a successor asks.
const MOST_DAEMONS: u32 = 16;
/// What becomes of a request to a daemon that ends.
const HAS_ENDED: [ErrorKind; 3] =
    [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];

/// Descriptors, and what they are.
type Offer = (Vec<OwnedFd>, Vec<u8>);

/// Why a daemon could not be taken over.
#[derive(Debug, Error)]
pub enum TakeoverError {
    /// Nobody is there.
    #[error("no daemon answers at {0}: start this one without --take-over")]
    NoDaemon(String),
    /// It goes on.
    #[error("no take-over: {0}; the running daemon goes on")]
    Refused(String),
}

fn failed<E: Display>(what: &str) -> impl FnOnce(E) -> TakeoverError {
    move |error| TakeoverError::Refused(format!("{what}: {error}"))
}

/// What a running daemon has offered. It waits for [`Self::accept`], and goes on if this is dropped instead.
pub struct Inheritance {
    /// What children and the parent send to, by thread; at least one.
    pub sockets: Vec<UdpSocket>,
    /// Where clients ask.
    pub control: UnixListener,
    /// Where metrics are served.
    pub metrics: Option<TcpListener>,
    /// The kernel's part, if the program sums.
    pub estate: Option<Estate>,
    /// The plans of the jobs, in order.
    pub plans: Vec<Plan>,
    /// Bounds of the jobs.
    pub quotas: BTreeMap<JobId, JobQuota>,
    /// What the running daemon's plane knows.
    pub remains: Remains,
    /// Where the offer came from, and the answer goes to.
    connection: UnixStream,
}

/// Asks the daemon at a control socket for everything that it has.
///
/// # Errors
/// Its refusal, or what is wrong with the offer.
pub fn take_over(control: &Path, node: NodeId) -> Result<Inheritance, TakeoverError> {
    let (connection, (descriptors, bytes)) = ask_the_running(control, MOST_DAEMONS)?;
    let (head, memory) = split(&bytes).map_err(failed("the offer cannot be read"))?;
    if head.node != node.0 {
        let problem = format!(
            "the daemon there is node {0}: give --node {0}, or its own --control",
            head.node
        );
        return Err(TakeoverError::Refused(problem));
    }
    Inheritance::new(connection, descriptors, head, memory.to_vec())
        .ok_or_else(|| TakeoverError::Refused("the offer lacks descriptors".to_owned()))
}

/// Asks whoever serves the socket now: a daemon that has heard the request may hand over to somebody else before it comes
/// to it, and its end closes the connection.
fn ask_the_running(control: &Path, left: u32) -> Result<(UnixStream, Offer), TakeoverError> {
    let connection = UnixStream::connect(control).map_err(|error| {
        TakeoverError::NoDaemon(format!("the control socket {} ({error})", control.display()))
    })?;
    match ask(&connection) {
        Ok(offer) => Ok((connection, offer)),
        Err(error) if left > 0 && HAS_ENDED.contains(&error.kind()) => {
            ask_the_running(control, left - 1)
        }
        Err(error) => Err(failed("the running daemon makes no offer")(error)),
    }
}

fn ask(connection: &UnixStream) -> io::Result<Offer> {
    connection.set_read_timeout(Some(OFFER_PATIENCE))?;
    connection.set_write_timeout(Some(OFFER_PATIENCE))?;
    let request = json!({ "version": VERSION, "request": "take_over", "versions": Versions::OURS });
    let mut writer = connection;
    writeln!(writer, "{request}")?;
    receive(connection, MAX_HEAD_BYTES)
}

/// The head, which is one line, and what comes after it.
fn split(bytes: &[u8]) -> Result<(Head, &[u8]), serde_json::Error> {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    Ok((serde_json::from_slice(&bytes[..end])?, bytes.get(end + 1..).unwrap_or_default()))
}

impl Inheritance {
    fn new(
        connection: UnixStream,
        descriptors: Vec<OwnedFd>,
        head: Head,
        memory: Vec<u8>,
    ) -> Option<Self> {
        let mut descriptors = descriptors.into_iter();
        let sockets: Vec<_> =
            descriptors.by_ref().take(head.sockets).map(UdpSocket::from).collect();
        (!sockets.is_empty() && sockets.len() == head.sockets).then_some(())?;
        let control = descriptors.next()?.into();
        let metrics =
            if head.has_metrics { Some(TcpListener::from(descriptors.next()?)) } else { None };
        let estate = match head.kernel {
            None => None,
            Some(kernel) => {
                let maps: Vec<_> = kernel.maps.into_iter().zip(descriptors.by_ref()).collect();
                let links: Vec<_> = descriptors.collect();
                let is_whole = links.len() == kernel.links;
                is_whole.then_some(())?;
                Some(Estate { maps, links, retired: kernel.retired })
            }
        };
        let quotas = head.jobs.iter().map(|job| (job.plan.job_id(), job.quota)).collect();
        let plans = head.jobs.into_iter().map(|job| job.plan).collect();
        let remains = Remains { facts: head.facts, memory };
        Some(Self { sockets, control, metrics, estate, plans, quotas, remains, connection })
    }

    /// The connection on which to accept, once everything is in place.
    ///
    /// # Errors
    /// What the kernel says to another descriptor.
    pub fn acceptance(&self) -> io::Result<Acceptance> {
        self.connection.try_clone().map(Acceptance)
    }
}

/// The last word of a take-over.
pub struct Acceptance(UnixStream);

impl Acceptance {
    /// Tells the running daemon that this one can go on, and returns when that has let go.
    ///
    /// # Errors
    /// If it does not let go: then it goes on itself.
    pub fn accept(self) -> Result<(), TakeoverError> {
        let mut connection = self.0;
        let mut answer = [0; YOURS.len()];
        let said = connection.write_all(READY).and_then(|()| connection.read_exact(&mut answer));
        said.map_err(failed("the running daemon has not let go"))?;
        if answer == YOURS {
            Ok(())
        } else {
            Err(TakeoverError::Refused("it has not let go".to_owned()))
        }
    }
}
