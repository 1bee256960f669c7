//! Gives bytes to `fuzz_targets::forwarded`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::forwarded(bytes));
