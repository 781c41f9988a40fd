//! Files that the command line names: read, or refused with the name, the reason and the remedy.

use std::io::{self, ErrorKind};
use std::path::Path;

use serde_json::Value;
use wiresum_node::service::{read_document, reason};

use crate::exit::Failure;

/// What a file should be.
pub struct Kind {
    name: &'static str,
    format: &'static str,
    /// How to get one.
    remedy: &'static str,
}

pub const PLAN: Kind = Kind {
    name: "plan",
    format: wiresum_protocol::plan::FORMAT,
    remedy: "make a plan with `wiresum plan`",
};
pub const SPARSE_JOB: Kind = Kind {
    name: "sparse job",
    format: wiresum_sparse::live::FORMAT,
    remedy: "make one with `wiresum sparse job PLAN`",
};
pub const JOB_OF_PAIRS: Kind = Kind {
    name: "job of pairs",
    format: wiresum_sparse::live::keyed::FORMAT,
    remedy: "spec/keyed.md says how to write one",
};

impl Kind {
    /// The text of a file of this kind.
    pub fn read(&self, path: &Path) -> Result<String, Failure> {
        read_document(path).map_err(|error| self.failure(path, unreadable(&error)))
    }

    /// Why a file of this kind cannot be served: its format, where that is another one, and else the problem.
    pub fn refused(&self, path: &Path, text: &str, problem: impl ToString) -> Failure {
        let Self { format: wanted, remedy, .. } = self;
        if text.trim().is_empty() {
            return self.failure(path, format!("is empty: check the path, or {remedy}"));
        }
        match serde_json::from_str::<Value>(text) {
            Err(error) => self.failure(path, format!("is not valid JSON ({error}); {remedy}")),
            Ok(document) => match document["format"].as_str() {
                Some(given) if kind_of(given) != kind_of(wanted) => {
                    self.failure(path, format!("is a {given}, and a {wanted} is wanted; {remedy}"))
                }
                _ => self.failure(path, problem.to_string()),
            },
        }
    }

    /// A problem with a file of this kind.
    pub fn failure(&self, path: &Path, problem: impl Into<String>) -> Failure {
        Failure::Usage(format!("{} {}: {}", self.name, path.display(), problem.into()))
    }
}

/// Why a file cannot be read, and what to do.
pub fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::InvalidData => "is no text in UTF-8; check the path".to_owned(),
        ErrorKind::FileTooLarge => format!("{error}; check the path"),
        _ => format!("cannot be read ({}); check the path", reason(error)),
    }
}

/// `wiresum-plan` of `wiresum-plan/2`.
fn kind_of(format: &str) -> &str {
    format.split('/').next().unwrap_or(format)
}
