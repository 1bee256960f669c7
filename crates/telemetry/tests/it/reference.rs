//! The reference page is what the table says.

use std::path::Path;

#[test]
fn the_reference_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    let page = telemetry::render_reference();
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == page,
        "run again with UPDATE_REFERENCE=1 to write {}",
        path.display()
    );
}
