//! What is wrong with a line of options: one sentence, as all other failures are told.

use std::error::Error as _;

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

const ALL_OPTIONS: &str = "`wiresum-node --help` lists all options";

/// What to give where an option is missing, by the option's name.
const MISSING: [(&str, &str); 5] = [
    ("--node", "give the id that this host has among the plan's nodes"),
    (
        "--plan",
        "give the file that `wiresum plan` wrote, or, if jobs are to come later, --control and --listen ADDRESS:PORT",
    ),
    ("--control", "--take-over and --metrics need it"),
    ("--tables", "--snapshots needs it"),
    ("--snapshots", "--snapshot-interval needs it"),
];

/// What is wrong, with which option, and what to write instead; nothing where the parser has been asked for a text.
pub fn problem(error: &Error) -> Option<String> {
    let option = names(error, ContextKind::InvalidArg).into_iter().next().unwrap_or_default();
    let name = without_value(&option);
    Some(match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => return None,
        ErrorKind::MissingRequiredArgument => missing(error),
        ErrorKind::UnknownArgument => unknown(name, error),
        ErrorKind::ArgumentConflict => conflict(name, error),
        ErrorKind::InvalidValue => unsuitable(&option, error),
        ErrorKind::TooManyValues => format!("{name} takes no value; write it alone"),
        ErrorKind::ValueValidation => {
            let reason = error.source().map(ToString::to_string).unwrap_or_default();
            format!("{name}: {reason}")
        }
        _ => other(error),
    })
}

fn missing(error: &Error) -> String {
    let sentence = |option: &String| {
        let name = without_value(option);
        let known = MISSING.iter().find(|(of, _)| *of == name);
        known.map_or(format!("{option} is missing"), |(_, what)| {
            format!("{name} is missing: {what}")
        })
    };
    let names = names(error, ContextKind::InvalidArg);
    let sentences = names.iter().map(sentence).collect::<Vec<_>>();
    format!("{}; {ALL_OPTIONS}", sentences.join("; "))
}

fn unknown(name: &str, error: &Error) -> String {
    if !name.starts_with('-') {
        return format!(
            "{name} stands without an option: write --plan {name} if it is a plan; {ALL_OPTIONS}"
        );
    }
    match names(error, ContextKind::SuggestedArg).first() {
        Some(meant) => format!("there is no option {name}: did you mean {meant}? {ALL_OPTIONS}"),
        None => format!("there is no option {name}; {ALL_OPTIONS}"),
    }
}

fn conflict(name: &str, error: &Error) -> String {
    let others = names(error, ContextKind::PriorArg);
    let others: Vec<_> = others.iter().map(|other| without_value(other)).collect();
    if others.contains(&name) || others.is_empty() {
        return format!("{name} is given twice: give it once");
    }
    format!("{name} and {} exclude each other: leave one out", others.join(", "))
}

/// A value that is none of those that there are, or no value at all.
fn unsuitable(option: &str, error: &Error) -> String {
    let name = without_value(option);
    let given = names(error, ContextKind::InvalidValue).concat();
    if given.is_empty() {
        return format!("{name} has no value: write {}", option.replace(['<', '>'], ""));
    }
    let known = names(error, ContextKind::ValidValue).join(", ");
    format!("{name}: `{given}` is not known; give one of {known}")
}

/// What no option here is known to meet, in the parser's words.
fn other(error: &Error) -> String {
    let rendered = error.to_string();
    let first = rendered.lines().next().unwrap_or_default();
    format!("{}; {ALL_OPTIONS}", first.trim_start_matches("error: "))
}

/// `--listen` of `--listen <ADDRESS:PORT>`.
fn without_value(option: &str) -> &str {
    option.split(' ').next().unwrap_or(option)
}

fn names(error: &Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(name)) => vec![name.clone()],
        Some(ContextValue::Strings(names)) => names.clone(),
        _ => Vec::new(),
    }
}
