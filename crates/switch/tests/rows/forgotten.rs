//! Rows of "Nodes that forget": what may have been summed before is not summed again.

use super::*;

#[test]
fn what_is_sent_again_goes_past_a_switch_that_has_forgotten() {
    for policy in Policy::ALL {
        let mut bench = Bench::new(policy);
        bench.switch.bypass(JobId(1));
        assert_eq!(bench.contribute(1, 0), absorbed(Verdict::First), "{policy:?}");
        assert_eq!(bench.send(resent(0, 0)), up(Verdict::Bypassed), "{policy:?}");
        assert_eq!(bench.left(), (1, 1), "{policy:?}");
        assert_eq!(bench.send(contribution(1, 0)), absorbed(Verdict::Added), "{policy:?}");
        let addressed = Packet { node: NODE, ..resent(2, 1) };
        assert_eq!(bench.send(addressed), up(Verdict::Bypassed), "{policy:?}");
        assert_eq!(bench.packet.node, SERVER, "{policy:?}");
    }
}

#[test]
fn a_job_that_comes_again_is_remembered() {
    let mut bench = Bench::new(Policy::Pool);
    bench.switch.bypass(JobId(1));
    bench.switch.remove(JobId(1));
    bench.switch.install(place()).expect("a place that fits");
    assert_eq!(bench.send(resent(0, 0)), absorbed(Verdict::First));
}
