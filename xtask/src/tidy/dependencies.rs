//! Rules about crates: which of ours may see which, and what may come from outside.
//!
//! Everything is read from `cargo metadata`, so it is what the compiler sees, not what a manifest seems to say.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Report;
use super::licence::is_allowed;
use crate::tools::{capture, cargo};

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: BTreeSet<String>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Debug, Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

pub(super) fn check(report: &mut Report) -> Result<()> {
    let metadata = read()?;
    // Packages of other platforms are listed but never built.
    let built: BTreeSet<&String> = metadata.resolve.nodes.iter().map(|node| &node.id).collect();
    for package in metadata
        .packages
        .iter()
        .filter(|package| built.contains(&package.id))
    {
        if metadata.workspace_members.contains(&package.id) {
            check_arrows(package, report);
        } else {
            check_outsider(package, report);
        }
    }
    check_unreachable(&metadata, report);
    check_reasons(&metadata, report);
    Ok(())
}

fn read() -> Result<Metadata> {
    let version = capture(cargo().arg("-vV"))?;
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("cargo names no host")?;
    let text = capture(cargo().args(["metadata", "--format-version", "1", "--filter-platform", host]))?;
    serde_json::from_str(&text).context("cargo metadata is not what it was")
}

/// Checks what one of our crates uses of ours.
fn check_arrows(package: &Package, report: &mut Report) {
    let name = &package.name;
    let Some(allowed) = report.rules.arrows.get(name).cloned() else {
        report.find("arrows", name, "has no line under [arrows]: say what it may use");
        return;
    };
    let in_tests = report.rules.test_arrows.get(name).cloned().unwrap_or_default();
    for dependency in package
        .dependencies
        .iter()
        .filter(|dependency| dependency.source.is_none())
    {
        let used = &dependency.name;
        let in_tests = dependency.kind.as_deref() == Some("dev") && in_tests.contains(used);
        if !allowed.contains(used) && !in_tests {
            report.find("arrows", name, &format!("must not use {used}"));
        }
    }
}

/// Checks that each crate from outside that a manifest names is there for a reason, and each reason for a crate.
fn check_reasons(metadata: &Metadata, report: &mut Report) {
    let members = metadata
        .packages
        .iter()
        .filter(|package| metadata.workspace_members.contains(&package.id));
    let mut used = BTreeMap::new();
    for package in members {
        for dependency in package
            .dependencies
            .iter()
            .filter(|dependency| dependency.source.is_some())
        {
            used.entry(dependency.name.clone())
                .or_insert_with(|| package.name.clone());
        }
    }
    let explained: BTreeSet<String> = report.rules.dependencies.keys().cloned().collect();
    for (name, user) in used.iter().filter(|(name, _)| !explained.contains(*name)) {
        report.find(
            "reasons",
            name,
            &format!("used by {user} without a reason under [dependencies]"),
        );
    }
    for name in explained.iter().filter(|name| !used.contains_key(*name)) {
        report.find("reasons", name, "has a reason, but no crate uses it");
    }
}

/// Checks a crate from outside.
fn check_outsider(package: &Package, report: &mut Report) {
    let subject = &package.name;
    if let Some(reason) = report.rules.bans.get(subject).cloned() {
        report.find("bans", subject, &format!("is banned: {reason}"));
    }
    if package.source.as_deref() != Some(REGISTRY) {
        let source = package.source.as_deref().unwrap_or("a path");
        report.find(
            "sources",
            subject,
            &format!("comes from {source}, not from the registry"),
        );
    }
    let licence = package.license.as_deref().unwrap_or_default();
    if !is_allowed(licence, &report.rules.licences.allowed) {
        report.find(
            "licences",
            subject,
            &format!("{} has the licence {licence:?}", package.version),
        );
    }
}

/// Checks what must not be reachable from a crate through any chain of normal dependencies.
fn check_unreachable(metadata: &Metadata, report: &mut Report) {
    let names: BTreeMap<&str, &str> = metadata
        .packages
        .iter()
        .map(|package| (package.id.as_str(), package.name.as_str()))
        .collect();
    let nodes: BTreeMap<&str, &Node> = metadata
        .resolve
        .nodes
        .iter()
        .map(|node| (node.id.as_str(), node))
        .collect();
    for (member, forbidden) in report.rules.unreachable.clone() {
        let start = metadata
            .workspace_members
            .iter()
            .find(|id| names.get(id.as_str()) == Some(&member.as_str()));
        let Some(start) = start else {
            report.find("unreachable", &member, "is not a crate of the workspace");
            continue;
        };
        for id in reachable(start, &nodes) {
            let name = names.get(id).copied().unwrap_or_default();
            if forbidden.contains(name) {
                report.find(
                    "unreachable",
                    &member,
                    &format!("must not see {name}, however indirectly"),
                );
            }
        }
    }
}

fn reachable<'a>(start: &'a str, nodes: &BTreeMap<&'a str, &'a Node>) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut waiting = vec![start];
    while let Some(id) = waiting.pop() {
        if !seen.insert(id) {
            continue;
        }
        for edge in nodes.get(id).into_iter().flat_map(|node| &node.deps) {
            if edge.dep_kinds.iter().any(|kind| kind.kind.is_none()) {
                waiting.push(&edge.pkg);
            }
        }
    }
    seen
}
