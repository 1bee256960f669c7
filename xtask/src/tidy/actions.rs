//! Rules about the SQS actions: each file is in the table, and each action has a case.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Report;

const ACTIONS: &str = "crates/sqs-api/src/actions";
const CASES: &str = "crates/sqs-api/tests/it/cases";

pub(super) fn check(root: &Path, report: &mut Report) -> Result<()> {
    if !root.join(ACTIONS).join("mod.rs").is_file() {
        return Ok(());
    }
    let table = super::read(root, &format!("{ACTIONS}/mod.rs"))?;
    let cases = read_cases(root)?;
    for entry in fs::read_dir(root.join(ACTIONS))? {
        let file = entry?.file_name();
        let file = file.to_str().context("an action's file name is no text")?;
        let Some(module) = file.strip_suffix(".rs").filter(|module| *module != "mod") else {
            continue;
        };
        let (path, name) = (format!("{ACTIONS}/{file}"), action_name(module));
        if !table.contains(&format!("mod {module};")) || !has_word(&table, &name) {
            report.find(
                "action-table",
                &path,
                &format!("{name} is not in {ACTIONS}/mod.rs"),
            );
        }
        if !has_word(&cases, &name) {
            report.find("action-cases", &path, &format!("no file in {CASES} calls {name}"));
        }
    }
    Ok(())
}

/// Returns the text of all case files.
fn read_cases(root: &Path) -> Result<String> {
    let folder = root.join(CASES);
    let mut cases = String::new();
    if !folder.is_dir() {
        return Ok(cases);
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            cases += &fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        }
    }
    Ok(cases)
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric())
        .any(|found| found == word)
}

/// Returns the action that a module holds: `send_message` is SendMessage.
fn action_name(module: &str) -> String {
    let capitalised = module.split('_').map(|word| {
        let mut characters = word.chars();
        characters
            .next()
            .map(|first| first.to_ascii_uppercase().to_string() + characters.as_str())
    });
    capitalised.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::action_name;

    #[test]
    fn modules_are_named_after_their_action() {
        assert_eq!(action_name("send_message"), "SendMessage");
        assert_eq!(
            action_name("change_message_visibility_batch"),
            "ChangeMessageVisibilityBatch"
        );
    }
}
