//! The reference page of options, made from the table.

use std::fmt::Write;

use crate::declared::{Declared, Kind};
use crate::table::{self, OPTIONS};

const INTRODUCTION: &str = "\
# Configuration

<!-- Made from the table in `crates/config/src/table.rs`. To change it: UPDATE_REFERENCE=1 cargo nextest run -p config -->

An option is set by a flag of `holdfast serve`, by an environment variable, or in the configuration file; a flag wins
over a variable, a variable over the file, the file over what `holdfast cluster init` and `join` left in the data
directory (`cluster.toml`, of that section alone), and that over the default. An empty variable counts as one that is not set.
Two variables of the same meaning with different values are refused, and so is a key of the file that is not below.

The file is TOML. An option stands in the section that its name begins with:

```toml
[server]
port = 4100

[store]
data_dir = \"/var/lib/holdfast\"

[[key]]
account = \"000000000000\"
access_key_id = \"AKIDEXAMPLE\"
secret_access_key = \"file:/run/secrets/holdfast\"
```

";

const KEYS: &str = "\
## Access keys

Each `[[key]]` of the file is an access key, with three texts:

- `account`: the twelve digits of the account that requests signed with the key act for.
- `access_key_id`: 1 to 128 letters, digits, underscores, hyphens and dots; no two keys have the same.
- `secret_access_key`: the secret as it stands, `file:PATH` to read it from a file, or `env:NAME` to read it from a
  variable. A line break at its end is not part of it.

Without `--dev` only requests signed with one of the keys are accepted, and a server that other machines can reach does
not start without a key. Since 0.1.
";

const WITHOUT_EFFECT: &str = "
## Variables without effect

These of other programs are taken note of in the log, and change nothing:

";

/// Returns the reference page, in Markdown.
pub fn render_reference() -> String {
    let mut page = INTRODUCTION.to_owned();
    page += "| option | flag | variable | default |\n|---|---|---|---|\n";
    for option in OPTIONS {
        let default = option.default.map_or_else(|| "none".to_owned(), code);
        let flag = flag_of(option).map_or_else(String::new, |flag| code(&flag));
        let variable = option.variable.map_or_else(String::new, code);
        write_to(
            &mut page,
            &format!("| {} | {flag} | {variable} | {default} |\n", code(option.name)),
        );
    }
    page.push('\n');
    for option in OPTIONS {
        section(&mut page, option);
    }
    page += KEYS;
    page += WITHOUT_EFFECT;
    for (variable, reason) in table::cluster::WITHOUT_EFFECT {
        write_to(&mut page, &format!("- `{variable}`: {reason}.\n"));
    }
    page
}

fn section(page: &mut String, option: &Declared) {
    write_to(page, &format!("## `{}`\n\n{}\n\n", option.name, option.doc));
    write_to(page, &format!("- Value: {}\n", option.kind));
    if let Some(default) = option.default {
        let dev = option
            .default_dev
            .map_or_else(String::new, |dev| format!("; `{dev}` with `--dev`"));
        write_to(page, &format!("- Default: `{default}`{dev}\n"));
    }
    if let Some(flag) = flag_of(option) {
        write_to(page, &format!("- Flag: `{flag}`\n"));
    }
    if let Some(variable) = option.variable {
        write_to(page, &format!("- Variable: `{variable}`\n"));
    }
    for alias in option.aliases {
        let words: Vec<String> = alias
            .words
            .iter()
            .map(|(theirs, ours)| format!("`{theirs}` is `{ours}`"))
            .collect();
        let words = if words.is_empty() {
            String::new()
        } else {
            format!(" ({})", words.join(", "))
        };
        write_to(page, &format!("- Also read: `{}`{words}\n", alias.variable));
    }
    if !option.in_file {
        page.push_str("- Not in the file\n");
    }
    write_to(page, &format!("- Since: {}\n\n", option.since));
}

fn flag_of(option: &Declared) -> Option<String> {
    let flag = option.flag?;
    Some(match option.kind {
        Kind::Switch | Kind::Boolean => format!("--{flag}"),
        Kind::Choice(words) => format!("--{flag} {}", words.join("\\|")),
        Kind::Text(_)
        | Kind::Number { .. }
        | Kind::Bytes(_)
        | Kind::Duration(_)
        | Kind::NodeAddress
        | Kind::NodeAddresses
        | Kind::Secret => format!("--{flag} …"),
    })
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn write_to(page: &mut String, text: &str) {
    page.write_str(text).expect("a String takes any text");
}
