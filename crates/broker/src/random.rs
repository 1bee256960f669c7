//! Random bytes, as a trait, so that a simulated run can be repeated.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::Mutex;

/// A source of random bytes.
pub trait Random: Debug + Send + Sync {
    /// Fills the buffer.
    fn fill(&self, buffer: &mut [u8]);
}

/// The random source of the operating system, asked for a block at a time on each thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsRandom;

struct Block {
    bytes: [u8; 512],
    used: usize,
}

thread_local! {
    static BLOCK: RefCell<Block> = const { RefCell::new(Block { bytes: [0; 512], used: 512 }) };
}

impl Random for OsRandom {
    fn fill(&self, buffer: &mut [u8]) {
        BLOCK.with_borrow_mut(|block| {
            if buffer.len() > block.bytes.len() - block.used {
                getrandom::fill(&mut block.bytes).expect("the operating system has random bytes");
                block.used = 0;
            }
            let (bytes, used) = (&mut block.bytes, block.used);
            let taken = &mut bytes[used..used + buffer.len()];
            buffer.copy_from_slice(taken);
            taken.fill(0);
            block.used += buffer.len();
        });
    }
}

/// A source that gives the same bytes for the same seed. For tests: anybody can guess them.
#[derive(Debug)]
pub struct SeededRandom(Mutex<u64>);

impl SeededRandom {
    /// Makes a source from a seed.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }
}

impl Random for SeededRandom {
    fn fill(&self, buffer: &mut [u8]) {
        let mut state = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for chunk in buffer.chunks_mut(8) {
            // SplitMix64.
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = *state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            chunk.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes()[..chunk.len()]);
        }
    }
}
