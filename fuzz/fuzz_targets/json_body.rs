//! Gives bytes to `fuzz_targets::json_body`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::json_body(bytes));
