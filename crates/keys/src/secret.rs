//! A job's secret, and the keys that follow from it: HKDF-SHA-256 (RFC 5869), one label for each purpose.

use std::fmt;

use hkdf::Hkdf;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// Bytes of a secret and of keys that others follow from.
pub(crate) const KEY_LEN: usize = 32;
/// Salt of the extraction: keys of this version are of no use to another one.
const SALT: &[u8] = b"wiresum keys 2";

/// A key that others follow from. It is written as hexadecimal digits in key files, and nowhere else.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Key([u8; KEY_LEN]);

impl Key {
    /// The key for a purpose, of which `numbers` tell several apart.
    pub fn derive(&self, purpose: &str, numbers: &[u64]) -> Self {
        Self(self.expand(purpose, numbers))
    }

    /// Bytes for a purpose; each purpose has a fixed count of numbers, so that no two share an input.
    pub fn expand<const LEN: usize>(&self, purpose: &str, numbers: &[u64]) -> [u8; LEN] {
        let mut info = Vec::from(purpose);
        info.push(0);
        info.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
        let mut bytes = [0; LEN];
        let hkdf = Hkdf::<Sha256>::from_prk(&self.0).expect("as long as a hash");
        hkdf.expand(&info, &mut bytes).expect("no longer than 255 hashes");
        bytes
    }
}

impl fmt::Debug for Key {
    /// Says that there is a key, and not which.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl TryFrom<String> for Key {
    type Error = String;

    fn try_from(digits: String) -> Result<Self, String> {
        let text = digits.as_bytes();
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|value| value as u8);
        let pairs = text.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?));
        let bytes = pairs.collect::<Option<Vec<u8>>>().filter(|_| text.len() == 2 * KEY_LEN);
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| format!("a key has {} hexadecimal digits", 2 * KEY_LEN))
    }
}

impl From<Key> for String {
    fn from(key: Key) -> Self {
        key.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The secret of a job: 256 random bits that its ranks share. Nodes hold only what follows from it for them.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Key);

impl Secret {
    /// The secret of 64 hexadecimal digits; `None` if these are none.
    #[must_use]
    pub fn from_digits(digits: &str) -> Option<Self> {
        let given = Key::try_from(digits.to_owned()).ok()?;
        Some(Self::from_bytes(&given.0))
    }

    /// The secret that follows from bytes which strangers cannot guess.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let (extracted, _) = Hkdf::<Sha256>::extract(Some(SALT), bytes);
        Self(Key(extracted.into()))
    }

    /// The key of all incarnations, which every participant has.
    pub(crate) fn incarnations(&self) -> Key {
        self.0.derive("incarnations", &[])
    }

    /// The key of what workers say to all nodes at once, which every node has.
    pub(crate) fn workers(&self) -> Key {
        self.0.derive("workers", &[])
    }

    /// The key of what ranks hide from all nodes, which no node has.
    pub(crate) fn ranks(&self) -> Key {
        self.0.derive("ranks", &[])
    }

    /// The secret of a group of the job's workers, as digits. The job's does not follow from it.
    pub(crate) fn of_group(&self, number: u16) -> String {
        self.0.derive("group", &[number.into()]).into()
    }

    /// The key of the line between a rank and its driver of turns, which no node has.
    #[must_use]
    pub fn gate(&self, rank: u8) -> [u8; KEY_LEN] {
        self.ranks().expand("gate", &[rank.into()])
    }

    /// The key of one node.
    pub(crate) fn node(&self, node: u16) -> Key {
        self.0.derive("node", &[node.into()])
    }
}

impl fmt::Debug for Secret {
    /// Says that there is a secret, and not which.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_rfc_5869() {
        // Test case 1, of which the pseudorandom key is given, and 42 bytes for the information f0…f9.
        let prk = "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5";
        let key = Key::try_from(prk.to_owned()).expect("64 digits");
        let hkdf = Hkdf::<Sha256>::from_prk(&key.0).expect("as long as a hash");
        let mut okm = [0; 8];
        hkdf.expand(&[0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9], &mut okm)
            .expect("short");
        assert_eq!(okm, [0x3c, 0xb2, 0x5f, 0x25, 0xfa, 0xac, 0xd5, 0x7a]);
    }

    #[test]
    fn what_is_no_key_is_refused_without_being_quoted() {
        for wrong in ["", "00", &"0".repeat(63), &"0".repeat(65), &"+".repeat(64), &"é".repeat(32)]
        {
            let problem = Key::try_from(wrong.to_owned()).expect_err("no key");
            assert!(problem.contains("64 hexadecimal digits"));
            assert!(Secret::from_digits(wrong).is_none());
        }
    }

    #[test]
    fn gates_of_ranks_and_of_other_jobs_have_keys_of_their_own() {
        let (own, other) = (Secret::from_bytes(b"a job"), Secret::from_bytes(b"another job"));
        assert_eq!(own.gate(1), Secret::from_bytes(b"a job").gate(1));
        assert_ne!(own.gate(1), own.gate(2));
        assert_ne!(own.gate(1), other.gate(1));
    }

    #[test]
    fn keys_come_back_from_their_digits_and_are_never_shown() {
        let key = Secret::from_bytes(b"canary").node(7);
        let digits = String::from(key.clone());
        assert_eq!(Key::try_from(digits.to_uppercase()), Ok(key.clone()));
        let shown = format!("{key:?} {:?}", Secret::from_bytes(b"canary"));
        assert_eq!(shown, "Key Secret");
    }
}
