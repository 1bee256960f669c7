//! The page of all verbs, `docs/reference/cli.md`, from what the verbs say of themselves.

use clap::Command;

const TOP: &str = "\
# Command line

One binary is server and client. Every verb but `serve`, `verify`, `repair`, `cluster init` and `cluster join` speaks to a server
over its public HTTP APIs. This page is made from what the verbs say of themselves (`--help`).

**Which server.** `--endpoint URL`, then `HOLDFAST_ENDPOINT`, `TINYMQ_URL`, `AWS_ENDPOINT_URL_SQS`, `AWS_ENDPOINT_URL`, then
`http://127.0.0.1:4100`. Either port's URL will do. `holdfast cluster` takes a URL as its argument and never guesses. Keys and
region come from `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION` or `AWS_DEFAULT_REGION`; a server with `--dev` takes any.

**Output.** Text for people; with `--json` one document with a `schema` that stays as it is. Errors go to the standard error stream:
what, cause, what to try, code; with `--json` as `{\"error\":{\"code\",\"message\",\"cause\",\"hint\",\"retryable\"}}`.

**Exit codes.** 0 done, 1 failed, 2 an argument makes no sense, 4 not found, 5 not possible as things are or not confirmed, 6 not
allowed, 7 unavailable (may be tried again), 8 damage was found, 130 interrupted.
";

/// Returns the page.
pub(crate) fn page(mut command: Command) -> String {
    command.build();
    let mut page = TOP.to_owned();
    for verb in command
        .get_subcommands_mut()
        .filter(|verb| verb.get_name() != "help")
    {
        add(&mut page, verb, "holdfast");
    }
    page
}

fn add(page: &mut String, verb: &mut Command, before: &str) {
    let name = format!("{before} {}", verb.get_name());
    if before == "holdfast config" {
        // Its options are those of `serve`, beside few of its own.
        *page += &format!(
            "\n## {name}\n\n{}. It takes the flags of `holdfast serve`",
            verb.get_about().map(ToString::to_string).unwrap_or_default()
        );
        *page += if verb.get_name() == "show" {
            ", `--origin` and `--json`.\n"
        } else {
            ".\n"
        };
        return;
    }
    if verb.get_name() == "serve" {
        *page += "\n## holdfast serve\n\nIts options are those of [the configuration](configuration.md).\n";
        return;
    }
    let help = verb
        .clone()
        .bin_name(name.clone())
        .disable_help_flag(true)
        .render_help()
        .to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    *page += &format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
    for inner in verb
        .get_subcommands_mut()
        .filter(|inner| inner.get_name() != "help")
    {
        add(page, inner, &name);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn the_reference_is_what_the_verbs_say() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
        let page = super::page(crate::command());
        if std::env::var_os("UPDATE_REFERENCE").is_some() {
            std::fs::write(&path, &page).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == page,
            "docs/reference/cli.md is out of date: run this test with UPDATE_REFERENCE=1"
        );
    }
}
