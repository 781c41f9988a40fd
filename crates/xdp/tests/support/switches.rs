//! The kernel's switch and the reference, side by side, and packets that meet every row of both, and every refusal.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use wiresum_protocol::rng::Rng;
use wiresum_switch::policy::Policy;
use wiresum_switch::rmt::Profile;
use wiresum_switch::{Egress, Packet, Place, Switch, Values, Verdict, wire};
use wiresum_testkit::traffic::switch::RandomTraffic;
use wiresum_wire::{
    Flags, HEADER_LEN, Header, JobId, JobKey, NodeId, ParseError, SwitchHeader, seal_switched,
};
use wiresum_xdp::frames::udp_frame;
use wiresum_xdp::{Judgement, SwitchOptions, SwitchProgram};
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of Ethernet, IPv4 and UDP headers.
const FRAME_LEN: usize = 42;
/// 32-bit lanes that a slot has room for; random traffic has 8 in a packet.
const ROOM: usize = 16;
/// The incarnation's bytes in a header.
const JOB_KEY: std::ops::Range<usize> = 8..16;

/// Lanes of two streams, of which 32-bit sums are what all else is measured by.
pub const SUMS: [Flags; 2] = [Flags(0); 2];
pub const MAXIMA_AND_NARROW: [Flags; 2] = [Flags::MAXIMUM, Flags::LANES16];
pub const SUMS_AND_NARROW_MAXIMA: [Flags; 2] = [Flags(0), Flags::LANES];

/// Where the switch listens, and who sends.
pub fn addresses() -> (SocketAddr, SocketAddr) {
    let address = |text: &str| text.parse().expect("an address");
    (address("10.0.0.1:5747"), address("10.0.0.2:4000"))
}

/// The incarnation of a job, where there is but one.
pub fn key_of(job: JobId) -> JobKey {
    JobKey(0x1000_0000_0000 + u64::from(job.0))
}

/// A kernel's switch with these streams.
pub fn load(
    node: NodeId,
    policy: Policy,
    slots: u32,
    values_per_packet: usize,
    places: &[Place],
) -> SwitchProgram {
    load_at(addresses().0, node, policy, slots, values_per_packet, places)
}

/// A kernel's switch with these streams, listening here.
pub fn load_at(
    address: SocketAddr,
    node: NodeId,
    policy: Policy,
    slots: u32,
    values_per_packet: usize,
    places: &[Place],
) -> SwitchProgram {
    let options =
        SwitchOptions { node, policy, slots, values_per_packet, address, lock_slots: true };
    let loaded = SwitchProgram::load_for_tests(options);
    let mut program = loaded.unwrap_or_else(|error| panic!("{error}"));
    install_all(&mut program, places);
    program
}

/// These streams come.
pub fn install_all(program: &mut SwitchProgram, places: &[Place]) {
    places.iter().for_each(|place| program.install(place).expect("a place of its own"));
}

/// The jobs of these streams leave, and slots are as at first.
pub fn clear(program: &mut SwitchProgram, places: &[Place]) {
    for place in places {
        program.remove(place.job).expect("nothing is in the way");
    }
    program.reset().expect("slots can be cleared");
}

/// Both switches.
pub struct Pair {
    xdp: SwitchProgram,
    reference: Switch<Values>,
    node: NodeId,
    policy: Policy,
    slots: u32,
    places: Vec<Place>,
    fed: usize,
}

impl Pair {
    /// Those that random traffic of two streams with these lanes is for.
    pub fn of_random_traffic(lanes: [Flags; 2], policy: Policy, is_root: bool) -> Self {
        Self::of(&RandomTraffic::of_lanes(lanes, policy, is_root, 0), policy)
    }

    /// Those that some traffic is for.
    pub fn of(traffic: &RandomTraffic, policy: Policy) -> Self {
        let (node, slots) = (traffic.switch().node(), traffic.slots());
        let places = traffic.places().to_vec();
        let xdp = load(node, policy, slots, ROOM, &places);
        let reference = reference(node, policy, slots, &places);
        Self { xdp, reference, node, policy, slots, places, fed: 0 }
    }

    /// Empty slots on both sides.
    pub fn begin_anew(&mut self) {
        self.xdp.reset().expect("slots can be cleared");
        self.reference = reference(self.node, self.policy, self.slots, &self.places);
        self.fed = 0;
    }

    /// Both sum the streams of other traffic from now on, with empty slots.
    pub fn change_to(&mut self, traffic: &RandomTraffic) {
        assert_eq!((self.node, self.slots), (traffic.switch().node(), traffic.slots()));
        clear(&mut self.xdp, &self.places);
        self.places = traffic.places().to_vec();
        install_all(&mut self.xdp, &self.places);
        self.begin_anew();
    }

    /// A job leaves both.
    pub fn remove(&mut self, job: JobId) {
        self.xdp.remove(job).expect("nothing is in the way");
        self.reference.remove(job);
        self.places.retain(|place| place.job != job);
    }

    /// Another process goes on with the kernel's switch.
    pub fn hand_over(&mut self) {
        self.xdp = self.xdp.successor(&BTreeMap::new()).expect("maps of the same layout");
    }

    /// Both have forgotten what they held of a job.
    pub fn bypass(&mut self, job: JobId) {
        self.xdp.bypass(job).expect("a job");
        self.reference.bypass(job);
    }

    /// A stream comes to both.
    pub fn install(&mut self, place: Place) {
        self.xdp.install(&place).expect("as before");
        self.reference.install(place).expect("as before");
        self.places.push(place);
    }

    /// Feeds a datagram to both, and panics unless verdict, egress and bytes agree.
    pub fn feed(&mut self, datagram: &[u8]) -> Verdict {
        let (address, source) = addresses();
        let frame = udp_frame(source, address, datagram);
        let judged = self.xdp.judge(&frame).unwrap_or_else(|error| panic!("{error}"));
        let judged = judged.expect("the frame is for the switch");
        let expected = ask(&mut self.reference, datagram);
        let at = format!("packet {} of {}: {}", self.fed, self.policy.name(), hex(datagram));
        self.fed += 1;
        compare_judgement(&judged, &expected, &at);
        judged.verdict
    }

    /// Panics unless every register of both holds the same.
    pub fn compare_registers(&self) {
        let ours = self.xdp.registers().expect("slots can be read");
        let theirs: Vec<_> =
            self.reference.memory().arrays().map(|(name, cells)| (name, cells.to_vec())).collect();
        assert_eq!(ours, theirs, "registers of {}", self.policy.name());
    }

    /// The streams of both.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Packets that the kernel's switch has met with this fate.
    pub fn counter(&self, verdict: Verdict) -> u64 {
        self.xdp.counter(verdict).expect("counters can be read")
    }
}

fn reference(node: NodeId, policy: Policy, slots: u32, places: &[Place]) -> Switch<Values> {
    let profile = Profile::UNLIMITED;
    let mut switch =
        Switch::new(node, policy, slots, ROOM as u32, &profile).expect("an unlimited switch");
    places.iter().for_each(|place| switch.install(*place).expect("a place of its own"));
    switch
}

/// Panics unless the kernel did what the reference says.
pub fn compare_judgement(judged: &Judgement, expected: &(Verdict, Egress, Vec<u8>), at: &str) {
    assert_eq!((judged.verdict, judged.egress), (expected.0, expected.1), "{at}");
    if judged.egress != Egress::Absorbed {
        let datagram = &judged.frame[FRAME_LEN..];
        let (xdp, reference) = (hex(datagram), hex(&expected.2));
        assert!(datagram == expected.2, "{at}: bytes differ\n xdp {xdp}\n ref {reference}");
    }
}

/// What the reference makes of a datagram.
fn ask(switch: &mut Switch<Values>, datagram: &[u8]) -> (Verdict, Egress, Vec<u8>) {
    let (key, mut packet) = match wire::parse(datagram) {
        Ok(parsed) => parsed,
        Err(ParseError::Check { .. }) => return (Verdict::Damaged, Egress::Absorbed, Vec::new()),
        Err(_) => return (Verdict::Malformed, Egress::Absorbed, Vec::new()),
    };
    let job = packet.job;
    let outcome = switch.handle(&mut packet);
    let key = if packet.job == job { key } else { key_of(packet.job) };
    (outcome.verdict, outcome.egress, wire::emit(&packet, key))
}

/// Random traffic in both byte orders, of several lengths, across the wrap of positions, and at times damaged.
pub struct Wild {
    traffic: RandomTraffic,
    rng: Rng,
    /// Added to every position.
    offset: u32,
}

impl Wild {
    pub fn new(lanes: [Flags; 2], policy: Policy, is_root: bool, seed: u64) -> Self {
        Self::of(RandomTraffic::of_lanes(lanes, policy, is_root, seed), seed)
    }

    pub fn of(traffic: RandomTraffic, seed: u64) -> Self {
        let mut rng = Rng::new(!seed);
        let offset = if rng.chance(0.5) { 0 } else { (rng.below(16) as u32 * 4).wrapping_neg() };
        Self { traffic, rng, offset }
    }

    fn vary(&mut self, packet: &mut Packet<Values>) {
        packet.fragment = packet.fragment.plus(self.offset);
        if self.rng.chance(0.3) {
            packet.flags = Flags(packet.flags.0 & !Flags::LITTLE_ENDIAN.0);
        }
        if self.rng.chance(0.02) {
            packet.mark(Flags::MAXIMUM);
        }
        if self.rng.chance(0.05) {
            packet.worker = packet.cohort().worker(self.rng.below(64) as u8);
        }
        if self.rng.chance(0.15) && !packet.flags.contains(Flags::REFUSED) {
            // Twice what is usual, and now and then more than a slot has room for.
            let values = if self.rng.chance(0.8) { ROOM } else { ROOM + 8 };
            let is_narrow = packet.flags.contains(Flags::LANES16);
            let lanes = if is_narrow { 2 * values } else { values };
            packet.values.resize_with(lanes, || self.rng.next() as i32);
        }
    }

    fn harm(&mut self, datagram: &mut Vec<u8>) {
        match self.rng.below(40) {
            0 => self.change_bytes(datagram),
            1 => {
                self.change_bytes(datagram);
                reseal(datagram);
            }
            2 if self.rng.chance(0.3) => {
                datagram.truncate(self.rng.below(datagram.len() as u64) as usize);
            }
            _ => {}
        }
    }

    fn change_bytes(&mut self, datagram: &mut [u8]) {
        for _ in 0..=self.rng.below(2) {
            let index = self.rng.below(datagram.len() as u64) as usize;
            // A slot keeps its fragment's incarnation, and two changes may leave the check as it was.
            if !JOB_KEY.contains(&index) {
                datagram[index] ^= 1 << self.rng.below(8);
            }
        }
    }
}

impl Iterator for Wild {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut packet = self.traffic.next_packet();
        self.vary(&mut packet);
        let mut datagram = wire::emit(&packet, key_of(packet.job));
        self.harm(&mut datagram);
        Some(datagram)
    }
}

/// Makes the check match what the packet has become.
fn reseal(datagram: &mut [u8]) {
    let (mut header, rest) = Header::read_from_prefix(datagram).expect("whole");
    let (switch, payload) = SwitchHeader::read_from_prefix(rest).expect("whole");
    let flags = Flags(header.flags.get());
    if flags.contains(Flags::LANES16) && !payload.len().is_multiple_of(2) {
        return;
    }
    // There is but one incarnation of each job.
    header.job_key = key_of(JobId(header.job.get())).0.into();
    seal_switched(&mut header, &switch, payload);
    datagram[..HEADER_LEN].copy_from_slice(header.as_bytes());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
