//! Messages between two ranks, or from one rank to all others: AES-256 in Galois/counter mode (NIST SP 800-38D).

use aes_gcm::aead::{AeadInOut, KeyInit, Nonce, inout::InOutBuf};
use aes_gcm::{Aes256Gcm, Tag};

/// Bytes of the key of one sender's messages.
pub const MESSAGE_KEY_LEN: usize = 32;
/// Bytes that authentication adds to a message.
pub const TAG_LEN: usize = 16;

/// The place of a message among all messages under one key. No key seals two messages with the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the collective, or of the message.
    pub number: u64,
    /// Part of the collective.
    pub part: u32,
}

impl Place {
    fn nonce(self) -> Nonce<Aes256Gcm> {
        let mut bytes = Nonce::<Aes256Gcm>::default();
        bytes[..4].copy_from_slice(&self.part.to_be_bytes());
        bytes[4..].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }
}

/// The key of all messages from one rank to the same receivers.
pub struct MessageKey(Aes256Gcm);

impl MessageKey {
    /// Expand the key's round keys.
    #[must_use]
    pub fn new(key: &[u8; MESSAGE_KEY_LEN]) -> Self {
        Self(Aes256Gcm::new(key.into()))
    }

    /// Encrypt a message. The tag also authenticates the place and the header, which stays in the clear.
    ///
    /// Returns `None` if the buffers differ in length, or the message has more than 64 GB.
    #[must_use]
    pub fn seal(
        &self,
        place: Place,
        header: &[u8],
        plain: &[u8],
        cipher: &mut [u8],
    ) -> Option<[u8; TAG_LEN]> {
        let buffers = InOutBuf::new(plain, cipher).ok()?;
        let tag = self.0.encrypt_inout_detached(&place.nonce(), header, buffers).ok()?;
        Some(tag.into())
    }

    /// Decrypt a message, if place, header, bytes and tag are those that the sender sealed.
    ///
    /// Returns whether they are. If not, `plain` has no byte of the message.
    #[must_use]
    pub fn open(
        &self,
        place: Place,
        header: &[u8],
        cipher: &[u8],
        tag: &[u8; TAG_LEN],
        plain: &mut [u8],
    ) -> bool {
        let tag = Tag::from(*tag);
        InOutBuf::new(cipher, plain).is_ok_and(|buffers| {
            self.0.decrypt_inout_detached(&place.nonce(), header, buffers, &tag).is_ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(digits: &str) -> Vec<u8> {
        let pair = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
        (0..digits.len()).step_by(2).map(pair).collect()
    }

    /// Test case 16 of "The Galois/Counter Mode of Operation" (McGrew, Viega), appendix B.
    struct Known {
        key: MessageKey,
        place: Place,
        header: Vec<u8>,
        plain: Vec<u8>,
        cipher: Vec<u8>,
        tag: [u8; TAG_LEN],
    }

    fn known() -> Known {
        let key = bytes("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
        Known {
            key: MessageKey::new(&key.try_into().expect("32 bytes")),
            place: Place { part: 0xcafe_babe, number: 0xface_dbad_deca_f888 },
            header: bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2"),
            plain: bytes(
                "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
            ),
            cipher: bytes(
                "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
            ),
            tag: bytes("76fc6ece0f4e1768cddf8853bb2d551b").try_into().expect("16 bytes"),
        }
    }

    #[test]
    fn seals_the_known_message_to_the_known_bytes() {
        let known = known();
        let mut cipher = vec![0; known.plain.len()];
        let tag = known.key.seal(known.place, &known.header, &known.plain, &mut cipher);
        assert_eq!((tag, cipher), (Some(known.tag), known.cipher));
    }

    #[test]
    fn opens_nothing_but_what_was_sealed() {
        let known = known();
        let open = |place, header: &[u8], cipher: &[u8], tag: &[u8; TAG_LEN]| {
            let mut plain = vec![0; cipher.len()];
            (known.key.open(place, header, cipher, tag, &mut plain), plain)
        };
        let (is_open, plain) = open(known.place, &known.header, &known.cipher, &known.tag);
        assert!(is_open && plain == known.plain);
        let mut forged = vec![];
        for bit in 0..8 * known.cipher.len() {
            let mut cipher = known.cipher.clone();
            cipher[bit / 8] ^= 1 << (bit % 8);
            forged.push(open(known.place, &known.header, &cipher, &known.tag));
        }
        for bit in 0..8 * TAG_LEN {
            let mut tag = known.tag;
            tag[bit / 8] ^= 1 << (bit % 8);
            forged.push(open(known.place, &known.header, &known.cipher, &tag));
        }
        let (next, other) = (known.place.number + 1, known.place.part + 1);
        let places = [Place { number: next, ..known.place }, Place { part: other, ..known.place }];
        forged.extend(places.map(|place| open(place, &known.header, &known.cipher, &known.tag)));
        forged.push(open(known.place, b"another header", &known.cipher, &known.tag));
        let nothing = vec![0; known.cipher.len()];
        assert!(forged.iter().all(|(is_open, plain)| !is_open && *plain == nothing));
        assert!(!open(known.place, &known.header, &known.cipher[1..], &known.tag).0);
    }
}
