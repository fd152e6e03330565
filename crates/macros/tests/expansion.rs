//! What the attributes make of a function, used as a program would.
#![deny(warnings, clippy::all, clippy::needless_pass_by_value)]

mod library;

use std::any::TypeId;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use library::macro_support::{Activity, ActivityOptions, Birth, RunDefaults, WorkflowDefinition};
use library::prelude::*;

/// Greets somebody.
#[activity(crate = "crate::library")]
async fn greet(_ctx: ActivityContext, name: String) -> ActivityResult<String> {
    Ok(format!("Hello, {name}!"))
}

#[activity(crate = "library", name = "payments.charge", start_to_close = "30s", schedule_to_start = "PT10M",
    schedule_to_close = "1h", heartbeat = "250ms", attempts = 5, retry = RetryPolicy::steady(), priority = -3,
    exhausted = "park", transactional)]
async fn charge(
    ctx: ActivityContext,
    (order, mut amount): (String, u64),
    #[allow(unused_variables)] _: bool,
    ActivityContextLike { fee }: ActivityContextLike,
) -> Result<(String, u64), ActivityError> {
    amount += fee + u64::from(ctx.0);
    Ok((order, amount))
}

struct ActivityContextLike {
    fee: u64,
}

#[activity(crate = "library", attempts = ATTEMPTS)]
async fn ping() -> ActivityResult<()> {
    Err(ActivityError)
}

const ATTEMPTS: u32 = 9;

#[activity(crate = "library")]
async fn r#type(count: u32) -> ActivityResult<u32> {
    match count {
        0 => Ok(0),
        _ => Box::pin(r#type(count - 1)).await.map(|below| below + count),
    }
}

#[workflow(crate = "library")]
async fn hello(_: WorkflowContext, name: String) -> WorkflowResult<String> {
    Ok(format!("hello {name}"))
}

#[workflow(
    crate = "library",
    name = "fulfil",
    version = "1.2.0",
    execution_timeout = "7d",
    run_timeout = "1d"
)]
async fn fulfil_all(
    ctx: WorkflowContext,
    count: u32,
    name: String,
) -> WorkflowResult<(u32, String)> {
    Ok((count, hello::call(ctx, name).await?))
}

#[workflow(crate = "library", run_timeout = "90s")]
async fn tick(_ctx: WorkflowContext) -> WorkflowResult<()> {
    Err("stopped".to_owned())
}

mod names {
    use super::library;
    use super::library::prelude::*;

    /// An activity's own name is free inside it.
    #[activity(crate = "library")]
    pub(super) async fn order(order: u32, more: u32) -> ActivityResult<u32> {
        let order = order + more;
        Ok(order)
    }

    /// So are the names that an expansion could have taken.
    #[activity(crate = "library")]
    pub(super) async fn input(count: u32) -> ActivityResult<u32> {
        Ok(count)
    }
}

mod shop {
    use super::library;
    use super::library::prelude::*;

    #[deprecated = "use another"]
    #[activity(crate = "library")]
    #[allow(clippy::let_and_return)]
    pub(super) async fn seen(ctx: ActivityContext) -> ActivityResult<u32> {
        let tries = ctx.0;
        Ok(tries)
    }

    #[activity(crate = "library")]
    #[cfg(not(test))]
    pub(super) async fn compiled_out() -> ActivityResult<Missing> {
        no_such_function()
    }
}

fn finish<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("nothing here waits"),
    }
}

fn input_is<A: Activity, I: 'static>() -> bool
where
    A::Input: 'static,
{
    TypeId::of::<A::Input>() == TypeId::of::<I>()
}

fn output_is<A: Activity, O: 'static>() -> bool
where
    A::Output: 'static,
{
    TypeId::of::<A::Output>() == TypeId::of::<O>()
}

#[test]
fn an_activity_bears_its_functions_name_and_types() {
    assert_eq!(greet::TYPE, "greet");
    assert!(input_is::<greet, String>());
    assert!(output_is::<greet, String>());
    assert_eq!(greet::options(), ActivityOptions::default());
    const { assert!(!greet::TRANSACTIONAL) };
    assert_eq!(<r#type as Activity>::TYPE, "type");
}

#[test]
fn several_arguments_are_a_tuple_and_none_are_unit() {
    assert!(input_is::<charge, ((String, u64), bool, ActivityContextLike)>());
    assert!(output_is::<charge, (String, u64)>());
    assert!(input_is::<ping, ()>());
    assert!(input_is::<names::input, u32>());
}

#[test]
fn settings_become_options() {
    let expected = ActivityOptions {
        retry_policy: RetryPolicy {
            max_attempts: 5,
            jitter: 0.0,
        },
        schedule_to_start_timeout: Duration::from_secs(600),
        start_to_close_timeout: Duration::from_secs(30),
        heartbeat_timeout: Some(Duration::from_millis(250)),
        schedule_to_close_timeout: Some(Duration::from_secs(3600)),
        priority: -3,
        on_exhausted: ExhaustedPolicy::Park,
        ..ActivityOptions::default()
    };
    assert_eq!(charge::options(), expected);
    assert_eq!(charge::TYPE, "payments.charge");
    const { assert!(charge::TRANSACTIONAL) };
    let retried = ping::options();
    assert_eq!(
        retried.retry_policy,
        RetryPolicy {
            max_attempts: 9,
            jitter: 0.2
        }
    );
}

#[test]
fn execute_and_call_run_the_same_body() {
    let context = ActivityContext(1);
    let name = || "World".to_owned();
    assert_eq!(
        finish(greet().execute(&context, name())),
        Ok("Hello, World!".to_owned())
    );
    assert_eq!(
        finish(greet::call(context.clone(), name())),
        Ok("Hello, World!".to_owned())
    );

    let given = (("o-1".to_owned(), 10), true, ActivityContextLike { fee: 2 });
    assert_eq!(
        finish(charge().execute(&context, given)),
        Ok(("o-1".to_owned(), 13))
    );
    assert_eq!(finish(ping().execute(&context, ())), Err(ActivityError));
    assert_eq!(finish(ping::call()), Err(ActivityError));
    assert_eq!(finish(names::input().execute(&context, 4)), Ok(4));
}

#[test]
fn an_activitys_name_is_free_inside_it() {
    assert_eq!(finish(names::order::call(1, 2)), Ok(3));
    assert_eq!(
        finish(names::order().execute(&ActivityContext(0), (1, 2))),
        Ok(3)
    );
    assert_eq!(finish(r#type::call(3)), Ok(6));
}

#[test]
#[allow(deprecated)]
fn visibility_and_attributes_are_kept() {
    assert_eq!(finish(shop::seen::call(ActivityContext(7))), Ok(7));
}

#[test]
fn a_workflow_bears_its_functions_name_and_types() {
    assert_eq!((hello::TYPE, hello::VERSION), ("hello", ""));
    assert_eq!(hello::defaults(), RunDefaults::default());
    assert_eq!((fulfil_all::TYPE, fulfil_all::VERSION), ("fulfil", "1.2.0"));
    let day = Duration::from_secs(86_400);
    let expected = RunDefaults {
        execution_timeout: Some(day * 7),
        run_timeout: Some(day),
    };
    assert_eq!(fulfil_all::defaults(), expected);
    let expected = RunDefaults {
        run_timeout: Some(Duration::from_secs(90)),
        ..RunDefaults::default()
    };
    assert_eq!(tick::defaults(), expected);
}

#[test]
fn a_program_runs_the_body() {
    assert_eq!(finish(hello::program(Birth).run()), r#"Ok("hello ")"#);
    assert_eq!(
        finish(fulfil_all::program(Birth).run()),
        r#"Ok((0, "hello "))"#
    );
    assert_eq!(finish(tick::program(Birth).run()), r#"Err("stopped")"#);
}
