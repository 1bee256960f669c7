//! The nodes of a cluster as a table.

use serde_json::Value;

/// Returns the table of a status document.
pub(super) fn table(document: &Value) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => "-".to_owned(),
    };
    let header = [
        "NODE", "ADDRESS", "ROLE", "LEADER", "TERM", "APPLIED", "LAG", "DISK %",
    ];
    let fields = [
        "id",
        "address",
        "role",
        "leader",
        "term",
        "applied_index",
        "lag",
        "disk_used_percent",
    ];
    let nodes = document["nodes"].as_array().into_iter().flatten();
    let rows: Vec<_> = nodes.map(|node| fields.map(|field| text(&node[field]))).collect();
    format!(
        "cluster {}, term {}\n{}",
        text(&document["cluster"]),
        text(&document["term"]),
        crate::table::table(header, &rows)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::table;

    #[test]
    fn what_is_not_known_is_a_dash() {
        let node = |id: &str, role: &str, lag: Option<u64>| {
            json!({
                "id": id, "address": "10.0.0.1:7901", "role": role, "leader": null, "term": 2,
                "applied_index": lag, "lag": lag, "disk_used_percent": 7,
            })
        };
        let nodes = [node("aa", "leader", Some(10)), node("b", "unreachable", None)];
        let document = json!({ "cluster": "cc", "term": 2, "nodes": nodes });
        assert_eq!(
            table(&document),
            "cluster cc, term 2\n\
             NODE  ADDRESS        ROLE         LEADER  TERM  APPLIED  LAG  DISK %\n\
             aa    10.0.0.1:7901  leader       -       2     10       10   7\n\
             b     10.0.0.1:7901  unreachable  -       2     -        -    7\n"
        );
    }
}
