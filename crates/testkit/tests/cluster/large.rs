//! A tensor of a gigabyte, without one: its values are all alike.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wiresum_wire::{LaneType, MAX_PACKET, NodeId};

use super::{POOL, Tree, Values, plan_with};
use wiresum_protocol::{Aggregator, Time};
use wiresum_worker::{Collective, Event, Session, Sink, Source};

const ELEMENTS: usize = 1 << 28;
const LANE: i32 = 7;

/// Every value is [`LANE`].
struct Hollow;

impl Source for Hollow {
    fn len(&self) -> usize {
        ELEMENTS
    }

    fn signature(&self) -> u8 {
        1
    }

    fn width(&self) -> usize {
        4
    }

    fn exponent(&self, _range: Range<usize>) -> i32 {
        0
    }

    fn encode(&self, range: Range<usize>, _exponent: i8, lanes: &mut [u8]) -> u32 {
        lanes.fill(0);
        lanes
            .chunks_exact_mut(4)
            .take(range.len())
            .for_each(|l| l.copy_from_slice(&LANE.to_le_bytes()));
        LaneType::I32Le.sum(lanes)
    }
}

/// Counts the elements that are decoded.
struct Counter(Arc<AtomicUsize>);

impl Sink for Counter {
    fn decode(&mut self, range: Range<usize>, _exponent: i8, lanes: &[u8]) {
        assert_eq!(lanes[..4], LANE.to_le_bytes());
        self.0.fetch_add(range.len(), Ordering::Relaxed);
    }
}

#[test]
fn a_gigabyte_goes_through_a_few_slots() {
    let stream = Values { slots: 512, window: 192, ..POOL };
    let plan = plan_with(&Tree::star(1), &[stream], 736, "int32-le");
    let mut node = Aggregator::new(&plan, NodeId(0));
    let mut worker = Session::new(&plan, 0, 1);
    let (now, deadline) = (Time(1), Time(u64::MAX));
    worker.join(deadline, now);
    let decoded = Arc::new(AtomicUsize::new(0));
    let sink = Counter(Arc::clone(&decoded));
    let collective = Collective::all_reduce(Box::new(Hollow), Box::new(sink));
    worker.submit(collective, deadline, now);
    let mut packet = [0; MAX_PACKET];
    while let Some(transmit) = worker.poll_transmit(now, &mut packet) {
        let source = ([10, 1, 0, 0], 4000).into();
        let reply = node.handle_datagram(source, &mut packet, transmit.len);
        worker.handle_datagram(transmit.destination, &packet[..reply.len], now);
    }
    assert!(matches!(worker.poll_event(), Some(Event::Joined)));
    let Some(Event::Finished { outcome, .. }) = worker.poll_event() else {
        panic!("the round is not finished");
    };
    let decoded = decoded.load(Ordering::Relaxed);
    assert_eq!((outcome, decoded), (Ok(()), ELEMENTS), "every element is decoded once");
    let fragments = ELEMENTS.div_ceil(736);
    let preamble = (2 + fragments).div_ceil(736);
    let sent: u32 = worker.streams_sent().iter().sum();
    assert_eq!(sent as usize, fragments + preamble);
}
