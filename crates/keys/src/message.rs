//! Keys of messages between ranks, which travel outside the network (`spec/security.md`, *Gloo*).

use sha2::{Digest, Sha256};

use crate::secret::{KEY_LEN, Key, Secret};

/// Random bytes that each rank contributes to the keys of a group.
pub const SALT_LEN: usize = 32;
/// In the place of a receiver: every other rank.
const ALL: u64 = u64::MAX;

/// The keys of one group of ranks. If one rank's salt is new, no earlier group had any of them.
pub struct MessageKeys(Key);

impl MessageKeys {
    /// The keys of the ranks that contribute these salts, in the order of the ranks.
    #[must_use]
    pub fn new(secret: &Secret, group: &str, salts: &[[u8; SALT_LEN]]) -> Self {
        let mut hash = Sha256::new();
        hash.update((group.len() as u64).to_be_bytes());
        hash.update(group);
        for salt in salts {
            hash.update(salt);
        }
        let hash: [u8; 32] = hash.finalize().into();
        let (words, _) = hash.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|&word| u64::from_be_bytes(word)).collect();
        Self(secret.ranks().derive("gloo", &words))
    }

    /// The key of all messages from a sender to one receiver, or to every other rank.
    #[must_use]
    pub fn key(&self, sender: u32, receiver: Option<u32>) -> [u8; KEY_LEN] {
        self.0.expand("message", &[sender.into(), receiver.map_or(ALL, u64::from)])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_keys_of_messages_are_alike() {
        let secrets = [Secret::from_bytes(b"a job"), Secret::from_bytes(b"another job")];
        let salts =
            [[[1; SALT_LEN], [2; SALT_LEN]], [[2; SALT_LEN], [1; SALT_LEN]], [[3; SALT_LEN]; 2]];
        let mut keys = BTreeSet::new();
        let mut count = 0;
        for secret in &secrets {
            for group in ["0", "1"] {
                for salts in &salts {
                    let of_group = MessageKeys::new(secret, group, salts);
                    for (sender, receiver) in [(0, None), (1, None), (0, Some(1)), (1, Some(0))] {
                        keys.insert(of_group.key(sender, receiver));
                        count += 1;
                    }
                }
            }
        }
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn ranks_with_the_same_salts_have_the_same_keys() {
        let key = || {
            let secret = Secret::from_bytes(b"a job");
            MessageKeys::new(&secret, "0", &[[7; SALT_LEN]; 3]).key(2, Some(1))
        };
        assert_eq!(key(), key());
    }
}
