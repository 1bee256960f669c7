//! A reader of Prometheus's text format that refuses what Prometheus would.

use std::collections::BTreeMap;

/// The samples of a page by name with labels, and the kinds of its metrics.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    pub(crate) values: BTreeMap<String, f64>,
    pub(crate) kinds: BTreeMap<String, String>,
}

impl Samples {
    pub(crate) fn read(page: &str) -> Self {
        assert!(page.ends_with('\n'));
        let mut samples = Self::default();
        let mut current = String::new();
        for line in page.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                current = help.split_once(' ').unwrap().0.to_owned();
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert_eq!(name, current, "TYPE follows its HELP");
                let twin = samples.kinds.insert(name.to_owned(), kind.to_owned());
                assert_eq!(twin, None, "{name} is there twice");
            } else {
                samples.sample(line, &current);
            }
        }
        samples
    }

    fn sample(&mut self, line: &str, family: &str) {
        let (key, value) = line.rsplit_once(' ').unwrap();
        let name = key.split('{').next().unwrap();
        let is_name = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(is_name, "{line}");
        let suffixes: &[&str] = match self.kinds[family].as_str() {
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        let is_of_family = suffixes.iter().any(|suffix| name == format!("{family}{suffix}"));
        assert!(is_of_family, "{line} stands under {family}");
        let twin = self.values.insert(key.to_owned(), value.parse().unwrap());
        assert_eq!(twin, None, "{key} is there twice");
    }

    #[track_caller]
    pub(crate) fn get(&self, key: &str) -> f64 {
        *self
            .values
            .get(key)
            .unwrap_or_else(|| panic!("no {key} in {:#?}", self.values))
    }
}
