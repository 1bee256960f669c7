//! Gives bytes to `fuzz_targets::snapshot`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::snapshot(bytes));
