//! What those who wait are told when a thread of the product panics.

use std::any::Any;

/// Names the defect by what the panic said; where it was stands in the lines that the panic has printed.
pub fn describe(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<&str>().copied();
    let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a defect in Wiresum, please report it: {}", said.unwrap_or("a panic without words"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_told_in_their_own_words() {
        let words: [Box<dyn Any + Send>; 3] =
            [Box::new("plain"), Box::new(format!("with {}", 1)), Box::new(1)];
        let told = words.map(|panic| describe(&*panic));
        assert!(told[0].ends_with(": plain") && told[1].ends_with(": with 1"));
        assert!(told[2].ends_with(": a panic without words"));
    }
}
