//! Programs of every kind of step on every store, by the shipped engine in real time: each with its programs kept and with every turn replayed.

use durable_program::{BuiltIns, PROGRAM_TYPE};
use durable_testkit::flavour::Kind;
use durable_testkit::{Flavour, audit};
use everruns_durable::Engine;
use everruns_durable::prelude::Payload;
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};

/// A program, what it is told while it runs, and how it ends.
struct Case {
    name: &'static str,
    program: Value,
    signals: Vec<(&'static str, Value)>,
    end: Result<Value, &'static str>,
}

fn main() {
    let flavours = [
        (Kind::Memory, 1),
        (Kind::Sqlite, 1),
        (Kind::Postgres, 1),
        (Kind::Postgres, 4),
    ];
    let mut trials = Vec::new();
    for (kind, shards) in flavours {
        for always_replay in [false, true] {
            for case in cases() {
                trials.push(trial(Flavour { kind, shards }, always_replay, case));
            }
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn trial(flavour: Flavour, always_replay: bool, case: Case) -> Trial {
    let mode = if always_replay { "replayed" } else { "kept" };
    let name = format!("{}::{mode}::{}", flavour.name(), case.name);
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(failed)?;
        runtime.block_on(check(flavour, always_replay, case))
    })
}

fn failed(error: impl std::fmt::Display) -> Failed {
    Failed::from(format!("{error:#}"))
}

async fn check(flavour: Flavour, always_replay: bool, case: Case) -> Result<(), Failed> {
    let place = flavour.open().await.map_err(failed)?;
    let engine = Engine::on(place.store.clone()).always_replay(always_replay);
    let engine = durable_program::register(engine, BuiltIns::default());
    let engine = engine.start().await.map_err(failed)?;
    let client = engine.client();
    let input = Payload::from_value(&case.program).map_err(failed)?;
    durable_program::check(&input).map_err(failed)?;
    let run = client.start_named(PROGRAM_TYPE, input).await;
    let run = run.map_err(failed)?;
    for (name, value) in &case.signals {
        client.signal(run.id(), name, value).await.map_err(failed)?;
    }
    let end = match run.result().await {
        Ok(result) => Ok(result.to_value().map_err(failed)?),
        Err(error) => {
            let failure = error.failure().ok_or_else(|| failed(&error))?;
            Err(failure.error_type.clone())
        }
    };
    let expected = case.end.map_err(str::to_owned);
    if end != expected {
        return Err(failed(format!("it ended with {end:?}, not {expected:?}")));
    }
    engine.shutdown().await.map_err(failed)?;
    let report = audit::audit(&*place.store, None).await.map_err(failed)?;
    if !report.is_clean() {
        return Err(failed(report));
    }
    place.close().await;
    Ok(())
}

/// One that is told nothing.
fn case(name: &'static str, program: Value, end: Result<Value, &'static str>) -> Case {
    Case {
        name,
        program,
        signals: Vec::new(),
        end,
    }
}

fn cases() -> Vec<Case> {
    let mut cases = calls();
    cases.extend(flow());
    cases.extend(branches());
    cases.extend(told());
    cases
}

fn calls() -> Vec<Case> {
    let timeout = |kind: &str, options: Value| json!({"steps": [{"do": "activity", "type": kind, "input": {"ms": 600_000}, "options": options}]});
    vec![
        case(
            "activities_and_locals",
            json!({"vars": {"x": 2}, "steps": [
                {"do": "activity", "type": "add", "input": {"a": {"$": "x"}, "b": 3}, "save": "sum"},
                {"do": "local", "type": "echo", "input": [{"$": "sum"}], "save": "echoed"},
                {"do": "activity", "type": "log", "input": "a line"},
                {"do": "return", "value": {"$": "echoed"}}
            ]}),
            Ok(json!([5])),
        ),
        case(
            "retries",
            json!({"steps": [
                {"do": "activity", "type": "fail_n", "input": {"n": 2}, "save": "attempt", "options": {"max_attempts": 3, "initial_interval_ms": 5}},
                {"do": "return", "value": {"$": "attempt"}}
            ]}),
            Ok(json!(3)),
        ),
        case(
            "start_to_close_timeout",
            timeout("sleep", json!({"max_attempts": 1, "start_to_close_ms": 50})),
            Err("StartToCloseTimeout"),
        ),
        case(
            "schedule_to_start_timeout",
            timeout("nobodys", json!({"schedule_to_start_ms": 50})),
            Err("ScheduleToStartTimeout"),
        ),
        case(
            "schedule_to_close_timeout",
            timeout("sleep", json!({"schedule_to_close_ms": 50})),
            Err("ScheduleToCloseTimeout"),
        ),
        case(
            "heartbeat_timeout",
            timeout("sleep", json!({"max_attempts": 1, "heartbeat_ms": 50})),
            Err("HeartbeatTimeout"),
        ),
        case(
            "side_effects_are_made_once",
            json!({"steps": [
                {"do": "side_effect", "kind": "uuid", "save": "id"},
                {"do": "sleep", "ms": 5},
                {"do": "return", "value": {"$len": {"$": "id"}}}
            ]}),
            Ok(json!(36)),
        ),
        case(
            "digits_that_no_double_has",
            json!({"steps": [
                {"do": "activity", "type": "echo", "input": 9_007_199_254_740_993_u64, "save": "n"},
                {"do": "return", "value": {"$": "n"}}
            ]}),
            Ok(json!(9_007_199_254_740_993_u64)),
        ),
    ]
}

fn flow() -> Vec<Case> {
    let note = |what: &str| json!({"do": "set", "var": "log", "value": {"$concat": [{"$": "log"}, [what]]}});
    vec![
        case(
            "loops_and_conditions",
            json!({"vars": {"n": 0}, "steps": [
                {"do": "repeat", "times": 3, "steps": [{"do": "set", "var": "n", "value": {"$add": [{"$": "n"}, 1]}}]},
                {"do": "while", "cond": {"$lt": [{"$": "n"}, 5]}, "max": 9, "steps": [
                    {"do": "activity", "type": "add", "input": {"a": {"$": "n"}, "b": 1}, "save": "n"}
                ]},
                {"do": "if", "cond": {"$eq": [{"$": "n"}, 5]}, "then": [{"do": "return", "value": "five"}]}
            ]}),
            Ok(json!("five")),
        ),
        case(
            "try_catch_finally",
            json!({"vars": {"log": []}, "steps": [
                {"do": "try", "steps": [{"do": "fail", "type": "Boom", "message": "as planned"}],
                 "save_error": "error", "catch": [note("caught")], "finally": [note("finally")]},
                {"do": "return", "value": [{"$": "error.type"}, {"$": "log"}]}
            ]}),
            Ok(json!(["Boom", ["caught", "finally"]])),
        ),
        case(
            "compensations_run_before_the_end",
            json!({"steps": [
                {"do": "compensate", "steps": [{"do": "activity", "type": "echo", "input": "undo"}]},
                {"do": "fail", "type": "Boom", "message": "as planned"}
            ]}),
            Err("Boom"),
        ),
        case(
            "children",
            json!({"steps": [
                {"do": "child", "program": {"steps": [{"do": "sleep", "ms": 5}, {"do": "return", "value": 7}]}, "save": "seven"},
                {"do": "try", "steps": [{"do": "child", "program": {"steps": [{"do": "fail", "type": "Lost", "message": "m"}]}}], "save_error": "error", "catch": []},
                {"do": "return", "value": [{"$": "seven"}, {"$": "error.type"}]}
            ]}),
            Ok(json!([7, "Lost"])),
        ),
        case(
            "continue_as_new",
            json!({"vars": {"n": 3}, "steps": [
                {"do": "if", "cond": {"$eq": [{"$": "n"}, 0]}, "then": [{"do": "return", "value": "done"}]},
                {"do": "continue_as_new", "vars": {"n": {"$sub": [{"$": "n"}, 1]}}}
            ]}),
            Ok(json!("done")),
        ),
        case(
            "patches_and_attributes",
            json!({"steps": [
                {"do": "attributes", "set": {"customer": "ann", "amount": 12}},
                {"do": "patched", "id": "p", "then": [{"do": "return", "value": "new"}], "else": [{"do": "return", "value": "old"}]}
            ]}),
            Ok(json!("new")),
        ),
    ]
}

fn branches() -> Vec<Case> {
    vec![
        case(
            "parallel",
            json!({"steps": [
                {"do": "parallel", "branches": [
                    [{"do": "sleep", "ms": 5}, {"do": "return", "value": 1}],
                    [{"do": "activity", "type": "echo", "input": 2, "save": "two"}, {"do": "return", "value": {"$": "two"}}],
                    []
                ], "save": "all"},
                {"do": "return", "value": {"$": "all"}}
            ]}),
            Ok(json!([1, 2, null])),
        ),
        case(
            "race",
            json!({"steps": [
                {"do": "race", "branches": [
                    [{"do": "activity", "type": "sleep", "input": {"ms": 600_000}}],
                    [{"do": "sleep", "ms": 5}, {"do": "return", "value": "timer"}]
                ], "save": "won"},
                {"do": "return", "value": {"$": "won"}}
            ]}),
            Ok(json!({"winner": 1, "value": "timer"})),
        ),
    ]
}

fn told() -> Vec<Case> {
    vec![
        Case {
            signals: vec![("go", json!({"n": 1}))],
            ..case(
                "signals_and_their_timeouts",
                json!({"steps": [
                    {"do": "wait_signal", "name": "go", "save": "one"},
                    {"do": "wait_signal", "name": "go", "timeout_ms": 20, "save": "two"},
                    {"do": "return", "value": [{"$": "one"}, {"$": "two"}]}
                ]}),
                Ok(json!([{"n": 1}, {"timeout": true}])),
            )
        },
        Case {
            signals: vec![
                ("item", json!(1)),
                ("item", json!(2)),
                ("stop", json!(null)),
            ],
            ..case(
                "handlers_and_scopes",
                json!({"vars": {"log": []}, "steps": [
                    {"do": "on_signal", "name": "item", "append_to": "items"},
                    {"do": "scope", "cancel_on_signal": "stop", "steps": [
                        {"do": "try", "steps": [{"do": "wait_signal", "name": "never"}], "finally": [{"do": "set", "var": "log", "value": ["cleaned"]}]}
                    ]},
                    {"do": "return", "value": [{"$": "items"}, {"$": "log"}]}
                ]}),
                Ok(json!([[1, 2], ["cleaned"]])),
            )
        },
    ]
}
