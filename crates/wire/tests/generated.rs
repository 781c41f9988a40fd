//! The generated files are checked in and must match the Rust definitions.

use std::fs;
use std::path::Path;

use wiresum_wire::bindings::{OUTPUTS, REGENERATE};

#[test]
fn generated_files_are_up_to_date() {
    for output in &OUTPUTS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(output.path);
        let found = fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}; run `{REGENERATE}`", output.path));
        assert!(found == (output.contents)(), "{} is out of date: run `{REGENERATE}`", output.path);
    }
}
