//! Rules about Rust files: module docs, lengths, and who may touch the file system.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;

use super::function::{functions, mask};
use super::{Report, read};

/// A shorter first line says nothing.
const DOC_CHARACTERS_MIN: usize = 15;

pub(super) fn check(root: &Path, files: &[String], report: &mut Report) -> Result<()> {
    let sources: Vec<&String> = files.iter().filter(|path| path.ends_with(".rs")).collect();
    let mut masked = Vec::new();
    let mut tests = BTreeSet::new();
    for path in &sources {
        let text = read(root, path)?;
        check_docs(path, &text, report);
        let text = mask(&text);
        tests.extend(test_modules(path, &text));
        masked.push(text);
    }
    for (path, text) in sources.iter().zip(&masked) {
        if is_test(path, &tests) {
            check_file_length(path, text.lines().count(), report);
            continue;
        }
        let code = code_part(text);
        check_file_length(path, code.lines().count(), report);
        check_functions(path, code, report);
        check_file_users(path, code, report);
    }
    Ok(())
}

fn check_docs(path: &str, text: &str, report: &mut Report) {
    let first = text
        .lines()
        .find(|line| !line.trim().is_empty() && !line.starts_with("#!["));
    let documented = first
        .and_then(|line| line.strip_prefix("//!"))
        .is_some_and(|doc| doc.trim().chars().count() >= DOC_CHARACTERS_MIN);
    if !documented {
        report.find(
            "module-docs",
            path,
            "does not start with `//!` and what the module is for",
        );
    }
}

fn check_file_length(path: &str, lines: usize, report: &mut Report) {
    let most = report.rules.limits.file_lines_max;
    if lines > most {
        report.find(
            "file-length",
            path,
            &format!("{lines} lines without tests, more than {most}"),
        );
    }
}

fn check_functions(path: &str, code: &str, report: &mut Report) {
    let most = report.rules.limits.function_lines_max;
    for function in functions(code).iter().filter(|function| function.lines > most) {
        let subject = format!("{path}::{}", function.name);
        let text = format!(
            "{} lines from line {}, more than {most}",
            function.lines, function.line
        );
        report.find("function-length", &subject, &text);
    }
}

/// Files are touched where a simulated disk can stand in for the real one, or where the process starts.
fn check_file_users(path: &str, code: &str, report: &mut Report) {
    let Some(member) = path
        .strip_prefix("crates/")
        .and_then(|rest| rest.split('/').next())
    else {
        return;
    };
    if report.rules.file_users.contains(member) {
        return;
    }
    let uses_files = ["std::fs", "tokio::fs", "rustix::fs"]
        .iter()
        .any(|module| code.contains(module))
        || (code.contains("use std::{") && code.contains("fs::"));
    if uses_files {
        report.find("file-users", path, "touches the file system");
    }
}

/// Returns the text before the tests at the end of a file.
fn code_part(masked: &str) -> &str {
    let is_inline = |after: &str| {
        after
            .trim_start()
            .strip_prefix("mod ")
            .is_some_and(|rest| rest.find('{') < rest.find(';').or(Some(usize::MAX)))
    };
    let starts = masked.match_indices("\n#[cfg(test)]");
    let mut inline = starts.filter(|(at, attribute)| is_inline(&masked[at + attribute.len()..]));
    inline.next().map_or(masked, |(at, _)| &masked[..=at])
}

/// Returns the paths, without extension, of the modules that a file declares for tests alone.
fn test_modules(path: &str, masked: &str) -> Vec<String> {
    let folder = path.strip_suffix(".rs").unwrap_or(path);
    let folder = ["/lib", "/main", "/mod"]
        .iter()
        .find_map(|name| folder.strip_suffix(name))
        .unwrap_or(folder);
    let declared = masked.split("#[cfg(test)]").skip(1).filter_map(|after| {
        let rest = after.trim_start();
        let rest = rest
            .strip_prefix("pub(crate) ")
            .unwrap_or(rest)
            .strip_prefix("mod ")?;
        let (name, _) = rest
            .split_once(';')
            .filter(|(name, _)| !name.contains(['{', '\n']))?;
        Some(format!("{folder}/{name}"))
    });
    declared.collect()
}

fn is_test(path: &str, tests: &BTreeSet<String>) -> bool {
    let module = path.strip_suffix(".rs").unwrap_or(path);
    let inside = |test: &String| module == test || module.starts_with(&format!("{test}/"));
    path.contains("/tests/") || path.contains("/benches/") || tests.iter().any(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_part_ends_where_the_tests_begin() {
        let text = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        assert_eq!(code_part(text), "fn a() {}\n\n");
        let declared = "#[cfg(test)]\nmod tests;\nfn a() {}\n\n#[cfg(test)]\nfn only_in_tests() {}\n";
        assert_eq!(code_part(declared), declared);
    }

    #[test]
    fn modules_for_tests_are_found() {
        let text = "mod a;\n#[cfg(test)]\nmod model;\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(test_modules("crates/x/src/lib.rs", text), ["crates/x/src/model"]);
        assert_eq!(
            test_modules("crates/x/src/slab.rs", text),
            ["crates/x/src/slab/model"]
        );
        let tests = BTreeSet::from(["crates/x/src/model".to_owned()]);
        assert!(is_test("crates/x/src/model.rs", &tests));
        assert!(is_test("crates/x/src/model/step.rs", &tests));
        assert!(!is_test("crates/x/src/models.rs", &tests));
    }
}
