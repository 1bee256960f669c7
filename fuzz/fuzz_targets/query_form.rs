//! Gives bytes to `fuzz_targets::query_form`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::query_form(bytes));
