//! What the passes found, in words.

use super::words::counted;
use crate::plan::Finding;

/// How often something was found, and what it means.
#[must_use]
pub fn explain(finding: Finding, count: u64) -> String {
    let (one, many) = meaning(finding);
    counted(count, one, many)
}

/// What a finding means, after the number one and after others.
fn meaning(finding: Finding) -> (&'static str, &'static str) {
    match finding {
        Finding::Unreadable => (
            "time that decides cannot be read: that memory is kept",
            "times that decide cannot be read: those memories are kept",
        ),
        Finding::WithoutNamespace => (
            "row names no owner: left alone",
            "rows name no owner: left alone",
        ),
        Finding::WithoutKey => (
            "row has no usable key: left alone",
            "rows have no usable key: left alone",
        ),
        Finding::Blocked => (
            "memory cannot be removed without breaking or taking along others: left alone",
            "memories cannot be removed without breaking or taking along others: left alone",
        ),
        Finding::RowWithoutPoint => ("live row has no point", "live rows have no point"),
        Finding::PointWithoutRow => (
            "point has no row, and stays for now",
            "points have no row, and stay for now",
        ),
        Finding::UnlinkedPoint => (
            "point names no row, and stays for now",
            "points name no row, and stay for now",
        ),
        Finding::UnlinkedToDrop => (
            "of the points to be dropped names no row",
            "of the points to be dropped name no row",
        ),
        Finding::PointWithoutNamespace => (
            "point names no namespace: left alone",
            "points name no namespace: left alone",
        ),
        Finding::PointWithoutKey => (
            "point has no usable key, or shares one: left alone",
            "points have no usable key, or share one: left alone",
        ),
        Finding::StalePoint => (
            "point has another text than its row: its vector is not compared",
            "points have another text than their rows: their vectors are not compared",
        ),
        Finding::BrokenChain => (
            "superseded memory points at one that is gone",
            "superseded memories point at one that is gone",
        ),
        Finding::UnreadNamespace => (
            "point belongs to rows that could not be read: left alone",
            "points belong to rows that could not be read: left alone",
        ),
        Finding::RuleMismatch => (
            "point is of a namespace where no point fits a row: is point_id right? left alone",
            "points are of namespaces where no point fits a row: is point_id right? left alone",
        ),
        Finding::WithoutVector => (
            "live memory has no vector that can be compared",
            "live memories have no vector that can be compared",
        ),
        Finding::KeptApart => (
            "pair is near enough to be one memory, and differs in a number, a name or a negation: kept apart",
            "pairs are near enough to be one memory, and differ in a number, a name or a negation: kept apart",
        ),
        Finding::Undated => (
            "live memory does not say when it was written: compared with none for contradictions",
            "live memories do not say when they were written: compared with none for contradictions",
        ),
        Finding::OverBudget => (
            "memory has faded, and stays until enough of its namespace may go again",
            "memories have faded, and stay until enough of their namespace may go again",
        ),
        Finding::DeadLink => (
            "point lists memories that are not there, or nothing that can be read, and stays so for now",
            "points list memories that are not there, or nothing that can be read, and stay so for now",
        ),
        Finding::StrayChild => (
            "row of another table belongs to a memory that is not there",
            "rows of other tables belong to memories that are not there",
        ),
        Finding::LoggedWithoutPoint => (
            "memory lives by the application's log, and has no point",
            "memories live by the application's log, and have no point",
        ),
        Finding::PointWithoutLog => (
            "memory is not in the application's log",
            "memories are not in the application's log",
        ),
        Finding::LoggedDeleted => (
            "memory is there, and was deleted by the application's log",
            "memories are there, and were deleted by the application's log",
        ),
        Finding::LoggedOtherwise => (
            "memory has another text than the application's log says last",
            "memories have another text than the application's log says last",
        ),
        Finding::Settling => (
            "absence was seen too recently to be believed",
            "absences were seen too recently to be believed",
        ),
    }
}
