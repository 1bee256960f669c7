//! Gives bytes to `fuzz_targets::redrive_policy`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::redrive_policy(bytes));
