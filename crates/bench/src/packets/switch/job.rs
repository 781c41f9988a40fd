//! One policy's switch, and the packet that becomes the next one again and again.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use wiresum_protocol::Quota;
use wiresum_switch::policy::Policy;
use wiresum_switch::{ANY_NODE, Cohort, Contributors, Packet, Place, Values, Verdict, wire};
use wiresum_wire::{
    Flags, FragmentId, HEADER_LEN, JobId, JobKey, Kind, NodeId, Round, SWITCH_HEADER_LEN,
    SubModelId,
};

use super::Subject;
use wiresum_xdp::SwitchFeed as Feed;
use wiresum_xdp::SwitchProgram;
use wiresum_xdp::frames::udp_frame;
use wiresum_xdp::{SwitchOptions, XdpError};

const SWITCH: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 5747);
const WORKERS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 4000);
const NODE: NodeId = NodeId(1);
const KEY: JobKey = JobKey(1);
/// More than one core sums.
const PLENTY_BYTES_PER_S: u64 = 1_000_000_000_000;

/// One policy's switch, and the packet that becomes the next one again and again.
pub struct Job {
    program: SwitchProgram,
    subject: Subject,
    frame: Vec<u8>,
}

impl Job {
    /// A switch with one stream. For the making of packets, it does nothing.
    pub fn new(subject: Subject, values: usize, workers: u8, slots: u32) -> Result<Self, XdpError> {
        let policy = match subject {
            Subject::Policy(policy) => policy,
            _ => Policy::Cache,
        };
        let mut program = SwitchProgram::load_for_tests(SwitchOptions {
            node: NODE,
            policy,
            slots,
            values_per_packet: values,
            address: SWITCH,
            lock_slots: true,
        })?;
        let place = place(policy, workers, slots);
        program.install(&place)?;
        program.expect(WORKERS)?;
        program.run(place.job, KEY)?;
        let quota = Quota::bytes_per_second(PLENTY_BYTES_PER_S);
        program.set_quota(place.job, (subject == Subject::Bounded).then_some(quota))?;
        let datagram = wire::emit(&packet(&place, policy, values, workers), KEY);
        program.kernel().put("feeds", &0u32, &feed(&datagram, workers, slots))?;
        Ok(Self { program, subject, frame: udp_frame(WORKERS, SWITCH, &datagram) })
    }

    /// Mean nanoseconds for one packet.
    pub fn run(&mut self, packets: u32) -> Result<f64, XdpError> {
        let (name, expected) = match self.subject {
            Subject::Policy(_) => ("feed_and_judge", u64::from(packets)),
            Subject::Admitted | Subject::Bounded => ("feed_and_admit", u64::from(packets)),
            Subject::Feed | Subject::Aggregator => ("feed_alone", 0),
        };
        let before = self.summed()?;
        let run = self.program.kernel().test_run(name, &self.frame, packets)?;
        let summed = self.summed()? - before;
        assert_eq!(summed, expected, "every packet is summed by {}", self.subject.name());
        self.frame = run.frame;
        Ok(run.nanoseconds as f64)
    }

    fn summed(&self) -> Result<u64, XdpError> {
        let verdicts = [Verdict::First, Verdict::Added, Verdict::Completed, Verdict::Forwarded];
        verdicts.into_iter().map(|verdict| self.program.counter(verdict)).sum()
    }
}

/// The root where the policy has one. A position's slot is taken over by the next position that has it.
fn place(policy: Policy, workers: u8, slots: u32) -> Place {
    Place {
        job: JobId(1),
        sub_model: SubModelId(0),
        cohort: Cohort(0),
        members: Contributors::first(workers),
        parent: policy.needs_server().then_some(NodeId(2)),
        base: 0,
        slots,
        window: slots,
        lanes: Flags(0),
    }
}

fn packet(place: &Place, policy: Policy, values: usize, workers: u8) -> Packet<Values> {
    Packet {
        contributors: Contributors::one(0),
        fragment: FragmentId(0),
        round: Round(0),
        slot: 0,
        job: place.job,
        sub_model: place.sub_model,
        node: if policy.is_addressed() { NODE } else { ANY_NODE },
        flags: Flags::LITTLE_ENDIAN,
        kind: Kind::Contribution,
        worker: 0,
        expected: workers,
        priority: 0,
        exponent: 0,
        values: (0..values as i32).map(|lane| 7 * lane).collect(),
    }
}

/// One step before worker 0's packet to position 0.
fn feed(datagram: &[u8], workers: u8, slots: u32) -> Feed {
    let mut header = [0; HEADER_LEN + SWITCH_HEADER_LEN];
    header.copy_from_slice(&datagram[..HEADER_LEN + SWITCH_HEADER_LEN]);
    Feed {
        worker: u32::from(workers) - 1,
        workers: workers.into(),
        position: u32::MAX,
        slot_mask: slots - 1,
        header,
        reserved: [0; 2],
    }
}
