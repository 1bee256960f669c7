//! The reference page of metrics, made from the table.

use crate::table::METRICS;

const INTRODUCTION: &str = "\
# Metrics

<!-- Made from the table in `crates/telemetry/src/table.rs`. To change it: UPDATE_REFERENCE=1 cargo nextest run -p telemetry -->

`GET /metrics` on the control port answers in the text format of Prometheus. Counters start at 0 with the process.
Labels have few values, whatever clients send: an action that is not known is `unknown`, and a pair of action and code
that has not come yet has no sample.

| metric | kind | unit | labels | meaning | since |
|---|---|---|---|---|---|
";

/// Returns the reference page, in Markdown.
pub fn render_reference() -> String {
    let rows = METRICS.iter().map(|metric| {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        format!(
            "| `{}` | {} | {} | {} | {} | {} |\n",
            metric.name,
            metric.kind,
            metric.unit,
            labels.join(", "),
            metric.meaning,
            metric.since
        )
    });
    INTRODUCTION.to_owned() + &rows.collect::<String>()
}
