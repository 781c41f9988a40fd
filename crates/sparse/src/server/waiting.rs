//! Questions for weights of after the open round.

use std::collections::BTreeMap;

use super::round::Wants;
use super::{PushError, Server};
use crate::message::{FromServer, Sender};
use crate::table::{TableError, TableId};

/// Most questions of one asker that wait: as many as its largest window. It repeats what finds no room.
pub(super) const MAX_WAITING: usize = 1024;

/// By asker, then by its number for the question.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    questions: BTreeMap<Sender, BTreeMap<u32, Question>>,
    /// What was reached when questions were last looked at.
    reached: Option<Wants>,
}

#[derive(Clone, Debug)]
struct Question {
    table: TableId,
    keys: Vec<u64>,
    wants: Wants,
}

impl Server {
    /// Keeps a question until its rows' sums are complete, and tells its asker.
    pub(super) fn wait(&mut self, from: Sender, request: u32, table: TableId, keys: &[u64]) {
        if let Err(problem) = self.check_rows(table, keys) {
            return self.refuse(from, self.round.number, &problem);
        }
        let keys = keys.to_vec();
        let question = Question { table, wants: self.round.wants(table, &keys, &self.map), keys };
        if self.is_ready(&question, &self.round.reached()) {
            return self.foretell(from, request, &question);
        }
        let of_asker = self.waiting.questions.entry(from).or_default();
        if of_asker.len() >= MAX_WAITING && !of_asker.contains_key(&request) {
            self.counters.early += 1;
            return;
        }
        of_asker.insert(request, question);
        self.acknowledge(from, self.round.number, request);
    }

    fn check_rows(&self, id: TableId, keys: &[u64]) -> Result<(), PushError> {
        let table = self.tables.iter().find(|table| table.spec().id == id);
        let table = table.ok_or(PushError::NoTable(id.0))?;
        let is_elsewhere = |key: &&u64| !table.part().holds(&table.spec().rows, **key);
        match keys.iter().find(is_elsewhere) {
            Some(key) => {
                Err(TableError::NoRow { table: table.spec().name.clone(), key: *key }.into())
            }
            None => Ok(()),
        }
    }

    fn is_ready(&self, question: &Question, reached: &Wants) -> bool {
        let table = self.tables.iter().find(|table| table.spec().id == question.table);
        // A row on its way back is told when it is here.
        let is_here = |key: &u64| table.is_some_and(|table| !table.is_away(*key));
        question.wants.are_met(reached) && question.keys.iter().all(is_here)
    }

    /// Answers what can be answered since the last time.
    pub(super) fn answer_waiting(&mut self) {
        let reached = self.round.reached();
        if self.waiting.reached.as_ref() == Some(&reached) {
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting.questions);
        for (from, questions) in &mut waiting {
            questions.retain(|request, question| {
                let is_ready = self.is_ready(question, &reached);
                if is_ready {
                    self.foretell(*from, *request, question);
                }
                !is_ready
            });
        }
        (self.waiting.questions, self.waiting.reached) = (waiting, Some(reached));
    }

    /// Answers what is left when a round has closed.
    pub(super) fn answer_rest(&mut self, version: u32) {
        for (from, questions) in std::mem::take(&mut self.waiting).questions {
            for (request, question) in questions {
                let weights = self.read(version, question.table, &question.keys, false);
                self.answer(from, version, request, question.table, weights);
            }
        }
    }

    fn foretell(&mut self, from: Sender, request: u32, question: &Question) {
        let version = self.round.number;
        let number = self.tables.iter().position(|table| table.spec().id == question.table);
        let number = number.expect("a question about a table waits if there is such a table");
        let dim = self.tables[number].spec().dim;
        let mut values = vec![0.0; question.keys.len() * usize::from(dim)];
        let told = self.round.foretell(&self.tables, number, &question.keys, &mut values);
        self.tables[number].spec().value.round(&mut values);
        let weights = told.map(|()| (dim, values));
        self.answer(from, version, request, question.table, weights);
    }

    /// Answers a question with values of a row, and those of all rows.
    pub(super) fn answer(
        &mut self,
        to: Sender,
        version: u32,
        request: u32,
        table: TableId,
        weights: Result<(u16, Vec<f32>), PushError>,
    ) {
        match weights {
            Ok((dim, values)) => {
                self.counters.pulled += (values.len() / usize::from(dim)) as u64;
                let rows = FromServer::Rows { version, request, table, dim, values };
                self.outbox.push_back((to, rows));
            }
            Err(problem) => self.refuse(to, version, &problem),
        }
    }
}
