//! Finding runs, and what operators do with them.

use crate::stage::{assert_tells, story};

#[test]
fn runs_are_found_by_typed_attributes_and_listed_by_pages() {
    let told = [
        "2 orders of 5 are from the EU",
        "failed in the EU with priority 4: OutOfStock: no teapots left, see \"OPS-4\"",
        "with priority \"4\": 0",
        "the first order: {\"region\":{\"type\":\"text\",\"value\":\"us\"},\"stage\":{\"type\":\"text\",\"value\":\"shipped\"}}",
        "a page with orders [5, 4]",
        "a page with orders [3, 2]",
        "a page with orders [1]",
    ];
    assert_eq!(story("finding_runs"), told);
}

#[test]
fn a_workflow_id_is_used_again_as_its_policy_says() {
    let told = [
        "reject duplicate, while one runs: refused",
        "the error names it: true",
        "failed only, while one runs: refused",
        "failed only, after it failed: started",
        "terminate if running: started",
        "and the one before ended with WorkflowTerminated",
        "allow duplicate, the default: started",
        "runs of order-17: 4",
        "the same key, the same run: true",
        "the same key for another start: refused",
    ];
    assert_eq!(story("workflow_ids"), told);
}

#[test]
fn failed_steps_are_tried_again_and_many_runs_are_stopped_at_once() {
    let story = story("operating_runs");
    assert_tells(
        &story,
        &[
            "a step fails for good:",
            "  order 1: reserved",
            "  the run is failed",
            "the provider is back",
            "  order 1: charged",
            "  the run answers 1",
            "another run is taken back",
            "  order 2: reserved",
            "  back to \"workflow.started\"",
            "  order 2: reserved",
            "  order 2: charged",
            "  the run answers 2",
            "terminated: run ",
            "a drill: 3 would be asked to stop",
            "asked to stop: 3",
            "ended at once: 2",
            "parcels cancelled: 3",
            "parcels failed: 3",
        ],
    );
    let reserved = story.iter().filter(|line| *line == "  order 1: reserved");
    assert_eq!(reserved.count(), 1, "a retry leaves alone what succeeded");
}
