//! The seals of a round, where its sums are sealed (`spec/security.md`, *Sealed sums*).

use std::borrow::Cow;

use wiresum_seal::{Counts, Fragment};

use super::{OpenRound, Phase, proposal};
use crate::session::failure::{Failure, Summed};
use crate::session::forecast::{SLACK_BITS, ZERO};
use crate::session::format::Agreement;
use crate::session::shape::Shape;

impl OpenRound {
    /// Seals the values of a fragment, and returns the sum of the lanes.
    pub(super) fn seal(&mut self, fragment: u32, lanes: &mut [u8]) -> u32 {
        let (shape, counts) = (self.sealed_shape(), self.counts(fragment));
        let of = Fragment { index: fragment, exponent: self.exponent(fragment) };
        self.seals.as_mut().map_or(0, |seals| seals.seal(shape, of, counts, lanes))
    }

    /// The lanes of a summed fragment; `None` if its seal is broken, which ends the round.
    pub(super) fn opened<'a>(&mut self, fragment: u32, lanes: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let Some(mut seals) = self.seals.take() else { return Some(Cow::Borrowed(lanes)) };
        let of = Fragment { index: fragment, exponent: self.exponent(fragment) };
        let opened = seals.open(self.sealed_shape(), of, lanes);
        let opened = opened.filter(|(counts, _)| counts.allow(self.expected()));
        if opened.is_none() {
            let suspects = seals.sealing.nodes(self.layout, fragment);
            self.end_as_altered(Summed::Fragment(fragment), suspects);
        }
        self.seals = Some(seals);
        opened.map(|(_, values)| Cow::Owned(values))
    }

    /// Whether an agreement that values cannot be summed has to be vouched for: preambles are in the open, and whoever
    /// passes them on could send the values of a sealed collective elsewhere with one. Checks are sealed.
    pub(super) fn needs_vouching(&self) -> bool {
        self.seals.is_some() && self.format.agreement == Agreement::Maximum
    }

    /// Whether no values are sent, only what ranks say of theirs: they have agreed before on a round that is in vain.
    pub(super) fn only_vouches(&self) -> bool {
        self.forecast.is_none() && self.in_vain == Some(Failure::NotFinite)
    }

    /// A summed fragment of a round that is in vain has come: looks whether a rank says that it has to be.
    pub(super) fn hear_vouchers(&mut self, fragment: u32, lanes: &[u8]) {
        if !self.needs_vouching() || self.is_vouched {
            return;
        }
        let Some(mut seals) = self.seals.take() else { return };
        let of = Fragment { index: fragment, exponent: self.exponent(fragment) };
        match seals.open(self.sealed_shape(), of, lanes) {
            Some((counts, values)) => {
                self.is_vouched = !counts.fit();
                seals.recycle(values);
            }
            None => {
                let suspects = seals.sealing.nodes(self.layout, fragment);
                self.end_as_altered(Summed::Fragment(fragment), suspects);
            }
        }
        self.seals = Some(seals);
    }

    /// The agreement says that values cannot be summed, and no rank says so.
    pub(super) fn end_as_unfounded(&mut self) {
        let suspects = self.seals.as_ref().map(|seals| seals.sealing.agreement_nodes());
        self.end_as_altered(Summed::Agreement, suspects.unwrap_or_default());
    }

    /// Gives back what was opened.
    pub(super) fn recycle(&mut self, lanes: Cow<'_, [u8]>) {
        if let (Some(seals), Cow::Owned(opened)) = (&mut self.seals, lanes) {
            seals.recycle(opened);
        }
    }

    /// The lanes of an agreement, of which checks are sealed; `None` if a seal is broken, which ends the round.
    pub(super) fn open_preamble<'a>(&mut self, lanes: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let checks = self.format.agreement == Agreement::Checks;
        let Some(seals) = self.seals.as_ref().filter(|_| checks) else {
            return Some(Cow::Borrowed(lanes));
        };
        let opened = seals.open_check(lanes).map(Cow::Owned);
        if opened.is_none() {
            let suspects = seals.sealing.agreement_nodes();
            self.end_as_altered(Summed::Agreement, suspects);
        }
        opened
    }

    fn end_as_altered(&mut self, what: Summed, suspects: Vec<String>) {
        let failure = Failure::Altered { round: self.round, what, suspects };
        self.in_vain = Some(failure.clone());
        self.phase = Phase::Ended(Err(failure));
    }

    /// What this rank says of its values of a fragment.
    fn counts(&self, fragment: u32) -> Counts {
        if self.is_missed {
            return Counts::default();
        }
        let proposed = proposal(&self.collective, self.layout, fragment);
        let exponent = i32::from(self.exponent(fragment));
        if self.only_vouches() {
            return Counts { unfit: u32::from(proposed > exponent), ..Counts::default() };
        }
        let slack = if self.forecast.is_some() { SLACK_BITS } else { 0 };
        Counts {
            took_part: 1,
            stood: u32::from(proposed.saturating_add(slack) >= exponent),
            unfit: u32::from(proposed > exponent),
            zeros: u32::from(proposed == ZERO),
        }
    }

    /// Ranks whose values have to be in.
    fn expected(&self) -> u32 {
        if self.format.is_partial { self.participation().ranks } else { self.format.ranks() as u32 }
    }

    /// The shape that values are sealed for: the owner's, or what those who are present have said.
    fn sealed_shape(&self) -> Shape {
        self.kept.as_ref().and_then(|kept| kept.shape).unwrap_or_else(|| self.shape())
    }
}
