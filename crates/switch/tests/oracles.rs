//! What papers state and can be recomputed exactly.

mod network;

use network::{Faults, Graph, Network, Scenario, Site, StreamPlan};
use wiresum_switch::policy::Policy;
use wiresum_switch::rmt::Profile;
use wiresum_switch::{
    Cohort, Contributors, Egress, Packet, ParameterServer, Place, Sending, Serving, Switch, Worker,
    Workers,
};
use wiresum_wire::{Flags, JobId, NodeId, SubModelId};

/// GOAT, Fig. 2(a): workers 1 and 2 at S1, 3 and 4 at S2, the server at S3; each switch has room for one fragment. The counts of
/// Fig. 2(c) need a link between S1 and S2.
fn figure_2(policy: Policy, streams: Vec<StreamPlan>) -> Network {
    let mut graph = Graph::tree(4, 2);
    graph.connect(Site::Switch(0), Site::Switch(1));
    // A1 B1 C1 before A2 B2 C2: Fig. 2(b).
    let starts_us = vec![0, 100, 0, 100];
    let faults = Faults::default();
    let has_server = true;
    Network::new(Scenario {
        policy,
        graph,
        has_server,
        streams,
        memory: 1,
        starts_us,
        faults,
        first: 0,
        seed: 0,
    })
    .run()
}

fn stream(sub_model: u16, node: Option<u16>, fragments: u32) -> StreamPlan {
    StreamPlan {
        job: 1,
        sub_model,
        node,
        fragments,
        rounds: 1,
        window: fragments,
        base: 0,
        slots: 1,
        priority: 0,
        lanes: Flags(0),
    }
}

fn outputs(network: &Network) -> [u64; 3] {
    [0, 1, 2].map(|switch| network.switch_output(switch))
}

#[test]
fn goat_figure_2_atp_sends_seven_fragments_to_the_server_and_seventeen_in_all() {
    let network = figure_2(Policy::Hash, vec![stream(0, None, 3)]);
    assert_eq!(network.server_ingress(), 7);
    assert_eq!(outputs(&network), [5, 5, 7]);
}

#[test]
fn goat_figure_2_collaborating_switches_send_three_and_thirteen() {
    let streams = (0..3).map(|switch| stream(switch, Some(switch), 1)).collect();
    let network = figure_2(Policy::Exclusive, streams);
    assert_eq!(network.server_ingress(), 3);
    assert_eq!(outputs(&network), [5, 5, 3]);
}

/// GOAT, Exp. 3: 16 workers, ResNet-18 of 44 MB, fragments of 64 int32.
const WORKERS: u8 = 16;
const MODEL_BYTES: u64 = 44_000_000;
const FRAGMENT_BYTES: u64 = 64 * 4;

/// Bytes of values that the server receives if a switch sums, or not.
fn server_bytes(is_summed: bool) -> u64 {
    let fragments = u32::try_from(MODEL_BYTES / FRAGMENT_BYTES).expect("few enough");
    let (job, sub_model) = (JobId(1), SubModelId(0));
    let (cohort, members, lanes) = (Cohort(0), Contributors::first(WORKERS), Flags(0));
    let mut switch: Switch<()> =
        Switch::new(NodeId(0), Policy::Exclusive, fragments, 64, &Profile::UNLIMITED)
            .expect("an unlimited switch has room");
    let mut server = ParameterServer::default();
    let (window, slots) = (fragments, fragments);
    let everyone = Workers::first(WORKERS);
    server.serve(Serving { job, sub_model, members: everyone, window, lanes });
    let parent = Some(NodeId(1));
    let place = Place { job, sub_model, cohort, members, parent, base: 0, slots, window, lanes };
    switch.install(place).expect("memory for the whole model");
    let node = if is_summed { NodeId(0) } else { NodeId(1) };
    let sending = Sending {
        policy: Policy::Exclusive,
        job,
        sub_model,
        workers: WORKERS,
        node,
        window,
        slots,
        ..Sending::default()
    };
    let mut bytes = 0;
    for worker in 0..WORKERS {
        let mut sender = Worker::new(Sending { worker, ..sending });
        sender.begin(fragments);
        while let Some(mut packet) = sender.poll_transmit(wiresum_protocol::Time(0)) {
            if switch.handle(&mut packet).egress == Egress::Up {
                bytes += receive(&mut server, &mut packet);
            }
        }
    }
    assert_eq!(server.counters().get(wiresum_switch::Verdict::Completed), u64::from(fragments));
    bytes
}

fn receive(server: &mut ParameterServer<()>, packet: &mut Packet<()>) -> u64 {
    server.handle(packet);
    FRAGMENT_BYTES
}

#[test]
fn goat_experiment_3_the_server_receives_the_model_once() {
    assert_eq!(server_bytes(true), 44_000_000);
}

#[test]
fn goat_experiment_3_without_aggregation_it_receives_sixteen_models() {
    assert_eq!(server_bytes(false), 704_000_000);
}

#[test]
fn workers_in_step_with_memory_for_a_window_send_the_server_each_fragment_once() {
    let exact = |policy: &Policy| policy.needs_server() && policy.is_exact();
    for policy in Policy::ALL.into_iter().filter(exact) {
        let node = policy.is_addressed().then_some(2);
        let plan = StreamPlan { window: 16, slots: 16, rounds: 3, node, ..stream(0, None, 40) };
        let scenario = Scenario {
            policy,
            graph: Graph::tree(4, 2),
            has_server: true,
            streams: vec![plan],
            memory: 16,
            starts_us: vec![0; 4],
            faults: Faults::default(),
            first: 0,
            seed: 0,
        };
        assert_eq!(Network::new(scenario).run().server_ingress(), 120, "{}", policy.name());
    }
}

/// InGo, Alg. 1: where packets come twice, the paper's counter gives wrong results, and never completes a register whose count has
/// passed the mark. With a bitmap all is well.
#[test]
fn ingo_counter_loses_gradients_where_a_bitmap_does_not() {
    let scenario = |policy| Scenario {
        policy,
        graph: Graph::star(3),
        has_server: true,
        streams: vec![StreamPlan { node: Some(0), window: 8, slots: 8, ..stream(0, None, 200) }],
        memory: 8,
        starts_us: vec![0, 40, 90],
        faults: Faults { duplication: 0.05, jitter_us: 20, ..Faults::default() },
        first: 0,
        seed: 1,
    };
    let ends = |policy| {
        let run = Network::new(scenario(policy)).run_for(10_000_000);
        (run.is_done(), run.wrong.is_empty())
    };
    assert_eq!(ends(Policy::Register), (true, true));
    assert_eq!(ends(Policy::RegisterCounter), (false, false));
}

/// P4INC-AOI, §VI-B: with a window larger than the segment, workers are early, are told so, and narrow their windows.
#[test]
fn p4inc_aoi_marks_throttle_workers_whose_window_exceeds_the_segment() {
    let run = |slots| {
        let plan = StreamPlan { window: 16, slots, ..stream(0, None, 300) };
        let scenario = Scenario {
            policy: Policy::Segment,
            graph: Graph::star(4),
            has_server: false,
            streams: vec![plan],
            memory: slots,
            starts_us: vec![0, 0, 0, 500],
            faults: Faults::default(),
            first: 0,
            seed: 0,
        };
        let network = Network::new(scenario).run();
        let refused = network.switches[0].counters().get(wiresum_switch::Verdict::Refused);
        (refused, network.workers[0][0].window())
    };
    assert_eq!(run(16), (0, 16));
    let (refused, window) = run(4);
    assert!(refused > 0);
    assert!(window < 16, "{window}");
}

/// ATP: a place in the window whose slot another job holds moves, and finds a slot of its own.
#[test]
fn atp_jobs_that_collide_move_apart() {
    let plan = |job| StreamPlan { job, window: 8, slots: 64, rounds: 40, ..stream(job, None, 8) };
    let scenario = Scenario {
        policy: Policy::Hash,
        graph: Graph::star(4),
        has_server: true,
        streams: (1..6).map(plan).collect(),
        memory: 64,
        starts_us: vec![0; 4],
        faults: Faults::default(),
        first: 0,
        seed: 0,
    };
    let network = Network::new(scenario).run();
    let rehashed: u64 = network.workers[0].iter().map(|w| w.counters().rehashed).sum();
    let collisions = network.switches[0].counters().get(wiresum_switch::Verdict::Collision);
    assert!(rehashed > 0);
    let all = 5 * 40 * 8 * 4;
    assert!(collisions * 10 < all, "{collisions} of {all}");
}

/// ESA: of two jobs that want the same slots, the more urgent one's fragments are summed in the network.
#[test]
fn esa_gives_the_slots_to_the_more_urgent_job() {
    let ingress = |priorities: [u8; 2]| {
        let plan = |(job, priority)| StreamPlan {
            job,
            priority,
            window: 8,
            slots: 8,
            rounds: 10,
            ..stream(job, None, 40)
        };
        let scenario = Scenario {
            policy: Policy::Preempt,
            graph: Graph::star(4),
            has_server: true,
            streams: [(1, priorities[0]), (2, priorities[1])].map(plan).to_vec(),
            memory: 8,
            starts_us: vec![0, 30, 60, 90],
            faults: Faults::default(),
            first: 0,
            seed: 0,
        };
        Network::new(scenario).run().server_ingress_by_job()
    };
    let favoured = ingress([200, 1]);
    assert!(favoured[&1] < favoured[&2], "{favoured:?}");
    let other_way = ingress([1, 200]);
    assert!(other_way[&2] < other_way[&1], "{other_way:?}");
}
