//! Branches: several lines of steps at the same time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Interpreter;
use super::exit::{Exit, Flow};
use super::strand::{Strand, Token};
use crate::steps::{Action, Step};
use crate::value::Value;

impl<'p> Interpreter<'p> {
    pub(super) async fn branch(&self, action: &'p Action, strand: &Strand) -> Flow {
        match action {
            Action::Parallel { branches, save } => {
                let all = self.parallel(branches, strand).await?;
                self.save_in(save.as_ref(), all.into())
            }
            Action::Race { branches, save } => {
                let (winner, value) = self.race(branches, strand).await?;
                let won = Value::object([("winner", winner.into()), ("value", value)]);
                self.save_in(save.as_ref(), won)
            }
            _ => Ok(()),
        }
    }

    /// All of them, until one does not end well.
    async fn parallel(
        &self,
        branches: &'p [Vec<Step>],
        strand: &Strand,
    ) -> Result<Vec<Value>, Exit> {
        let ended = self.run_branches(branches, strand, |flow| returned(flow).is_none());
        let mut ended = ended.await;
        match ended.decided {
            Some(index) => Err(leave(ended.flows.swap_remove(index))),
            None => Ok(ended.flows.iter().filter_map(returned).collect()),
        }
    }

    /// The first that ends, however it ends.
    async fn race(
        &self,
        branches: &'p [Vec<Step>],
        strand: &Strand,
    ) -> Result<(usize, Value), Exit> {
        let mut ended = self.run_branches(branches, strand, |_| true).await;
        let winner = ended.decided.unwrap_or_default();
        let flow = ended.flows.swap_remove(winner);
        match returned(&flow) {
            Some(value) => Ok((winner, value)),
            None => Err(leave(flow)),
        }
    }

    /// Runs branches in order until they wait, and again when something has happened. When one ends so that it decides, the
    /// others are cancelled; all have ended when this does.
    async fn run_branches(
        &self,
        branches: &'p [Vec<Step>],
        strand: &Strand,
        decides: fn(&Flow) -> bool,
    ) -> Ended {
        let branches = branches.iter().map(|steps| {
            let id = self
                .shared
                .places
                .update(|places| places.branch(strand.id()));
            let branch = strand.branch(id);
            let token = branch.token().clone();
            let run: Run<'_> = Box::pin(async move {
                let flow = self.steps(steps, &branch).await;
                self.shared.places.update(|places| places.leave(id));
                flow
            });
            Branch::Running { token, run }
        });
        let running = Branches {
            branches: branches.collect(),
            decided: None,
            decides,
        };
        running.await
    }
}

type Run<'a> = Pin<Box<dyn Future<Output = Flow> + Send + 'a>>;

enum Branch<'a> {
    Running { token: Token, run: Run<'a> },
    Ended(Flow),
}

struct Branches<'a> {
    branches: Vec<Branch<'a>>,
    /// Which one ended so that the others are cancelled.
    decided: Option<usize>,
    decides: fn(&Flow) -> bool,
}

/// How the branches ended.
struct Ended {
    flows: Vec<Flow>,
    decided: Option<usize>,
}

impl Branches<'_> {
    /// Polls each once, in order. True: one of them decided, so that those before it have to be looked at again.
    fn pass(&mut self, cx: &mut Context<'_>) -> bool {
        let mut decided_now = false;
        for index in 0..self.branches.len() {
            let Branch::Running { run, .. } = &mut self.branches[index] else {
                continue;
            };
            let Poll::Ready(flow) = run.as_mut().poll(cx) else {
                continue;
            };
            let decides = self.decided.is_none() && (self.decides)(&flow);
            self.branches[index] = Branch::Ended(flow);
            if decides {
                self.decided = Some(index);
                decided_now = true;
                for branch in &self.branches {
                    if let Branch::Running { token, .. } = branch {
                        token.cancel();
                    }
                }
            }
        }
        decided_now
    }
}

impl Future for Branches<'_> {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        while self.pass(cx) {}
        let running = self.branches.iter();
        if running
            .into_iter()
            .any(|branch| matches!(branch, Branch::Running { .. }))
        {
            return Poll::Pending;
        }
        let branches = std::mem::take(&mut self.branches).into_iter();
        let flows = branches.filter_map(|branch| match branch {
            Branch::Ended(flow) => Some(flow),
            Branch::Running { .. } => None,
        });
        Poll::Ready(Ended {
            flows: flows.collect(),
            decided: self.decided,
        })
    }
}

/// What a branch that ended well answers.
fn returned(flow: &Flow) -> Option<Value> {
    match flow {
        Ok(()) => Some(Value::Null),
        Err(Exit::Return(value)) => Some(value.clone()),
        Err(_) => None,
    }
}

/// How the whole leaves for a branch that did not end well.
fn leave(flow: Flow) -> Exit {
    flow.err().unwrap_or(Exit::Cancelled)
}
