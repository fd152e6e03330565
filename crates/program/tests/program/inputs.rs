//! What activities and updates take.

use serde_json::{Value, json};

use crate::world::{error_type, start, steps, world};

#[tokio::test]
async fn inputs_are_objects_with_named_fields() {
    for (activity_type, input) in [
        ("add", json!([1, 2])),
        ("fail_n", json!([0])),
        ("sleep", json!([1])),
        ("http", json!(["GET", "http://127.0.0.1/"])),
    ] {
        let call = json!({"do": "activity", "type": activity_type, "input": input});
        assert_eq!(error_type(steps(json!([call]))).await, "InvalidInput");
    }
    let env = world().await;
    let program = json!({"vars": {"a": 0}, "steps": [{"do": "wait_signal", "name": "go"}]});
    let run = start(&env, &program).await;
    let refused = run.update::<Value>("set_var", &json!(["a", 9])).await;
    let refused = refused.expect_err("no object").to_string();
    assert!(refused.contains("an array"), "{refused}");
}
