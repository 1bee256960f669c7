//! What is committed reaches every owner in the same order, whatever becomes of single nodes.

use crate::group::Group;

fn commit(group: &mut Group, leader: u64, texts: impl IntoIterator<Item = String>) {
    let member = group.member(leader);
    for text in texts {
        let ticket = member.propose(text.as_bytes()).expect("a leader takes it");
        member.wait("the commit", |member| member.seen.outcomes.contains_key(&ticket));
        assert_eq!(member.seen.outcomes[&ticket], "committed");
    }
}

fn texts(group: &Group, id: u64) -> Vec<String> {
    let entries = group.members[&id].seen.entries.iter();
    entries
        .map(|(_, bytes)| String::from_utf8(bytes.clone()).unwrap())
        .collect()
}

#[test]
fn every_owner_hears_the_same_entries_in_the_same_order() {
    let mut group = Group::form(&[1, 2, 3]);
    let leader = group.leader(&[]);
    let sent: Vec<_> = (0..50).map(|n| format!("entry {n}")).collect();
    commit(&mut group, leader, sent.clone());
    for id in [1, 2, 3] {
        group
            .member(id)
            .wait("all entries", |member| member.seen.entries.len() == 50);
        assert_eq!(texts(&group, id), sent);
    }
    let epochs = group
        .members
        .values()
        .filter(|member| member.seen.epoch.is_some())
        .count();
    assert_eq!(epochs, 1);
}

#[test]
fn several_batches_are_in_flight_and_commit_in_order() {
    let mut group = Group::form(&[1, 2, 3]);
    let leader = group.leader(&[]);
    let member = group.member(leader);
    let tickets: Vec<_> = (0..20).map(|n| member.propose(&[n]).unwrap()).collect();
    member.wait("all commits", |member| {
        member.seen.outcomes.len() == tickets.len()
    });
    let bytes: Vec<_> = member.seen.entries.iter().map(|(_, bytes)| bytes[0]).collect();
    assert_eq!(bytes, (0..20).collect::<Vec<_>>());
}

#[test]
fn what_was_committed_outlives_its_leader_and_the_node_comes_back() {
    let mut group = Group::form(&[1, 2, 3]);
    let first = group.leader(&[]);
    commit(&mut group, first, (0..10).map(|n| format!("first {n}")));
    group.stop(first);
    let second = group.leader(&[]);
    commit(&mut group, second, (0..10).map(|n| format!("second {n}")));
    group.start(first);
    let third = group.leader(&[]);
    commit(&mut group, third, ["last".to_owned()]);
    for id in [1, 2, 3] {
        group
            .member(id)
            .wait("all entries", |member| member.seen.entries.len() == 21);
    }
    let expected = texts(&group, second);
    assert_eq!(expected.len(), 21);
    for id in [1, 2, 3] {
        assert_eq!(texts(&group, id), expected, "node {id}");
    }
}

#[test]
fn a_leader_without_a_quorum_stops_serving_and_commits_nothing() {
    let mut group = Group::form(&[1, 2, 3]);
    let first = group.leader(&[]);
    commit(&mut group, first, ["before".to_owned()]);
    group.isolate(first, true);
    let lost = group
        .member(first)
        .propose(b"lost")
        .expect("it does not know yet");
    group
        .member(first)
        .wait("the end of its reign", |member| member.seen.epoch.is_none());
    assert_eq!(group.member(first).propose(b"too late"), None);
    let second = group.leader(&[first]);
    commit(&mut group, second, ["after".to_owned()]);
    group.isolate(first, false);
    group
        .member(first)
        .wait("the outcome", |member| member.seen.outcomes.contains_key(&lost));
    assert_eq!(group.member(first).seen.outcomes[&lost], "unknown");
    for id in [1, 2, 3] {
        group
            .member(id)
            .wait("what others committed", |member| member.seen.entries.len() == 2);
        assert_eq!(texts(&group, id), ["before", "after"]);
    }
}

#[test]
fn leadership_is_handed_over() {
    let mut group = Group::form(&[1, 2, 3]);
    let first = group.leader(&[]);
    commit(&mut group, first, ["before".to_owned()]);
    let heir = [1, 2, 3].into_iter().find(|id| *id != first).unwrap();
    let node = group.members[&first].node.clone();
    group.runtime.block_on(node.transfer(heir)).unwrap();
    group
        .member(first)
        .wait("the end of its reign", |member| member.seen.epoch.is_none());
    assert_eq!(group.leader(&[first]), heir);
    commit(&mut group, heir, ["after".to_owned()]);
}
