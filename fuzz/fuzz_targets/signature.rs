//! Gives bytes to `fuzz_targets::signature`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::signature(bytes));
