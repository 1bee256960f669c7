//! Gives bytes to `fuzz_targets::journal_entry`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::journal_entry(bytes));
