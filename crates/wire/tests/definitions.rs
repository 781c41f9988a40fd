//! The small types: numbers there and back, serial arithmetic, control words.

use wiresum_wire::control::{
    self, Absent, Demand, EntryState, RefusalReason, hello, status, welcome,
};
use wiresum_wire::{Flags, FragmentId, GROUP_FRAGMENTS, Kind, LaneType, MAX_PAYLOAD, Verdict};

#[test]
fn numbers_on_the_wire_lead_back() {
    for kind in Kind::ALL {
        assert_eq!(Kind::from_wire(kind as u8), Some(kind));
    }
    for reason in RefusalReason::ALL {
        assert_eq!(RefusalReason::from_wire(reason as u32), Some(reason));
    }
    for state in EntryState::ALL {
        assert_eq!(EntryState::from_wire(state as u8), Some(state));
    }
    for demand in Demand::ALL {
        assert_eq!(Demand::from_wire(demand as u32), Some(demand));
    }
    assert_eq!(Kind::from_wire(0), None);
    assert_eq!(Kind::from_wire(11), None);
    assert_eq!(RefusalReason::from_wire(u32::MAX), None);
    assert_eq!(EntryState::default(), EntryState::Empty);
}

#[test]
fn verdicts_have_numbers_and_names_of_their_own() {
    for (number, verdict) in Verdict::ALL.into_iter().enumerate() {
        assert_eq!(verdict as usize, number);
        let letters: String = verdict.name().split('_').collect();
        assert_eq!(letters, format!("{verdict:?}").to_lowercase());
    }
    for (number, verdict) in Verdict::AGGREGATOR.into_iter().enumerate() {
        assert_eq!(verdict as usize, number, "an aggregator's counters are an array without a gap");
    }
    let others = Verdict::SWITCH.iter().filter(|verdict| !Verdict::STATION.contains(verdict));
    assert_eq!(others.count(), 0);
}

#[test]
fn lane_types_are_their_flags() {
    for lanes in [LaneType::I32Le, LaneType::I32Be, LaneType::I16Le, LaneType::I16Be] {
        let others = Flags::MAXIMUM.with(Flags::RETRANSMISSION).with(Flags::ECN);
        assert_eq!(LaneType::of(lanes.flags().with(others)), lanes);
        assert_eq!(lanes.flags().only(Flags::FORMAT), lanes.flags());
    }
}

#[test]
fn positions_are_compared_across_the_wrap() {
    let last = FragmentId(u32::MAX);
    assert_eq!(last.plus(3), FragmentId(2));
    assert_eq!(FragmentId(2).since(last), 3);
    assert_eq!(last.since(FragmentId(2)), -3);
}

#[test]
fn control_words_are_written_and_read() {
    let mut payload = [0; 4 * hello::WORDS];
    control::set_double_word(&mut payload, hello::PROOF_WORD, 0x0123_4567_89ab_cdef);
    control::set_word(&mut payload, hello::REASON_WORD, RefusalReason::OtherPlan as u32);
    assert_eq!(payload[..8], [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]);
    assert_eq!(control::double_word(&payload, hello::PROOF_WORD), 0x0123_4567_89ab_cdef);
    assert_eq!(control::word(&payload, hello::REASON_WORD), 3);
    assert_eq!(control::word(&payload, hello::WORDS), 0, "beyond the payload");
}

#[test]
fn a_welcome_leaves_what_its_hello_is_known_by() {
    let age = control::KeyAge { generation: 4, renewal: 5 };
    let mut payload = control::hello_payload(2, 3, age, control::Absent::default());
    control::set_double_word(&mut payload, welcome::KNOWN_WORD, u64::MAX);
    control::set_double_word(&mut payload, welcome::HELD_WORD, u64::MAX);
    assert_eq!(control::double_word(&payload, hello::INCARNATION_WORD), 2);
    assert_eq!(control::double_word(&payload, hello::PROOF_WORD), 0);
}

#[test]
fn absent_workers_are_named_by_rank() {
    let ranks = [0, 31, 32, 255];
    let absent = Absent::of(ranks).expect("ranks that can be named");
    let payload = control::hello_payload(2, 3, control::KeyAge::default(), absent);
    assert_eq!(control::word(&payload, hello::ABSENT_WORD), 0x8000_0001);
    assert_eq!(control::word(&payload, hello::ABSENT_WORD + 1), 1);
    assert_eq!(Absent::read(&payload), absent);
    assert_eq!(absent.ranks().collect::<Vec<_>>(), ranks);
    assert_eq!(absent.count(), ranks.len());
    assert!(absent.holds(31) && !absent.holds(30) && !absent.holds(256) && !absent.is_empty());
    assert_eq!(Absent::of([Absent::MOST_RANKS as u32]), None);
    assert!(Absent::default().is_empty());
}

#[test]
fn bitmaps_of_a_status_do_not_overlap_and_fit() {
    let bitmap_words = GROUP_FRAGMENTS / 32;
    assert_eq!(status::COMPLETE_WORD - status::HELD_WORD, bitmap_words);
    assert_eq!(status::FINAL_WORD - status::COMPLETE_WORD, bitmap_words);
    assert_eq!(status::WORDS - status::FINAL_WORD, bitmap_words);
    const { assert!(4 * status::WORDS <= MAX_PAYLOAD) };
}
