//! A child: another program, or a workflow of any type.

use everruns_durable::prelude::ClosePolicy;

use super::Program;
use super::written::{self, is_computed};
use crate::PROGRAM_TYPE;
use crate::expr::Expr;
use crate::fields::Fields;
use crate::mistake::Mistake;
use crate::slot::{Id, Slot};
use crate::value::Value;

/// A child and how it is run.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) work: ChildWork,
    pub(crate) id: Option<Slot<Id>>,
    pub(crate) policy: Option<Slot<ClosePolicy>>,
    pub(crate) save: Option<String>,
}

/// What a child does.
#[derive(Debug)]
pub(crate) enum ChildWork {
    /// A program that is written out: its variables are computed here, its steps are its own.
    Program(Program),
    /// A program that is known when the step runs.
    Computed(Expr),
    /// A workflow of any type.
    Workflow { workflow_type: String, input: Expr },
}

impl Child {
    pub(super) fn parse(fields: &Fields<'_>) -> Result<Self, Mistake> {
        let program = fields.get("program");
        let named = fields.get("workflow_type").is_some();
        let work = match program {
            Some(_) if named || fields.get("input").is_some() => {
                let problem = "has both a program and a workflow type or an input; give a program alone, or a workflow_type with an input";
                return Err(fields.path().mistake(problem));
            }
            Some(program) if is_computed(program) => {
                written::program(program, &fields.path().field("program"))?;
                ChildWork::Computed(fields.expr("program")?)
            }
            Some(program) => {
                let path = fields.path().field("program");
                ChildWork::Program(Program::parse(program, &path)?)
            }
            None if named => {
                let workflow_type = fields.name("workflow_type")?;
                let input = fields.expr_or_null("input")?;
                if workflow_type == PROGRAM_TYPE {
                    let given = fields.get("input").unwrap_or(&Value::Null);
                    written::program(given, &fields.path().field("input"))?;
                }
                ChildWork::Workflow {
                    workflow_type,
                    input,
                }
            }
            None => {
                let problem = "lacks \"program\", or \"workflow_type\" with \"input\"";
                return Err(fields.path().mistake(problem));
            }
        };
        Ok(Self {
            work,
            id: fields.optional_slot("id")?,
            policy: fields.optional_slot("policy")?,
            save: fields.optional_variable("save")?,
        })
    }
}
