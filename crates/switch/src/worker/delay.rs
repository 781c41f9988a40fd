//! Whether a queue stands somewhere on a stream's ways, by the time that results take.
//!
//! A result takes as long as the slowest worker, so one that is late says nothing of a queue; two in a row that are do. One transmission
//! at a time is timed, never a repetition, whose result may be the original's (Karn and Partridge, SIGCOMM 1987).

use std::time::Duration;

use wiresum_protocol::Time;
use wiresum_wire::FragmentId;

/// A queue stands if round trips take this many times the least: then half a window still fills the way.
const STANDING: u32 = 2;

#[derive(Clone, Debug, Default)]
pub(super) struct Delay {
    timed: Option<(FragmentId, Time)>,
    least: Option<Duration>,
    /// The latest two.
    latest: [Duration; 2],
}

impl Delay {
    /// A position is sent, for the first time or again.
    pub fn note_sent(&mut self, position: FragmentId, is_resent: bool, now: Time) {
        match self.timed {
            None if !is_resent => self.timed = Some((position, now)),
            Some((timed, _)) if timed == position => self.timed = None,
            _ => {}
        }
    }

    /// A position has its result.
    pub fn note_result(&mut self, position: FragmentId, now: Time) {
        if let Some((_, sent)) = self.timed.take_if(|(timed, _)| *timed == position) {
            let taken = now.since(sent);
            self.latest = [self.latest[1], taken];
            self.least = Some(self.least.map_or(taken, |least| least.min(taken)));
        }
    }

    /// Whether results have taken much longer lately than they can.
    pub fn is_standing(&self) -> bool {
        let shorter = self.latest[0].min(self.latest[1]);
        self.least.is_some_and(|least| shorter > STANDING * least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After results that took so long, one after another.
    fn after(round_trips_us: &[u64]) -> Delay {
        let mut delay = Delay::default();
        let mut now = Time(0);
        for (position, &taken) in (0..).zip(round_trips_us) {
            delay.note_sent(FragmentId(position), false, now);
            now = Time(now.0 + taken);
            delay.note_result(FragmentId(position), now);
        }
        delay
    }

    #[test]
    fn a_queue_stands_when_two_results_in_a_row_took_long() {
        assert!(!Delay::default().is_standing());
        assert!(!after(&[100, 100, 100]).is_standing());
        assert!(!after(&[100, 900]).is_standing(), "one late worker");
        assert!(after(&[100, 900, 900]).is_standing());
        assert!(!after(&[100, 900, 900, 150]).is_standing());
        assert!(!after(&[900, 900, 900]).is_standing(), "a long way");
    }

    #[test]
    fn what_was_sent_again_is_not_timed() {
        let mut delay = after(&[100, 100]);
        delay.note_sent(FragmentId(7), false, Time(1000));
        delay.note_sent(FragmentId(7), true, Time(2000));
        delay.note_result(FragmentId(7), Time(9000));
        assert_eq!(delay.latest, [Duration::from_micros(100); 2]);
        delay.note_sent(FragmentId(8), true, Time(9000));
        delay.note_result(FragmentId(8), Time(9999));
        assert_eq!(delay.latest, [Duration::from_micros(100); 2]);
    }

    #[test]
    fn one_is_timed_at_a_time() {
        let mut delay = Delay::default();
        delay.note_sent(FragmentId(0), false, Time(0));
        delay.note_sent(FragmentId(1), false, Time(50));
        delay.note_result(FragmentId(1), Time(60));
        assert_eq!(delay.least, None);
        delay.note_result(FragmentId(0), Time(70));
        assert_eq!(delay.least, Some(Duration::from_micros(70)));
    }
}
