//! Random trees and meshes: every packet reaches what it is addressed to, every worker gets one copy of a result, nothing circles.

use std::collections::{BTreeMap, VecDeque};

use wiresum_protocol::rng::Rng;
use wiresum_switch::{
    ANY_NODE, Cohort, Contributors, Forwarding, Hop, Leg, Neighbour, Packet, Site, Way, WayError,
    Ways,
};
use wiresum_testkit::seeds::for_each_seed;
use wiresum_wire::{Flags, FragmentId, JobId, Kind, NodeId, Round, SubModelId};

/// Random networks.
const SEEDS: u64 = 400;
const TEST: &str = "-p wiresum-switch --test forwarding";
const JOB: JobId = JobId(7);
const STREAM: SubModelId = SubModelId(3);

fn node(index: u64) -> Site {
    Site::Node(NodeId(index as u16))
}

/// Switches 0 … n − 1 with links of which some are parallel, workers at some, and a server n at switch 0.
struct Mesh {
    links: BTreeMap<Site, Vec<Neighbour>>,
    switches: u64,
    workers: u8,
}

impl Mesh {
    fn random(rng: &mut Rng) -> Self {
        let (switches, workers) = (1 + rng.below(9), 1 + rng.below(64) as u8);
        let mut mesh = Self { links: BTreeMap::new(), switches, workers };
        (1..switches).for_each(|index| mesh.connect(node(index), node(rng.below(index)), 0));
        // On top of the tree, links that close circles.
        for _ in 0..rng.below(2 * switches) {
            let (a, b) = (rng.below(switches), rng.below(switches));
            if a != b {
                mesh.connect(node(a), node(b), 1 + rng.below(2) as u16);
            }
        }
        (0..workers).for_each(|w| mesh.connect(Site::Worker(w), node(rng.below(switches)), 0));
        mesh.connect(node(0), node(switches), 0);
        mesh
    }

    fn connect(&mut self, a: Site, b: Site, link: u16) {
        self.links.entry(a).or_default().push(Neighbour { site: b, link });
        self.links.entry(b).or_default().push(Neighbour { site: a, link });
    }

    /// A random simple path: breadth first over neighbours in random order, so mostly short ones, and not always the same.
    fn path(&self, from: Site, to: Site, rng: &mut Rng) -> Vec<Hop> {
        let mut came: BTreeMap<Site, Hop> = BTreeMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(site) = queue.pop_front() {
            let mut nexts = self.links[&site].clone();
            while !nexts.is_empty() {
                let next = nexts.swap_remove(rng.below(nexts.len() as u64) as usize);
                let may_pass = next.site == to
                    || matches!(next.site, Site::Node(n) if u64::from(n.0) < self.switches);
                if may_pass && next.site != from && !came.contains_key(&next.site) {
                    came.insert(next.site, Hop { from: site, to: next.site, link: next.link });
                    queue.push_back(next.site);
                }
            }
        }
        let mut hops: Vec<Hop> = Vec::new();
        let mut at = to;
        while at != from {
            hops.push(came[&at]);
            at = came[&at].from;
        }
        hops.reverse();
        hops
    }

    fn server(&self) -> Site {
        node(self.switches)
    }

    /// One way without addresses, or legs over one or two switches that sum; sums of one switch share a way.
    fn ways(&self, rng: &mut Rng) -> Ways {
        let is_addressed = rng.chance(0.7);
        let sums = [rng.below(self.switches), rng.below(self.switches)];
        let of_sums: Vec<Vec<Leg>> =
            sums.iter().map(|&sum| self.legs(node(sum), &[self.server()], rng)).collect();
        let mut of = Vec::new();
        for worker in 0..self.workers {
            let begin = Site::Worker(worker);
            let legs = match rng.below(3) as usize {
                _ if !is_addressed => {
                    vec![Leg { node: ANY_NODE, hops: self.path(begin, self.server(), rng) }]
                }
                2 => self.legs(begin, &[self.server()], rng),
                choice => {
                    let mut legs = self.legs(begin, &[node(sums[choice])], rng);
                    legs.extend(of_sums[choice].clone());
                    legs
                }
            };
            of.push(Way { worker, legs });
        }
        Ways { job: JOB, sub_model: STREAM, of }
    }

    fn legs(&self, begin: Site, ends: &[Site], rng: &mut Rng) -> Vec<Leg> {
        let mut at = begin;
        let mut legs = Vec::new();
        for &end in ends {
            let Site::Node(node) = end else { panic!("ways lead to nodes") };
            legs.push(Leg { node, hops: self.path(at, end, rng) });
            at = end;
        }
        legs
    }

    fn tables(&self, ways: &Ways) -> BTreeMap<Site, Forwarding> {
        let table =
            |site: &Site| Forwarding::of(*site, std::slice::from_ref(ways)).expect("ways lead on");
        self.links.keys().map(|site| (*site, table(site))).collect()
    }
}

fn packet(worker: u8, node: NodeId, kind: Kind, contributors: Contributors) -> Packet<()> {
    Packet {
        contributors,
        fragment: FragmentId(0),
        round: Round(0),
        slot: 0,
        job: JOB,
        sub_model: STREAM,
        node,
        flags: Flags(0),
        kind,
        worker,
        expected: 0,
        priority: 0,
        exponent: 0,
        values: (),
    }
}

/// Sites that a packet passes by the tables, from `begin` on until they know no further.
fn walk(tables: &BTreeMap<Site, Forwarding>, begin: Site, packet: &Packet<()>) -> Vec<Hop> {
    let mut hops = Vec::new();
    let mut at = begin;
    while let Some(next) = tables[&at].up(packet.job, packet.sub_model, packet.node, packet.worker)
    {
        hops.push(Hop { from: at, to: next.site, link: next.link });
        assert!(hops.len() <= tables.len(), "circles: {hops:?}");
        at = next.site;
        if at == Site::Node(packet.node) {
            break;
        }
    }
    hops
}

#[test]
fn every_packet_takes_its_way_to_what_it_is_addressed_to() {
    for_each_seed(TEST, 0, SEEDS, |seed| {
        let mut rng = Rng::new(seed);
        let mesh = Mesh::random(&mut rng);
        let ways = mesh.ways(&mut rng);
        let tables = mesh.tables(&ways);
        for way in &ways.of {
            let mut at = Site::Worker(way.worker);
            for leg in &way.legs {
                let sent =
                    packet(way.worker, leg.node, Kind::Contribution, Contributors::one(way.worker));
                assert_eq!(
                    walk(&tables, at, &sent),
                    leg.hops,
                    "seed {seed}, worker {}",
                    way.worker
                );
                at = leg.hops.last().expect("a leg has hops").to;
            }
            assert_eq!(at, mesh.server(), "seed {seed}");
        }
    });
}

#[test]
fn every_recipient_gets_one_copy_and_no_one_else() {
    for_each_seed(TEST, 0, SEEDS, |seed| {
        let mut rng = Rng::new(seed ^ 0xd0);
        let mesh = Mesh::random(&mut rng);
        let ways = mesh.ways(&mut rng);
        let tables = mesh.tables(&ways);
        let recipients = Contributors::first(mesh.workers).only(Contributors(rng.next()));
        let mut got = vec![0; usize::from(mesh.workers)];
        let mut copies = VecDeque::from([(mesh.server(), recipients)]);
        let mut hops = 0;
        while let Some((at, contributors)) = copies.pop_front() {
            if let Site::Worker(worker) = at {
                assert_eq!(contributors, Contributors::one(worker), "seed {seed}");
                got[usize::from(worker)] += 1;
                continue;
            }
            let result = packet(0, NodeId(0), Kind::Result, contributors);
            for (next, behind) in
                tables[&at].down(result.job, result.sub_model, Cohort(0), result.contributors)
            {
                hops += 1;
                copies.push_back((next.site, behind));
            }
            assert!(hops <= 64 * tables.len(), "seed {seed} circles");
        }
        for worker in 0..mesh.workers {
            let expected = recipients.contains(Contributors::one(worker));
            assert_eq!(
                got[usize::from(worker)],
                u32::from(expected),
                "seed {seed}, worker {worker}"
            );
        }
    });
}

#[test]
fn results_pass_every_site_that_is_no_detour() {
    for_each_seed(TEST, 0, SEEDS, |seed| {
        let mut rng = Rng::new(seed ^ 0xd1);
        let mesh = Mesh::random(&mut rng);
        for way in mesh.ways(&mut rng).of {
            let down = way.down();
            assert_eq!(down.first().map(|hop| hop.from), Some(mesh.server()));
            assert_eq!(down.last().map(|hop| hop.to), Some(Site::Worker(way.worker)));
            assert!(down.windows(2).all(|pair| pair[0].to == pair[1].from), "seed {seed}");
            let up: Vec<Hop> = way.legs.iter().flat_map(|leg| leg.hops.clone()).collect();
            assert!(down.iter().all(|hop| up.contains(&hop.back())), "seed {seed}");
            if way.detours().next().is_none() {
                assert_eq!(down.len(), up.len(), "seed {seed}");
            }
        }
    });
}

#[test]
fn entries_for_anyone_stand_where_all_go_on_alike() {
    let to = |from, to| Hop { from, to, link: 0 };
    let way = |worker| Way {
        worker,
        legs: vec![Leg {
            node: ANY_NODE,
            hops: vec![to(Site::Worker(worker), node(0)), to(node(0), node(1))],
        }],
    };
    let ways = Ways { job: JOB, sub_model: STREAM, of: (0..3).map(way).collect() };
    let mut table = Forwarding::of(node(0), &[ways]).expect("ways lead on");
    let ups: Vec<_> = table.ups().collect();
    assert_eq!(ups.len(), 1);
    assert_eq!((ups[0].0.worker, ups[0].1.site), (None, node(1)));
    assert_eq!(table.downs().count(), 3);
    table.remove(JOB);
    assert_eq!(table, Forwarding::default());
}

#[test]
fn ways_that_lead_nowhere_are_refused() {
    let worker = Site::Worker(0);
    let hop = |from, to| Hop { from, to, link: 0 };
    let refused = |legs: Vec<Leg>| {
        let ways = Ways { job: JOB, sub_model: STREAM, of: vec![Way { worker: 0, legs }] };
        Forwarding::of(node(0), &[ways]).expect_err("refused").to_string()
    };
    let leg = |node: u16, hops: &[Hop]| Leg { node: NodeId(node), hops: hops.to_vec() };
    for (legs, word) in [
        (vec![], "no legs"),
        (vec![leg(0, &[])], "without hops"),
        (vec![leg(0, &[hop(node(1), node(0))])], "broken"),
        (vec![leg(1, &[hop(worker, node(0))])], "another node"),
        (
            vec![leg(0, &[hop(worker, Site::Worker(1)), hop(Site::Worker(1), node(0))])],
            "over a worker",
        ),
        (
            vec![leg(0, &[hop(worker, node(0)), hop(node(0), node(1)), hop(node(1), node(0))])],
            "twice",
        ),
        (
            vec![leg(0, &[hop(worker, node(0))]), leg(u16::MAX, &[hop(node(0), node(1))])],
            "without an address",
        ),
    ] {
        let problem = refused(legs.clone());
        assert!(problem.contains(word), "{legs:?}: {problem}");
    }
    let to = |worker, end| Way {
        worker,
        legs: vec![leg(end, &[hop(Site::Worker(worker), node(end.into()))])],
    };
    let apart = Ways { job: JOB, sub_model: STREAM, of: vec![to(0, 0), to(1, 1)] };
    assert_eq!(apart.validate().map_err(|WayError { worker, .. }| worker), Err(1));
    let twice = Ways { job: JOB, sub_model: STREAM, of: vec![to(0, 0), to(0, 0)] };
    assert!(twice.validate().is_err_and(|error| error.to_string().contains("twice")));
}
