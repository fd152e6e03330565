//! A program that is one function, and what its tests are made of.

use std::time::Duration;

use durable_core::{
    Fact, Payload, Program, ProgramError, ProgramState, RunIdentity, Timestamp, Turn, TurnError,
    WorkflowAction as A, WorkflowSignal,
};
use uuid::Uuid;

/// Answers each fact by itself, whatever came before.
struct Rule(fn(&Fact) -> Vec<A>);

pub(crate) fn program(rule: fn(&Fact) -> Vec<A>) -> Box<dyn Program> {
    Box::new(Rule(rule))
}

impl Program for Rule {
    fn workflow_type(&self) -> &str {
        "rule"
    }

    fn apply(&mut self, fact: &Fact) -> Result<Vec<A>, ProgramError> {
        Ok((self.0)(fact))
    }
}

pub(crate) fn identity() -> RunIdentity {
    RunIdentity::new(Uuid::from_u128(1))
}

/// One turn that takes all facts.
pub(crate) fn live(
    rule: fn(&Fact) -> Vec<A>,
    facts: &[Fact],
) -> Result<(ProgramState, Turn), TurnError> {
    let mut run = ProgramState::new(identity(), program(rule));
    let mut turn = Turn::default();
    for fact in facts {
        run.take(fact, &mut turn)?;
    }
    Ok((run, turn))
}

pub(crate) fn start() -> Fact {
    Fact::Started {
        input: Payload::null(),
    }
}

pub(crate) fn signal(name: &str) -> WorkflowSignal {
    WorkflowSignal {
        signal_id: None,
        signal_type: name.into(),
        payload: Payload::null(),
        sent_at: Timestamp::UNIX_EPOCH,
    }
}

pub(crate) fn timer(id: &str) -> A {
    A::StartTimer {
        timer_id: id.into(),
        duration: Duration::from_secs(1),
    }
}
