//! Gives bytes to `fuzz_targets::segment_recovery`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::segment_recovery(bytes));
