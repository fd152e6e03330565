//! The kinds of rows a store holds.

use everruns_durable::persistence::model::{
    DeadLetterState, Dump, Message, RollupKind, RollupOutcome, RunDump, UpdateState,
};

/// Every row's table and state.
pub(super) fn of(dump: &Dump) -> Vec<(&'static str, &'static str)> {
    let mut seen: Vec<(&str, &str)> = dump.runs.iter().flat_map(run).collect();
    seen.extend(dump.keys.iter().map(|key| ("keys", key.kind.as_str())));
    for letter in &dump.dead_letters {
        seen.push(("state of dead letters", letter.state.as_str()));
        if letter.parked && letter.state == DeadLetterState::Dead {
            seen.push(("state of dead letters", "parked"));
        }
    }
    seen.extend(dump.rollups.iter().map(|row| {
        let name = match (row.kind, row.outcome) {
            (RollupKind::Activity, RollupOutcome::Completed) => "activity completed",
            (RollupKind::Activity, RollupOutcome::Failed) => "activity failed",
            (RollupKind::Activity, RollupOutcome::Cancelled) => "activity cancelled",
            (RollupKind::Workflow, RollupOutcome::Completed) => "workflow completed",
            (RollupKind::Workflow, RollupOutcome::Failed) => "workflow failed",
            (RollupKind::Workflow, RollupOutcome::Cancelled) => "workflow cancelled",
        };
        ("totals", name)
    }));
    let audit = dump.audit.iter();
    seen.extend(audit.map(|row| ("audit rows", row.target.kind.as_str())));
    seen
}

fn run(run: &RunDump) -> Vec<(&'static str, &'static str)> {
    let mut seen = vec![("state of runs", run.run.status.as_str())];
    let marks = [
        (run.run.blocked.is_some(), "blocked"),
        (run.run.owner.is_some(), "owned"),
        (run.run.parent.is_some(), "child"),
    ];
    seen.extend(
        marks
            .iter()
            .filter(|(is, _)| *is)
            .map(|(_, mark)| ("state of runs", *mark)),
    );
    seen.extend(
        run.tasks
            .iter()
            .map(|t| ("state of tasks", t.status.as_str())),
    );
    seen.extend(
        run.facts
            .iter()
            .map(|f| ("facts that wait", f.event.event_type())),
    );
    seen.extend(run.messages.iter().map(|message| {
        let kind = match message.message {
            Message::StartChild { .. } => "start child",
            Message::ChildFinished { .. } => "child finished",
            Message::Signal { .. } => "signal",
            Message::CloseChildren => "close children",
        };
        ("messages that wait", kind)
    }));
    seen.extend(run.updates.iter().map(|update| {
        let state = match update.state {
            UpdateState::Pending => "pending",
            UpdateState::Completed(_) => "completed",
            UpdateState::Failed(_) => "failed",
        };
        ("state of updates", state)
    }));
    seen.extend(
        run.outbox
            .iter()
            .map(|event| ("state of outbox events", event.state.as_str())),
    );
    seen
}
