//! Gives bytes to `fuzz_targets::content`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::content(bytes));
