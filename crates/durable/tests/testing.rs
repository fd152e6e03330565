//! `everruns_durable::testing`: each tool does what its users rely on.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use everruns_durable::persistence::model::RunFilter;
use everruns_durable::prelude::*;
use everruns_durable::testing::{
    Fault, Step, TestEnv, Verifier, VerifyError, simulate, verify, verify_all,
};

const DAY: Duration = Duration::from_secs(86_400);

#[activity]
async fn charge(_cents: u64) -> ActivityResult<String> {
    Err(ActivityError::new("NotHere", "no money moves in tests"))
}

#[activity]
async fn ship(receipt: String) -> ActivityResult<String> {
    Ok(format!("parcel for {receipt}"))
}

#[workflow]
async fn order(ctx: WorkflowContext, cents: u64) -> WorkflowResult<String> {
    let receipt = ctx.activity::<charge>(cents).await?;
    ctx.sleep(DAY).await?;
    ctx.activity::<ship>(receipt).await
}

fn env() -> everruns_durable::testing::TestEnvBuilder {
    TestEnv::new()
        .workflow::<order>()
        .mock::<charge>(|cents| Ok(format!("receipt for {cents}")))
        .activity(ship)
}

#[workflow]
async fn by_name(ctx: WorkflowContext, cents: u64) -> WorkflowResult<(String, String)> {
    let here = ctx.local_activity_named("charge", cents).await?;
    let child = ctx.child_named("order", cents).workflow_id("order-7");
    Ok((here, child.await?))
}

#[tokio::test]
async fn what_is_known_by_name_only_is_called_and_a_child_has_its_key() {
    let env = env().workflow::<by_name>().start().await;
    let (here, parcel) = env.run::<by_name>(7).await.expect("completes");
    assert_eq!(here, "receipt for 7");
    assert_eq!(parcel, "parcel for receipt for 7");
    let filter = RunFilter::default().business_id("order-7");
    let found = env.with(|client| async move { client.list(filter, Page::default()).await });
    let found = found.await.expect("listed");
    assert_eq!(found.runs.len(), 1);
    assert_eq!(found.runs[0].workflow_type, "order");
}

// ---- the environment ----------------------------------------------------------------------------

#[tokio::test]
async fn a_workflow_runs_with_mocks_and_its_calls_are_noted() {
    let env = env().start().await;
    let parcel = env.run::<order>(100).await.expect("completes");
    assert_eq!(parcel, "parcel for receipt for 100");
    assert_eq!(env.calls::<charge>(), [100]);
    assert_eq!(env.calls::<ship>(), ["receipt for 100"]);
    assert_eq!(env.all_calls(), ["charge", "ship"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_flavour_of_tokio_test_will_do() {
    let env = env().start().await;
    let (one, two) = tokio::join!(env.run::<order>(1), env.run::<order>(2));
    assert_eq!(one.expect("completes"), "parcel for receipt for 1");
    assert_eq!(two.expect("completes"), "parcel for receipt for 2");
}

#[tokio::test]
async fn a_day_passes_at_once_and_fires_what_is_due() {
    let env = env().time_by_hand().start().await;
    let began = Instant::now();
    let run = env.start::<order>(100).await.expect("starts");
    assert_eq!(
        env.all_calls(),
        ["charge"],
        "at once, without a look at the world"
    );
    let before = env.now().await;
    env.advance(DAY - Duration::from_secs(1)).await;
    assert_eq!(env.all_calls(), ["charge"], "not before its time");
    env.advance(Duration::from_secs(1)).await;
    assert_eq!(env.all_calls(), ["charge", "ship"]);
    assert!(env.now().await.duration_since(before).as_secs() >= 86_400);
    assert_eq!(
        run.result().await.expect("done"),
        "parcel for receipt for 100"
    );
    assert!(began.elapsed() < DAY / 24, "virtual, not real");
}

#[tokio::test]
async fn timers_fire_in_the_order_of_their_times() {
    #[activity]
    async fn note(_name: String) -> ActivityResult<()> {
        Ok(())
    }
    #[workflow]
    async fn later(ctx: WorkflowContext, hours: u64) -> WorkflowResult<()> {
        ctx.sleep(Duration::from_secs(hours * 3_600)).await?;
        ctx.activity::<note>(format!("{hours}")).await
    }
    let env = TestEnv::new().workflow::<later>().activity(note);
    let env = env.time_by_hand().start().await;
    for hours in [20, 3, 11] {
        env.start::<later>(hours).await.expect("starts");
    }
    env.advance(DAY).await;
    assert_eq!(env.calls::<note>(), ["3", "11", "20"]);
}

#[tokio::test]
async fn schedules_fire_in_virtual_time() {
    let env = env().time_by_hand().start().await;
    env.with(|client| async move {
        let daily = Schedule::cron("daily", "0 9 * * *").workflow::<order>(100);
        client.create_schedule(daily).await
    })
    .await
    .expect("creates");
    env.advance(DAY * 3).await;
    let started = env
        .with(|client| async move { client.count(RunFilter::default(), Default::default()).await });
    assert_eq!(started.await.expect("counts").count, 3);
}

#[tokio::test]
async fn an_activity_that_nobody_has_fails_the_wait_at_once() {
    let env = TestEnv::new()
        .workflow::<order>()
        .mock::<charge>(|_| Ok(String::new()))
        .start()
        .await;
    let error = env.run::<order>(1).await.expect_err("ship is missing");
    let text = error.to_string();
    assert!(text.contains(r#"activity "ship""#), "{text}");
    assert!(text.contains(".mock::<ship>"), "{text}");
}

#[tokio::test]
async fn a_failing_mock_is_retried_in_virtual_time() {
    let failures = AtomicU32::new(0);
    let env = TestEnv::new()
        .workflow::<order>()
        .mock::<charge>(move |cents| {
            if failures.fetch_add(1, Ordering::Relaxed) < 2 {
                return Err(ActivityError::new("Busy", "try again"));
            }
            Ok(format!("{cents}"))
        })
        .activity(ship)
        .start()
        .await;
    assert_eq!(
        env.run::<order>(7).await.expect("third time"),
        "parcel for 7"
    );
    assert_eq!(env.calls::<charge>(), [7, 7, 7]);
}

#[tokio::test]
async fn a_mock_may_take_hours_of_virtual_time() {
    #[activity(start_to_close = "PT5H")]
    async fn slow(_n: u32) -> ActivityResult<u32> {
        Ok(0)
    }
    #[workflow]
    async fn patient(ctx: WorkflowContext, n: u32) -> WorkflowResult<u32> {
        ctx.activity::<slow>(n).await
    }
    let env = TestEnv::new()
        .workflow::<patient>()
        .mock_async::<slow, _, _>(|_ctx, n| async move {
            tokio::time::sleep(Duration::from_secs(4 * 3_600)).await;
            Ok(n + 1)
        })
        .start()
        .await;
    let before = env.now().await;
    assert_eq!(env.run::<patient>(1).await.expect("completes"), 2);
    assert!(env.now().await.duration_since(before).as_hours() >= 4);
}

#[workflow]
async fn account(ctx: WorkflowContext, opening: i64) -> WorkflowResult<i64> {
    let balance = ctx.state(opening);
    let seen = balance.clone();
    ctx.on_query("balance", move |()| seen.get());
    let changed = balance.clone();
    ctx.on_update("deposit", move |cents: i64| {
        let changed = changed.clone();
        async move {
            Ok(changed.update(|balance| {
                *balance += cents;
                *balance
            }))
        }
    });
    ctx.signal::<()>("close").await?;
    Ok(balance.get())
}

#[tokio::test]
async fn signals_queries_and_updates_work_as_with_a_client() {
    let env = TestEnv::new().workflow::<account>().start().await;
    let run = env.start::<account>(10).await.expect("starts");
    assert_eq!(run.query::<i64>("balance", &()).await.expect("answers"), 10);
    assert_eq!(run.update::<i64>("deposit", &5).await.expect("answers"), 15);
    assert_eq!(run.query::<i64>("balance", &()).await.expect("answers"), 15);
    run.signal("close", &()).await.expect("sent");
    assert_eq!(run.result().await.expect("closes"), 15);
    let runs = env
        .with(|client| async move { client.count(RunFilter::default(), Default::default()).await });
    assert_eq!(runs.await.expect("counts").count, 1);
}

#[tokio::test]
async fn a_wait_for_what_cannot_happen_fails_and_says_so() {
    let env = TestEnv::new().workflow::<account>();
    let env = env.patience(Duration::from_millis(50)).start().await;
    let run = env.start::<account>(1).await.expect("starts");
    let error = run.result().await.expect_err("nobody closes it");
    assert!(error.to_string().contains("signal"), "{error}");
    assert!(error.to_string().contains("account"), "{error}");
}

#[tokio::test]
async fn a_run_that_cannot_be_replayed_fails_the_wait_with_the_reason() {
    static TURN: AtomicU32 = AtomicU32::new(0);
    #[workflow]
    async fn moody(ctx: WorkflowContext, cents: u64) -> WorkflowResult<String> {
        if TURN.fetch_add(1, Ordering::Relaxed) == 0 {
            return ctx.activity::<charge>(cents).await;
        }
        ctx.activity::<ship>("?".to_owned()).await
    }
    let env = env().workflow::<moody>().always_replay().start().await;
    let error = env.run::<moody>(1).await.expect_err("another path");
    assert!(error.to_string().contains("patched"), "{error}");
}

// ---- the driver ---------------------------------------------------------------------------------

#[tokio::test]
async fn a_driver_commits_one_thing_at_a_time() {
    let driver = env().driver().await;
    let run = driver.start::<order>(100).await.expect("starts");
    assert_eq!(
        driver.all_calls().len(),
        0,
        "not even the first turn is committed"
    );
    let step = driver.step().await.expect("steps").expect("a turn");
    let Step::Turn { run_id, events } = step else {
        panic!("{step}")
    };
    assert_eq!(run_id, run.id());
    assert!(events.contains(&"activity.scheduled"), "{events:?}");
    assert_eq!(driver.all_calls(), ["charge"]);
    driver.run_until_idle().await.expect("steps");
    assert!(
        !run.get().await.expect("there").status.is_terminal(),
        "the timer waits for time"
    );
    driver.advance(DAY).await;
    driver.run_until_idle().await.expect("steps");
    assert_eq!(
        run.result().await.expect("done"),
        "parcel for receipt for 100"
    );
}

#[tokio::test]
async fn what_is_left_after_a_crash_at_any_step_is_carried_on() {
    for crash_after in 0..5 {
        let driver = env().driver().await;
        let run = driver.start::<order>(100).await.expect("starts");
        for step in 0..10 {
            if step == crash_after {
                driver.crash().await;
                assert_eq!(driver.step().await.expect("steps"), None, "nobody is there");
                driver.resume().await;
            }
            if driver.step().await.expect("steps").is_none() {
                driver.advance(DAY).await;
            }
        }
        let parcel = run.result().await.expect("done");
        assert_eq!(
            parcel, "parcel for receipt for 100",
            "crash after {crash_after}"
        );
        let charged = driver.calls::<charge>().len();
        assert!((1..=2).contains(&charged), "charged {charged} times");
    }
}

// ---- the simulator ------------------------------------------------------------------------------

#[tokio::test]
async fn a_sound_workflow_survives_every_crash() {
    let simulated = simulate::<order>(100, 0..2)
        .world(|env| {
            env.mock::<charge>(|cents| Ok(format!("{cents}")))
                .activity(ship)
        })
        .await
        .unwrap_or_else(|divergence| panic!("{divergence}"));
    assert!(simulated.crashes > 50, "{simulated:?}");
}

#[tokio::test]
async fn a_workflow_that_reads_the_clock_of_the_machine_is_caught() {
    #[workflow]
    async fn hasty(ctx: WorkflowContext, _n: u64) -> WorkflowResult<String> {
        let now = std::time::SystemTime::now();
        let now = now
            .duration_since(std::time::UNIX_EPOCH)
            .expect("after 1970");
        let receipt = ctx.activity::<charge>(now.subsec_nanos().into()).await?;
        ctx.activity::<ship>(receipt).await
    }
    let found = simulate::<hasty>(1, [3])
        .world(|env| env.mock::<charge>(|_| Ok("r".to_owned())).activity(ship))
        .await
        .expect_err("not deterministic");
    let text = found.to_string();
    assert!(text.contains("charge"), "{text}");
    assert!(text.contains("simulate::<hasty>(input, [3])"), "{text}");
}

#[tokio::test]
async fn reading_the_time_as_one_should_is_no_divergence() {
    #[workflow]
    async fn punctual(ctx: WorkflowContext, _n: u64) -> WorkflowResult<String> {
        let receipt = ctx.activity::<charge>(1).await?;
        Ok(format!("{receipt} at {} by {}", ctx.now(), ctx.uuid()))
    }
    simulate::<punctual>(1, 0..1)
        .world(|env| env.mock::<charge>(|_| Ok("r".to_owned())))
        .await
        .unwrap_or_else(|divergence| panic!("{divergence}"));
}

#[tokio::test]
async fn an_activity_that_is_not_idempotent_is_caught_by_a_crash() {
    #[activity]
    async fn count(_n: u64) -> ActivityResult<u32> {
        Ok(0)
    }
    #[workflow]
    async fn counter(ctx: WorkflowContext, n: u64) -> WorkflowResult<u32> {
        ctx.activity::<count>(n).await
    }
    let counting = || {
        simulate::<counter>(1, [5]).world(|env| {
            let mut calls = 0;
            env.mock::<count>(move |_| {
                calls += 1;
                Ok(calls)
            })
        })
    };
    let found = counting().await.expect_err("called again after a crash");
    let fault = found.fault.expect("only where something goes wrong");
    assert!(
        found
            .to_string()
            .contains(&format!(".only(Fault::{fault:?})")),
        "{found}"
    );
    let again = counting().only(fault).await.expect_err("the same again");
    assert_eq!(again, found);
    let before = counting().only(Fault::CrashBefore(0)).await;
    before.expect("nothing was called before the first call of the store");
}

#[tokio::test]
async fn a_script_talks_to_the_simulated_run() {
    let simulated = simulate::<account>(1, 0..1)
        .meanwhile(|run| async move {
            let deposited = run.update("deposit", &5).await_result::<i64>().await;
            assert_eq!(deposited.expect("answers"), 6);
            run.signal("close", &()).await.expect("sent");
        })
        .faults_max(60)
        .await
        .unwrap_or_else(|divergence| panic!("{divergence}"));
    assert!(simulated.runs > 30);
}

#[tokio::test]
async fn a_run_that_never_ends_is_reported() {
    let found = simulate::<account>(1, [0])
        .await
        .expect_err("nobody closes it");
    assert!(found.to_string().contains("does not end"), "{found}");
    assert_eq!(found.fault, None);
}

// ---- recorded histories -------------------------------------------------------------------------

mod old {
    use super::*;

    #[workflow(name = "invoice")]
    pub async fn invoice(ctx: WorkflowContext, cents: u64) -> WorkflowResult<String> {
        let receipt = ctx.activity::<charge>(cents).await?;
        ctx.activity::<ship>(receipt).await
    }
}

mod reordered {
    use super::*;

    #[workflow(name = "invoice")]
    pub async fn invoice(ctx: WorkflowContext, cents: u64) -> WorkflowResult<String> {
        ctx.sleep(DAY).await?;
        let receipt = ctx.activity::<charge>(cents).await?;
        ctx.activity::<ship>(receipt).await
    }
}

mod dearer {
    use super::*;

    #[workflow(name = "invoice")]
    pub async fn invoice(ctx: WorkflowContext, cents: u64) -> WorkflowResult<String> {
        let receipt = ctx.activity::<charge>(cents + 1).await?;
        ctx.activity::<ship>(receipt).await
    }
}

mod patched {
    use super::*;

    #[workflow(name = "invoice")]
    pub async fn invoice(ctx: WorkflowContext, cents: u64) -> WorkflowResult<String> {
        if ctx.patched("wait-a-day") {
            ctx.sleep(DAY).await?;
        }
        let receipt = ctx.activity::<charge>(cents).await?;
        ctx.activity::<ship>(receipt).await
    }
}

async fn recorded() -> String {
    let env = env().workflow::<old::invoice>().start().await;
    let run = env.start::<old::invoice>(100).await.expect("starts");
    run.result().await.expect("completes");
    run.history().await.expect("there").to_json()
}

#[tokio::test]
async fn a_history_goes_with_the_code_that_made_it_and_with_a_patch() {
    let json = recorded().await;
    let verified = verify::<old::invoice>(&json).expect("the same code");
    assert!(verified.events > 4);
    verify::<patched::invoice>(&json).expect("the old path");
}

#[tokio::test]
async fn a_changed_workflow_is_caught_with_both_sides_the_line_and_the_way_out() {
    let json = recorded().await;
    let error = verify::<reordered::invoice>(&json).expect_err("sleeps first");
    let text = error.to_string();
    for part in [
        "schedule activity",
        "start timer",
        "testing.rs:",
        "ctx.patched(",
    ] {
        assert!(text.contains(part), "{part} is missing in: {text}");
    }
    let error = verify::<dearer::invoice>(&json).expect_err("another input");
    let text = error.to_string();
    for part in ["100", "101", "testing.rs:"] {
        assert!(text.contains(part), "{part} is missing in: {text}");
    }
}

#[tokio::test]
async fn a_history_of_another_workflow_is_refused_by_name() {
    let json = recorded().await;
    let error = verify::<order>(&json).expect_err("an invoice");
    assert!(
        matches!(error, VerifyError::NotRegistered { .. }),
        "{error}"
    );
    assert!(verify::<order>("{}").is_err());
}

#[tokio::test]
async fn a_folder_is_a_gate_that_names_every_refused_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = verify_all::<old::invoice>(&folder).expect_err("nothing to check");
    assert!(empty.to_string().contains("no *.json"), "{empty}");
    for name in ["a.json", "b.json"] {
        std::fs::write(folder.path().join(name), recorded().await).expect("written");
    }
    std::fs::write(folder.path().join("notes.txt"), "not a history").expect("written");
    let both = Verifier::new()
        .workflow::<old::invoice>()
        .workflow::<order>();
    assert_eq!(both.folder(&folder).expect("both go").len(), 2);
    let refused = verify_all::<reordered::invoice>(&folder).expect_err("changed");
    assert_eq!(refused.files().count(), 2);
    assert!(refused.to_string().contains("b.json"), "{refused}");
}
