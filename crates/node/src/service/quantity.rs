//! Sizes and rates as people write them on the command line.

const SIZES: [(&str, f64); 7] = [
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("b", 1.0),
];
const BITS_PER_BYTE: f64 = 8.0;
const RATES: [(&str, f64); 4] = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9), ("bit", 1.0)];

/// Bytes from `2GiB`, `64MB` or `4096`.
///
/// # Errors
/// What it should be.
pub fn parse_size(text: &str) -> Result<u64, String> {
    parse(text, &SIZES, 1.0).ok_or_else(|| format!("`{text}` is no size; write it as 2GiB or 64MB"))
}

/// Bytes per second from `500mbit` or `10gbit`.
///
/// # Errors
/// What it should be.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let rate = parse(text, &RATES, BITS_PER_BYTE);
    rate.ok_or_else(|| format!("`{text}` is no rate; write it as 500mbit or 10gbit"))
}

fn parse(text: &str, units: &[(&str, f64)], divisor: f64) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let unit = units.iter().find(|(name, _)| lower.ends_with(name));
    let (name, factor) = unit.copied().unwrap_or(("", 1.0));
    let number: f64 = lower.strip_suffix(name)?.parse().ok()?;
    let value = number * factor / divisor;
    (value >= 1.0 && value < u64::MAX as f64).then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read() {
        assert_eq!(parse_size("2GiB"), Ok(2 << 30));
        assert_eq!(parse_size("1.5kb"), Ok(1500));
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_rate("500mbit"), Ok(62_500_000));
        for wrong in ["", "GiB", "-1mb", "0", "inf", "ten"] {
            assert!(parse_size(wrong).is_err() && parse_rate(wrong).is_err(), "{wrong}");
        }
    }
}
