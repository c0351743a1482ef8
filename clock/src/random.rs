//! Seeded randomness: every consumer has its own stream.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The operating system provides no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the operating system provides no random bytes: {0}")]
pub struct NoEntropy(#[from] getrandom::Error);

/// The source of all randomness of one run.
///
/// A stream depends on the seed and a name, so that an additional consumer does not change the draws of the others.
#[derive(Clone, Debug)]
pub struct Seed([u8; 32]);

impl Seed {
    /// The seed from the command line: `--seed 7`.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Self(expand(&mut state))
    }

    /// An unpredictable seed from the operating system, for wall-clock stages.
    ///
    /// # Errors
    /// If the operating system provides no randomness.
    pub fn from_entropy() -> Result<Self, NoEntropy> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// The stream of that name. Calls with the same name return equal streams.
    pub fn stream(&self, name: &str) -> Stream {
        let mut state = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mut key = self.0;
        for (byte, mask) in key.iter_mut().zip(expand(&mut state)) {
            *byte ^= mask;
        }
        Stream(ChaCha8Rng::from_seed(key))
    }

    /// A separate seed for a component.
    pub fn child(&self, name: &str) -> Self {
        let mut stream = self.stream(name);
        let mut key = [0; 32];
        stream.0.fill_bytes(&mut key);
        Self(key)
    }
}

/// SplitMix64: expands 64 bits to a whole key.
fn expand(state: &mut u64) -> [u8; 32] {
    let mut key = [0; 32];
    for chunk in key.chunks_mut(8) {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        chunk.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes());
    }
    key
}

/// One stream of random draws.
#[derive(Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `0..bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        // The multiplication method; its bias is below 2^-32 for every bound used here.
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A random (version 4) UUID in its usual text form.
    pub fn uuid(&mut self) -> String {
        let mut bytes = [0; 16];
        self.0.fill_bytes(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// `length` characters drawn from `alphabet` (ASCII); empty when the alphabet is.
    pub fn text(&mut self, length: usize, alphabet: &[u8]) -> String {
        (0..length)
            .filter_map(|_| alphabet.get(self.below(alphabet.len() as u64) as usize))
            .map(|&byte| char::from(byte))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_name_gives_the_same_stream_and_another_name_another() {
        let seed = Seed::new(7);
        assert_eq!(seed.stream("uids").uuid(), seed.stream("uids").uuid());
        assert_ne!(seed.stream("uids").uuid(), seed.stream("jitter").uuid());
        assert_ne!(seed.stream("uids").uuid(), Seed::new(8).stream("uids").uuid());
    }

    #[test]
    fn draws_stay_within_their_bounds() {
        let mut stream = Seed::new(1).stream("bounds");
        for _ in 0..1000 {
            assert!(stream.below(3) < 3);
            assert!((0.0..1.0).contains(&stream.unit()));
        }
        assert_eq!(stream.below(0), 0);
        assert!(stream.text(5, b"xy").bytes().all(|byte| b"xy".contains(&byte)));
    }
}
