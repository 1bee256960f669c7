//! Gives bytes to `fuzz_targets::policy`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::policy(bytes));
