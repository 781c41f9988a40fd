//! A socket filter: what the kernel refuses for us, before it takes room in the receive buffer or has to be read.
//!
//! It is a classic BPF program, which needs no privilege. It sees a datagram from its UDP header on; where receive offload has joined
//! several, it judges by the first. What it lets through is judged again, so it may be lenient, but must never refuse what an
//! aggregator would take.

use std::collections::BTreeSet;
use std::io;
use std::mem::offset_of;
use std::net::{IpAddr, SocketAddr};

use socket2::{SockFilter, SockRef};
use wiresum_wire::{Flags, HEADER_LEN, Header, JobId, JobKey, Kind, MAGIC, VERSION};

use super::Socket;

/// Keys and senders of hellos that a filter tells apart: 7 and 5 instructions each, and 4 a job, of 4096 that the kernel takes.
/// Beyond, it looks at the form alone.
const MAX_KNOWN: usize = 400;
const UDP_HEADER_LEN: usize = 8;
/// Where a datagram's source port is.
const SOURCE_PORT: u32 = 0;
/// From here on a load counts from the IP header: `SKF_NET_OFF` of the kernel.
const IP_HEADER: u32 = 0xfff0_0000;
/// Where the last four bytes of the source's address are, by family. They tell the neighbours of one host apart.
const SOURCE_IPV4: u32 = IP_HEADER + 12;
const SOURCE_IPV6: u32 = IP_HEADER + 20;
/// Answers: how much of the datagram the kernel is to keep.
const REFUSE: u32 = 0;
const KEEP: u32 = u32::MAX;

const LOAD8: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
pub(super) const LOAD16: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD32: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const LOAD_LEN: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_LEN;
const SHIFT_LEFT: u32 = libc::BPF_ALU | libc::BPF_LSH | libc::BPF_K;
const ADD: u32 = libc::BPF_ALU | libc::BPF_ADD | libc::BPF_K;
const TO_X: u32 = libc::BPF_MISC | libc::BPF_TAX;
const SKIP: u32 = libc::BPF_JMP | libc::BPF_JA;
pub(super) const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_GREATER: u32 = libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K;
const IF_AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const IF_AT_LEAST_X: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_X;
const IF_ANY: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
pub(super) const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// What tells a job's packets from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its number.
    pub job: JobId,
    /// Those that packets but hellos carry now.
    pub keys: BTreeSet<JobKey>,
    /// Who may say hello; anyone where the plan does not name them.
    pub greeters: Option<BTreeSet<SocketAddr>>,
}

impl Known {
    fn entries(&self) -> usize {
        self.keys.len().max(1) + self.greeters.as_ref().map_or(0, BTreeSet::len)
    }
}

impl Socket {
    /// Lets the kernel refuse what is ill-formed, of no running incarnation of these jobs, or a hello that names none of them or
    /// comes from nobody who may greet. Whether a hello has its proof, a filter of this kind cannot tell.
    ///
    /// # Errors
    /// What the kernel says to the filter.
    pub fn guard(&self, known: &[Known]) -> io::Result<()> {
        SockRef::from(&self.io).attach_filter(&Program::new(known).0)
    }

    /// Takes everything again.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn unguard(&self) -> io::Result<()> {
        SockRef::from(&self.io).detach_filter()
    }
}

/// Instructions, each with how many to skip if its condition holds, and if not. A load beyond the datagram's end refuses it.
#[derive(Default)]
pub(super) struct Program(pub(super) Vec<SockFilter>);

impl Program {
    fn new(known: &[Known]) -> Self {
        let mut program = Self::default();
        program.require_form();
        program.require_length();
        if known.iter().map(Known::entries).sum::<usize>() > MAX_KNOWN {
            program.then(RETURN, KEEP);
            return program;
        }
        let (keys, numbers) = (by_key(known), by_number(known));
        program.then(LOAD8, field(offset_of!(Header, kind)));
        program.branch(IF_EQUAL, Kind::Hello as u32, 0, 1);
        program.then(SKIP, keys.0.len() as u32);
        program.0.extend(keys.0);
        program.0.extend(numbers.0);
        program
    }

    pub(super) fn then(&mut self, code: u32, operand: u32) {
        self.branch(code, operand, 0, 0);
    }

    pub(super) fn branch(&mut self, code: u32, operand: u32, if_so: u8, if_not: u8) {
        self.0.push(SockFilter::new(code as u16, if_so, if_not, operand));
    }

    /// Refuses the datagram unless the condition holds.
    fn require(&mut self, condition: u32, operand: u32) {
        self.branch(condition, operand, 1, 0);
        self.then(RETURN, REFUSE);
    }

    fn require_form(&mut self) {
        self.then(LOAD16, field(offset_of!(Header, magic)));
        self.require(IF_EQUAL, MAGIC.into());
        self.then(LOAD8, field(offset_of!(Header, version)));
        self.require(IF_EQUAL, VERSION.into());
        self.then(LOAD8, field(offset_of!(Header, kind)));
        self.require(IF_AT_LEAST, Kind::Contribution as u32);
        self.branch(IF_GREATER, Kind::Rate as u32, 0, 1);
        self.then(RETURN, REFUSE);
    }

    /// At least as long as its header says; the accumulator holds the kind.
    fn require_length(&mut self) {
        self.branch(IF_EQUAL, Kind::Contribution as u32, 1, 0);
        self.branch(IF_EQUAL, Kind::Result as u32, 0, 2);
        self.then(LOAD16, field(offset_of!(Header, flags)));
        self.branch(IF_ANY, Flags::LANES16.0.into(), 3, 0);
        self.then(LOAD16, field(offset_of!(Header, value_count)));
        self.then(SHIFT_LEFT, 2);
        self.then(SKIP, 2);
        self.then(LOAD16, field(offset_of!(Header, value_count)));
        self.then(SHIFT_LEFT, 1);
        self.then(ADD, field(HEADER_LEN));
        self.then(TO_X, 0);
        self.then(LOAD_LEN, 0);
        self.require(IF_AT_LEAST_X, 0);
    }

    /// Keeps what is of this job by now.
    fn keep_if_of(&mut self, job: JobId) {
        self.then(LOAD16, field(offset_of!(Header, job)));
        self.branch(IF_EQUAL, job.0.into(), 0, 1);
        self.then(RETURN, KEEP);
    }
}

/// Where a byte of the datagram is.
fn field(offset: usize) -> u32 {
    (UDP_HEADER_LEN + offset) as u32
}

fn by_key(known: &[Known]) -> Program {
    let mut program = Program::default();
    let of_job = |known: &Known| known.keys.iter().map(|key| (known.job, *key)).collect::<Vec<_>>();
    for (job, JobKey(key)) in known.iter().flat_map(of_job) {
        let half = field(offset_of!(Header, job_key));
        program.then(LOAD32, half);
        program.branch(IF_EQUAL, (key >> 32) as u32, 0, 5);
        program.then(LOAD32, half + 4);
        program.branch(IF_EQUAL, key as u32, 0, 3);
        program.keep_if_of(job);
    }
    program.then(RETURN, REFUSE);
    program
}

fn by_number(known: &[Known]) -> Program {
    let mut program = Program::default();
    for Known { job, greeters, .. } in known {
        let Some(greeters) = greeters else {
            program.keep_if_of(*job);
            continue;
        };
        let block = by_source(greeters);
        program.then(LOAD16, field(offset_of!(Header, job)));
        program.branch(IF_EQUAL, job.0.into(), 1, 0);
        program.then(SKIP, block.0.len() as u32);
        program.0.extend(block.0);
    }
    program.then(RETURN, REFUSE);
    program
}

fn by_source(greeters: &BTreeSet<SocketAddr>) -> Program {
    let mut program = Program::default();
    for greeter in greeters {
        let (offset, last) = match greeter.ip() {
            IpAddr::V4(address) => (SOURCE_IPV4, address.to_bits()),
            IpAddr::V6(address) => (SOURCE_IPV6, address.to_bits() as u32),
        };
        program.then(LOAD16, SOURCE_PORT);
        program.branch(IF_EQUAL, greeter.port().into(), 0, 3);
        program.then(LOAD32, offset);
        program.branch(IF_EQUAL, last, 0, 1);
        program.then(RETURN, KEEP);
    }
    program.then(RETURN, REFUSE);
    program
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    use wiresum_protocol::{Plan, Verdict};
    use wiresum_testkit::capability;
    use wiresum_testkit::traffic::aggregator::{INCARNATION, RandomTraffic};
    use wiresum_wire::NodeId;

    use super::*;
    use crate::udp::ReceiveBatch;

    const PATIENCE: Duration = Duration::from_secs(10);
    /// Datagrams at once: far fewer than the receive buffer takes.
    const BATCH: usize = 100;

    fn tree() -> Plan {
        let text = include_str!("../../../../protocol/tests/plans/tree.json");
        Plan::from_json(text).expect("a valid plan")
    }

    fn known(plan: &Plan) -> Known {
        let values = RandomTraffic::new(plan, NodeId(1), 1).association().keys();
        let keys = values.into_iter().flatten().chain([plan.job_key(INCARNATION)]).collect();
        Known { job: plan.job_id(), keys, greeters: None }
    }

    /// A guarded socket, and another one that sends to it.
    fn guarded(known: &[Known]) -> (Socket, UdpSocket) {
        let sockets = pair("127.0.0.1:0");
        sockets.0.guard(known).expect("a filter that the kernel takes");
        sockets
    }

    /// A socket, and another one that sends to it.
    fn pair(address: &str) -> (Socket, UdpSocket) {
        let socket = Socket::bind(address.parse().expect("an address"), 1).expect("a socket");
        let sender = UdpSocket::bind(address).expect("a socket");
        sender.connect(socket.local_address().expect("bound")).expect("an address");
        (socket, sender)
    }

    /// Which of these datagrams arrive; the last one has to.
    fn pass<'a>(
        (socket, sender): &(Socket, UdpSocket),
        datagrams: &[&'a [u8]],
        last: &'a [u8],
    ) -> Vec<Vec<u8>> {
        datagrams.iter().chain([&last]).for_each(|datagram| {
            sender.send(datagram).expect("sent");
        });
        let (mut batch, mut arrived, start) = (ReceiveBatch::default(), Vec::new(), Instant::now());
        while arrived.last().is_none_or(|datagram| datagram != last) {
            assert!(start.elapsed() < PATIENCE, "the last of {} is missing", datagrams.len());
            socket.receive(&mut batch).expect("received");
            arrived.extend(batch.datagrams().map(|(_, datagram)| datagram.to_vec()));
        }
        arrived.pop();
        arrived
    }

    /// The first hello: with the secret, so it always passes.
    fn hello(plan: &Plan) -> Vec<u8> {
        RandomTraffic::new(plan, NodeId(1), 1).joining().remove(0).datagram
    }

    #[test]
    fn nothing_is_refused_that_an_aggregator_takes() {
        let plan = tree();
        let mut stranger = known(&plan);
        stranger.job.0 += 1;
        let (sockets, hello) = (guarded(&[stranger, known(&plan)]), hello(&plan));
        let mut traffic = RandomTraffic::new(&plan, NodeId(1), 1);
        let mut steps = traffic.joining();
        steps.extend(traffic.take(3_000));
        let mut refused = 0;
        for steps in steps.chunks(BATCH) {
            let datagrams: Vec<_> = steps.iter().map(|step| step.datagram.as_slice()).collect();
            let mut arrived = pass(&sockets, &datagrams, &hello).into_iter().peekable();
            for step in steps {
                if arrived.next_if(|datagram| *datagram == step.datagram).is_some() {
                    continue;
                }
                let verdict = step.outcome.verdict;
                assert!(matches!(verdict, Verdict::Malformed | Verdict::Foreign), "{verdict:?}");
                refused += 1;
            }
            assert_eq!(arrived.next(), None);
        }
        assert!(refused > 100, "{refused} of {} were refused", steps.len());
    }

    #[test]
    fn floods_are_refused() {
        let plan = tree();
        let (sockets, hello) = (guarded(&[known(&plan)]), hello(&plan));
        let with = |offset: usize, value: u8| {
            let mut datagram = hello.clone();
            datagram[offset] ^= value;
            datagram
        };
        let other_job = with(offset_of!(Header, job) + 1, 1);
        // Not a hello any more, and of no incarnation.
        let mut foreign = with(offset_of!(Header, kind), Kind::Hello as u8 ^ Kind::Goodbye as u8);
        foreign[offset_of!(Header, job_key)] ^= 1;
        let kinds = [0, Kind::Rate as u8 + 1]
            .map(|kind| with(offset_of!(Header, kind), Kind::Hello as u8 ^ kind));
        let short = &hello[..hello.len() - 1];
        let flood: [&[u8]; 8] = [
            &[],
            &[0; 2982],
            &hello[..HEADER_LEN],
            short,
            &other_job,
            &foreign,
            &kinds[0],
            &kinds[1],
        ];
        assert_eq!(pass(&sockets, &flood, &hello), Vec::<Vec<u8>>::new());
        sockets.0.unguard().expect("a filter was there");
        assert_eq!(pass(&sockets, &flood[1..], &hello).len(), flood.len() - 1);
    }

    /// Among other jobs and greeters, so that jumps are right wherever a block is.
    fn hellos_from_greeters_alone(address: &str) {
        let plan = tree();
        let (hello, sockets) = (hello(&plan), pair(address));
        let own = sockets.1.local_addr().expect("bound");
        let other_port = SocketAddr::new(own.ip(), own.port() ^ 1);
        let other_host = match own {
            SocketAddr::V4(_) => SocketAddr::new([127, 0, 0, 2].into(), own.port()),
            SocketAddr::V6(_) => SocketAddr::new([0, 0, 0, 0, 0, 0, 0, 2].into(), own.port()),
        };
        let greeted_by = |of: &[SocketAddr]| {
            let first = Known {
                job: JobId(plan.job_id().0 + 1),
                greeters: Some([own].into()),
                ..known(&plan)
            };
            vec![first, Known { greeters: Some(of.iter().copied().collect()), ..known(&plan) }]
        };
        let goodbye = {
            let mut datagram = hello.clone();
            datagram[offset_of!(Header, kind)] = Kind::Goodbye as u8;
            let key = plan.job_key(INCARNATION).0.to_be_bytes();
            datagram[offset_of!(Header, job_key)..][..8].copy_from_slice(&key);
            datagram
        };
        sockets.0.guard(&greeted_by(&[other_port, other_host])).expect("a filter");
        assert_eq!(pass(&sockets, &[&hello], &goodbye), Vec::<Vec<u8>>::new());
        sockets.0.guard(&greeted_by(&[other_port, own, other_host])).expect("a filter");
        assert_eq!(pass(&sockets, &[&hello], &goodbye), [hello]);
    }

    #[test]
    fn hellos_of_strangers_are_refused_where_a_plan_names_who_may_greet() {
        hellos_from_greeters_alone("127.0.0.1:0");
    }

    #[test]
    fn hellos_of_strangers_are_refused_over_ipv6() {
        let address = "[::1]:0";
        if capability::is_here("ipv6", UdpSocket::bind(address).map(drop)) {
            hellos_from_greeters_alone(address);
        }
    }

    #[test]
    fn more_jobs_than_a_filter_tells_apart_all_pass() {
        let plan = tree();
        let strangers =
            |count| vec![Known { job: JobId(0), keys: BTreeSet::new(), greeters: None }; count];
        let (full, hello) = ([strangers(MAX_KNOWN - 1), vec![known(&plan)]].concat(), hello(&plan));
        assert_eq!(pass(&guarded(&full), &[&hello], &hello).len(), 1);
        assert_eq!(pass(&guarded(&strangers(MAX_KNOWN + 1)), &[&hello, &[]], &hello).len(), 1);
    }
}
