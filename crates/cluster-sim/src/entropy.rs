//! The random source of the operating system, replaced by one that the seed determines.
//!
//! Hash maps of the standard library and the election timeouts of openraft draw from it. Both find it by the name
//! `getrandom`, which the linker resolves to this one.

#![allow(
    unsafe_code,
    reason = "the C library's function can be replaced by one of its name alone"
)]

use std::sync::Mutex;

use simulator::Random;

static RANDOM: Mutex<Option<Random>> = Mutex::new(None);

/// Begins the sequence of a seed.
pub(crate) fn seed(seed: u64) {
    *lock() = Some(Random::new(seed));
}

fn lock() -> std::sync::MutexGuard<'static, Option<Random>> {
    RANDOM.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Fills a buffer, as the C library's function of this name does.
///
/// # Safety
///
/// The buffer has to be valid for writes of its length.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    let mut random = lock();
    let random = random.get_or_insert_with(|| Random::new(0));
    // SAFETY: the caller vouches for the buffer, and nobody else has it meanwhile.
    let buffer = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    for chunk in buffer.chunks_mut(8) {
        chunk.copy_from_slice(&random.next_u64().to_le_bytes()[..chunk.len()]);
    }
    length.cast_signed()
}
