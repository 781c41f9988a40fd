//! Values that flow before the ranks have agreed on their exponents.

use super::*;
use wiresum_protocol::plan::Exponents;

/// Fits the 256 slots of [`CACHE`], so that a worker may send it whole.
const SIZE: usize = 9000;

fn expecting(tree: &Tree, stream: Values) -> Cluster {
    let mut plan = plan(tree, &[stream]);
    plan.job.exponents = Exponents::Expected;
    let mut cluster = Cluster::new(plan, CALM, 1);
    cluster.join_all();
    cluster
}

fn outcomes(cluster: &Cluster, rank: usize) -> Vec<Result<(), Failure>> {
    cluster.hosts[rank].finished.iter().map(|(_, outcome, _)| outcome.clone()).collect()
}

/// Every rank passes the next tensor, changed as the test has it.
fn submit_each(cluster: &mut Cluster, size: usize, change: impl Fn(usize, Tensor) -> Tensor) {
    for rank in 0..cluster.hosts.len() {
        let round = cluster.hosts[rank].tensors.len();
        let tensor = change(rank, Tensor::of(&cluster.plan, rank, round, size));
        cluster.submit(rank, tensor);
    }
}

#[test]
fn values_do_not_wait_for_a_late_rank() {
    let mut cluster = expecting(&Tree::three_levels(), CACHE);
    cluster.submit_all(&[SIZE]);
    cluster.run();
    let before = cluster.hosts[0].session.streams_sent()[1];
    for rank in 0..5 {
        let tensor = Tensor::of(&cluster.plan, rank, 1, SIZE);
        cluster.submit(rank, tensor);
    }
    cluster.run_until(cluster.now().plus(Duration::from_secs(1)));
    let sent = cluster.hosts[0].session.streams_sent()[1] - before;
    assert_eq!(sent, SIZE.div_ceil(64) as u32, "everything is sent while rank 5 is late");
    let tensor = Tensor::of(&cluster.plan, 5, 1, SIZE);
    cluster.submit(5, tensor);
    cluster.run();
    cluster.assert_sums();
}

#[test]
fn a_forecast_round_takes_one_round_trip() {
    let mut times = Vec::new();
    for exponents in [Exponents::Agreed, Exponents::Expected] {
        let mut plan = plan(&Tree::star(3), &[POOL]);
        plan.job.exponents = exponents;
        let mut cluster = Cluster::new(plan, CALM, 1);
        cluster.join_all();
        cluster.submit_all(&[64]);
        cluster.run();
        let start = cluster.now();
        cluster.submit_all(&[64]);
        cluster.run();
        cluster.assert_sums();
        times.push(cluster.now().since(start));
    }
    assert!(2 * times[1] < times[0] + times[0] / 4, "{times:?}");
}

#[test]
fn narrow_lanes_have_no_bits_for_forecasts() {
    let mut plan = plan_with(&Tree::star(3), &[POOL], 64, "auto");
    plan.job.exponents = Exponents::Expected;
    let mut cluster = Cluster::new(plan, CALM, 1);
    cluster.join_all();
    cluster.submit_all(&[64, 64]);
    cluster.run();
    let times = [(); 2].map(|()| {
        let start = cluster.now();
        cluster.submit_all(&[64]);
        cluster.run();
        cluster.now().since(start)
    });
    cluster.assert_sums();
    assert!(2 * times[0] < times[1] + times[1] / 4, "{times:?}");
}

#[test]
fn rounds_of_one_shape_and_of_several_are_pipelined() {
    for sizes in [[700; 6], [700, 300, 700, 300, 1, 700]] {
        let mut cluster = expecting(&Tree::three_levels(), POOL);
        cluster.submit_all(&sizes);
        cluster.submit_all(&sizes);
        cluster.run();
        cluster.assert_sums();
    }
}

#[test]
fn what_was_not_expected_ends_its_round_everywhere_and_no_other() {
    for stream in [POOL, CACHE] {
        let mut cluster = expecting(&Tree::three_levels(), stream);
        for round in 0..6 {
            submit_each(&mut cluster, SIZE, |rank, tensor| {
                if rank == 3 && round == 2 { tensor.grown_by(30) } else { tensor }
            });
        }
        cluster.run();
        for rank in 0..6 {
            let bad = Err(Failure::Unforeseen);
            // Round 3 is not forecast after that; round 4's forecast is that of round 3.
            let expected = [Ok(()), Ok(()), bad, Ok(()), Ok(()), Ok(())];
            assert_eq!(outcomes(&cluster, rank), expected, "rank {rank}");
            let host = &cluster.hosts[rank];
            assert_eq!(host.tensors[2].values(), host.tensors[2].own(), "the buffer is untouched");
            for round in [0, 1, 3, 4, 5] {
                assert_eq!(host.tensors[round].values(), cluster.expected_sum(round));
            }
        }
    }
}

#[test]
fn a_forecast_round_that_is_not_finite_leaves_its_buffer() {
    for (exponents, codec) in [(Exponents::Expected, "block"), (Exponents::Agreed, "fixed:1e8")] {
        let mut plan = plan(&Tree::three_levels(), &[CACHE]);
        (plan.job.exponents, plan.job.codec) = (exponents, codec.to_owned());
        let mut cluster = Cluster::new(plan, lossy(0.05), 1);
        cluster.join_all();
        for round in 0..4 {
            submit_each(&mut cluster, 3000, |rank, tensor| {
                let tensor = if codec == "block" { tensor } else { tensor.with_fixed_exponents() };
                if (rank, round) == (4, 2) { tensor.with_infinity_at(100) } else { tensor }
            });
        }
        cluster.run();
        for rank in 0..6 {
            let expected = [Ok(()), Ok(()), Err(Failure::NotFinite), Ok(())];
            assert_eq!(outcomes(&cluster, rank), expected);
            let host = &cluster.hosts[rank];
            assert_eq!(host.tensors[2].values(), host.tensors[2].own());
            assert_eq!(host.tensors[3].values(), cluster.expected_sum(3));
        }
    }
}

fn is_result_of_a_preamble(datagram: &Datagram) -> bool {
    let Ok(packet) = Packet::parse_unchecked(&datagram.cargo) else { return false };
    packet.kind == wiresum_wire::Kind::Result && packet.header.sub_model.get() == 0
}

/// Two ranks sum two tensors of this size; everything of the second comes before the agreement on its exponents, which is returned.
fn run_without_agreement(cluster: &mut Cluster, size: usize) -> Vec<Datagram> {
    cluster.submit_all(&[size]);
    cluster.run();
    cluster.submit_all(&[size]);
    let mut held = Vec::new();
    let end = cluster.now().plus(Duration::from_millis(100));
    while cluster.now() < end {
        held.extend(cluster.network.hold_back(is_result_of_a_preamble));
        assert!(cluster.step());
    }
    assert!(!held.is_empty());
    held
}

#[test]
fn results_that_overtake_the_agreement_wait_for_it() {
    let mut cluster = expecting(&Tree::star(2), CACHE);
    let held = run_without_agreement(&mut cluster, SIZE);
    assert!(cluster.worker_count(0, "results") > SIZE as u64 / 64);
    for host in &cluster.hosts {
        assert_eq!(host.tensors[1].values(), host.tensors[1].own(), "nothing is decoded yet");
    }
    held.into_iter().for_each(|datagram| cluster.network.release(datagram));
    cluster.run();
    cluster.assert_sums();
}

#[test]
fn results_that_find_no_room_before_the_agreement_come_again() {
    let mut cluster = expecting(&Tree::star(2), CACHE);
    let held = run_without_agreement(&mut cluster, 80_000);
    assert!(cluster.worker_count(0, "results_without_room") > 0);
    held.into_iter().for_each(|datagram| cluster.network.release(datagram));
    cluster.run();
    cluster.assert_sums();
    assert_eq!(cluster.worker_count(0, "mismatches"), 0);
}
