//! The order of what happens at one time, and what conditions do.

use wiresum_netem::{Cargo, Conditions, Flight, Network, Next, Rng, Time};

/// Something that knows its number, takes a byte, and remembers what links did to it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    number: u64,
    is_marked: bool,
    is_damaged: bool,
}

impl Cargo for Token {
    fn wire_bytes(&self) -> u64 {
        1
    }

    fn mark(&mut self) {
        self.is_marked = true;
    }

    fn damage(&mut self, _: &mut Rng) {
        self.is_damaged = true;
    }
}

fn token(number: u64) -> Token {
    Token { number, is_marked: false, is_damaged: false }
}

/// A link that takes so long and has no limit.
fn after(us: u64) -> Conditions {
    Conditions { delay_ps: us * 1_000_000, ..Conditions::PERFECT }
}

/// What happens, as a model that sorts has it: by time, timers first, then in order of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Expected {
    Timer,
    Arrival { number: u64 },
}

#[test]
fn at_one_time_timers_come_first_and_arrivals_in_order_of_sending() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut network: Network<u8, Token> = Network::new(seed);
        let mut model: Vec<(u64, Expected)> = Vec::new();
        let mut ties = 0;
        for number in 0..400 {
            // Few times, so that many things happen at once; and links of which each has its own delay.
            let (from, to) = (rng.below(3) as u8, 3 + rng.below(3) as u8);
            if rng.below(4) > 0 {
                let us = rng.below(6);
                network.send(&after(us), from, to, token(number));
                model.push((network.now().0 + us, Expected::Arrival { number }));
            } else if rng.below(2) == 0 {
                model.push((network.now().0 + rng.below(6), Expected::Timer));
            } else {
                let timers = model.iter().filter(|(_, what)| *what == Expected::Timer);
                let timer = timers.map(|(at, _)| Time(*at)).min();
                let next = model.iter().copied().min();
                ties += model.iter().filter(|(at, _)| next.is_some_and(|n| n.0 == *at)).count();
                let happened = network.advance(timer).map(|next| match next {
                    Next::Timers => Expected::Timer,
                    Next::Arrival(flight) => Expected::Arrival { number: flight.cargo.number },
                });
                assert_eq!(happened, next.map(|(_, what)| what), "seed {seed}, step {number}");
                let Some(next) = next else { continue };
                assert_eq!(network.now(), Time(next.0), "seed {seed}, step {number}");
                let place = model.iter().position(|event| *event == next).expect("it is there");
                model.remove(place);
            }
        }
        assert!(ties > 100, "seed {seed} has {ties} ties: too few to tell an order");
    }
}

#[test]
fn what_is_released_comes_now_and_what_is_held_back_does_not_come() {
    let mut network: Network<u8, Token> = Network::new(1);
    (0..4).for_each(|number| network.send(&after(number), 0, 1, token(number)));
    let held = network.hold_back(|flight| flight.cargo.number % 2 == 0);
    assert_eq!(held.iter().map(|f| f.cargo.number).collect::<Vec<_>>(), [0, 2]);
    let arrive = |network: &mut Network<u8, Token>| match network.advance(None) {
        Some(Next::Arrival(flight)) => Some((network.now().0, flight.cargo.number)),
        _ => None,
    };
    assert_eq!(arrive(&mut network), Some((1, 1)));
    held.into_iter().for_each(|flight| network.release(flight));
    network.release(Flight { from: 5, to: 6, cargo: token(9) });
    let rest: Vec<_> = std::iter::from_fn(|| arrive(&mut network)).collect();
    assert_eq!(rest, [(1, 0), (1, 2), (1, 9), (3, 3)]);
}

/// Sends many tokens, lets all arrive, and says which did, in order.
fn arrivals(conditions: &Conditions) -> Vec<Token> {
    let mut network: Network<u8, Token> = Network::new(7);
    (0..SENT).for_each(|number| network.send(conditions, 0, 1, token(number)));
    let mut arrived = Vec::new();
    while let Some(Next::Arrival(flight)) = network.advance(None) {
        arrived.push(flight.cargo);
    }
    network.check().expect("the books are right");
    arrived
}

const SENT: u64 = 20_000;
const QUARTER: std::ops::Range<usize> = SENT as usize * 23 / 100..SENT as usize * 27 / 100;

#[test]
fn each_chance_does_its_harm_and_no_other() {
    let late_ps = 1_000_000;
    let perfect = Conditions { late_ps, jitter_ps: late_ps, ..after(5) };
    let sound: Vec<Token> = (0..SENT).map(token).collect();
    assert_eq!(arrivals(&perfect), sound);
    let lossy = arrivals(&Conditions { loss: 0.25, ..perfect });
    assert!(QUARTER.contains(&(sound.len() - lossy.len())));
    assert!(lossy.is_sorted_by_key(|token| token.number));
    let doubled = arrivals(&Conditions { duplication: 0.25, ..perfect });
    assert!(QUARTER.contains(&(doubled.len() - sound.len())));
    let mut once = doubled;
    once.sort_by_key(|token| token.number);
    once.dedup();
    assert_eq!(once, sound);
    let mut reordered = arrivals(&Conditions { reordering: 0.25, ..perfect });
    let on_time = (1..reordered.len()).filter(|i| reordered[*i].number > reordered[*i - 1].number);
    assert!(on_time.count() < sound.len() - 10);
    reordered.sort_by_key(|token| token.number);
    assert_eq!(reordered, sound);
    let marked = arrivals(&Conditions { marking: 0.25, ..perfect });
    assert!(QUARTER.contains(&marked.iter().filter(|token| token.is_marked).count()));
    let damaged = arrivals(&Conditions { damage: 0.25, ..perfect });
    assert!(QUARTER.contains(&damaged.iter().filter(|token| token.is_damaged).count()));
}

#[test]
fn a_queue_drains_at_its_rate_marks_when_it_is_long_and_drops_when_it_is_full() {
    // A byte takes a microsecond.
    let slow = Conditions { rate_bps: Some(8e6), ..Conditions::PERFECT };
    let mut network: Network<u8, Token> = Network::new(1);
    let limited = Conditions { queue_bytes: 10, ecn_bytes: Some(4), ..slow };
    (0..20).for_each(|number| network.send(&limited, 0, 1, token(number)));
    let mut arrived = Vec::new();
    while let Some(Next::Arrival(flight)) = network.advance(None) {
        arrived.push((network.now().0, flight.cargo.number, flight.cargo.is_marked));
    }
    let expected: Vec<_> = (0..10).map(|number| (number + 1, number, number >= 4)).collect();
    assert_eq!(arrived, expected);
    // Links may change while they are in use.
    network.send(&Conditions { rate_bps: Some(16e6), ..slow }, 0, 1, token(0));
    network.send(&slow, 0, 1, token(1));
    network.check().expect("neither was faster than its rate");
    assert_eq!(network.next_at(None), Some(Time(10)));
}

#[test]
fn equal_seeds_give_equal_runs_and_others_do_not() {
    let run = |seed| {
        let harsh = Conditions { loss: 0.3, duplication: 0.3, late_ps: 9_000_000, ..after(3) };
        let mut network: Network<u8, Vec<u8>> = Network::new(seed);
        (0..50).for_each(|byte| network.send(&harsh, byte % 3, 4, vec![byte; 9]));
        std::iter::from_fn(move || network.advance(None)).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_damaged_datagram_is_another_one() {
    let mut rng = Rng::new(3);
    for len in 0..200 {
        let sound = vec![0x5a; len];
        let mut damaged = sound.clone();
        damaged.damage(&mut rng);
        assert!(len == 0 || damaged != sound);
        assert!(damaged.len() <= len);
    }
}
