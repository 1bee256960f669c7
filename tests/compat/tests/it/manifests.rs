//! The manifests of `deploy/` are valid, and fit the program.

use std::path::Path;

use anyhow::Result;
use compat::check_manifests;

#[test]
fn the_manifests_are_valid_and_name_what_there_is() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    check_manifests(
        &root.join("deploy"),
        &root.join("docs/reference/configuration.md"),
    )
}
