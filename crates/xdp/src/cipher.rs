//! The kernel's own cipher over a packet, in the kernel's test-run: what a code by AES would cost at least.

use crate::XdpError;
use crate::kernel::{CIPHER, Kernel};
use crate::test_run;

/// `XDP_DROP`: the program has encrypted the packet.
const ENCRYPTED: u32 = 1;

/// A loaded program that encrypts packets, with a key of zeros.
pub struct Cipher(Kernel);

impl Cipher {
    /// Loads it.
    ///
    /// # Errors
    /// The kernel has no `bpf_crypto_encrypt`, or no AES in ECB.
    pub fn load() -> Result<Self, XdpError> {
        let kernel = Kernel::load_plain(&CIPHER)?;
        let made = test_run::call(kernel.program("make_cipher"))
            .map_err(|cause| test_run::refused("make_cipher", &cause))?;
        if made != 0 {
            let cause = std::io::Error::from_raw_os_error(made.wrapping_neg());
            return Err(test_run::refused("make_cipher", &cause));
        }
        Ok(Self(kernel))
    }

    /// Mean nanoseconds that a frame's payload takes, of so many times.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn run(&self, frame: &[u8], repeat: u32) -> Result<u64, XdpError> {
        let run = self.0.test_run("encrypt", frame, repeat)?;
        assert_eq!(run.action, ENCRYPTED, "every packet of the benchmark is encrypted");
        Ok(run.nanoseconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::V4_FRAME_LEN;
    use wiresum_testkit::capability::is_here;

    /// Where the kernel lists its functions.
    const SYMBOLS: &str = "/proc/kallsyms";

    #[test]
    fn a_packet_is_encrypted_where_the_kernel_has_a_cipher() {
        let symbols = std::fs::read_to_string(SYMBOLS).unwrap_or_default();
        let cipher = Cipher::load();
        if !symbols.contains(" bpf_crypto_encrypt") {
            assert!(cipher.is_err(), "what is not there cannot be called");
            return;
        }
        if !is_here("bpf", cipher.as_ref().map(drop)) {
            return;
        }
        let cipher = cipher.expect("judged above");
        for payload in [16, 31, 38 + 4 * 736] {
            cipher.run(&vec![1; V4_FRAME_LEN + payload], 2).expect("a test-run");
        }
    }
}
