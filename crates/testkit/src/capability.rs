//! What a test needs of the machine. A skip is said aloud, and is a failure where the machine is known to be capable.

use std::fmt::Display;
use std::io::Write;

/// Names capabilities that the machine has, with commas between them: `make test` sets it to what `tests/capabilities.py`
/// finds, which reads it too.
const REQUIRE: &str = "WIRESUM_TESTS_REQUIRE";

/// Whether a test can go on with what was found out about a capability (one that `tests/capabilities.py` knows).
///
/// # Panics
///
/// The capability is missing, and the environment says that it is there.
pub fn is_here<E: Display>(capability: &str, found: Result<(), E>) -> bool {
    #[expect(clippy::disallowed_methods, reason = "the machine is known from outside")]
    let required = std::env::var(REQUIRE).unwrap_or_default();
    judge(&required, capability, found)
}

fn judge<E: Display>(required: &str, capability: &str, found: Result<(), E>) -> bool {
    let Err(lack) = found else { return true };
    let is_required = required.split(',').any(|name| name == capability);
    assert!(!is_required, "{REQUIRE} says that this machine has {capability}: {lack}");
    // The macro's words are only shown of tests that fail.
    let _ = writeln!(std::io::stderr(), "SKIPPED: needs {capability}: {lack}");
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_skips_and_its_absence_does_not() {
        assert!(!judge("", "luck", Err("none left")));
        assert!(!judge("xdp,pluck", "luck", Err("none left")));
        assert!(judge::<&str>("luck", "luck", Ok(())));
    }

    #[test]
    #[should_panic(expected = "says that this machine has luck: none left")]
    fn a_lack_of_what_is_required_fails() {
        judge("xdp,luck", "luck", Err("none left"));
    }
}
