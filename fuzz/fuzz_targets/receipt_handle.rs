//! Gives bytes to `fuzz_targets::receipt_handle`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::receipt_handle(bytes));
