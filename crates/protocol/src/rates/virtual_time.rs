//! Trees of negotiators under virtual time: XAgg's example, and notifications that are lost, doubled and overtaken.

use std::net::SocketAddr;

use wiresum_netem::{Conditions, Flight, Network, Next, PS_PER_US, Rng, Time};
use wiresum_wire::control::{Demand, ready};
use wiresum_wire::{Contributor, HEADER_LEN, Kind, MAX_PACKET, NodeId, Packet, Round, SubModelId};

use super::*;
use crate::aggregator::Membership;
use crate::compose::Draft;
use crate::plan::Child;
use crate::{ControlHalf, Plan};

const GIGA: u64 = 1_000_000_000;
const VALUES: SubModelId = SubModelId(1);

/// The root sums worker 3 and node 1, which sums workers 0 to 2 (XAgg Fig. 1(c), where they are W4 and W1 to W3).
fn plan() -> Plan {
    let legs = r#"[{ "child": { "worker": 3 }, "parent": 0 }, { "child": { "node": 1 }, "parent": 0 },
        { "child": { "worker": 0 }, "parent": 1 }, { "child": { "worker": 1 }, "parent": 1 },
        { "child": { "worker": 2 }, "parent": 1 }]"#;
    let stream = |id, role, share| {
        format!(
            r#"{{ "id": {id}, "name": "{role}", "role": "{role}", "share": {share}, "policy": "cache", "window": 4,
            "places": [{{ "node": 0, "slots": 8 }}, {{ "node": 1, "slots": 8 }}], "legs": {legs} }}"#
        )
    };
    let node = |id| {
        format!(
            r#"{{ "id": {id}, "name": "n{id}", "address": "10.0.0.{id}:1", "ingress_bps": 1, "egress_bps": 1 }}"#
        )
    };
    let workers = (0..4)
        .map(|rank| format!(r#"{{ "rank": {rank}, "name": "w{rank}" }}"#))
        .collect::<Vec<_>>();
    let text = format!(
        r#"{{ "format": "wiresum-plan/2", "job": {{ "id": 1, "secret": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "values_per_packet": 64 }},
        "nodes": [{}, {}], "workers": [{}], "streams": [{}, {}] }}"#,
        node(0),
        node(1),
        workers.join(","),
        stream(0, "exponents", 0),
        stream(1, "values", 1)
    );
    Plan::from_json(&text).expect("a valid plan")
}

/// Loses as many as it is told, doubles half of the rest, and lets any overtake any.
fn harsh(loss: f64) -> Conditions {
    let late_ps = 8000 * PS_PER_US;
    let reordering = 1.0;
    Conditions {
        loss,
        duplication: 0.5,
        late_ps,
        reordering,
        jitter_ps: late_ps,
        ..Conditions::PERFECT
    }
}

/// The child's side of a worker, and what the fluid model knows of it.
struct Sender {
    address: SocketAddr,
    parent: NodeId,
    contributor: Contributor,
    most_bps: u64,
    request: Request,
}

struct Net {
    plan: Plan,
    nodes: Vec<Negotiator>,
    senders: Vec<Sender>,
    network: Network<SocketAddr, Vec<u8>>,
    conditions: Conditions,
}

impl Net {
    fn new(bounds: Bounds, most_bps: [u64; 4], seed: u64, loss: f64) -> Self {
        let plan = plan();
        let address = |child: Child| match child {
            Child::Worker(rank) => SocketAddr::from(([10, 1, 0, rank as u8], 9)),
            Child::Node(id) => plan.node(NodeId(id)).expect("in the plan").address,
        };
        let nodes = [0, 1].map(|id| {
            let mut node = Negotiator::new(NodeId(id), bounds);
            node.handle_job(&plan);
            let children = plan.streams[1].children(NodeId(id)).enumerate();
            let members = Membership {
                key: Some(plan.job_key(1)),
                children: children
                    .map(|(i, c)| ((VALUES, Contributor(i as u8)), address(c)))
                    .collect(),
                ..Membership::default()
            };
            node.handle_membership(plan.job_id(), &members, Time(0));
            node
        });
        let sender = |rank: u32| {
            let child = Child::Worker(rank);
            let (parent, contributor) = plan.streams[1].parent_of(child).expect("placed");
            let most_bps = most_bps[rank as usize];
            Sender {
                address: address(child),
                parent,
                contributor,
                most_bps,
                request: Request::default(),
            }
        };
        Self {
            senders: (0..4).map(sender).collect(),
            nodes: nodes.into(),
            plan,
            network: Network::new(seed),
            conditions: if loss > 0.0 { harsh(loss) } else { Conditions::PERFECT },
        }
    }

    fn say(&mut self, rank: usize, demand: Demand, round: u32) {
        let sender = &mut self.senders[rank];
        let notice = Notice { demand, round: Round(round), most_bps: sender.most_bps };
        sender.request.announce(notice, self.network.now());
    }

    fn send(&mut self, source: SocketAddr, destination: SocketAddr, bytes: &[u8]) {
        self.network.send(&self.conditions, source, destination, bytes.to_vec());
    }

    /// Sends all that anyone has to send now.
    fn drive(&mut self) {
        let mut buffer = [0; MAX_PACKET];
        let now = self.network.now();
        for id in 0..self.nodes.len() {
            let source = self.plan.node(NodeId(id as u16)).expect("in the plan").address;
            while let Some(transmit) = self.nodes[id].poll_transmit(now, &mut buffer) {
                self.send(source, transmit.destination, &buffer[..transmit.len]);
            }
        }
        for rank in 0..self.senders.len() {
            let payload = &mut buffer[HEADER_LEN..][..4 * ready::WORDS];
            let Some(round) = self.senders[rank].request.poll_ready(now, payload) else {
                continue;
            };
            let sender = &self.senders[rank];
            let draft = Draft {
                kind: Kind::Ready,
                job: self.plan.job_id(),
                node: sender.parent,
                key: self.plan.job_key(1),
                round: round.0,
                sub_model: VALUES,
                contributor: sender.contributor.0,
                ..Draft::default()
            };
            let len = draft.emit_summed(&mut buffer, 4 * ready::WORDS);
            let (source, to) =
                (sender.address, self.plan.node(sender.parent).expect("placed").address);
            self.send(source, to, &buffer[..len]);
        }
    }

    /// Delivers and times out until `until`.
    fn run(&mut self, until: Time) {
        loop {
            self.drive();
            let nodes = self.nodes.iter().filter_map(ControlHalf::poll_timeout);
            let senders = self.senders.iter().filter_map(|s| s.request.poll_timeout());
            let timer = nodes.chain(senders).min();
            if self.network.next_at(timer).is_none_or(|next| next > until) {
                break;
            }
            match self.network.advance(timer).expect("something happens") {
                Next::Timers => self.time_out(),
                Next::Arrival(datagram) => self.deliver(&datagram),
            }
        }
        self.network.wait_until(until);
    }

    fn time_out(&mut self) {
        let now = self.network.now();
        self.nodes.iter_mut().for_each(|node| node.handle_timeout(now));
        for sender in &mut self.senders {
            sender.request.handle_timeout(now);
        }
    }

    fn deliver(&mut self, datagram: &Flight<SocketAddr, Vec<u8>>) {
        let now = self.network.now();
        let packet = Packet::parse(&datagram.cargo).expect("well-formed");
        if let Some(sender) = self.senders.iter_mut().find(|s| s.address == datagram.to) {
            return sender.request.handle_rate(packet.payload, now);
        }
        let id = self.plan.nodes.iter().position(|n| n.address == datagram.to).expect("a node");
        self.nodes[id].handle_packet(datagram.from, &packet, now);
    }

    /// Granted rates in Gbit/s, 0 for who does not send.
    fn rates(&self) -> Vec<f64> {
        let rate = |sender: &Sender| {
            let sends = sender.request.notice().is_some_and(|n| n.demand == Demand::Sending);
            let granted = if sends { sender.request.granted_bps() } else { Some(0) };
            granted.map_or(f64::NAN, |bps| bps as f64 / GIGA as f64)
        };
        self.senders.iter().map(rate).collect()
    }
}

/// XAgg Fig. 1(c): 10 Gbit of gradient each, links of 10 Gbit/s but W2's of 5, W3 two seconds late. Results go past the tree.
#[test]
fn xaggs_example_takes_three_seconds() {
    let ten = Some(10 * GIGA);
    let bounds = Bounds { ingress_bps: ten, egress_bps: ten, results: Results::Elsewhere };
    let mut net = Net::new(bounds, [10 * GIGA, 5 * GIGA, 10 * GIGA, 10 * GIGA], 0, 0.0);
    // Worker 2 has done what came before and is busy with its training until 2 s.
    let mut left = [10.0; 4];
    let mut starts = [0.0, 0.0, 2.0, 0.0];
    let mut seconds = 0.0;
    let mut history = Vec::new();
    while left.iter().any(|gigabits| *gigabits > 0.0) {
        for rank in 0..4 {
            if left[rank] > 0.0 && starts[rank] <= seconds {
                net.say(rank, Demand::Sending, 0);
                starts[rank] = f64::INFINITY;
            }
        }
        net.run(Time((seconds * 1e6) as u64));
        let rates = net.rates();
        history.push((seconds, rates.clone()));
        let ends = (0..4).filter(|r| rates[*r] > 0.0).map(|r| left[r] / rates[r]);
        let begins = starts.iter().filter(|at| at.is_finite()).map(|at| at - seconds);
        let step = ends.chain(begins).fold(f64::INFINITY, f64::min);
        seconds += step;
        net.run(Time((seconds * 1e6) as u64));
        for rank in 0..4 {
            if left[rank] > 0.0 {
                left[rank] -= rates[rank] * step;
            }
            if left[rank] <= 0.0 && rates[rank] > 0.0 {
                net.say(rank, Demand::Idle, 1);
            }
        }
    }
    assert_eq!(
        history,
        [
            (0.0, vec![5.0, 5.0, 0.0, 10.0]),
            (1.0, vec![5.0, 5.0, 0.0, 0.0]),
            (2.0, vec![0.0, 0.0, 10.0, 0.0]),
        ]
    );
    assert_eq!(seconds, 3.0);
}

/// Whatever happens to notifications and rates on their way, everyone ends with the rates of the last state.
#[test]
fn lost_doubled_and_overtaken_notifications_change_nothing_in_the_end() {
    for seed in 0..40 {
        let bounds = Bounds {
            ingress_bps: Some(10 * GIGA),
            egress_bps: Some(10 * GIGA),
            ..Bounds::default()
        };
        let most = [3 * GIGA, 5 * GIGA, 10 * GIGA, 10 * GIGA];
        let (mut lossy, mut sound) =
            (Net::new(bounds, most, seed, 0.3), Net::new(bounds, most, seed, 0.0));
        let mut chance = Rng::new(seed);
        for moment in 1..=30 {
            let (rank, round) = (chance.below(4) as usize, chance.below(2) as u32);
            let demand = if chance.chance(0.7) { Demand::Sending } else { Demand::Idle };
            for net in [&mut lossy, &mut sound] {
                net.say(rank, demand, round);
                net.run(Time(3000 * moment));
            }
        }
        for net in [&mut lossy, &mut sound] {
            net.run(Time(3_000_000));
        }
        let (lossy, sound) = (lossy.rates(), sound.rates());
        for (a, b) in lossy.iter().zip(&sound) {
            // Who is not told of a change of less than a 64th, twice over, keeps the old rate.
            assert!((a - b).abs() <= b / 30.0, "seed {seed}: {lossy:?} instead of {sound:?}");
        }
    }
}

/// A child that hears nothing goes ahead within the bound, without a rate.
#[test]
fn a_silent_parent_is_not_waited_for() {
    let mut net = Net::new(Bounds::default(), [GIGA; 4], 0, 1.0);
    net.say(3, Demand::Sending, 0);
    net.run(Time(40_000));
    assert!(net.senders[3].request.is_waiting());
    net.run(Time(60_000));
    let request = &net.senders[3].request;
    assert_eq!((request.is_waiting(), request.granted_bps(), request.unanswered), (false, None, 1));
}
